"""Density control over a dictionary of parameters and one of optimizers, with gsplat's methods."""

from .base import Strategy
from .default import DefaultStrategy
from .mcmc import MCMCStrategy

__all__ = ["DefaultStrategy", "MCMCStrategy", "Strategy"]
