"""Memory of the engine's GPU as tensors of CUDA: no copy through the host.

The engine allocates memory that Vulkan exports, and the CUDA driver imports it. Parameters and gradients are rows in one
piece of memory, in the order of `Rows`; kernels of the engine convert between rows and its own planes.

Work of the engine follows work of the current stream, and the other way round, by semaphores of both drivers (`Order`): the
host waits only for a render, to see that it is whole, and for the numbers of the cameras.
"""

import ctypes
import functools
import weakref

import numpy as np
import torch

from . import _engines, _native

FD, DEDICATED, TIMELINE_FD = 1, 1, 9
FLOAT = 4
# The engine binds rows at once, and no binding is larger.
MOST_BYTES = (1 << 31) - 4


class _Handle(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC, with a file descriptor in its union."""

    _fields_ = [("type", ctypes.c_int), ("_align", ctypes.c_int), ("fd", ctypes.c_int), ("_union", ctypes.c_int * 3),
                ("size", ctypes.c_ulonglong), ("flags", ctypes.c_uint), ("reserved", ctypes.c_uint * 16)]


class _Range(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = [("offset", ctypes.c_ulonglong), ("size", ctypes.c_ulonglong), ("flags", ctypes.c_uint),
                ("reserved", ctypes.c_uint * 16)]


class _SemaphoreHandle(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, with a file descriptor in its union."""

    _fields_ = [("type", ctypes.c_int), ("_align", ctypes.c_int), ("fd", ctypes.c_int), ("_union", ctypes.c_int * 3),
                ("flags", ctypes.c_uint), ("reserved", ctypes.c_uint * 17)]


class _Value(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS: both begin with the value."""

    _fields_ = [("value", ctypes.c_ulonglong), ("_others", ctypes.c_uint * 34)]


@functools.lru_cache(None)
def _driver():
    """Returns the CUDA driver, with the types of the functions that are called."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuMemFree_v2.argtypes = [ctypes.c_ulonglong]
    driver.cuDestroyExternalMemory.argtypes = [ctypes.c_void_p]
    for name in ("cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync"):
        getattr(driver, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p]
    return driver


def _stream(device):
    """Returns the handle of the current stream. The objects of `torch.cuda` take ten times as long."""
    return torch._C._cuda_getCurrentRawStream(device.index)


def _check(code, what):
    if code != 0:
        raise OSError(f"{what} failed with code {code} of the CUDA driver")


class Rows:
    """Views of parameters, or of gradients by them, in one tensor: rows of `n` Gaussians with `k` coefficients."""

    def __init__(self, tensor, n, k, places=0):
        bounds = [0, 3, 7, 10, 11, 11 + 3 * k, 11 + 3 * k + 2 * places]
        means, quats, scales, opacities, colors, means2d = (
            tensor[n * first : n * end] for first, end in zip(bounds, bounds[1:]))
        self.means, self.quats, self.scales = means.view(n, 3), quats.view(n, 4), scales.view(n, 3)
        self.opacities, self.colors = opacities, colors.view(n, k, 3)
        # By projected centres; parameters have none.
        self.means2d = means2d.view(places, n, 2)

    @staticmethod
    def floats(n, k, places=0):
        """Returns the size of rows, with this many places of gradients by projected centres."""
        return n * (11 + 3 * k + 2 * places)


class Shared:
    """Memory of the engine that CUDA has imported.

    Attributes:
        number: the engine's number of the memory.
        floats: its size.
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
        self.device, self.floats = device, floats

    def tensor(self, on_end=None):
        """Returns the memory as a tensor, float32 of one dimension. `on_end` is called when the last view of it is gone."""
        view = _View(self._pointer.value, self.floats)
        if on_end is not None:
            weakref.finalize(view, on_end, self).atexit = False
        return torch.as_tensor(view, device=self.device)

    def close(self):
        """Waits, and releases the memory on both sides."""
        if self._pointer.value:
            torch.cuda.synchronize(self.device)
            _driver().cuMemFree_v2(self._pointer)
            _driver().cuDestroyExternalMemory(self._memory)
            self._pointer.value = 0
        _native.free(self._native, self.number)


class _View:
    """Memory of CUDA; torch keeps it alive as long as a tensor has its storage."""

    def __init__(self, pointer, floats):
        self.__cuda_array_interface__ = {
            "shape": (floats,), "typestr": "<f4", "data": (pointer, False), "version": 3}


class Order:
    """Two semaphores, by which work of the engine follows work of CUDA and the other way round. Values only grow."""

    def __init__(self, native, device):
        self.device, self.sent, self.expected = device, 0, 0
        self._semaphores = [self._imported(fd) for fd in _native.semaphores(native)]
        self._value = _Value()

    def _imported(self, fd):
        semaphore, handle = ctypes.c_void_p(), _SemaphoreHandle(type=TIMELINE_FD, fd=fd)
        with torch.cuda.device(self.device):
            _check(_driver().cuImportExternalSemaphore(ctypes.byref(semaphore), ctypes.byref(handle)),
                   "the import of a semaphore")
        return semaphore

    def _enqueue(self, call, semaphore, value):
        self._value.value = value
        arguments = ctypes.byref(semaphore), ctypes.byref(self._value), 1, _stream(self.device)
        if torch.cuda.current_device() == self.device.index:
            code = call(*arguments)
        else:
            with torch.cuda.device(self.device):
                code = call(*arguments)
        _check(code, "a semaphore")

    def send(self):
        """Signals after all work of the current stream. Returns the value, which the engine's work can follow."""
        self.sent += 1
        self._enqueue(_driver().cuSignalExternalSemaphoresAsync, self._semaphores[0], self.sent)
        return self.sent

    def expect(self):
        """Returns the next value for the engine to signal."""
        self.expected += 1
        return self.expected

    def receive(self, value):
        """Makes work of the current stream follow the engine's signal of this value."""
        self._enqueue(_driver().cuWaitExternalSemaphoresAsync, self._semaphores[1], value)


class Link:
    """The memory that an engine and CUDA share: parameters, gradients, image and its derivative.

    Parameters, image and derivative have memory that grows and is used again. Gradients are given to the caller without a
    copy, and their memory comes back when the caller's tensors are gone.
    """

    def __init__(self, engine, device):
        self.engine, self.native, self.device = engine, engine.native, device
        self.parts, self.reserved, self.holds, self.unused, self.stream = {}, None, None, [], None
        number, probe = self.part("rows", 1024)
        probe[:1024].copy_(torch.arange(1024, device=device))
        torch.cuda.synchronize(device)
        if not np.array_equal(_native.read_shared(self.native, number, 1024), np.arange(1024, dtype=np.float32)):
            raise OSError("the engine's GPU is not the GPU of the tensors")
        # Only now: an engine has the semaphores of one device.
        self.order = Order(self.native, device)

    def part(self, name, floats):
        """Returns number and tensor of shared memory of at least this size."""
        found = self.parts.get(name)
        if found is None or found[0].floats < floats:
            if found is not None:
                del self.parts[name]
                found[0].close()
            shared = Shared(self.native, floats, self.device)
            found = self.parts[name] = shared, shared.tensor()
        return found[0].number, found[1]

    def gradients(self, floats):
        """Returns number and tensor of memory that no tensor of the caller has."""
        fitting = [shared for shared in self.unused if shared.floats == floats]
        for shared in self.unused:
            if shared not in fitting:
                shared.close()
        self.unused = fitting
        shared = fitting.pop() if fitting else Shared(self.native, floats, self.device)
        return shared.number, shared.tensor(on_end=self.unused_again)

    def unused_again(self, shared):
        self.unused.append(shared)

    def enter(self):
        """Notes the current stream. After another one, waits for all: the memory is used in the order of one stream."""
        stream = _stream(self.device)
        if stream != self.stream:
            torch.cuda.synchronize(self.device)
            self.stream = stream

    def reserve(self, n, degree):
        """Makes place for this number of Gaussians."""
        if self.reserved != (n, degree):
            self.engine.forget()
            self.holds = None
            _native.reserve(self.native, n, degree)
            self.reserved = n, degree

    def pixels(self, name, height, width):
        """Returns number and tensor of an image or a derivative by one, [height, width, 4]."""
        count = height * width * 4
        number, tensor = self.part(name, count)
        return number, tensor[:count].view(height, width, 4)


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
    """Returns true if a call can run in shared memory: three channels, no depth, one set of colours, no hidden Gaussians."""
    harmonic = options.sh_degree is not None
    dims = 3 if harmonic else 2
    return (options.render_mode == "RGB" and arrays["colors"].dim() == dims and not options.hides_gaussians
            and (harmonic or arrays["colors"].shape[-1] == 3) and arrays["means"].shape[0] > 0
            and FLOAT * Rows.floats(arrays["means"].shape[0], coefficients(options), places(options, len(arrays["viewmats"])))
            <= MOST_BYTES)


def places(options, cameras):
    """Returns the places of gradients by projected centres: one for each camera, and one for its absolute sums."""
    return cameras * (1 + options.absgrad)


def coefficients(options):
    """Returns the number of coefficients that a render reads."""
    return ((options.sh_degree or 0) + 1) ** 2


SH_C0 = 0.28209479177387814


class Call:
    """A render of tensors in shared memory, which its gradients repeat."""

    def __init__(self, link, viewmats, Ks, options, key):
        self.link, self.options, self.key = link, options, key
        self.matrices, self.count, self.cameras = (viewmats, Ks), len(viewmats), None
        self.degree, self.coefficients = options.sh_degree or 0, coefficients(options)
        # Added to plain colours: a render clamps at 0.
        self.shift = 0.0

    def find_cameras(self):
        """Brings the cameras to the host: waits for the current stream."""
        if self.cameras is not None:
            return
        options = self.options
        # One transfer for both.
        numbers = torch.cat([matrix.flatten(1) for matrix in self.matrices], 1).cpu().numpy()
        matrices = numbers[:, :16].reshape(-1, 4, 4), numbers[:, 16:].reshape(-1, 3, 3)
        self.cameras = [_engines.camera(viewmat, K, options.width, options.height, options.model, coefficients)
                        for viewmat, K, coefficients in zip(*matrices, options.coefficients)]
        self.matrices = None

    def load(self, means, quats, scales, opacities, colors):
        """Brings parameters to the engine, unless they are there. Returns the number of their memory."""
        link, n = self.link, means.shape[0]
        link.reserve(n, self.degree)
        number, tensor = link.part("rows", Rows.floats(n, self.coefficients))
        if link.holds == self.key:
            return number
        link.holds = None
        rows = Rows(tensor, n, self.coefficients)
        for to, values in ((rows.means, means), (rows.quats, quats), (rows.scales, scales), (rows.opacities, opacities)):
            to.copy_(values)
        if self.options.sh_degree is None:
            least = float(colors.min())
            self.shift = 0.5 - least if least < 0.01 else 0.0
            rows.colors[:, 0].copy_((colors + (self.shift - 0.5)) / SH_C0)
        else:
            rows.colors.copy_(colors[:, : self.coefficients])
        _native.load_rows(link.native, number, n, link.order.send())
        link.engine.forget()
        link.holds = self.key
        return number

    def forward(self, means, quats, scales, opacities, colors, backgrounds, keep=False):
        """Renders. With `keep`, gradients do not wait, and those of the last camera do not render again."""
        options, link = self.options, self.link
        size = (self.count, options.height, options.width)
        image = torch.empty(size + (3,), device=means.device)
        alphas = torch.empty(size + (1,), device=means.device)
        with link.engine.lock:
            link.enter()
            # First: the GPU would change between both drivers once more.
            self.find_cameras()
            self.load(means, quats, scales, opacities, colors)
            images = [link.pixels(f"image {i}", options.height, options.width) for i in range(self.count)]
            numbers, how = [number for number, _ in images], (self.degree, options.near_plane, options.dilation)
            if options.masks is None and not keep:
                _native.render_shared_each(link.native, numbers, self.cameras, *how)
            else:
                for i, (number, camera) in enumerate(zip(numbers, self.cameras)):
                    _native.render_shared(link.native, number, camera, *how, keep and i + 1 == self.count, options.tiles(i))
            for i, (_, pixels) in enumerate(images):
                torch.sub(1, pixels[..., 3:], out=alphas[i])
                image[i].copy_(pixels[..., :3])
        if self.shift:
            image -= self.shift * alphas
        if backgrounds is not None:
            image += (1 - alphas) * backgrounds[:, None, None]
        return image, alphas

    def backward(self, tensors, alphas, by_image, by_alphas, needs_viewmats):
        """Returns gradients by means, quats, scales, opacities, colors, viewmats, backgrounds, and means2d, and absolute sums."""
        means, quats, scales, opacities, colors, _, _, backgrounds = tensors
        link, options, n, k = self.link, self.options, means.shape[0], self.coefficients
        by_backgrounds = None
        if backgrounds is not None:
            by_backgrounds = torch.einsum("chwx,chw->cx", by_image, 1 - alphas[..., 0])
            by_alphas = by_alphas - torch.einsum("chwx,cx->chw", by_image, backgrounds)[..., None]
        by_viewmats = [None] * self.count
        with link.engine.lock:
            link.enter()
            rows = self.load(means, quats, scales, opacities, colors)
            if self.shift:
                by_alphas = by_alphas - self.shift * by_image.sum(-1, keepdim=True)
            derivatives = []
            for i in range(self.count):
                derivative, pixels = link.pixels(f"derivative {i}", options.height, options.width)
                derivatives.append(derivative)
                pixels[..., :3].copy_(by_image[i])
                torch.neg(by_alphas[i], out=pixels[..., 3:])
            held = places(options, self.count)
            target, total = link.gradients(Rows.floats(n, k, held))
            after = link.order.send()
            # The last camera first: the engine may have kept its render.
            for i in reversed(range(self.count)):
                is_first, value = i + 1 == self.count, 0 if i else link.order.expect()
                at = i, self.count + i if options.absgrad else None
                by_viewmats[i] = _native.gradients_shared(
                    link.native, (derivatives[i], rows, target), n, self.cameras[i], self.degree, options.near_plane,
                    options.dilation, at, (not is_first, i == 0), needs_viewmats, (after if is_first else 0, value),
                    options.tiles(i))
            if self.count:
                link.order.receive(value)
            else:
                total.zero_()
        total = Rows(total, n, k, held)
        if options.sh_degree is None:
            by_colors = total.colors[:, 0] / SH_C0
        elif colors.shape[1] == k:
            by_colors = total.colors
        else:
            by_colors = torch.zeros_like(colors)
            by_colors[:, :k] = total.colors
        found = [total.means, total.quats, total.scales, total.opacities, by_colors]
        # The copy to the device waits for it.
        by_viewmats = torch.from_numpy(np.reshape(by_viewmats, (-1, 4, 4))).to(means.device) if needs_viewmats else None
        absolute = total.means2d[self.count :] if options.absgrad else None
        return found, by_viewmats, by_backgrounds, total.means2d[: self.count], absolute
