"""What strategies of density control have in common."""

from . import rows


class Strategy:
    """Density control over a dictionary of parameters and one of optimizers."""

    def check_sanity(self, params, optimizers):
        """Raises an error if parameters and optimizers do not fit together."""
        rows.check(params, optimizers)

    def step_pre_backward(self, params, optimizers, state, step, info):
        """To be called before `loss.backward()`."""

    def step_post_backward(self, params, optimizers, state, step, info, **others):
        """To be called after `loss.backward()`."""
