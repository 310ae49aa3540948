"""The third result of `rasterization`: gsplat's dictionary, computed when it is read."""


class Info(dict):
    """A dictionary whose values may be functions, which run at the first read of their key."""

    def __init__(self, ready, lazy):
        super().__init__(ready)
        self._lazy = dict(lazy)
        for name in lazy:
            super().setdefault(name, None)

    def __getitem__(self, name):
        make = self._lazy.pop(name, None)
        if make is not None:
            self[name] = make()
        return super().__getitem__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def items(self):
        return [(name, self[name]) for name in self]

    def values(self):
        return [self[name] for name in self]


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
