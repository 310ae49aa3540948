"""`cli`, under the module name of gsplat: one process, on any device."""

import os

from ._errors import UnsupportedError

__all__ = ["cli"]

# Variables by which a launcher (Open MPI, torchrun) tells the number of its processes.
SIZES = ("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE")


def cli(fn, args, verbose=False):
    """Calls `fn(local_rank, world_rank, world_size, args)` once, with 0, 0 and 1. Returns True.

    gsplat starts a process for each GPU; this function does not, and needs no GPU.

    Raises:
        UnsupportedError: a launcher started more than one process.
    """
    for name in SIZES:
        size = os.environ.get(name, "1")
        if size != "1":
            raise UnsupportedError(f"distributed training is not supported: {name} is {size}", name, "start one process")
    if verbose:
        print("One process")
    fn(0, 0, 1, args)
    return True
