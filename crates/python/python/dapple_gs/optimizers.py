"""`SelectiveAdam`, under the module name of gsplat."""

from ._functions import SelectiveAdam

__all__ = ["SelectiveAdam"]
