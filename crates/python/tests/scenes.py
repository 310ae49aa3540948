"""Small scenes and helpers of the tests."""

import os
import sys
import unittest

import numpy as np

WIDTH, HEIGHT = 48, 40


def required(name):
    """Returns True if the environment requires what a test needs: DAPPLE_REQUIRE=torch."""
    return name in os.environ.get("DAPPLE_REQUIRE", "").split(",")


def torch_or_skip():
    """Returns torch, or skips the tests of a file."""
    try:
        import torch
    except ImportError:
        if required("torch"):
            raise
        print("SKIPPED: torch is not installed", file=sys.stderr)
        raise unittest.SkipTest("torch is not installed") from None
    return torch


def viewmat(angle, distance=4.0):
    """Returns a camera that looks at the origin, [4, 4]."""
    c, s = np.cos(angle), np.sin(angle)
    matrix = np.eye(4, dtype=np.float32)
    matrix[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
    matrix[:3, 3] = 0.1, -0.05, distance
    return matrix


def scene(n=60, seed=0, degree=None, channels=3, cameras=2):
    """Returns the arrays of `rasterization`."""
    rng = np.random.default_rng(seed)
    colors = rng.random((n, channels)) if degree is None else rng.normal(size=(n, (degree + 1) ** 2, 3)) * 0.3
    arrays = {
        "means": rng.normal(size=(n, 3)) * 0.6,
        "quats": rng.normal(size=(n, 4)),
        "scales": rng.random((n, 3)) * 0.15 + 0.05,
        "opacities": rng.random(n) * 0.9 + 0.05,
        "colors": colors,
        "viewmats": np.stack([viewmat(0.1 + 0.8 * i) for i in range(cameras)]),
        "Ks": np.tile(np.array([[45.0, 0, 24], [0, 46, 20], [0, 0, 1]]), (cameras, 1, 1)),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def masks(*batch):
    """Returns chosen tiles of two cameras, about half of them, and their pixels, [..., 2, HEIGHT, WIDTH, 1]."""
    tiles = np.random.default_rng(11).random(batch + (2, -(-HEIGHT // 16), -(-WIDTH // 16))) < 0.5
    pixels = tiles.repeat(16, -2).repeat(16, -1)[..., :HEIGHT, :WIDTH, None]
    return tiles, pixels


def random(*shape, seed=0, low=-1.0, high=1.0):
    """Returns uniform numbers, equal for equal arguments."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(np.float32)
