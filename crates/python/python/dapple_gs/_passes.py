"""Renders and gradients of one batch element in numpy: cameras, chunks of colours, depth.

An engine renders three channels at a time, over black. More channels are more passes. Backgrounds are added here, and the
expected depth is divided here.
"""

from dataclasses import dataclass
from typing import Optional

import numpy as np

from . import _engines

CHANNELS = 3
# Colours below this are moved up for the render: at 0 a render clamps.
LEAST_COLOR = 0.01
MIDDLE = 0.5
LEAST_ALPHA = 1e-10
# Views of one call of the engine, whose images are in memory twice.
AT_ONCE = 16


@dataclass
class Scene:
    """Arrays of one batch element, C-contiguous float32: see `rasterization`."""

    means: np.ndarray
    quats: np.ndarray
    scales: np.ndarray
    opacities: np.ndarray
    colors: np.ndarray
    viewmats: np.ndarray
    Ks: np.ndarray
    backgrounds: Optional[np.ndarray]
    # [C, N]: Gaussians that a camera shows; None = all.
    shown: Optional[np.ndarray] = None
    # Equal keys mean equal arrays: an upload is then not repeated.
    key: object = None


class Passes:
    """The renders of a scene, which its gradients repeat."""

    def __init__(self, scene, options, engine):
        self.scene, self.options, self.engine = scene, options, engine
        self.cameras = [
            _engines.camera(viewmat, K, options.width, options.height, options.model, coefficients)
            for viewmat, K, coefficients in zip(scene.viewmats, scene.Ks, options.coefficients)
        ]
        self.is_harmonic = options.sh_degree is not None
        self.is_by_camera = scene.colors.ndim == (4 if self.is_harmonic else 3)
        self.channels = CHANNELS if self.is_harmonic else scene.colors.shape[-1]

    def chunks(self):
        """Yields `(first channel, end channel, with depth)` of each pass over a camera."""
        options = self.options
        if not options.has_colors:
            yield 0, 0, True
            return
        for start in range(0, self.channels, CHANNELS):
            yield start, min(start + CHANNELS, self.channels), options.has_depth and start == 0

    def rounds(self):
        """Yields `(upload key, cameras of this upload, chunk)`: as few uploads as possible."""
        apart = self.is_by_camera or self.scene.shown is not None
        every = range(len(self.cameras))
        groups = [[i] for i in every] if apart else [every] if every else []
        for group in groups:
            for chunk in self.chunks():
                yield group[0] if apart else None, group, chunk

    def colors(self, camera, start, end):
        """Returns the colours of a pass, `[N, 3]` or `[N, K, 3]`, and the number that a render adds to them."""
        colors = self.scene.colors[camera] if self.is_by_camera else self.scene.colors
        if self.is_harmonic and end > start:
            return colors, 0.0
        n = self.scene.means.shape[0]
        padded = np.full((n, CHANNELS), MIDDLE, np.float32)
        padded[:, : end - start] = colors[:, start:end] if end > start else MIDDLE
        least = padded.min(initial=np.inf)
        shift = float(np.float32(MIDDLE - least)) if least < LEAST_COLOR else 0.0
        return padded, shift

    def upload(self, which, camera, chunk):
        """Uploads the Gaussians of a pass and returns `(token, shift)`."""
        start, end, _ = chunk
        scene = self.scene
        colors, shift = self.colors(camera, start, end)

        def arrays():
            opacities = scene.opacities
            if scene.shown is not None:
                opacities = np.where(scene.shown[camera], opacities, np.float32(np.nan))
            return dict(means=scene.means, quats=scene.quats, scales=scene.scales,
                        opacities=np.ascontiguousarray(opacities, np.float32), colors=np.ascontiguousarray(colors),
                        sh_degree=self.options.sh_degree if end > start else None, shift=shift)

        key = None if scene.key is None else (scene.key, which, chunk)
        return self.engine.upload(key, arrays), shift

    def forward(self):
        """Returns colours `[C, H, W, X]` and alphas `[C, H, W, 1]`."""
        options, native = self.options, self.engine.native
        shape = (len(self.cameras), options.height, options.width)
        image = np.zeros(shape + (options.channels(self.channels),), np.float32)
        alphas = np.zeros(shape + (1,), np.float32)
        if self.scene.means.shape[0]:
            with self.engine.lock:
                for which, group, chunk in self.rounds():
                    start, end, has_depth = chunk
                    token, shift = self.upload(which, group[0], chunk)
                    how = options.near_plane, options.dilation, has_depth
                    if options.masks is None:
                        parts = (group[first : first + AT_ONCE] for first in range(0, len(group), AT_ONCE))
                        images = (image for part in parts
                                  for image in native.render_each(token, [self.cameras[i] for i in part], *how))
                    else:
                        images = (native.render(token, self.cameras[i], *how, options.tiles(i)) for i in group)
                    for i, (rgb, alpha, depth) in zip(group, images):
                        alphas[i, ..., 0] = alpha
                        if end > start:
                            part = rgb[..., : end - start]
                            image[i, ..., start:end] = part - shift * alpha[..., None] if shift else part
                        if has_depth:
                            image[i, ..., -1] = depth
        self.finish(image, alphas)
        return image, alphas

    def contributors(self, most):
        """Returns the indices of the Gaussians that pixels show most, and their weights, `[C, H, W, most]`."""
        options, native = self.options, self.engine.native
        shape = (len(self.cameras), options.height, options.width, most)
        gaussians, weights = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        if self.scene.means.shape[0]:
            with self.engine.lock:
                for which, group, chunk in self.rounds():
                    token, _ = self.upload(which, group[0], chunk)
                    for i in group:
                        gaussians[i], weights[i] = native.contributors(token, self.cameras[i], options.near_plane,
                                                                       options.dilation, most, options.tiles(i))
        return gaussians, weights

    def finish(self, image, alphas):
        """Divides expected depths, and puts the background behind colours."""
        if self.options.is_expected_depth:
            image[..., -1] /= np.maximum(alphas[..., 0], LEAST_ALPHA)
        if self.scene.backgrounds is not None and self.options.has_colors:
            behind = self.scene.backgrounds[:, None, None, :]
            image[..., : self.channels] += (1.0 - alphas) * behind

    def backward(self, image, alphas, by_image, by_alphas):
        """Returns gradients by the arrays of the scene, by `backgrounds` and by `means2d`, from those by the outputs."""
        scene, options, native = self.scene, self.options, self.engine.native
        found = {name: np.zeros_like(getattr(scene, name))
                 for name in ("means", "quats", "scales", "opacities", "colors", "viewmats")}
        found["means2d"] = np.zeros((len(self.cameras), scene.means.shape[0], 2), np.float32)
        if options.absgrad:
            found["absgrad"] = np.zeros_like(found["means2d"])
        by_alphas = by_alphas[..., 0].copy()
        by_depth = None
        if options.has_depth:
            by_depth = by_image[..., -1]
            if options.is_expected_depth:
                alpha = alphas[..., 0]
                divisor = np.maximum(alpha, LEAST_ALPHA)
                by_alphas -= np.where(alpha > LEAST_ALPHA, by_depth * image[..., -1] / divisor, 0.0)
                by_depth = by_depth / divisor
        if scene.backgrounds is not None:
            by_colors = by_image[..., : self.channels] if options.has_colors else None
            found["backgrounds"] = np.zeros_like(scene.backgrounds)
            if by_colors is not None:
                found["backgrounds"] = np.einsum("chwx,chw->cx", by_colors, 1.0 - alphas[..., 0]).astype(np.float32)
                by_alphas -= np.einsum("chwx,cx->chw", by_colors, scene.backgrounds)
        if not scene.means.shape[0]:
            return found
        with self.engine.lock:
            for which, group, chunk in self.rounds():
                start, end, has_depth = chunk
                token, shift = self.upload(which, group[0], chunk)
                for i in group:
                    by_rgb = np.zeros((options.height, options.width, CHANNELS), np.float32)
                    by_rgb[..., : end - start] = by_image[i, ..., start:end]
                    # Alpha is an output of the first pass alone; a shift makes colours depend on it in each.
                    by_alpha = by_alphas[i].astype(np.float32) if start == 0 else np.zeros_like(by_alphas[i], np.float32)
                    if shift:
                        by_alpha = by_alpha - np.float32(shift) * by_rgb.sum(-1)
                    depth = np.ascontiguousarray(by_depth[i], np.float32) if has_depth else None
                    part = native.gradients(token, self.cameras[i], options.near_plane, options.dilation, by_rgb,
                                            np.ascontiguousarray(by_alpha, np.float32), depth, options.absgrad,
                                            options.tiles(i))
                    self.add(found, part, i, chunk)
        return found

    def add(self, found, part, camera, chunk):
        """Adds the gradients of a pass."""
        start, end, _ = chunk
        for name in ("means", "quats", "scales", "opacities"):
            found[name] += part[name]
        found["means2d"][camera] += part["means2d"]
        if self.options.absgrad:
            found["absgrad"][camera] += part["absolute2d"]
        found["viewmats"][camera] += part["viewmat"]
        if end > start:
            colors = found["colors"][camera] if self.is_by_camera else found["colors"]
            if self.is_harmonic:
                colors += part["colors"].reshape(colors.shape)
            else:
                colors[:, start:end] += part["colors"][:, : end - start]
