"""Dapple: 3D Gaussian Splatting on any GPU and on none.

    import dapple_gs as dapple
    image, alpha, info = dapple.rasterization(means, quats, scales, opacities, colors, viewmats, Ks, width, height)

Arrays are those of numpy or torch; torch is not required.
"""

from ._contributors import top_contributing_gaussian_ids
from ._engines import backend, set_device
from ._errors import (
    ArgumentTypeError, DappleError, FileError, InputError, InternalError, UnsupportedError,
)
from ._native import VERSION as __version__
from ._program import Viewer, convert, edit, evaluate, mesh, photos, run, view
from ._rasterization import rasterization, rasterization_vjp
from ._splats import Splats, export_splats, load
from ._training import Trainer, settings, train

__all__ = [
    "ArgumentTypeError", "DappleError", "FileError", "InputError", "InternalError", "Splats", "Trainer",
    "UnsupportedError", "Viewer", "backend", "convert", "edit", "evaluate", "export_splats", "load", "mesh", "photos",
    "rasterization", "rasterization_vjp", "run", "set_device", "settings", "top_contributing_gaussian_ids",
    "train", "view",
]

# Names that need torch, which is imported at their first use.
_WITH_TORCH = {
    "DefaultStrategy": "strategy", "MCMCStrategy": "strategy", "SelectiveAdam": "_functions",
    "Strategy": "strategy",
    "fully_fused_projection": "_functions", "spherical_harmonics": "_functions", "ssim": "_functions",
}
# Modules that are imported at their first use.
_MODULES = ("tensor",)
__all__ += [*_WITH_TORCH, *_MODULES]


def __getattr__(name):
    import importlib

    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    module = _WITH_TORCH.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
