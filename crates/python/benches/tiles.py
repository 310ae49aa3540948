"""Times renders and gradients of chosen tiles: 200 000 Gaussians with harmonics of degree 3, 1920x1080 pixels.

    python3 tiles.py [DEVICE] [--gaussians 200000] [--size 1920x1080] [--repeat 15]

The choices take turns, so that other work of the machine disturbs all alike. Times are the least of the repeats in ms, without
the conversion of arrays in Python.
"""

import argparse
import time

import numpy as np

from dapple_gs import _engines

SIGMA = 0.003, 0.015


def gaussians(n):
    """Returns the arrays of an upload: Gaussians of uniform positions in the view."""
    rng = np.random.default_rng(0)
    z = rng.uniform(1.5, 4, n)
    means = np.stack([rng.uniform(-0.95, 0.95, n) * z, rng.uniform(-0.55, 0.55, n) * z, z], 1)
    arrays = dict(means=means, quats=rng.normal(size=(n, 4)), scales=rng.uniform(*SIGMA, (n, 3)),
                  opacities=rng.uniform(0.05, 0.95, n), colors=rng.normal(size=(n, 16, 3)) * 0.3)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def choices(down, across):
    """Returns masks of tiles by name."""
    rng = np.random.default_rng(1)
    block = np.zeros((down, across), bool)
    # A tenth of the tiles: a share of sqrt(0.1) of each side.
    sides = [round(0.316 * side) for side in (down, across)]
    block[sides[0] : 2 * sides[0], sides[1] : 2 * sides[1]] = True
    return {
        "no mask": None,
        "all tiles": np.ones((down, across), bool),
        "10 %, scattered": rng.random((down, across)) < 0.1,
        "10 %, a block": block,
        "1 %, scattered": rng.random((down, across)) < 0.01,
        "no tile": np.zeros((down, across), bool),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--gaussians", type=int, default=200_000)
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--repeat", type=int, default=15)
    args = parser.parse_args()
    width, height = map(int, args.size.split("x"))
    native = _engines.engine(args.device).native
    token = native.upload(**gaussians(args.gaussians), sh_degree=3)
    K = np.array([[width / 2, 0, width / 2], [0, width / 2, height / 2], [0, 0, 1]])
    camera = _engines.camera(np.eye(4), K, width, height, "pinhole", [0] * 8)
    by_rgb = np.random.default_rng(2).normal(size=(height, width, 3)).astype(np.float32)
    by_alpha = np.zeros((height, width), np.float32)
    masks = choices(-(-height // 16), -(-width // 16))
    calls = {
        "render": lambda tiles: native.render(token, camera, 0.01, (False, 0.3), False, tiles),
        "gradients": lambda tiles: native.gradients(token, camera, 0.01, (False, 0.3), by_rgb, by_alpha, None, False, tiles),
    }
    least = {}
    for repeat in range(args.repeat + 1):
        for name, tiles in masks.items():
            for what, call in calls.items():
                start = time.perf_counter()
                call(tiles)
                # The first round compiles and allocates.
                if repeat:
                    least[name, what] = min(least.get((name, what), np.inf), time.perf_counter() - start)
    print(native.description)
    for name in masks:
        times = [(what, least[name, what], least["no mask", what]) for what in calls]
        print(f"{name:16} " + "  ".join(f"{what} {1e3 * t:7.1f} ms ({t / whole:4.2f})" for what, t, whole in times))


if __name__ == "__main__":
    main()
