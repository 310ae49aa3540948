"""`rasterization` with torch: automatic differentiation around the passes of numpy."""

import itertools

import numpy as np
import torch

from . import _cuda
from ._errors import ArgumentTypeError, InputError
from ._info import Info, sizes
from ._passes import Passes, Scene
from ._projection import project
from ._rasterization import ARRAYS, shown_by

_calls = itertools.count()


class Namespace:
    """Functions of torch by the names that numpy has."""

    stack = staticmethod(torch.stack)
    where = staticmethod(torch.where)
    arctan2 = staticmethod(torch.atan2)
    zeros_like = staticmethod(torch.zeros_like)
    ones_like = staticmethod(torch.ones_like)
    log = staticmethod(torch.log)
    ceil = staticmethod(torch.ceil)

    @staticmethod
    def clip(values, least, most):
        return torch.clamp(values, least, most)


def checked(arrays):
    """Checks types and devices."""
    device = arrays["means"].device
    for name, tensor in arrays.items():
        if tensor is None:
            continue
        if tensor.dtype != torch.float32:
            raise ArgumentTypeError(f"{name} is {tensor.dtype}, not torch.float32", name, f"convert it: {name}.float()")
        if tensor.device != device:
            raise InputError(f"{name} is on {tensor.device}, and means on {device}", name,
                             f"move it: {name}.to(means.device)")
    return device


def numbers(tensor):
    """Returns the numbers of a tensor as a C-contiguous array of the host; no copy of a contiguous CPU tensor."""
    return None if tensor is None else tensor.detach().contiguous().cpu().numpy()


class _Means2d(torch.autograd.Function):
    """Projected centres as a function of the centres, so that their gradient can be kept.

    Its values are written when they are read. Its backward pass adds nothing: `_Blend` has the whole gradient by all
    arrays already.
    """

    @staticmethod
    def forward(ctx, means, shape):
        return means.new_empty(shape)

    @staticmethod
    def backward(ctx, by_means2d):
        return None, None


class _Blend(torch.autograd.Function):
    """Images and alphas as a function of all arrays."""

    @staticmethod
    def forward(ctx, passes, means2d, where, *tensors):
        image, alphas = passes.forward()
        device = tensors[0].device
        image, alphas = torch.from_numpy(image), torch.from_numpy(alphas)
        ctx.passes, ctx.where, ctx.device = passes, where, device
        ctx.packed_shape = means2d.shape
        image, alphas = image.to(device), alphas.to(device)
        ctx.save_for_backward(image, alphas, *tensors)
        ctx.set_materialize_grads(True)
        return image, alphas

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, by_image, by_alphas):
        # Reading them raises if the caller has changed one in place since the render.
        image, alphas, *_ = ctx.saved_tensors
        passes = ctx.passes
        found = passes.backward(*(numbers(tensor) for tensor in (image, alphas, by_image, by_alphas)))
        by_means2d, absolute = found.pop("means2d"), found.pop("absgrad", None)
        if ctx.where is not None:
            by_means2d = by_means2d[ctx.where]
            absolute = None if absolute is None else absolute[ctx.where]
        if absolute is not None:
            passes.means2d.absgrad = torch.from_numpy(absolute).to(ctx.device)
        gradients = [found.get(name) for name in ARRAYS]
        gradients[ARRAYS.index("Ks")] = None
        tensors = [g if g is None else torch.from_numpy(np.ascontiguousarray(g)).to(ctx.device) for g in gradients]
        means2d = torch.from_numpy(np.ascontiguousarray(by_means2d)).to(ctx.device)
        return (None, means2d, None, *tensors)


class _BlendShared(torch.autograd.Function):
    """Images and alphas as a function of all arrays, in memory that the engine and CUDA share."""

    @staticmethod
    def forward(ctx, call, means2d, where, *tensors):
        means, quats, scales, opacities, colors, _, _, backgrounds = (t if t is None else t.detach() for t in tensors)
        image, alphas = call.forward(means, quats, scales, opacities, colors, backgrounds, keep=True)
        ctx.call, ctx.where = call, where
        ctx.save_for_backward(alphas, *tensors)
        return image, alphas

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, by_image, by_alphas):
        alphas, *tensors = ctx.saved_tensors
        found, by_viewmats, by_backgrounds, by_means2d, absolute = ctx.call.backward(
            tensors, alphas, by_image, by_alphas, ctx.needs_input_grad[3 + ARRAYS.index("viewmats")])
        if ctx.where is not None:
            by_means2d = by_means2d[ctx.where]
            absolute = None if absolute is None else absolute[ctx.where]
        if absolute is not None:
            ctx.call.means2d.absgrad = absolute
        return (None, by_means2d, None, *found, by_viewmats, None, by_backgrounds)


def _shared(arrays, options, engine, device):
    """Returns the call in shared memory, or None if it has to be staged through the host."""
    if device.type != "cuda" or not engine.native.is_gpu:
        return None
    if not _cuda.fits(arrays, options):
        return None
    link = _cuda.link(engine, device)
    if link is None:
        return None
    return _cuda.Call(link, arrays["viewmats"].detach(), arrays["Ks"].detach(), options, next(_calls))


