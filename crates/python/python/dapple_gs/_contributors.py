"""`top_contributing_gaussian_ids`: the Gaussians that a pixel shows most."""

import numpy as np

from . import _arguments, _engines
from ._errors import ArgumentTypeError, InputError
from ._passes import Passes, Scene
from ._rasterization import ARRAYS, _host, _host_of, _library, shown_by

MOST = 64


def top_contributing_gaussian_ids(
    means, quats, scales, opacities, viewmats, Ks, width, height, num_depth_samples=4, near_plane=0.01, far_plane=1e10,
    radius_clip=0.0, eps2d=0.3, rasterize_mode="classic", camera_model="pinhole", radial_coeffs=None,
    tangential_coeffs=None, masks=None, device=None,
):
    """Names the Gaussians that each pixel shows most, as `rasterization` blends them. Nothing is differentiated.

    Args: those of `rasterization`, without batch dimensions, and
        num_depth_samples: Gaussians of a pixel, 1 to 64.

    Returns:
        Indices of Gaussians, int32, and weights, float32, both [C, height, width, num_depth_samples], largest weight first.
        A weight is alpha times the transmittance in front: a pixel's colour is the sum of weights times colours. A pixel
        that blends fewer Gaussians, or is in a tile of False in `masks`, has the index -1 and the weight 0. Tensors if
        `means` is one, on its device.

    Raises:
        InputError, ArgumentTypeError, UnsupportedError: they name the argument.
    """
    if isinstance(num_depth_samples, bool) or not isinstance(num_depth_samples, (int, np.integer)):
        raise ArgumentTypeError(f"num_depth_samples is {num_depth_samples!r}, not an integer", "num_depth_samples")
    if not 1 <= num_depth_samples <= MOST:
        raise InputError(f"num_depth_samples is {num_depth_samples}, not in 1..{MOST}", "num_depth_samples")
    options = _arguments.options(
        width, height, near_plane=near_plane, far_plane=far_plane, radius_clip=radius_clip, eps2d=eps2d, sh_degree=None,
        render_mode="D", rasterize_mode=rasterize_mode, camera_model=camera_model, tile_size=16, absgrad=False,
    )
    given = dict(zip(ARRAYS, (means, quats, scales, opacities, None, viewmats, Ks, None)))
    library = _library(given)
    if library is np:
        arrays = {name: _host(name, array) for name, array in given.items()}
    else:
        from . import _torch
        _torch.checked(given)
        arrays = {name: _torch.numbers(tensor) for name, tensor in given.items()}
    arrays["colors"] = np.zeros(arrays["means"].shape[:-1] + (1,), np.float32)
    batch, _, c = _arguments.shapes(*arrays.values(), None)
    if batch:
        raise InputError(f"means has shape {arrays['means'].shape}, not [N, 3]", "means", "call once for each batch element")
    lenses = _host_of(radial_coeffs), _host_of(tangential_coeffs)
    options.coefficients = _arguments.coefficients(c, camera_model, *lenses, None)
    options.masks = _arguments.masks(masks, batch, c, options.width, options.height)
    scene = Scene(**arrays)
    scene.shown = shown_by(scene, options)
    found = Passes(scene, options, _engines.engine(device)).contributors(int(num_depth_samples))
    if library is np:
        return found
    return tuple(library.from_numpy(array).to(means.device) for array in found)
