"""Training of captures."""

import os
import sys

from . import _engines, _native
from ._errors import InputError
from ._splats import Splats


def _rows():
    """Returns the settings by the names that keyword arguments have: those of the options, with underscores."""
    names = {}
    for key, option, kind, text in _native.settings():
        names.setdefault(key.replace(".", "_"), (key, kind, text))
        if option:
            names[option.replace("-", "_")] = (key, kind, text)
    return names


def _text(name, value):
    """Returns a value as config.toml has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)) or hasattr(value, "__fspath__"):
        return os.fspath(value) if hasattr(value, "__fspath__") else str(value)
    if isinstance(value, (list, tuple)):
        return ",".join(_text(name, part) for part in value)
    if hasattr(value, "item"):
        return _text(name, value.item())
    raise InputError(f"{name} is {type(value).__name__}", name, "give a number, a string or a boolean")


def settings():
    """Returns the settings of a training: a dictionary from the name of the keyword argument to its help."""
    return {name: text for name, (_, _, text) in sorted(_rows().items())}


class Trainer:
    """A run on a capture, in steps of the caller.

        trainer = Trainer("captures/bird", steps=2000)
        while trainer.step(100):
            print(trainer.steps_done, len(trainer.splats()))
        trainer.run(out="out/bird")  # scores, and writes all results

    The same capture, settings, device and seed give the same bytes as `dapple train`.

    Args:
        capture: folder of a capture: COLMAP, Nerfstudio or Blender layout.
        config: a config.toml, or None.
        device: "auto", "cpu", "gpu", "gpu:1"; None = that of `set_device`.
        **settings: options of `dapple train` by their names with underscores, such as `steps=2000`, `preset="quick"`,
            `sh_degree=2`. `dapple_gs.settings()` lists them.
    """

    def __init__(self, capture, *, config=None, device=None, **settings):
        rows, given = _rows(), []
        for name, value in settings.items():
            if value is None:
                continue
            if name not in rows:
                import difflib
                near = difflib.get_close_matches(name, rows, 1)
                hint = f"{near[0]} is one" if near else "dapple_gs.settings() lists them"
                raise InputError(f"there is no setting {name}", name, hint)
            given.append((rows[name][0], _text(name, value)))
        config = None if config is None else os.fspath(config)
        self._native = _native.Trainer(os.fspath(capture), given, config, device or _engines.default_device())

    @property
    def steps(self):
        """Steps of the whole run."""
        return self._native.steps

    @property
    def steps_done(self):
        """Steps done so far."""
        return self._native.steps_done()

    @property
    def device(self):
        """Engine and device."""
        return self._native.device

    @property
    def config(self):
        """The configuration as the text of a config.toml."""
        return self._native.config

    @property
    def notes(self):
        """Remarks about the capture and the settings."""
        return list(self._native.notes)

    def step(self, count=1):
        """Takes steps. Returns False when all steps are done."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"count is {count!r}, not a positive integer", "count")
        return self._native.step(count) < self.steps

    def run(self, out=None, *, overwrite=False, callback=None, every=100):
        """Runs to the end.

        Args:
            out: folder for splats, metrics and renders; None = no files.
            overwrite: True to replace the results of another run.
            callback: called with a dictionary every `every` steps and after each scoring. If it returns False, the run
                stops; the folder then has a checkpoint. What it raises ends the run, and is raised here.

        Returns:
            A dictionary with `steps`, `gaussians`, `finished` and `eval` (`psnr`, `ssim`, `lpips`, `images`).
        """
        return self._native.run(None if out is None else os.fspath(out), overwrite, callback, every)

    def splats(self):
        """Returns a copy of the current splats."""
        return Splats(**self._native.splats())

    def render(self, viewmat, K, width, height):
        """Renders the current splats: colours [height, width, 3] and alphas [height, width]."""
        return self._native.render(_engines.camera(viewmat, K, width, height, "pinhole", []))

    def evaluate(self):
        """Scores the held-out photos: a dictionary with `psnr`, `ssim`, `lpips`, `gaussians`, `images`."""
        return self._native.evaluate()


def train(capture, out=None, *, callback=None, every=100, overwrite=False, progress=None, **settings):
    """Trains a capture, as `dapple train` does. Returns the finished `Trainer`; its `result` has the scores.

    Args:
        capture, **settings: see `Trainer`.
        out, callback, every, overwrite: see `Trainer.run`.
        progress: True shows a progress bar by tqdm; None = if stderr is a terminal and tqdm is installed.
    """
    trainer = Trainer(capture, **settings)
    bar = _bar(trainer.steps, progress)

    def show(state):
        if bar is not None and "loss" in state:
            bar.update(state["step"] - bar.n)
            bar.set_postfix(loss=f"{state['loss']:.4f}", gaussians=f"{state['gaussians']:,}", refresh=False)
        return None if callback is None else callback(state)

    try:
        trainer.result = trainer.run(out, overwrite=overwrite, callback=show, every=every)
    finally:
        if bar is not None:
            bar.close()
    return trainer


def _bar(steps, progress):
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=steps, unit="step")
