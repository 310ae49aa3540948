"""Times renders and training steps through torch, beside gsplat where it is installed: one GPU, both in one run.

    python3 step.py [--gaussians 1000000] [--size 1920x1080] [--cameras 1] [--repeat 50]

The scene is random: Gaussians in a box, harmonics of degree 3. A step is the render, L1, the backward pass and Adam (fused).
Times are medians in ms, by events of CUDA.
"""

import argparse
import json

import torch


def scene(n, cameras, width, height, device="cuda"):
    """Returns the parameters of a step and the cameras."""
    generator = torch.Generator(device=device).manual_seed(0)

    def uniform(*shape):
        return torch.rand(shape, generator=generator, device=device)

    def normal(*shape):
        return torch.randn(shape, generator=generator, device=device)

    params = {
        "means": uniform(n, 3) * 4 - 2,
        "scales": (uniform(n, 3) * 0.0199 + 1e-4).log(),
        "quats": normal(n, 4),
        "opacities": torch.logit(uniform(n).clamp(1e-3, 0.999)),
        "colors": normal(n, 16, 3) * 0.05,
    }
    params["colors"][:, 0] = normal(n, 3)
    viewmats = torch.eye(4, device=device).repeat(cameras, 1, 1)
    viewmats[:, 2, 3] = 4.0
    viewmats[:, 0, 3] = torch.linspace(-0.3, 0.3, cameras, device=device)
    K = torch.tensor([[0.6 * width, 0, width / 2], [0, 0.6 * width, height / 2], [0, 0, 1.0]], device=device)
    return params, viewmats, K.repeat(cameras, 1, 1)


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


def measure(rasterization, args):
    """Returns times of a library, and its image and gradients."""
    width, height = (int(v) for v in args.size.split("x"))
    values, viewmats, Ks = scene(args.gaussians, args.cameras, width, height)
    params = {name: torch.nn.Parameter(value) for name, value in values.items()}
    optimizer = torch.optim.Adam(params.values(), lr=1e-6, eps=1e-15, fused=True)
    target = torch.full((args.cameras, height, width, 3), 0.5, device="cuda")

    def render():
        return rasterization(params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
                             params["colors"], viewmats, Ks, width, height, sh_degree=3, packed=False)[0]

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
    parser.add_argument("--gaussians", type=int, default=1_000_000)
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--cameras", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=50)
    args = parser.parse_args()
    import dapple_gs

    ours, image, gradients = measure(dapple_gs.rasterization, args)
    report = {"gpu": torch.cuda.get_device_name(), **vars(args), "dapple": ours, "backend": dapple_gs.backend()}
    try:
        from gsplat import rasterization
    except ImportError:
        report["gsplat"] = "not installed"
    else:
        theirs, expected, by = measure(rasterization, args)
        off = (image - expected).abs().max(-1).values
        report["gsplat"] = theirs
        report["pixels_within_1_255"] = float((off <= 1 / 255).float().mean())
        report["relative_l2_of_gradients"] = {name: float((gradients[name] - by[name]).norm() / by[name].norm()) for name in by}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
