"""Splats as arrays, and their files."""

import os
from dataclasses import dataclass, field
from typing import List, Tuple

import numpy as np

from . import _native
from ._errors import InputError


@dataclass
class Splats:
    """Gaussians as files store them, float32. A method gives the parametrisation of `rasterization`.

    Attributes:
        means: centres, world units, [N, 3].
        scales: natural logarithms of standard deviations, [N, 3].
        quats: rotations, w first, [N, 4].
        opacities: logits, [N].
        sh0: coefficient 0 of the colours, [N, 3].
        sh_rest: the other coefficients, [N, K - 1, 3].
        origin: local origin of the centres in the world of the capture.
        notes: remarks about the file.
    """

    means: np.ndarray
    scales: np.ndarray
    quats: np.ndarray
    opacities: np.ndarray
    sh0: np.ndarray
    sh_rest: np.ndarray
    origin: Tuple[float, float, float] = (0.0, 0.0, 0.0)
    notes: List[str] = field(default_factory=list)

    def __len__(self):
        return len(self.means)

    def __repr__(self):
        return f"Splats({len(self):,} Gaussians, degree {self.sh_degree})"

    @property
    def sh_degree(self):
        """Degree of the harmonics, 0 to 3."""
        return int((self.sh_rest.shape[1] + 1) ** 0.5) - 1

    def parameters(self):
        """Returns the first five arguments of `rasterization`, and `sh_degree`, as a dictionary.

            image, alpha, info = rasterization(**splats.parameters(), viewmats=viewmats, Ks=Ks, width=640, height=480)
        """
        return {
            "means": self.means,
            "quats": self.quats,
            "scales": np.exp(self.scales),
            "opacities": 1 / (1 + np.exp(-self.opacities)),
            "colors": np.concatenate([self.sh0[:, None], self.sh_rest], 1),
            "sh_degree": self.sh_degree,
        }

    def save(self, path):
        """Writes a file; the ending of its name sets the format: .ply, .spz, .sog, .splat, .compressed.ply, .glb, ...

        Raises:
            InputError: numbers that are not finite, arrays of different lengths.
            FileError: the file cannot be written; the old file stays.
        """
        arrays = {name: np.ascontiguousarray(getattr(self, name), np.float32)
                  for name in ("means", "scales", "quats", "opacities", "sh0", "sh_rest")}
        _native.write_splats(os.fspath(path), **arrays, origin=list(self.origin))


def load(path):
    """Reads splats of any program: .ply, .spz, .sog, .splat, .ksplat, .compressed.ply, .glb, or a run folder.

    Raises:
        InputError: a damaged file.
        FileError: no such file.
        UnsupportedError: another format.
    """
    path = os.fspath(path)
    inside = os.path.join(path, "splats.ply")
    return Splats(**_native.read_splats(inside if os.path.isfile(inside) else path))


def export_splats(means, scales, quats, opacities, sh0, shN, format="ply", save_to=None):
    """Returns the bytes of a splat file, and writes them to `save_to`. Names and shapes are gsplat's.

    Gaussians with a number that is not finite are left out, as gsplat leaves them out.

    Args:
        means: [N, 3].
        scales: logarithms of standard deviations, [N, 3].
        quats: w first, [N, 4].
        opacities: logits, [N].
        sh0, shN: coefficients, [N, 1, 3] and [N, K - 1, 3].
        format: "ply", "splat", "ply_compressed", "spz" or "sog".
        save_to: path, or None.

    Raises:
        InputError: another shape or format; it names the argument.
    """
    import pathlib
    import tempfile

    endings = {"ply": ".ply", "splat": ".splat", "ply_compressed": ".compressed.ply", "spz": ".spz", "sog": ".sog"}
    if format not in endings:
        raise InputError(f"format is {format!r}", "format", "use one of " + ", ".join(endings))
    splats = _finite(means=means, scales=scales, quats=quats, opacities=opacities, sh0=sh0, shN=shN)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / ("splats" + endings[format])
        splats.save(file)
        data = file.read_bytes()
    if save_to is not None:
        pathlib.Path(save_to).write_bytes(data)
    return data


def _finite(**arrays):
    """Returns the splats of the arrays of `export_splats` whose numbers are finite."""
    n = len(arrays["means"])
    tails = {"means": (3,), "scales": (3,), "quats": (4,), "opacities": (), "sh0": (1, 3), "shN": (None, 3)}
    is_finite, kept = np.ones(n, bool), {}
    for name, array in arrays.items():
        array = array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)
        tail = tails[name]
        fits = len(array) == n and array.ndim == 1 + len(tail)
        if not fits or any(b not in (None, a) for a, b in zip(array.shape[1:], tail)):
            wanted = ", ".join(["N"] + ["K" if size is None else str(size) for size in tail])
            raise InputError(f"{name} has shape {array.shape}, not [{wanted}] with N = {n}", name)
        kept[name] = array
        is_finite &= np.isfinite(array).reshape(n, -1).all(1)
    kept = {name: np.ascontiguousarray(array[is_finite], np.float32) for name, array in kept.items()}
    return Splats(**{name: kept[name] for name in ("means", "scales", "quats", "opacities")}, sh0=kept["sh0"][:, 0],
                  sh_rest=kept["shN"])
