"""The third result of `rasterization`: gsplat's dictionary, computed when it is read."""

from collections.abc import MutableMapping


class Info(MutableMapping, dict):
    """A dictionary whose values may be functions, which run at the first read of their key.

    Methods come from `MutableMapping`: those of `dict` would read the place of a value that is not computed yet.
    """

    def __init__(self, ready, lazy):
        dict.__init__(self, ready)
        self._lazy = dict(lazy)
        for name in lazy:
            dict.setdefault(self, name, None)

    def __getitem__(self, name):
        make = self._lazy.pop(name, None)
        if make is not None:
            dict.__setitem__(self, name, make())
        return dict.__getitem__(self, name)

    def __setitem__(self, name, value):
        self._lazy.pop(name, None)
        dict.__setitem__(self, name, value)

    def __delitem__(self, name):
        self._lazy.pop(name, None)
        dict.__delitem__(self, name)

    # `dict(info)`, `{**info}` and `info.copy()` read values by `__getitem__` because this is not the function of `dict`.
    def __iter__(self):
        return dict.__iter__(self)

    def __len__(self):
        return dict.__len__(self)

    def __contains__(self, name):
        return dict.__contains__(self, name)

    def __repr__(self):
        return repr(dict(self))


def sizes(options, cameras, batches):
    """Returns the entries that are no arrays."""
    return {
        "width": options.width,
        "height": options.height,
        "tile_size": 16,
        "tile_width": -(-options.width // 16),
        "tile_height": -(-options.height // 16),
        "n_cameras": cameras,
        "n_batches": batches,
    }
