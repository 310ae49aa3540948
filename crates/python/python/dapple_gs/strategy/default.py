"""Adaptive density control (Kerbl et al. 2023, section 5) on parameters of torch."""

from dataclasses import dataclass

import torch

from .._errors import InputError, UnsupportedError
from .._projection import rotation_matrices
from . import rows
from .base import Strategy

# Standard deviations of the halves of a split Gaussian over those of the whole.
SPLIT_SHRINKS = 1.6


@dataclass
class DefaultStrategy(Strategy):
    """Clones, splits and prunes Gaussians, and resets their opacities. Names and defaults are gsplat's.

    Attributes:
        prune_opa: Gaussians with less opacity are removed.
        grow_grad2d: Gaussians with a larger mean gradient on the image (normalised to -1..1) grow.
        grow_scale3d: below this scale (over `scene_scale`) a Gaussian is cloned, above split.
        grow_scale2d: radius on the image above which Gaussians split, until `refine_scale2d_stop_iter`.
        prune_scale3d, prune_scale2d: larger Gaussians are removed after the first reset.
        refine_scale2d_stop_iter: last step of rules by radius; 0 = none.
        refine_start_iter, refine_stop_iter, refine_every: steps of density control.
        reset_every: steps between resets of opacities.
        pause_refine_after_reset: steps without density control after a reset.
        absgrad: the gradients are sums of absolute values over pixels (arXiv:2404.10484), of `rasterization(absgrad=True)`;
            `grow_grad2d` should then be higher, such as 0.0008.
        revised_opacity: halves of a split keep the opacity of the whole together (arXiv:2404.06109).
    """

    prune_opa: float = 0.005
    grow_grad2d: float = 0.0002
    grow_scale3d: float = 0.01
    grow_scale2d: float = 0.05
    prune_scale3d: float = 0.1
    prune_scale2d: float = 0.15
    refine_scale2d_stop_iter: int = 0
    refine_start_iter: int = 500
    refine_stop_iter: int = 15_000
    reset_every: int = 3000
    refine_every: int = 100
    pause_refine_after_reset: int = 0
    absgrad: bool = False
    revised_opacity: bool = False
    verbose: bool = False
    key_for_gradient: str = "means2d"

    def __post_init__(self):
        if self.key_for_gradient != "means2d":
            raise UnsupportedError(f"key_for_gradient={self.key_for_gradient!r} is not supported", "key_for_gradient")

    def initialize_state(self, scene_scale=1.0):
        """Returns the state for the other methods."""
        state = {"grad2d": None, "count": None, "scene_scale": scene_scale}
        if self.refine_scale2d_stop_iter > 0:
            state["radii"] = None
        return state

    def step_pre_backward(self, params, optimizers, state, step, info):
        """To be called before `loss.backward()`."""
        info["means2d"].retain_grad()

    @torch.no_grad()
    def step_post_backward(self, params, optimizers, state, step, info, packed=False):
        """To be called after `loss.backward()`."""
        if step >= self.refine_stop_iter:
            return
        self._observe(params, state, info, packed)
        is_due = step > self.refine_start_iter and step % self.refine_every == 0
        if is_due and step % self.reset_every >= self.pause_refine_after_reset:
            cloned, split = self._grow(params, optimizers, state, step)
            pruned = self._prune(params, optimizers, state, step)
            for key in ("grad2d", "count", "radii"):
                if state.get(key) is not None:
                    state[key].zero_()
            if self.verbose:
                print(f"step {step}: {cloned} cloned, {split} split, {pruned} pruned, {len(params['means'])} Gaussians")
        if step > 0 and step % self.reset_every == 0:
            self._reset(params, optimizers)

    def _observe(self, params, state, info, packed):
        """Adds this step's gradients on the image to the statistics."""
        gradient, n = info["means2d"].grad, len(params["means"])
        if self.absgrad and gradient is not None:
            gradient = getattr(info["means2d"], "absgrad", None)
            if gradient is None:
                raise InputError("info has no absolute gradients", "info", "render with rasterization(..., absgrad=True)")
        if gradient is None:
            return
        if packed:
            which, radii = info["gaussian_ids"], info["radii"]
        else:
            seen = (info["radii"] > 0).all(-1)
            which, gradient, radii = seen.nonzero(as_tuple=True)[1], gradient[seen], info["radii"][seen]
        half = torch.tensor([info["width"] / 2, info["height"] / 2], device=gradient.device)
        lengths = (gradient * half * info["n_cameras"]).norm(dim=-1)
        for key in ("grad2d", "count", "radii"):
            if key in state and state[key] is None:
                state[key] = torch.zeros(n, device=lengths.device)
        state["grad2d"].index_add_(0, which, lengths)
        state["count"].index_add_(0, which, torch.ones_like(lengths))
        if "radii" in state:
            share = radii.max(-1).values / max(info["width"], info["height"])
            state["radii"].scatter_reduce_(0, which, share, "amax")

    def _grow(self, params, optimizers, state, step):
        """Clones small Gaussians and splits large ones. Returns their numbers."""
        is_high = state["grad2d"] / state["count"].clamp_min(1) > self.grow_grad2d
        is_small = params["scales"].exp().max(-1).values <= self.grow_scale3d * state["scene_scale"]
        clones = (is_high & is_small).nonzero(as_tuple=True)[0]
        is_split = is_high & ~is_small
        if step < self.refine_scale2d_stop_iter:
            is_split |= state["radii"] > self.grow_scale2d
        splits = is_split.nonzero(as_tuple=True)[0]
        statistics = _tensors(state)
        if len(clones):
            rows.append(params, optimizers, statistics, {name: p.detach()[clones] for name, p in params.items()})
        if len(splits):
            rows.append(params, optimizers, statistics, self._halves(params, splits))
            is_kept = torch.ones(len(params["means"]), dtype=torch.bool, device=splits.device)
            is_kept[splits] = False
            rows.keep(params, optimizers, statistics, is_kept)
        state.update(statistics)
        return len(clones), len(splits)

    def _halves(self, params, splits):
        """Returns two samples of each Gaussian to split, smaller than it."""
        old = {name: p.detach()[splits] for name, p in params.items()}
        scales = old["scales"].exp()
        axes = rotation_matrices(torch, old["quats"])
        offsets = axes @ (scales * torch.randn(2, len(splits), 3, device=scales.device))[..., None]
        new = {name: torch.cat([values, values]) for name, values in old.items()}
        new["means"] = (old["means"] + offsets[..., 0]).reshape(-1, 3)
        new["scales"] = (scales / SPLIT_SHRINKS).log().repeat(2, 1)
        if self.revised_opacity:
            whole = old["opacities"].sigmoid()
            half = 1 - (1 - whole).sqrt()
            new["opacities"] = torch.cat([torch.logit(half)] * 2)
        return new

    def _prune(self, params, optimizers, state, step):
        """Removes faint and, after the first reset, large Gaussians. Returns their number."""
        is_gone = params["opacities"].flatten().sigmoid() < self.prune_opa
        if step > self.reset_every:
            is_gone |= params["scales"].exp().max(-1).values > self.prune_scale3d * state["scene_scale"]
            if step < self.refine_scale2d_stop_iter:
                is_gone |= state["radii"] > self.prune_scale2d
        count = int(is_gone.sum())
        if count:
            statistics = _tensors(state)
            rows.keep(params, optimizers, statistics, ~is_gone)
            state.update(statistics)
        return count

    def _reset(self, params, optimizers):
        """Lowers opacities to twice the least, and clears their moments."""
        most = torch.logit(torch.tensor(self.prune_opa * 2.0))
        rows.update(params, optimizers, lambda _, values: values.clamp(max=float(most)), torch.zeros_like,
                    ["opacities"])


def _tensors(state):
    """Returns the statistics of a state that have a row for each Gaussian."""
    return {key: value for key, value in state.items() if torch.is_tensor(value) and value.dim() == 1}
