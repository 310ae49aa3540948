"""Writes the type stubs of the package, `__init__.pyi` and `tensor.pyi`: signatures from the modules, keyword arguments from
the settings.

    PYTHONPATH=PACKAGE python3 stubs.py [--check]
"""

import inspect
import pathlib
import sys

import dapple_gs
import tensor_stubs
from dapple_gs import _errors, _native, _program, _rasterization, _splats, _training

PACKAGE = pathlib.Path(__file__).parent / "python/dapple_gs"

HEAD = '''"""Types of dapple_gs. Written by stubs.py from the package itself; arrays are those of numpy or torch."""

from os import PathLike
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, TypedDict, Union

import numpy as np
import torch

from . import tensor as tensor

Path = Union[str, "PathLike[str]"]
Array = Any
__version__: str
'''

TYPES = {
    "means": "Array", "quats": "Array", "scales": "Array", "opacities": "Array", "colors": "Array", "viewmats": "Array",
    "Ks": "Array", "width": "int", "height": "int", "near_plane": "float", "far_plane": "float", "radius_clip": "float",
    "eps2d": "float", "num_depth_samples": "int", "sh_degree": "Optional[int]", "packed": "bool", "absgrad": "bool", "tile_size": "int", "backgrounds": "Optional[Array]", "masks": "Optional[Array]",
    "render_mode": 'Literal["RGB", "D", "ED", "RGB+D", "RGB+ED"]', "rasterize_mode": 'Literal["classic", "antialiased"]',
    "camera_model": 'Literal["pinhole", "fisheye"]', "device": "Optional[str]", "path": "Path", "source": "Path",
    "target": "Path", "output": "Path", "capture": "Path", "config": "Optional[Path]", "out": "Optional[Path]",
    "overwrite": "bool", "every": "int", "progress": "Optional[bool]", "count": "int", "viewmat": "Array", "K": "Array",
    "callback": "Optional[Callable[[Dict[str, Any]], Any]]", "format": "str", "save_to": "Optional[Path]",
    "what": "str", "place": "Optional[str]", "hint": "Optional[str]", "splats": "Optional[Path]", "inputs": "Path",
    "arguments": "Any", "options": "Any", "settings": "Any",
}
RETURNS = {
    "rasterization": "Tuple[Array, Array, Dict[str, Any]]",
    "top_contributing_gaussian_ids": "Tuple[Array, Array]",
    "rasterization_vjp": "Tuple[np.ndarray, np.ndarray, Callable[..., Dict[str, np.ndarray]]]",
    "load": "Splats", "export_splats": "bytes", "train": "Trainer", "settings": "Dict[str, str]", "run": "str",
    "convert": "str", "edit": "str", "mesh": "str", "photos": "str", "view": "Viewer", "evaluate": "Dict[str, Any]",
    "backend": "Dict[str, Any]", "set_device": "None", "step": "bool", "splats": "Splats", "render": "Tuple[np.ndarray, np.ndarray]",
    "parameters": "Dict[str, Any]", "save": "None", "close": "None", "steps": "int", "steps_done": "int", "device": "str",
    "config": "str", "notes": "List[str]", "sh_degree": "int", "__len__": "int", "__init__": "None",
}
# Names that need torch, whose module is imported at their first use.
TORCH = '''
class Strategy:
    def check_sanity(self, params: Any, optimizers: Dict[str, torch.optim.Optimizer]) -> None: ...
    def step_pre_backward(self, params: Any, optimizers: Any, state: Dict[str, Any], step: int, info: Any) -> None: ...
    def step_post_backward(self, params: Any, optimizers: Any, state: Dict[str, Any], step: int, info: Any,
                           **others: Any) -> None: ...

class DefaultStrategy(Strategy):
    def __init__(self, prune_opa: float = ..., grow_grad2d: float = ..., grow_scale3d: float = ..., grow_scale2d: float = ...,
                 prune_scale3d: float = ..., prune_scale2d: float = ..., refine_scale2d_stop_iter: int = ...,
                 refine_start_iter: int = ..., refine_stop_iter: int = ..., reset_every: int = ..., refine_every: int = ...,
                 pause_refine_after_reset: int = ..., absgrad: bool = ..., revised_opacity: bool = ..., verbose: bool = ...,
                 key_for_gradient: str = ...) -> None: ...
    def check_sanity(self, params: Any, optimizers: Dict[str, torch.optim.Optimizer]) -> None: ...
    def initialize_state(self, scene_scale: float = ...) -> Dict[str, Any]: ...
    def step_pre_backward(self, params: Any, optimizers: Any, state: Dict[str, Any], step: int, info: Any) -> None: ...
    def step_post_backward(self, params: Any, optimizers: Any, state: Dict[str, Any], step: int, info: Any,
                           packed: bool = ...) -> None: ...

class MCMCStrategy(Strategy):
    def __init__(self, cap_max: int = ..., noise_lr: float = ..., refine_start_iter: int = ..., refine_stop_iter: int = ...,
                 refine_every: int = ..., min_opacity: float = ..., verbose: bool = ...) -> None: ...
    def check_sanity(self, params: Any, optimizers: Dict[str, torch.optim.Optimizer]) -> None: ...
    def initialize_state(self) -> Dict[str, Any]: ...
    def step_pre_backward(self, params: Any, optimizers: Any, state: Dict[str, Any], step: int, info: Any) -> None: ...
    def step_post_backward(self, params: Any, optimizers: Any, state: Dict[str, Any], step: int, info: Any, lr: float) -> None: ...  # type: ignore[override]

class SelectiveAdam(torch.optim.Adam):
    def __init__(self, params: Any, eps: float = ..., betas: Tuple[float, float] = ..., lr: float = ...) -> None: ...
    def step(self, visibility: torch.Tensor) -> None: ...  # type: ignore[override]

def spherical_harmonics(degrees_to_use: int, dirs: torch.Tensor, coeffs: torch.Tensor,
                        masks: Optional[torch.Tensor] = ...) -> torch.Tensor: ...
def fully_fused_projection(means: torch.Tensor, covars: None, quats: torch.Tensor, scales: torch.Tensor,
                           viewmats: torch.Tensor, Ks: torch.Tensor, width: int, height: int, eps2d: float = ...,
                           near_plane: float = ..., far_plane: float = ..., radius_clip: float = ..., packed: bool = ...,
                           sparse_grad: bool = ..., calc_compensations: bool = ..., camera_model: str = ...,
                           opacities: Optional[torch.Tensor] = ...) -> Tuple[torch.Tensor, ...]: ...
def ssim(image: torch.Tensor, target: torch.Tensor, padding: Literal["same", "valid"] = ..., train: bool = ...) -> torch.Tensor: ...
'''


