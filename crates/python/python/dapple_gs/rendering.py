"""`rasterization`, under the module name of gsplat."""

from ._rasterization import rasterization

__all__ = ["rasterization"]
