"""Arguments of `rasterization`, checked: names, shapes, types, and what is not supported."""

import math
from dataclasses import dataclass, field, replace
from typing import List, Optional

import numpy as np

from ._errors import ArgumentTypeError, InputError, UnsupportedError

MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")
MOST_PIXELS_A_SIDE = 32768
TILE = 16
# Pixels squared; half of a picture of 1080 lines.
MOST_EPS2D = 1e5


@dataclass
class Options:
    """What a call renders, without its arrays."""

    width: int
    height: int
    near_plane: float
    far_plane: float
    radius_clip: float
    eps2d: float
    sh_degree: Optional[int]
    render_mode: str
    antialiased: bool
    model: str
    absgrad: bool = False
    coefficients: List[List[float]] = field(default_factory=list)
    # Chosen tiles, [C, tile_height, tile_width], with batch dimensions one more in front; None = all.
    masks: Optional[np.ndarray] = None

    @property
    def dilation(self):
        """Mode and dilation as the engine takes them."""
        return self.antialiased, self.eps2d

    @property
    def has_colors(self):
        return "RGB" in self.render_mode

    @property
    def has_depth(self):
        return "D" in self.render_mode

    @property
    def is_expected_depth(self):
        return "ED" in self.render_mode

    @property
    def hides_gaussians(self):
        """True if the far plane or the least radius hides Gaussians of a camera."""
        return self.far_plane < 1e9 or self.radius_clip > 0.0

    def tiles(self, camera):
        """Returns the chosen tiles of a camera, [tile_height, tile_width]; None = all."""
        return None if self.masks is None else self.masks[camera]

    def of_element(self, index):
        """Returns the options of a batch element."""
        return self if self.masks is None else replace(self, masks=self.masks[index])

    def channels(self, colors):
        """Returns the channels of the image for this number of channels of colours."""
        return colors * self.has_colors + self.has_depth