def setting_types():
    """Returns the keyword arguments of `Trainer` and their types."""
    types = {"number": "float", "bool": "bool", "path": "Path", "text": "str"}
    found = {}
    for _, option, kind, _ in _native.settings():
        if option:
            literal = "Literal[" + ", ".join(f'"{name}"' for name in kind.split("|")) + "]"
            found[option.replace("-", "_")] = types.get(kind, literal)
    return found


def parameters(function, expanded=False):
    """Returns the parameters of a function in the text of a stub."""
    words, is_keyword = [], False
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if name == "self":
            words.append(name)
            continue
        typed = f"{name}: {TYPES.get(name, 'Any')}"
        if parameter.kind is parameter.VAR_POSITIONAL:
            words.append("*" + typed)
            is_keyword = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            if expanded:
                words += [] if is_keyword else ["*"]
                words += [f"{key}: Optional[{kind}] = ..." for key, kind in setting_types().items()]
            else:
                words.append("**" + typed)
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
                words.append("*")
                is_keyword = True
            words.append(typed + (" = ..." if parameter.default is not parameter.empty else ""))
    return ", ".join(words)


def function(name, of, indent="", expanded=False):
    return f"{indent}def {name}({parameters(of, expanded)}) -> {RETURNS.get(name, 'Any')}: ...\n"


def stub_class(cls, expanded=()):
    bases = [base.__name__ for base in cls.__bases__ if base is not object]
    text = f"\nclass {cls.__name__}{'(' + ', '.join(bases) + ')' if bases else ''}:\n"
    for name, kind in getattr(cls, "__annotations__", {}).items():
        text += f"    {name}: {getattr(kind, '__name__', kind)}\n".replace(": ndarray", ": np.ndarray").replace("typing.", "")
    for name, value in vars(cls).items():
        if isinstance(value, property):
            text += f"    @property\n    def {name}(self) -> {RETURNS.get(name, 'Any')}: ...\n"
        elif inspect.isfunction(value) and (not name.startswith("_") or name in ("__init__", "__len__")):
            if name != "__init__" or not hasattr(cls, "__dataclass_fields__"):
                text += function(name, value, "    ", name in expanded)
    if text.endswith(":\n"):
        text += "    ...\n"
    return text


def stubs():
    text = HEAD
    text += stub_class(_errors.DappleError)
    for name in ("InputError", "ArgumentTypeError", "FileError", "UnsupportedError", "InternalError"):
        text += stub_class(getattr(_errors, name))
    text += "\n" + function("rasterization", _rasterization.rasterization)
    text += function("rasterization_vjp", _rasterization.rasterization_vjp)
    text += function("top_contributing_gaussian_ids", dapple_gs.top_contributing_gaussian_ids)
    splats = stub_class(_splats.Splats)
    arrays = ", ".join(f"{name}: np.ndarray" for name in ("means", "scales", "quats", "opacities", "sh0", "sh_rest"))
    splats += f"    def __init__(self, {arrays}, origin: Sequence[float] = ..., notes: List[str] = ...) -> None: ...\n"
    text += splats
    text += function("load", _splats.load) + function("export_splats", _splats.export_splats)
    trainer = stub_class(_training.Trainer, expanded=("__init__",))
    text += trainer + "    result: Dict[str, Any]\n"
    text += function("train", _training.train, expanded=True) + function("settings", _training.settings)
    text += stub_class(_program.Viewer) + "    url: str\n"
    for name in ("run", "convert", "edit", "mesh", "photos", "evaluate", "view"):
        text += function(name, getattr(_program, name))
    text += function("backend", dapple_gs.backend) + function("set_device", dapple_gs.set_device).replace(
        "Optional[str]", "str")
    return text + TORCH


def main():
    texts = {PACKAGE / "__init__.pyi": stubs(), PACKAGE / "tensor.pyi": tensor_stubs.stubs()}
    if "--check" in sys.argv:
        is_current = all(target.exists() and target.read_text() == text for target, text in texts.items())
        sys.exit(0 if is_current else "the stubs are not current: run stubs.py")
    for target, text in texts.items():
        target.write_text(text)


if __name__ == "__main__":
    main()
