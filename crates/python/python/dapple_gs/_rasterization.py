"""`rasterization`, for torch and numpy."""

import sys

import numpy as np

from . import _arguments, _engines
from ._errors import ArgumentTypeError, InputError, UnsupportedError
from ._info import Info, sizes
from ._passes import Passes, Scene
from ._projection import in_numpy

ARRAYS = ("means", "quats", "scales", "opacities", "colors", "viewmats", "Ks", "backgrounds")


def rasterization(
    means, quats, scales, opacities, colors, viewmats, Ks, width, height, near_plane=0.01, far_plane=1e10,
    radius_clip=0.0, eps2d=0.3, sh_degree=None, packed=True, tile_size=16, backgrounds=None, render_mode="RGB",
    sparse_grad=False, absgrad=False, rasterize_mode="classic", channel_chunk=32, distributed=False,
    camera_model="pinhole", segmented=False, covars=None, with_ut=False, with_eval3d=False, radial_coeffs=None,
    tangential_coeffs=None, thin_prism_coeffs=None, ftheta_coeffs=None, rolling_shutter=None, viewmats_rs=None,
    masks=None, device=None,
):
    """Renders Gaussians from cameras; differentiable with torch. Names, order and conventions are gsplat's.

    Arrays are torch tensors or numpy arrays of float32. `...` are batch dimensions, C cameras, N Gaussians.

    Args:
        means: centres, world units, [..., N, 3].
        quats: rotations, w first, of any length, [..., N, 4].
        scales: standard deviations, world units, [..., N, 3].
        opacities: 0 to 1, [..., N].
        colors: [..., (C,) N, D], or with `sh_degree` harmonics, [..., (C,) N, K, 3].
        viewmats: camera from world, x right, y down, z forward, [..., C, 4, 4].
        Ks: intrinsics, pixels, [..., C, 3, 3]. Pixel centres are at .5.
        width, height: of the images, pixels.
        near_plane, far_plane: Gaussians with a centre outside are not shown, world units.
        radius_clip: Gaussians with smaller radii are not shown, pixels.
        sh_degree: degree of harmonics to evaluate, 0 to 3. None: `colors` are shown as they are.
        packed: with True, arrays of the third result have one row for each visible pair of camera and Gaussian.
        backgrounds: colours behind everything, [..., C, D].
        render_mode: "RGB", "D" (sum of weighted depths), "ED" (divided by alpha), "RGB+D" or "RGB+ED"; depth is last.
        absgrad: with True, `means2d.absgrad` is set in the backward pass: sums over pixels of absolute gradients, by axis.
        rasterize_mode: "classic", or "antialiased": opacities fall by as much as eps2d enlarges ellipses.
        camera_model: "pinhole" or "fisheye".
        radial_coeffs, tangential_coeffs: of lenses, [C, 4 or 6] and [C, 2], as OpenCV has them.
        masks: tiles to render, bool, [..., C, ceil(height / 16), ceil(width / 16)]: those of `rasterize_to_pixels` of gsplat.
            A tile of False has the background, alpha 0 and depth 0, and gives no gradients to Gaussians and cameras. None: all.
        device: engine of this call: "cpu", "gpu", "gpu:1"; None = that of `set_device`, else a GPU if there is one.

    Returns:
        Images [..., C, height, width, X], alphas [..., C, height, width, 1], and a dictionary with `means2d`, `radii`,
        `depths`, `conics`, `opacities`, `width`, `height`, `n_cameras`, ...

    Raises:
        InputError, ArgumentTypeError, UnsupportedError: they name the argument.
    """
    _arguments.refuse(
        sparse_grad=(sparse_grad, False), distributed=(distributed, False),
        segmented=(segmented, False), covars=(covars, None), ftheta_coeffs=(ftheta_coeffs, None),
        viewmats_rs=(viewmats_rs, None), with_eval3d=(with_eval3d, False),
    )
    if rolling_shutter is not None and getattr(rolling_shutter, "name", "GLOBAL") != "GLOBAL":
        raise UnsupportedError(f"rolling_shutter={rolling_shutter!r} is not supported", "rolling_shutter", "omit it")
    options = _arguments.options(
        width, height, near_plane=near_plane, far_plane=far_plane, radius_clip=radius_clip, eps2d=eps2d,
        sh_degree=sh_degree, render_mode=render_mode, rasterize_mode=rasterize_mode, camera_model=camera_model,
        tile_size=tile_size, absgrad=absgrad,
    )
    arrays = dict(zip(ARRAYS, (means, quats, scales, opacities, colors, viewmats, Ks, backgrounds)))
    library = _library(arrays)
    if library is not np:
        from . import _torch as calls
    else:
        calls = sys.modules[__name__]
        arrays = {name: _host(name, array) for name, array in arrays.items()}
    batch, n, c = _arguments.shapes(*arrays.values(), sh_degree)
    lenses = [_host_of(values) for values in (radial_coeffs, tangential_coeffs, thin_prism_coeffs)]
    if any(values is not None for values in lenses) and batch:
        raise UnsupportedError("coefficients of lenses with batch dimensions are not supported", "radial_coeffs",
                               "call once for each batch element")
    options.coefficients = _arguments.coefficients(c, camera_model, *lenses)
    options.masks = _arguments.masks(masks, batch, c, options.width, options.height)
    engine = _engines.engine(device)
    if not batch:
        return calls.one(arrays, options, engine, packed)
    return calls.many(arrays, options, engine, packed, batch)


