"""Times renders and training steps through torch, beside gsplat where it is installed: one GPU, both in one run.

    python3 step.py POINTS [--tiles 3] [--size 1920x1080] [--cameras 1] [--repeat 50] [--packed]

POINTS is a folder with points.ply and cameras.json, as `dapple bench step` takes it: the points within 2 of the origin, copied
tiles x tiles times, are Gaussians of random sizes with harmonics of degree 3. A step is the render, L1, the backward pass and
Adam (fused). Times are medians in ms, by events of CUDA.
"""

import argparse
import json
import pathlib

import numpy as np
import torch

SH_C0 = 0.28209479177387814
TYPES = {"float": "<f4", "uchar": "u1"}


def points(path):
    """Returns centres and colours of a binary PLY file whose vertices have x, y, z, red, green, blue."""
    head, body = path.read_bytes().split(b"end_header\n", 1)
    lines = [line.split() for line in head.decode().splitlines()]
    count = next(int(line[2]) for line in lines if line[:2] == ["element", "vertex"])
    kind = np.dtype([(line[2], TYPES[line[1]]) for line in lines if line[0] == "property"])
    vertices = np.frombuffer(body, kind, count)
    means, colors = ([vertices[name].astype(np.float32) for name in names] for names in ("xyz", ("red", "green", "blue")))
    return torch.from_numpy(np.stack(means, 1)), torch.from_numpy(np.stack(colors, 1)) / 255


def scene(folder, tiles, cameras, width, height, device="cuda"):
    """Returns the parameters of a step and the cameras."""
    folder = pathlib.Path(folder)
    means, colors = points(folder / "points.ply")
    inside = (means.abs() <= 2).all(-1)
    steps = torch.arange(tiles) - tiles // 2
    offsets = 4.0 * torch.stack([*torch.meshgrid(steps, steps, indexing="ij"), torch.zeros(tiles, tiles)], -1)
    means = (means[inside] + offsets.reshape(-1, 1, 3)).reshape(-1, 3).to(device)
    colors = colors[inside].repeat(tiles * tiles, 1).to(device)
    n = len(means)
    generator = torch.Generator(device=device).manual_seed(0)

    def uniform(*shape):
        return torch.rand(shape, generator=generator, device=device)

    def normal(*shape):
        return torch.randn(shape, generator=generator, device=device)

    params = {
        "means": means,
        "scales": (uniform(n, 3) * 0.0199 + 1e-4).log(),
        "quats": normal(n, 4),
        "opacities": torch.logit(uniform(n).clamp(1e-3, 0.999)),
        "colors": normal(n, 16, 3) * 0.05,
    }
    params["colors"][:, 0] = (colors - 0.5) / SH_C0
    known = json.loads((folder / "cameras.json").read_text())
    viewmats = torch.tensor(known["camera_from_world"]).float().reshape(-1, 4, 4)
    K = torch.tensor(known["K"]).float().reshape(3, 3)
    K[0] *= width / known["width"]
    K[1] *= height / known["height"]
    which = torch.arange(cameras) % len(viewmats)
    return params, viewmats[which].to(device), K.repeat(cameras, 1, 1).to(device)


def median(call, repeat):
    """Returns the median time of a call, ms."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeat):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def measure(rasterization, args, packed=False):
    """Returns times of a library, and its image and gradients."""
    width, height = (int(v) for v in args.size.split("x"))
    values, viewmats, Ks = scene(args.points, args.tiles, args.cameras, width, height)
    params = {name: torch.nn.Parameter(value) for name, value in values.items()}
    optimizer = torch.optim.Adam(params.values(), lr=1e-6, eps=1e-15, fused=True)
    target = torch.full((args.cameras, height, width, 3), 0.5, device="cuda")

    def render():
        return rasterization(params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
                             params["colors"], viewmats, Ks, width, height, sh_degree=3, packed=packed)[0]

    def step():
        (render() - target).abs().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    image = render()
    (image - target).abs().mean().backward()
    gradients = {name: param.grad.clone() for name, param in params.items()}
    optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        forward = median(render, args.repeat)
    return {"forward_ms": forward, "step_ms": median(step, args.repeat)}, image.detach(), gradients


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", help="folder with points.ply and cameras.json")
    parser.add_argument("--tiles", type=int, default=3, help="copies of the points along x and y")
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--cameras", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--packed", action="store_true", help="gsplat renders packed, its faster way with many cameras")
    args = parser.parse_args()
    import dapple_gs

    ours, image, gradients = measure(dapple_gs.rasterization, args)
    report = {"gpu": torch.cuda.get_device_name(), **vars(args), "gaussians": len(gradients["means"]), "dapple": ours,
              "backend": dapple_gs.backend()}
    try:
        from gsplat import rasterization
    except ImportError:
        report["gsplat"] = "not installed"
    else:
        theirs, expected, by = measure(rasterization, args, args.packed)
        off = (image - expected).abs().max(-1).values
        report["gsplat"] = theirs
        report["pixels_within_1_255"] = float((off <= 1 / 255).float().mean())
        report["relative_l2_of_gradients"] = {name: float((gradients[name] - by[name]).norm() / by[name].norm()) for name in by}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
