"""Engines of this process: one for each device."""

import os
import threading

import numpy as np

from . import _native
from ._errors import InputError

_lock = threading.RLock()
_engines = {}
_default = None


class Engine:
    """An engine and the lock that holds from an upload to its last render."""

    def __init__(self, device):
        self.native = _native.Rasterizer(device)
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.transfer = "staged" if self.native.is_gpu else "in place"
        self._key = None
        self._token = 0
        self._tensors = None

    @property
    def tensors(self):
        """The context of tensors on this device, created at its first use."""
        with _lock:
            if self._tensors is None:
                # "auto" may be the CPU too: one device has one context.
                same = [] if self.native.is_gpu else [other._tensors for other in _engines.values() if not other.native.is_gpu]
                made = [tensors for tensors in same if tensors is not None]
                self._tensors = made[0] if made else _native.tensor.Context._of(self.native)
            return self._tensors

    def forget(self):
        """Notes that the engine has other Gaussians than those of the last upload."""
        self._key = None

    def upload(self, key, make):
        """Uploads `make()` unless the last upload had the same key, and returns the number of the upload."""
        if self._key is None or self._key != key:
            self._key = None
            for link in getattr(self, "links", {}).values():
                if link is not None:
                    link.reserved = link.holds = None
            self._token = self.native.upload(**make())
            self._key = key
        return self._token


def engine(device=None):
    """Returns the engine of a device, opened at its first use."""
    name = device or default_device()
    with _lock:
        found = _engines.get(name)
        if found is not None and found.process != os.getpid():
            # A fork: threads and device belong to the parent. Nothing of it may be freed here.
            _abandoned.append(_engines.pop(name))
            found = None
        if found is None:
            found = _engines[name] = Engine(name)
        return found


_abandoned = []


def default_device():
    """Returns the device that calls use without one."""
    return _default or os.environ.get("DAPPLE_DEVICE") or "auto"


def set_device(device):
    """Sets the device of later calls: "auto" (a hardware GPU, else the CPU), "cpu", "gpu", "gpu:1" or "gpu:name".

    The environment variable DAPPLE_DEVICE does the same.
    """
    global _default
    if not isinstance(device, str):
        raise InputError(f"device is {type(device).__name__}, not a string", "device", 'write "cpu" or "gpu"')
    engine(device)
    _default = device


def backend():
    """Returns what computes: a dictionary with `device`, `why` ("auto" alone) and `transfer`.

    `transfer` is "in place" if arrays of the host need no copy to another device, "staged" if they are copied to and from a
    GPU at each call, and "shared" once tensors of CUDA were used in memory that the engine and CUDA share.
    """
    found = engine()
    return {"device": found.native.description, "why": found.native.why, "transfer": found.transfer}


def camera(viewmat, K, width, height, model, coefficients):
    """Creates a camera of the extension from matrices."""
    numbers = np.asarray(viewmat, np.float64), np.asarray(K, np.float64)
    return _native.Camera(
        numbers[0].tolist(), numbers[1].tolist(), width, height, model, [float(c) for c in coefficients]
    )
