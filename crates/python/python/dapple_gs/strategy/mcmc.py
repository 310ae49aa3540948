"""Density control as Markov chain Monte Carlo (Kheradmand et al. 2024, arXiv:2404.09591) on parameters of torch."""

import math
from dataclasses import dataclass

import torch

from .._projection import rotation_matrices
from . import rows
from .base import Strategy

# Opacity around which the noise of centres fades, and the steepness of the fading (the paper's section 4.1).
NOISE_OPACITY, NOISE_STEEPNESS = 0.005, 100.0
# Copies of a Gaussian that one round takes into account.
MOST_COPIES = 51
# Share by which a round grows the number of Gaussians.
GROWTH = 1.05


@dataclass
class MCMCStrategy(Strategy):
    """Moves dead Gaussians to live ones, adds copies up to a limit, and adds noise. Names and defaults are gsplat's.

    Attributes:
        cap_max: most Gaussians.
        noise_lr: factor of the noise, times the learning rate of the means.
        refine_start_iter, refine_stop_iter, refine_every: steps of density control.
        min_opacity: Gaussians with less opacity are dead.
    """

    cap_max: int = 1_000_000
    noise_lr: float = 5e5
    refine_start_iter: int = 500
    refine_stop_iter: int = 25_000
    refine_every: int = 100
    min_opacity: float = 0.005
    verbose: bool = False

    def initialize_state(self):
        """Returns the state for the other methods."""
        return {}

    @torch.no_grad()
    def step_post_backward(self, params, optimizers, state, step, info, lr):
        """To be called after `loss.backward()`; `lr` is the learning rate of the means."""
        is_due = self.refine_start_iter < step < self.refine_stop_iter and step % self.refine_every == 0
        if is_due:
            moved = self._relocate(params, optimizers)
            added = self._add(params, optimizers)
            if self.verbose:
                print(f"step {step}: {moved} moved, {added} added, {len(params['means'])} Gaussians")
        self._add_noise(params, lr * self.noise_lr)

    def _relocate(self, params, optimizers):
        """Moves dead Gaussians to live ones, drawn by opacity. Returns their number."""
        opacities = params["opacities"].flatten().sigmoid()
        dead = (opacities <= self.min_opacity).nonzero(as_tuple=True)[0]
        live = (opacities > self.min_opacity).nonzero(as_tuple=True)[0]
        if not len(dead) or not len(live):
            return 0
        sources = live[torch.multinomial(opacities[live], len(dead), replacement=True)]
        values = self._shared(params, sources)
        rows.replace(params, optimizers, sources, {name: values[name] for name in ("opacities", "scales")})
        copies = {name: p.detach()[sources] for name, p in params.items()}
        rows.replace(params, optimizers, dead, copies)
        return len(dead)

    def _add(self, params, optimizers):
        """Adds copies of Gaussians, drawn by opacity. Returns their number."""
        n = len(params["means"])
        count = max(0, min(self.cap_max, int(GROWTH * n)) - n)
        if not count:
            return 0
        sources = torch.multinomial(params["opacities"].flatten().sigmoid(), count, replacement=True)
        values = self._shared(params, sources)
        rows.replace(params, optimizers, sources, {name: values[name] for name in ("opacities", "scales")})
        rows.append(params, optimizers, {}, {name: p.detach()[sources] for name, p in params.items()})
        return count

    def _shared(self, params, sources):
        """Returns opacities and scales of sources whose copies share the work of the whole (equation 9)."""
        counts = torch.bincount(sources, minlength=len(params["means"]))[sources] + 1
        opacity = params["opacities"].flatten().sigmoid()[sources]
        new, factor = relocation(opacity, counts.clamp(max=MOST_COPIES))
        least = torch.finfo(new.dtype).eps
        logits = torch.logit(new.clamp(self.min_opacity, 1 - least))
        return {
            "opacities": logits,
            "scales": params["scales"].detach()[sources] + factor.log()[:, None],
        }

    def _add_noise(self, params, scale):
        """Moves centres at random, along their covariance; opaque Gaussians stay."""
        opacities = params["opacities"].flatten().sigmoid()
        share = torch.sigmoid(-NOISE_STEEPNESS * (opacities - NOISE_OPACITY))
        axes = rotation_matrices(torch, params["quats"].detach()) * params["scales"].exp()[:, None, :]
        noise = torch.randn_like(params["means"]) * share[:, None] * scale
        params["means"].add_((axes @ axes.transpose(1, 2) @ noise[..., None])[..., 0])


def relocation(opacities, counts):
    """Returns the opacity and the factor of the scales of each of `counts` copies that together look like one Gaussian.

    Args:
        opacities: of the whole, [N].
        counts: copies, with the whole, [N].
    """
    new = 1 - (1 - opacities.double()) ** (1 / counts)
    total = torch.zeros_like(new)
    for i in range(1, MOST_COPIES + 1):
        inner = torch.zeros_like(new)
        for k in range(i):
            inner = inner + math.comb(i - 1, k) * (-1) ** k / math.sqrt(k + 1) * new ** (k + 1)
        total = torch.where(counts >= i, total + inner, total)
    return new.to(opacities.dtype), (opacities / total).to(opacities.dtype)
