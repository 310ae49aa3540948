"""Functions of gsplat beside `rasterization`, on tensors; differentiable by torch."""

import torch

from ._arguments import Options
from ._errors import InputError, UnsupportedError
from ._projection import project
from ._torch import Namespace

# Standard deviation and width of the window of SSIM, pixels, and its stabilisers (Wang et al. 2004).
WINDOW, SIGMA, C1, C2 = 11, 1.5, 0.01**2, 0.03**2


def spherical_harmonics(degrees_to_use, dirs, coeffs, masks=None):
    """Evaluates real spherical harmonics.

    Args:
        degrees_to_use: 0 to 3.
        dirs: directions of any length, [..., 3].
        coeffs: [..., K, 3].
        masks: where False, the result is 0, [...].

    Returns:
        Colours without the offset of 0.5, [..., 3].
    """
    if degrees_to_use not in (0, 1, 2, 3):
        raise UnsupportedError(f"degrees_to_use={degrees_to_use} is not supported", "degrees_to_use", "use 0 to 3")
    if coeffs.shape[-2] < (degrees_to_use + 1) ** 2:
        raise InputError(f"coeffs has {coeffs.shape[-2]} coefficients", "coeffs")
    basis = _basis(degrees_to_use, torch.nn.functional.normalize(dirs, dim=-1))
    colors = (basis[..., None] * coeffs[..., : basis.shape[-1], :]).sum(-2)
    return colors if masks is None else torch.where(masks[..., None], colors, torch.zeros_like(colors))


def _basis(degree, unit):
    """Returns the values of the basis, [..., K] (Sloan 2013)."""
    x, y, z = unit.unbind(-1)
    values = [torch.full_like(x, 0.28209479177387814)]
    if degree > 0:
        a = 0.48860251190291987
        values += [-a * y, a * z, -a * x]
    if degree > 1:
        b, c, d = 1.0925484305920792, 0.9461746957575601, 0.5462742152960396
        values += [b * x * y, -b * y * z, c * z * z - 0.31539156525252005, -b * x * z, d * (x * x - y * y)]
    if degree > 2:
        e, f, g, h = 0.5900435899266435, 2.890611442640554, 0.4570457994644658, 1.445305721320277
        values += [-e * y * (3 * x * x - y * y), f * x * y * z, g * y * (1 - 5 * z * z),
                   0.3731763325901154 * z * (5 * z * z - 3), g * x * (1 - 5 * z * z), h * z * (x * x - y * y),
                   -e * x * (x * x - 3 * y * y)]
    return torch.stack(values, -1)


def fully_fused_projection(
    means, covars, quats, scales, viewmats, Ks, width, height, eps2d=0.3, near_plane=0.01, far_plane=1e10,
    radius_clip=0.0, packed=False, sparse_grad=False, calc_compensations=False, camera_model="pinhole", opacities=None,
):
    """Projects Gaussians to images.

    Args: those of `rasterization`; `covars`, `packed` and `sparse_grad` are not supported.

    Returns:
        radii [C, N, 2] (int32, 0 where culled), means2d [C, N, 2] in pixels, depths [C, N], conics [C, N, 3], and
        compensations [C, N] or None.
    """
    for name, value in (("covars", covars is not None), ("packed", packed), ("sparse_grad", sparse_grad)):
        if value:
            raise UnsupportedError(f"{name} is not supported", name, "omit it")
    options = Options(width, height, near_plane, far_plane, radius_clip, eps2d, None, "RGB", False, camera_model)
    opaque = torch.ones_like(means[..., 0]) if opacities is None else opacities
    parts = [project(Namespace, means, quats, scales, opaque, viewmat, K, options) for viewmat, K in zip(viewmats, Ks)]
    radii, means2d, depths, conics, compensations = (torch.stack(part) for part in zip(*parts))
    return radii.to(torch.int32), means2d, depths, conics, compensations if calc_compensations else None


def ssim(image, target, padding="same", train=True):
    """Returns the mean structural similarity of images (Wang et al. 2004). Names and defaults are those of `fused_ssim`.

    Args:
        image, target: 0 to 1, [B, C, H, W] or [C, H, W].
        padding: "same": windows at the border see zeros outside; "valid": windows inside the image alone.
        train: False for no gradients.
    """
    image, target = (x if x.dim() == 4 else x[None] for x in (image, target))
    if image.shape != target.shape:
        raise InputError(f"image has shape {tuple(image.shape)}, and target {tuple(target.shape)}", "target")
    if padding not in ("same", "valid"):
        raise InputError(f"padding is {padding!r}", "padding", 'use "same" or "valid"')
    if padding == "valid" and min(image.shape[-2:]) < WINDOW:
        raise InputError(f"image has shape {tuple(image.shape)}, smaller than a window of {WINDOW} pixels", "image",
                         'use padding="same"')
    with torch.set_grad_enabled(train and torch.is_grad_enabled()):
        return _similarity(image, target, WINDOW // 2 if padding == "same" else 0)


def _similarity(image, target, beyond):
    """Returns the mean structural similarity, with this many zeros beyond each border."""
    channels = image.shape[1]
    at = torch.arange(WINDOW, dtype=image.dtype, device=image.device) - WINDOW // 2
    line = torch.exp(-(at**2) / (2 * SIGMA**2))
    line = (line / line.sum()).expand(channels, 1, -1)

    def blur(x):
        x = torch.nn.functional.conv2d(x, line[..., None], padding=(beyond, 0), groups=channels)
        return torch.nn.functional.conv2d(x, line[:, :, None, :], padding=(0, beyond), groups=channels)

    a, b = blur(image), blur(target)
    aa, bb, ab = blur(image * image) - a * a, blur(target * target) - b * b, blur(image * target) - a * b
    return (((2 * a * b + C1) * (2 * ab + C2)) / ((a * a + b * b + C1) * (aa + bb + C2))).mean()


class SelectiveAdam(torch.optim.Adam):
    """Adam that changes only visible Gaussians (arXiv:2406.15643): rows of one parameter a group.

    Args:
        params: parameters or groups with one parameter each.
        eps, betas: those of Adam.
    """

    def __init__(self, params, eps=1e-8, betas=(0.9, 0.999), lr=1e-3):
        super().__init__(params, lr=lr, eps=eps, betas=betas)

    @torch.no_grad()
    def step(self, visibility):
        """Takes a step for the rows that `visibility`, [N], selects. Moments of other rows stay as they are."""
        rows = visibility.to(torch.bool).nonzero(as_tuple=True)[0]
        for group in self.param_groups:
            first, second = group["betas"]
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
                state["step"] += 1
                gradient = param.grad[rows]
                mean = state["exp_avg"][rows] * first + (1 - first) * gradient
                square = state["exp_avg_sq"][rows] * second + (1 - second) * gradient * gradient
                state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
                param[rows] -= group["lr"] * mean / (square.sqrt() + group["eps"])