def options(width, height, *, near_plane, far_plane, radius_clip, eps2d, sh_degree, render_mode, rasterize_mode,
            camera_model, tile_size, absgrad):
    """Checks what is no array."""
    for name, value in (("width", width), ("height", height)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ArgumentTypeError(f"{name} is {value!r}, not an integer", name)
        if not 1 <= value <= MOST_PIXELS_A_SIDE:
            raise InputError(f"{name} is {value}, not in 1..{MOST_PIXELS_A_SIDE}", name)
    if render_mode not in MODES:
        raise InputError(f"render_mode is {render_mode!r}", "render_mode", "use one of " + ", ".join(MODES))
    if rasterize_mode not in ("classic", "antialiased"):
        raise InputError(f"rasterize_mode is {rasterize_mode!r}", "rasterize_mode", 'use "classic" or "antialiased"')
    antialiased = rasterize_mode == "antialiased"
    if not 0.0 < eps2d <= MOST_EPS2D:
        raise InputError(f"eps2d is {eps2d}, not above 0 and at most {MOST_EPS2D:g}", "eps2d", "omit it, or use 0.3")
    if camera_model not in ("pinhole", "fisheye"):
        raise UnsupportedError(f"camera_model={camera_model!r} is not supported", "camera_model",
                               'use "pinhole" or "fisheye"')
    if sh_degree is not None and sh_degree not in (0, 1, 2, 3):
        raise UnsupportedError(f"sh_degree={sh_degree} is not supported", "sh_degree", "use 0, 1, 2 or 3")
    if tile_size != TILE:
        raise UnsupportedError(f"tile_size={tile_size} is not supported", "tile_size", "omit it: tiles have 16 pixels")
    if not near_plane > 0.0:
        raise InputError(f"near_plane is {near_plane}, not positive", "near_plane")
    return Options(int(width), int(height), float(near_plane), float(far_plane), float(radius_clip), float(eps2d),
                   sh_degree, render_mode, antialiased, camera_model, bool(absgrad))


def refuse(**unsupported):
    """Refuses arguments that gsplat has and this package has not, by name."""
    for name, (value, default) in unsupported.items():
        if value is not None and value != default:
            raise UnsupportedError(f"{name}={value!r} is not supported", name, "omit it")


def shapes(means, quats, scales, opacities, colors, viewmats, Ks, backgrounds, sh_degree):
    """Checks shapes and returns `(batch, N, C)`; arrays of numpy or torch."""
    batch = tuple(means.shape[:-2])
    if means.ndim < 2 or means.shape[-1] != 3:
        raise InputError(f"means has shape {tuple(means.shape)}, not [..., N, 3]", "means")
    n = means.shape[-2]
    if viewmats.ndim < 3 or tuple(viewmats.shape[-2:]) != (4, 4):
        raise InputError(f"viewmats has shape {tuple(viewmats.shape)}, not [..., C, 4, 4]", "viewmats")
    c = viewmats.shape[-3]
    expected = {
        "quats": (quats, [(n, 4)]),
        "scales": (scales, [(n, 3)]),
        "opacities": (opacities, [(n,)]),
        "viewmats": (viewmats, [(c, 4, 4)]),
        "Ks": (Ks, [(c, 3, 3)]),
    }
    for name, (array, allowed) in expected.items():
        if tuple(array.shape) not in [batch + shape for shape in allowed]:
            raise InputError(f"{name} has shape {tuple(array.shape)}, not {list(batch + allowed[0])}", name)
    tail = tuple(colors.shape[len(batch):])
    if sh_degree is None:
        fits = (len(tail) == 2 and tail[0] == n) or (len(tail) == 3 and tail[:2] == (c, n))
        wanted = "[..., N, D] or [..., C, N, D]"
    else:
        fits = (len(tail) == 3 and tail[0] == n) or (len(tail) == 4 and tail[:2] == (c, n))
        fits = fits and tail[-1] == 3
        wanted = "[..., N, K, 3] or [..., C, N, K, 3]"
    if not fits or tuple(colors.shape[:len(batch)]) != batch:
        raise InputError(f"colors has shape {tuple(colors.shape)}, not {wanted}", "colors",
                         "give sh_degree with harmonics, and no sh_degree with colours")
    if sh_degree is not None and tail[-2] < (sh_degree + 1) ** 2:
        raise InputError(f"colors has {tail[-2]} coefficients, and sh_degree={sh_degree} needs {(sh_degree + 1) ** 2}",
                         "colors")
    if backgrounds is not None:
        channels = 3 if sh_degree is not None else tail[-1]
        if tuple(backgrounds.shape) != batch + (c, channels):
            raise InputError(f"backgrounds has shape {tuple(backgrounds.shape)}, not {list(batch + (c, channels))}",
                             "backgrounds")
    return batch, n, c


def masks(values, batch, c, width, height):
    """Checks chosen tiles, arrays of numpy, torch or a library with DLPack. Returns them as `Options.masks`."""
    if values is None:
        return None
    convert = "convert it: masks.astype(bool)"
    if hasattr(values, "detach"):
        values, convert = values.detach().cpu().numpy(), "convert it: masks.bool()"
    elif not isinstance(values, np.ndarray):
        if not hasattr(values, "__dlpack__"):
            raise ArgumentTypeError(f"masks is {type(values).__name__}, not an array", "masks",
                                    "give an array of bool of numpy or torch, or of a library with DLPack")
        values = np.from_dlpack(values)
    if values.dtype != np.bool_:
        raise ArgumentTypeError(f"masks is {values.dtype}, not bool", "masks", convert)
    expected = batch + (c, -(-height // TILE), -(-width // TILE))
    if values.shape != expected:
        raise InputError(f"masks has shape {values.shape}, not {list(expected)}", "masks",
                         "give one bool for each tile of 16 x 16 pixels, [..., C, ceil(height / 16), ceil(width / 16)]")
    # A copy: the caller may change the array before the backward pass.
    return values.reshape((-1,) + expected[-3:]).copy() if batch else values.copy()


def coefficients(c, model, radial, tangential, thin_prism):
    """Returns the coefficients of each of `c` cameras, in the order of OpenCV: k1, k2, p1, p2, k3, k4, k5, k6."""
    def rows(name, values, widths):
        if values is None:
            return np.zeros((c, widths[-1]))
        values = np.asarray(values, np.float64).reshape(-1, np.shape(values)[-1])
        if values.shape[0] != c or values.shape[1] not in widths:
            raise InputError(f"{name} has shape {values.shape}, not [{c}, {widths[-1]}]", name)
        return np.pad(values, ((0, 0), (0, widths[-1] - values.shape[1])))

    if thin_prism is not None and np.any(np.asarray(thin_prism)):
        raise UnsupportedError("thin_prism_coeffs are not supported", "thin_prism_coeffs", "undistort the photos")
    if model == "fisheye":
        if tangential is not None and np.any(np.asarray(tangential)):
            raise UnsupportedError("tangential_coeffs of a fisheye camera are not supported", "tangential_coeffs")
        return rows("radial_coeffs", radial, (4,)).tolist()
    k = rows("radial_coeffs", radial, (4, 6))
    p = rows("tangential_coeffs", tangential, (2,))
    return np.concatenate([k[:, :2], p, k[:, 2:]], 1).tolist()
