"""Dapple: 3D Gaussian Splatting on any GPU and on none.

    import dapple_gs as dapple
    image, alpha, info = dapple.rasterization(means, quats, scales, opacities, colors, viewmats, Ks, width, height)

Arrays are those of numpy or torch; torch is not required.
"""

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
    "rasterization", "rasterization_vjp", "run", "set_device", "settings", "train", "view",
]

# Names that need torch, which is imported at their first use.
_WITH_TORCH = {
    "DefaultStrategy": "strategy", "MCMCStrategy": "strategy", "SelectiveAdam": "_functions",
    "fully_fused_projection": "_functions", "spherical_harmonics": "_functions", "ssim": "_functions",
}
__all__ += list(_WITH_TORCH)


def __getattr__(name):
    module = _WITH_TORCH.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
