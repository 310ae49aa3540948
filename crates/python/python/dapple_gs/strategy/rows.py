"""Rows of parameters: appended, replaced and removed together with the state of their optimizers."""

import torch

from .._errors import InputError

REQUIRED = ("means", "scales", "quats", "opacities")


def check(params, optimizers):
    """Checks that each parameter with gradients has one optimizer of its own."""
    trained = {name for name, param in params.items() if param.requires_grad}
    if trained != set(optimizers.keys()):
        raise InputError(f"params has {sorted(trained)} with gradients, and optimizers {sorted(optimizers)}", "optimizers",
                         "give each of them an optimizer of the same name")
    for name in REQUIRED:
        if name not in params:
            raise InputError(f"params lacks {name}", "params")
    for name, optimizer in optimizers.items():
        if len(optimizer.param_groups) != 1 or len(optimizer.param_groups[0]["params"]) != 1:
            raise InputError(f"the optimizer {name} has not exactly one parameter", "optimizers")


def update(params, optimizers, change_values, change_state, names=None):
    """Replaces parameters by `change_values(name, values)`, and their state by `change_state(state)`.

    `change_state` is called with each tensor of the optimizer's state that has a row for each Gaussian.
    """
    for name in list(params.keys()) if names is None else names:
        old = params[name]
        new = torch.nn.Parameter(change_values(name, old.detach()), requires_grad=old.requires_grad)
        params[name] = new
        optimizer = optimizers.get(name)
        if optimizer is None:
            continue
        state = optimizer.state.pop(old, {})
        optimizer.state[new] = {
            key: change_state(value) if torch.is_tensor(value) and value.dim() and len(value) == len(old) else value
            for key, value in state.items()
        }
        optimizer.param_groups[0]["params"] = [new]


def append(params, optimizers, statistics, rows):
    """Appends `rows[name]` to each parameter. Moments and statistics of new rows are zero.

    Args:
        statistics: dictionary of tensors with a row for each Gaussian, which get rows of zero.
        rows: new values for each parameter.
    """
    count = len(next(iter(rows.values())))
    update(params, optimizers, lambda name, values: torch.cat([values, rows[name]]),
           lambda state: torch.cat([state, torch.zeros_like(state[:1]).expand(count, *state.shape[1:])]))
    for key, value in statistics.items():
        if torch.is_tensor(value):
            statistics[key] = torch.cat([value, torch.zeros_like(value[:1]).expand(count, *value.shape[1:])])


def keep(params, optimizers, statistics, mask):
    """Keeps the rows that a mask selects."""
    update(params, optimizers, lambda _, values: values[mask], lambda state: state[mask])
    for key, value in statistics.items():
        if torch.is_tensor(value):
            statistics[key] = value[mask]


def replace(params, optimizers, rows, values):
    """Writes values into rows of parameters and clears the moments of these rows."""
    def change(name, old):
        if name not in values:
            return old.clone()
        new = old.clone()
        new[rows] = values[name].to(new.dtype).reshape(new[rows].shape)
        return new

    def cleared(state):
        state = state.clone()
        state[rows] = 0
        return state

    update(params, optimizers, change, cleared)
