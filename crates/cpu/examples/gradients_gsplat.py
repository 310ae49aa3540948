"""Compares gradients of Dapple with those of gsplat's PyTorch implementation, on the CPU.

1. `cargo run -p dapple-cpu --example gradients -- RUN VIEW FOLDER` writes the gradients of the reference and of the
   CPU engine.
2. `python3 gradients_gsplat.py RUN VIEW FOLDER [f32]` computes them again and prints the distances.

Needs numpy, PyTorch and gsplat (1.5.3 was used); no GPU and no CUDA. Splats and cameras are read here, not by Dapple.
gsplat projects the Gaussians and evaluates their spherical harmonics. gsplat composites only in CUDA or with nerfacc,
so `blend` does it by equation 3 of Kerbl et al. 2023 with gsplat's thresholds. PyTorch differentiates all of it.
"""

import importlib.util
import json
import math
import pathlib
import sys

import numpy as np
import torch

ALPHA_MIN, TRANSMITTANCE_MIN = 1 / 255, 1e-4
# In 32 bits, as in gsplat's kernels and in Dapple.
ALPHA_MAX, DILATION = float(np.float32(0.999)), float(np.float32(0.3))
# Largest relative L2 distance of a group that passes.
BOUND = 1e-4


def gsplat():
    """Returns gsplat's module in pure PyTorch. `import gsplat` would look for CUDA."""
    folder = pathlib.Path(importlib.util.find_spec("gsplat").origin).parent
    spec = importlib.util.spec_from_file_location("torch_impl", folder / "cuda" / "_torch_impl.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_splats(path):
    """Returns the parameters of a PLY file of splats, `[N, ...]`."""
    header, body = path.read_bytes().split(b"end_header\n", 1)
    lines = header.decode().splitlines()
    names = [line.split()[2] for line in lines if line.startswith("property float")]
    rows = np.frombuffer(body, "<f4").reshape(-1, len(names)).astype(np.float64)

    def columns(*prefixes):
        return rows[:, [i for i, name in enumerate(names) if name.startswith(prefixes)]]

    n = len(rows)
    # The file has all coefficients of red first.
    rest = columns("f_rest_").reshape(n, 3, -1).transpose(0, 2, 1)
    return {
        "means": rows[:, :3],
        "scales": columns("scale_"),
        "quats": columns("rot_"),
        "opacities": columns("opacity")[:, 0],
        "sh0": columns("f_dc_"),
        "sh_rest": rest.copy(),
    }


def read_camera(path, view):
    """Returns camera from world, the intrinsics, width and height."""
    frame = next(f for f in json.loads(path.read_text())["frames"] if f["file_path"] == view)
    world_from_camera = np.array(frame["transform_matrix"])
    world_from_camera[:3, 1:3] *= -1  # the file has OpenGL's axes
    intrinsics = [[frame["fl_x"], 0, frame["cx"]], [0, frame["fl_y"], frame["cy"]], [0, 0, 1]]
    return np.linalg.inv(world_from_camera), np.array(intrinsics), frame["w"], frame["h"]


def blend(pixels, means2d, conics, opacities, colours):
    """Composites Gaussians in depth order, `[pixels, 3]`."""
    dx, dy = (pixels[:, None, :] - means2d).unbind(-1)
    power = 0.5 * (conics[:, 0] * dx * dx + conics[:, 2] * dy * dy) + conics[:, 1] * dx * dy
    alpha = torch.clamp_max(opacities * torch.exp(-power), ALPHA_MAX)
    alpha = torch.where(alpha >= ALPHA_MIN, alpha, torch.zeros_like(alpha))
    behind = torch.cumprod(1 - alpha, 1)
    front = torch.cat([torch.ones_like(behind[:, :1]), behind[:, :-1]], 1)
    weight = torch.where(behind >= TRANSMITTANCE_MIN, front * alpha, torch.zeros_like(alpha))
    return weight @ colours


def gradients(splats, camera, weights, dtype):
    """Returns the image and its gradients, flat, in 64 bits."""
    impl = gsplat()
    p = {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in splats.items()}
    view, intrinsics = (torch.tensor(m, dtype=dtype) for m in camera[:2])
    width, height = camera[2:]
    covariances, _ = impl._quat_scale_to_covar_preci(p["quats"], p["scales"].exp(), compute_preci=False)
    radii, means2d, depths, conics, _ = impl._fully_fused_projection(
        p["means"], covariances, view[None], intrinsics[None], width, height, DILATION
    )
    coefficients = torch.cat([p["sh0"][:, None], p["sh_rest"]], 1)
    degree = math.isqrt(coefficients.shape[1]) - 1
    raw = impl._spherical_harmonics(degree, p["means"] - torch.inverse(view)[:3, 3], coefficients) + 0.5
    colours = torch.clamp_min(raw, 0.0)

    shown = (radii[0] > 0).all(-1).nonzero()[:, 0]
    order = shown[torch.sort(depths[0, shown], stable=True)[1]]
    outputs = [means2d[0, order], conics[0, order], p["opacities"][order].sigmoid(), colours[order]]
    leaves = [t.detach().requires_grad_() for t in outputs]
    rows = []
    for y in range(height):
        x = torch.arange(width, dtype=dtype)
        pixels = torch.stack([x, torch.full_like(x, y)], -1) + 0.5
        rows.append(blend(pixels, *leaves))
        (rows[-1] * torch.tensor(weights[y], dtype=dtype)).sum().backward()
        rows[-1] = rows[-1].detach()
    torch.autograd.backward(outputs, [leaf.grad for leaf in leaves])

    channels = raw.detach()[order]
    zero = int((channels.abs() < 1e-6).sum())
    below = int((channels < 0).sum())
    print(f"{len(order)} in view; of {channels.numel()} channels {below} below 0, {zero} within 1e-6 of 0")
    out = {name: tensor.grad.numpy().astype(np.float64) for name, tensor in p.items()}
    out["image"] = torch.stack(rows).numpy().astype(np.float64)
    return out


def main():
    run, view, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    dtype = torch.float32 if sys.argv[4:] == ["f32"] else torch.float64
    splats = read_splats(run / "splats.ply")
    camera = read_camera(run / "cameras.json", view)
    weights = np.fromfile(folder / "weights").reshape(camera[3], camera[2], 3)
    theirs = gradients(splats, camera, weights, dtype)
    print(f"{'':10} {'reference: L2':>14} {'maximum':>9} {'CPU: L2':>14} {'maximum':>9}")
    worst = 0.0
    groups = [(name, np.s_[:], name) for name in ["image", "means", "scales", "quats", "opacities", "sh0"]]
    degrees = range(1, math.isqrt(splats["sh_rest"].shape[1] + 1))
    groups += [("sh_rest", np.s_[:, n * n - 1 : (n + 1) ** 2 - 1], f"sh{n}") for n in degrees]
    for name, part, label in groups:
        cells = []
        expected = theirs[name][part]
        for engine in ["reference", "cpu"]:
            actual = np.fromfile(folder / engine / name).reshape(theirs[name].shape)[part]
            error = actual - expected
            if name == "image":  # undecided pixels are excluded
                error[(weights == 0).all(-1)] = 0
            # The gradient by the rotation of a sphere is zero: its error is compared with the gradient by scales.
            of = expected if np.linalg.norm(expected) > 1e-5 * np.linalg.norm(theirs["scales"]) else theirs["scales"]
            cells += [np.linalg.norm(error) / np.linalg.norm(of), abs(error).max() / abs(of).max()]
            worst = max(worst, cells[-2])
        print(f"{label:10} {cells[0]:14.1e} {cells[1]:9.1e} {cells[2]:14.1e} {cells[3]:9.1e}")
    return int(not worst <= BOUND)


if __name__ == "__main__":
    sys.exit(main())
