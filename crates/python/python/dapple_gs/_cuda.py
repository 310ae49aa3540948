"""Memory of the engine's GPU as tensors of CUDA: no copy through the host.

The engine allocates memory that Vulkan exports, and the CUDA driver imports it. Planes are `[component][Gaussian]`, as the
engine has them.
"""

import ctypes
import functools

import numpy as np
import torch

from . import _native

FD, DEDICATED = 1, 1
GEOMETRY = 14
FLOAT = 4


class _Handle(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC, with a file descriptor in its union."""

    _fields_ = [("type", ctypes.c_int), ("_align", ctypes.c_int), ("fd", ctypes.c_int), ("_union", ctypes.c_int * 3),
                ("size", ctypes.c_ulonglong), ("flags", ctypes.c_uint), ("reserved", ctypes.c_uint * 16)]


class _Range(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = [("offset", ctypes.c_ulonglong), ("size", ctypes.c_ulonglong), ("flags", ctypes.c_uint),
                ("reserved", ctypes.c_uint * 16)]


@functools.lru_cache(None)
def _driver():
    """Returns the CUDA driver, with the types of the functions that are called."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuMemFree_v2.argtypes = [ctypes.c_ulonglong]
    driver.cuDestroyExternalMemory.argtypes = [ctypes.c_void_p]
    return driver


def _check(code, what):
    if code != 0:
        raise OSError(f"{what} failed with code {code} of the CUDA driver")


class Shared:
    """Memory of the engine as a tensor of CUDA.

    Attributes:
        number: the engine's number of the memory.
        tensor: float32, one dimension.
    """

    def __init__(self, native, floats, device):
        self._native, self._memory, self._pointer = native, ctypes.c_void_p(), ctypes.c_ulonglong()
        self.number, fd, size = _native.allocate(native, floats * FLOAT)
        handle = _Handle(type=FD, fd=fd, size=size, flags=DEDICATED)
        with torch.cuda.device(device):
            torch.cuda.current_stream().synchronize()  # the context exists from here on
            _check(_driver().cuImportExternalMemory(ctypes.byref(self._memory), ctypes.byref(handle)), "the import")
            window = _Range(offset=0, size=floats * FLOAT)
            _check(_driver().cuExternalMemoryGetMappedBuffer(ctypes.byref(self._pointer), self._memory,
                                                             ctypes.byref(window)), "the mapping")
        self.__cuda_array_interface__ = {
            "shape": (floats,), "typestr": "<f4", "data": (self._pointer.value, False), "version": 3}
        self.tensor = torch.as_tensor(self, device=device)
        self.floats = floats

    def close(self):
        """Releases the memory on both sides."""
        self.tensor = None
        if self._pointer.value:
            _driver().cuMemFree_v2(self._pointer)
            _driver().cuDestroyExternalMemory(self._memory)
            self._pointer.value = 0
        _native.free(self._native, self.number)


class Link:
    """The memory that an engine and CUDA share: parameters, gradients, image and its derivative.

    Its memory grows with the number of Gaussians and pixels, and is used again.
    """

    def __init__(self, engine, device):
        self.engine, self.native, self.device = engine, engine.native, device
        self.parts, self.reserved, self.holds = {}, None, None
        probe = self.part("image", 1024)
        probe.tensor.copy_(torch.arange(1024, device=device))
        torch.cuda.current_stream(device).synchronize()
        if not np.array_equal(_native.read_shared(self.native, probe.number, 1024), np.arange(1024, dtype=np.float32)):
            raise OSError("the engine's GPU is not the GPU of the tensors")

    def part(self, name, floats):
        """Returns shared memory of at least this size."""
        found = self.parts.get(name)
        if found is None or found.floats < floats:
            if found is not None:
                found.close()
            found = self.parts[name] = Shared(self.native, floats, self.device)
        return found

    def reserve(self, n, degree):
        """Makes place for this number of Gaussians and returns the planes of parameters and of gradients."""
        rest = 3 * ((degree + 1) ** 2 - 1)
        if self.reserved is None or self.reserved[:2] != (n, degree):
            self.engine.forget()
            self.holds = None
            stride = _native.reserve(self.native, n, degree)
            self.reserved = (n, degree, stride)
        stride = self.reserved[2]
        sizes = {"geometry": GEOMETRY, "sh_rest": rest, "by_geometry": GEOMETRY, "by_sh_rest": rest, "by_means2d": 2}
        planes = {}
        for name, count in sizes.items():
            part = self.part(name, max(count * stride, 1))
            planes[name] = part.tensor[: count * stride].view(count, stride)[:, :n]
        return planes

    def pixels(self, name, height, width):
        """Returns the image or its derivative, [height, width, 4]."""
        count = height * width * 4
        return self.part(name, count).tensor[:count].view(height, width, 4)

    def number(self, name):
        return self.parts[name].number

    def wait(self):
        """Waits until CUDA has done what the engine reads."""
        torch.cuda.current_stream(self.device).synchronize()


def link(engine, device):
    """Returns the link of an engine and a device, or None with the reason in `engine.transfer`."""
    links = engine.__dict__.setdefault("links", {})
    if device not in links:
        try:
            if not hasattr(_native, "allocate"):
                raise OSError("shared memory needs Linux")
            links[device] = Link(engine, device)
            engine.transfer = "shared"
        except Exception as error:  # every reason means staging
            links[device] = None
            engine.transfer = f"staged ({str(error).splitlines()[0]})"
    return links[device]


def fits(arrays, options):
    """Returns true if a call can run in shared memory: three channels, no depth, one set of colours, no masks."""
    harmonic = options.sh_degree is not None
    dims = 3 if harmonic else 2
    return (options.render_mode == "RGB" and arrays["colors"].dim() == dims and not options.hides_gaussians
            and (harmonic or arrays["colors"].shape[-1] == 3) and arrays["means"].shape[0] > 0)


SH_C0 = 0.28209479177387814
OPACITY_MARGIN, LEAST_SCALE = 1e-7, 1e-30


class Call:
    """A render of tensors in shared memory, which its gradients repeat."""

    def __init__(self, link, cameras, options, key):
        self.link, self.cameras, self.options, self.key = link, cameras, options, key
        self.degree = options.sh_degree or 0

    def load(self, means, quats, scales, opacities, colors):
        """Writes parameters into the shared planes, unless they are there."""
        link, n = self.link, means.shape[0]
        planes = link.reserve(n, self.degree)
        if link.holds == self.key:
            return planes
        link.holds = None
        geometry = planes["geometry"]
        geometry[0:3].copy_(means.T)
        geometry[3:6].copy_(scales.T.abs().clamp(min=LEAST_SCALE).log_())
        geometry[6:10].copy_(quats.T)
        geometry[10].copy_(torch.logit(opacities, OPACITY_MARGIN))
        self.shift = 0.0
        if self.options.sh_degree is None:
            least = float(colors.min())
            self.shift = 0.5 - least if least < 0.01 else 0.0
            geometry[11:14].copy_((colors.T + (self.shift - 0.5)) / SH_C0)
        else:
            geometry[11:14].copy_(colors[:, 0].T)
            count = planes["sh_rest"].shape[0]
            if count:
                planes["sh_rest"].copy_(colors[:, 1 : 1 + count // 3].reshape(n, count).T)
        link.wait()
        _native.set_parameters(link.native, link.number("geometry"), link.number("sh_rest"))
        link.engine.forget()
        link.holds = self.key
        return planes

    def forward(self, means, quats, scales, opacities, colors, backgrounds):
        options, link = self.options, self.link
        size = (len(self.cameras), options.height, options.width)
        image = torch.empty(size + (3,), device=means.device)
        alphas = torch.empty(size + (1,), device=means.device)
        with link.engine.lock:
            self.load(means, quats, scales, opacities, colors)
            for i, camera in enumerate(self.cameras):
                pixels = link.pixels("image", options.height, options.width)
                link.wait()
                _native.render_shared(link.native, link.number("image"), camera, self.degree, options.near_plane,
                                      options.antialiased)
                alphas[i] = 1 - pixels[..., 3:]
                image[i] = pixels[..., :3]
            link.wait()
        if self.shift:
            image -= self.shift * alphas
        if backgrounds is not None:
            image += (1 - alphas) * backgrounds[:, None, None]
        return image, alphas

    def backward(self, tensors, alphas, by_image, by_alphas):
        """Returns gradients by means, quats, scales, opacities, colors, viewmats, backgrounds, and means2d."""
        means, quats, scales, opacities, colors, _, _, backgrounds = tensors
        link, options, n = self.link, self.options, means.shape[0]
        by_backgrounds = None
        if backgrounds is not None:
            by_backgrounds = torch.einsum("chwx,chw->cx", by_image, 1 - alphas[..., 0])
            by_alphas = by_alphas - torch.einsum("chwx,cx->chw", by_image, backgrounds)[..., None]
        geometry = rest = None
        by_viewmats, by_means2d = [], []
        with link.engine.lock:
            planes = self.load(means, quats, scales, opacities, colors)
            if self.shift:
                by_alphas = by_alphas - self.shift * by_image.sum(-1, keepdim=True)
            for i, camera in enumerate(self.cameras):
                derivative = link.pixels("derivative", options.height, options.width)
                derivative[..., :3].copy_(by_image[i])
                derivative[..., 3:].copy_(-by_alphas[i])
                link.wait()
                targets = tuple(link.number(name) for name in ("by_geometry", "by_sh_rest", "by_means2d"))
                by_viewmats.append(_native.gradients_shared(
                    link.native, link.number("derivative"), targets, camera, self.degree, options.near_plane,
                    options.antialiased))
                last = i + 1 == len(self.cameras)
                if geometry is None:
                    geometry, rest = planes["by_geometry"], planes["by_sh_rest"]
                    if not last:
                        geometry, rest = geometry.clone(), rest.clone()
                else:
                    geometry, rest = geometry + planes["by_geometry"], rest + planes["by_sh_rest"]
                by_means2d.append(planes["by_means2d"].T.contiguous())
            opacity = opacities.clamp(OPACITY_MARGIN, 1 - OPACITY_MARGIN)
            if options.sh_degree is None:
                by_colors = (geometry[11:14].T / SH_C0).contiguous()
            else:
                by_colors = torch.zeros_like(colors) if colors.shape[1] != (self.degree + 1) ** 2 else torch.empty_like(colors)
                by_colors[:, 0] = geometry[11:14].T
                count = rest.shape[0] // 3
                if count:
                    by_colors[:, 1 : 1 + count] = rest.T.reshape(n, count, 3)
            found = [
                geometry[0:3].T.contiguous(), geometry[6:10].T.contiguous(),
                torch.where(scales.abs() > LEAST_SCALE, geometry[3:6].T / scales, torch.zeros_like(scales)),
                geometry[10] / (opacity * (1 - opacity)), by_colors,
            ]
            link.wait()
        by_viewmats = torch.from_numpy(np.stack(by_viewmats)).to(means.device)
        return found, by_viewmats, by_backgrounds, torch.stack(by_means2d)