def one(arrays, options, engine, packed):
    """Renders tensors without batch dimensions."""
    device = checked(arrays)
    call = _shared(arrays, options, engine, device)
    if call is not None:
        return _one(arrays, options, call, device, packed)
    scene = Scene(**{name: numbers(tensor) for name, tensor in arrays.items()}, key=next(_calls))
    scene.shown = shown_by(scene, options)
    return _one(arrays, options, Passes(scene, options, engine), device, packed)


def _one(arrays, options, passes, device, packed):
    """Renders by passes of numpy, or by a call in shared memory."""
    needs_gradients = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in arrays.values())
    c, n = arrays["viewmats"].shape[0], arrays["means"].shape[0]

    made = []

    def projected():
        if made:
            return made
        with torch.no_grad():
            rows = [project(Namespace, *(arrays[name].detach() for name in ("means", "quats", "scales", "opacities")),
                            viewmat, K, options)
                    for viewmat, K in zip(arrays["viewmats"].detach(), arrays["Ks"].detach())]
            if not rows:
                made.extend(torch.zeros((0, n) + tail, device=device) for tail in ((2,), (2,), (), (3,), ()))
                return made
            radii, *others = (torch.stack(part) for part in zip(*rows))
            made.extend([radii.to(torch.int32), *others])
            return made

    if not needs_gradients:
        if isinstance(passes, _cuda.Call):
            names = ("means", "quats", "scales", "opacities", "colors", "backgrounds")
            image, alphas = passes.forward(*(arrays[name] for name in names))
        else:
            image, alphas = passes.forward()
            image, alphas = torch.from_numpy(image).to(device), torch.from_numpy(alphas).to(device)
        return image, alphas, _info(options, c, arrays, projected, packed, None)

    where = None
    if packed:
        where = (projected()[0] > 0).all(-1).nonzero(as_tuple=True)
    means2d = _Means2d.apply(arrays["means"], (len(where[0]), 2) if packed else (c, n, 2))
    if options.absgrad:
        # Receives the attribute in the backward pass.
        passes.means2d = means2d
    if isinstance(passes, _cuda.Call):
        image, alphas = _BlendShared.apply(passes, means2d, where, *arrays.values())
    else:
        on_host = None if where is None else tuple(index.cpu().numpy() for index in where)
        image, alphas = _Blend.apply(passes, means2d, on_host, *arrays.values())
    return image, alphas, _info(options, c, arrays, projected, packed, means2d)


def _info(options, c, arrays, projected, packed, means2d):
    """Returns gsplat's dictionary."""
    opacities = arrays["opacities"]

    def rows():
        return (projected()[0] > 0).all(-1).nonzero(as_tuple=True)

    def entry(index):
        return (lambda: projected()[index][rows()]) if packed else (lambda: projected()[index])

    def effective():
        """Returns opacities as they are rendered, [C, N]."""
        return opacities.expand(c, -1) * projected()[4] if options.antialiased else opacities.expand(c, -1)

    lazy = {"radii": entry(0), "means2d": entry(1), "depths": entry(2), "conics": entry(3)}
    if packed:
        lazy["camera_ids"] = lambda: rows()[0]
        lazy["gaussian_ids"] = lambda: rows()[1]
        lazy["batch_ids"] = lambda: torch.zeros_like(rows()[0])
        lazy["opacities"] = lambda: effective()[rows()]
    else:
        lazy["opacities"] = effective
    lazy["tiles_per_gauss"] = lambda: _tiles(options, entry(1)(), entry(0)())
    if means2d is not None:
        values = lazy["means2d"]

        def filled():
            means2d.data.copy_(values())
            return means2d
        lazy["means2d"] = filled
    ids = {} if packed else dict.fromkeys(("batch_ids", "camera_ids", "gaussian_ids"))
    return Info({**sizes(options, c, 1), **ids}, lazy)


def _tiles(options, centres, radii):
    """Returns the number of tiles that the rectangle of each Gaussian touches."""
    counts = 1
    for axis, size in ((0, options.width), (1, options.height)):
        last = -(-size // 16)
        first = ((centres[..., axis] - radii[..., axis]) / 16).floor().clamp(0, last)
        end = ((centres[..., axis] + radii[..., axis]) / 16).ceil().clamp(0, last)
        counts = counts * (end - first).clamp(min=0)
    return (counts * (radii > 0).all(-1)).to(torch.int32)


def many(arrays, options, engine, packed, batch):
    """Renders each batch element; the dictionary has a list of those of the elements."""
    checked(arrays)
    count = int(np.prod(batch))
    flat = {name: tensor if tensor is None else tensor.reshape((count,) + tuple(tensor.shape[len(batch):]))
            for name, tensor in arrays.items()}
    parts = [one({name: tensor if tensor is None else tensor[i] for name, tensor in flat.items()},
                 options.of_element(i), engine, packed) for i in range(count)]
    image, alphas = (torch.stack([part[k] for part in parts]) for k in (0, 1))
    ready = {**sizes(options, parts[0][0].shape[0], count), "elements": [part[2] for part in parts]}
    lazy = {}
    if not packed and count:
        for name in ("radii", "means2d", "depths", "conics", "opacities"):
            lazy[name] = lambda name=name: torch.stack([part[2][name] for part in parts]).reshape(
                batch + tuple(parts[0][2][name].shape))
    return image.reshape(batch + image.shape[1:]), alphas.reshape(batch + alphas.shape[1:]), Info(ready, lazy)