def _library(arrays):
    """Returns torch if an array is a tensor, else numpy."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(array, torch.Tensor) for array in arrays.values()):
        return np
    for name, array in arrays.items():
        if array is not None and not isinstance(array, torch.Tensor):
            raise ArgumentTypeError(f"{name} is {type(array).__name__}, and other arrays are tensors", name)
    return torch


def _host(name, array):
    """Returns a C-contiguous float32 array of the host."""
    if array is None:
        return None
    if not isinstance(array, np.ndarray):
        if not hasattr(array, "__dlpack__"):
            raise ArgumentTypeError(f"{name} is {type(array).__name__}, not an array", name,
                                    "give float32 arrays of numpy or torch, or of a library with DLPack")
        array = np.from_dlpack(array)
    if array.dtype != np.float32:
        raise ArgumentTypeError(f"{name} is {array.dtype}, not float32", name, f"convert it: {name}.astype(\"float32\")")
    return np.ascontiguousarray(array)


def _host_of(values):
    if values is None or isinstance(values, np.ndarray):
        return values
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def shown_by(scene, options):
    """Returns which Gaussians each camera shows, `[C, N]`, if the far plane or a least radius limits them; else None."""
    if not options.hides_gaussians:
        return None
    return (in_numpy(scene, options)[0] > 0).all(-1)


def one(arrays, options, engine, packed):
    """Renders arrays of numpy without batch dimensions."""
    scene = Scene(**arrays)
    scene.shown = shown_by(scene, options)
    passes = Passes(scene, options, engine)
    image, alphas = passes.forward()

    def projected(index):
        def read():
            values = info.projection = getattr(info, "projection", None) or in_numpy(scene, options)
            if not packed:
                return values[index]
            cameras, gaussians = np.nonzero((values[0] > 0).all(-1))
            return values[index][cameras, gaussians]
        return read

    names = ("radii", "means2d", "depths", "conics")
    info = Info({**sizes(options, len(scene.viewmats), 1), "opacities": scene.opacities},
                {name: projected(i) for i, name in enumerate(names)})
    info.passes = passes
    return image, alphas, info


def many(arrays, options, engine, packed, batch):
    """Renders each batch element; the dictionary has lists of those of the elements."""
    count = int(np.prod(batch))
    flat = {name: array if array is None else array.reshape((count,) + array.shape[len(batch):])
            for name, array in arrays.items()}
    parts = [one({name: array if array is None else np.ascontiguousarray(array[i]) for name, array in flat.items()},
                 options.of_element(i), engine, packed) for i in range(count)]
    image, alphas = (np.stack([part[k] for part in parts]) for k in (0, 1))
    info = Info({**sizes(options, parts[0][0].shape[0], count), "elements": [part[2] for part in parts]}, {})
    return image.reshape(batch + image.shape[1:]), alphas.reshape(batch + alphas.shape[1:]), info


def rasterization_vjp(means, quats, scales, opacities, colors, viewmats, Ks, width, height, **options):
    """Renders arrays as `rasterization` does, and returns a function for gradients without torch.

    Args: those of `rasterization`, without batch dimensions: arrays of numpy, or of a library with DLPack.

    Returns:
        Images, alphas, and `vjp(by_images, by_alphas=None)`: a dictionary with the gradients by `means`, `quats`, `scales`,
        `opacities`, `colors`, `viewmats`, `backgrounds` (if given), and by the projected centres `means2d`, [C, N, 2];
        with `absgrad` also `absgrad`, [C, N, 2].
    """
    backgrounds = options.pop("backgrounds", None)
    given = (means, quats, scales, opacities, colors, viewmats, Ks, backgrounds)
    arrays = {name: _host(name, array) for name, array in zip(ARRAYS, given)}
    image, alphas, info = rasterization(*(arrays[name] for name in ARRAYS[:-1]), width, height,
                                        backgrounds=arrays["backgrounds"], **options)
    passes = info.passes

    def vjp(by_images, by_alphas=None):
        by_images = _shaped("by_images", by_images, image)
        by_alphas = np.zeros_like(alphas) if by_alphas is None else _shaped("by_alphas", by_alphas, alphas)
        return passes.backward(image, alphas, by_images, by_alphas)

    return image, alphas, vjp


def _shaped(name, array, like):
    array = _host(name, array)
    if array.shape != like.shape:
        raise InputError(f"{name} has shape {array.shape}, not {like.shape}", name)
    return array
