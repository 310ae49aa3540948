"""Projection of Gaussians for the information that `rasterization` returns, in torch or numpy.

The formulas are those of the engines (Zwicker et al. 2001, eq. 31; Kerbl et al. 2023, eq. 5); radii are gsplat's: the
half axes of the rectangle in which alpha is at least 1/255, rounded up.
"""

import numpy as np

ALPHA_MIN = 1 / 255
# Half the field of view that the Jacobian's linearisation leaves beyond the image, on each side.
MARGIN = 0.3
# Standard deviations that bound an opaque Gaussian, for gsplat's radii.
MOST_EXTENT = 3.33


def rotation_matrices(xp, quats):
    """Returns rotation matrices `[..., 3, 3]` of quaternions `[..., 4]`, w first, of any length."""
    w, x, y, z = (quats / (quats * quats).sum(-1)[..., None] ** 0.5)[..., 0:4].T
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]
    return xp.stack(rows, -1).reshape(quats.shape[:-1] + (3, 3))


def on_image(xp, points, K, width, height, model):
    """Returns centres `[N, 2]` in pixels and Jacobians `[N, 2, 3]` of points in camera coordinates."""
    x, y, z = points.T
    fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]
    zero = xp.zeros_like(z)
    if model == "fisheye":
        r2 = x * x + y * y
        r = (r2 + 1e-14) ** 0.5
        theta = xp.arctan2(r, z)
        scale = theta / r
        # d(theta / r) / dr over r, and d(theta / r) / dz.
        d2 = r2 + z * z
        along = (z / d2 - scale) / (r * r)
        deep = -1.0 / d2
        centres = xp.stack([fx * x * scale + cx, fy * y * scale + cy], -1)
        jacobians = xp.stack([
            fx * (scale + x * x * along), fx * x * y * along, fx * x * deep,
            fy * x * y * along, fy * (scale + y * y * along), fy * y * deep,
        ], -1)
        return centres, jacobians.reshape(-1, 2, 3)
    u = xp.clip(x / z, -(cx / fx + MARGIN * width / 2 / fx), (width - cx) / fx + MARGIN * width / 2 / fx)
    v = xp.clip(y / z, -(cy / fy + MARGIN * height / 2 / fy), (height - cy) / fy + MARGIN * height / 2 / fy)
    centres = xp.stack([fx * x / z + cx, fy * y / z + cy], -1)
    jacobians = xp.stack([fx / z, zero, -fx * u / z, zero, fy / z, -fy * v / z], -1)
    return centres, jacobians.reshape(-1, 2, 3)


def project(xp, means, quats, scales, opacities, viewmat, K, options):
    """Projects all Gaussians to one camera.

    Returns radii `[N, 2]` (int32, 0 if culled), means2d `[N, 2]` in pixels, depths `[N]` in world units, conics `[N, 3]` and
    the compensation of antialiased renders `[N]`.
    """
    width, height = options.width, options.height
    rotation = viewmat[:3, :3]
    points = means @ rotation.T + viewmat[:3, 3]
    depths = points[:, 2]
    is_near = (depths > options.near_plane) & (depths < options.far_plane)
    # Values of culled Gaussians are not used; this keeps them finite.
    safe = xp.where(is_near[:, None], points, xp.ones_like(points))
    centres, jacobians = on_image(xp, safe, K, width, height, options.model)
    steps = jacobians @ rotation
    # J W R S, [N, 2, 3]: products of small matrices by broadcasting, which is faster than one by one.
    axes = rotation_matrices(xp, quats) * scales[..., None, :]
    flat = (steps[..., None] * axes[:, None]).sum(-2)
    a, b, c = (flat[:, 0] ** 2).sum(-1), (flat[:, 0] * flat[:, 1]).sum(-1), (flat[:, 1] ** 2).sum(-1)
    before = a * c - b * b
    a, c = a + options.eps2d, c + options.eps2d
    determinant = a * c - b * b
    compensations = xp.clip(before / determinant, 0.0, None) ** 0.5
    conics = xp.stack([c / determinant, -b / determinant, a / determinant], -1)
    if options.antialiased:
        opacities = opacities * compensations
    extent = xp.clip(2 * xp.log(xp.clip(opacities, ALPHA_MIN, None) / ALPHA_MIN), 0.0, MOST_EXTENT**2) ** 0.5
    radii = xp.ceil(xp.stack([extent * a**0.5, extent * c**0.5], -1))
    inside = (centres + radii > 0).all(-1) & (centres[:, 0] - radii[:, 0] < width)
    inside = inside & (centres[:, 1] - radii[:, 1] < height)
    is_seen = is_near & (determinant > 0) & (opacities >= ALPHA_MIN) & inside
    is_seen = is_seen & (radii > options.radius_clip).any(-1)
    radii = xp.where(is_seen[:, None], radii, xp.zeros_like(radii))
    return radii, centres, depths, conics, compensations


def in_numpy(scene, options):
    """Returns radii, means2d, depths, conics of all cameras, `[C, N, ...]`."""
    with np.errstate(all="ignore"):
        parts = [
            project(np, scene.means, scene.quats, scene.scales, scene.opacities, viewmat, K, options)[:4]
            for viewmat, K in zip(scene.viewmats, scene.Ks)
        ]
    n = scene.means.shape[0]
    empty = [np.zeros((0, n, 2)), np.zeros((0, n, 2)), np.zeros((0, n)), np.zeros((0, n, 3))]
    radii, means2d, depths, conics = (np.stack(part) for part in zip(*parts)) if parts else empty
    return radii.astype(np.int32), means2d.astype(np.float32), depths.astype(np.float32), conics.astype(np.float32)
