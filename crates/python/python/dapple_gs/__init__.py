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
from ._rasterization import rasterization
from ._splats import Splats, export_splats, load
from ._training import Trainer, settings, train

__all__ = [
    "ArgumentTypeError", "DappleError", "FileError", "InputError", "InternalError", "Splats", "Trainer",
    "UnsupportedError", "Viewer", "backend", "convert", "edit", "evaluate", "export_splats", "load", "mesh", "photos",
    "rasterization", "run", "set_device", "settings", "train", "view",
]
