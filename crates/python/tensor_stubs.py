"""Text of `tensor.pyi`: signatures and documentation of `dapple_gs.tensor`; see stubs.py."""

import inspect

from dapple_gs import tensor

HEAD = '''"""Types of dapple_gs.tensor. Written by stubs.py from the module itself."""

from os import PathLike
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

Path = Union[str, "PathLike[str]"]
Array = Any
Sizes = Union[int, Sequence[int]]
DType = Any
Device = Union[None, str, "Context"]
Operand = Union["Tensor", float]
Tensors = Union["Tensor", Sequence["Tensor"]]
Updates = Sequence[Tuple["Tensor", "Tensor"]]
'''

TYPES = {
    "a": "Operand", "alpha": "float", "array": "Array", "axes": "Optional[Sizes]", "axis": "int", "b": "Operand",
    "base": "Linear", "betas": "Tuple[float, float]", "bias": "bool", "copy": "Optional[bool]", "count": "int",
    "deviation": "float", "device": "Device", "dropout": "float", "dtype": "Optional[DType]", "epsilon": "float",
    "exponent": "Operand", "fuse": "bool", "gradients": "Tensors", "index": "Any", "inputs": "int", "keep": "bool",
    "kept": "Optional[Tensor]", "kernel": "Sizes", "learning_rate": "float", "least": "float", "loss": "Tensor",
    "modulo": "None", "most": "float", "name": "Optional[str]", "numbers": "Tensor", "other": "Operand", "output": "int",
    "outputs": "Tensors", "padding": "Sizes", "parameters": "Tensors", "path": "Path", "rank": "int",
    "seed": "int", "shape": "Sizes", "stride": "Optional[Sizes]", "tensors": "Tensors", "updates": "Updates",
    "value": "float", "wanted": "Tensor", "weight": "Tensor", "weight_decay": "float", "wrt": "Tensors", "x": "Tensor",
}
# Where a name has another type.
OTHER_TYPES = {
    ("Linear", "outputs"): "int", ("of", "bias"): "Optional[Tensor]", ("gradients", "seed"): "Optional[Tensor]",
    ("save", "tensors"): "Mapping[str, Tensor]", ("named", "name"): "str", ("permute", "axes"): "Sequence[int]",
}
RETURNS = {
    "gradients": "List[Tensor]", "write": "None", "numpy": "np.ndarray", "__array__": "np.ndarray", "item": "float",
    "__float__": "float", "run": "None", "read": "np.ndarray", "kernels": "List[Tuple[str, float, float]]",
    "explain": "str", "parameters": "List[Tensor]", "merged": "Linear", "of": "Linear", "mask": "np.ndarray",
    "step": "List[Tuple[Tensor, Tensor]]", "AdamW": "Adam", "context": "Context", "load": "Dict[str, Tensor]", "save": "None",
}
PROPERTIES = {
    "shape": "Tuple[int, ...]", "ndim": "int", "size": "int", "dtype": "str", "device": "str", "work": "Dict[str, float]",
    "bias": "Optional[Tensor]", "base": "Linear", "moments": "List[Tuple[Tensor, Tensor]]", "name": "str", "is_gpu": "bool",
}
# Methods whose parameters Python does not report.
SIGNATURES = {
    "__call__": "self, x: Tensor", "__float__": "self", "__getitem__": "self, index: Any", "__neg__": "self",
    "__pow__": "self, exponent: Operand",
}
CALL_OF_LORA = "self, x: Tensor, kept: Optional[Tensor] = ..."
# Methods with underscores that a caller uses by operators and calls.
OPERATORS = ["__call__", "__float__", "__getitem__", "__array__", "__neg__", "__pow__"]
OPERATORS += [f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv", "matmul") for side in ("", "r")]


def documentation(of, indent):
    """Returns the documentation of an object in the text of a stub."""
    text = inspect.getdoc(of) or ""
    lines = [indent + line if line else "" for line in text.splitlines()]
    lines[0] = f'{indent}"""{text.splitlines()[0]}'
    closing = '"""' if len(lines) == 1 else f'\n{indent}"""'
    return "\n".join(lines) + closing + "\n"


def parameters(name, of):
    words = []
    for parameter in inspect.signature(of).parameters.values():
        if parameter.name == "self":
            words.append("self")
            continue
        kind = OTHER_TYPES.get((name, parameter.name), TYPES.get(parameter.name, "Any"))
        words.append(f"{parameter.name}: {kind}" + (" = ..." if parameter.default is not parameter.empty else ""))
    return ", ".join(words)


def function(name, of, indent="", words=None):
    returns = RETURNS.get(name, "Tensor")
    head = f"{indent}def {name}({parameters(name, of) if words is None else words}) -> {returns}:"
    if name.startswith("__"):
        return head + " ...\n"
    return head + "\n" + documentation(of, indent + "    ")


def stub_class(cls):
    text = f"\nclass {cls.__name__}:\n" + documentation(cls, "    ")
    if cls in (tensor.Plan, tensor.Linear, tensor.Lora, tensor.Adam):
        text += f"    def __init__(self, {parameters(cls.__name__, cls)}) -> None: ...\n"
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_") and name not in OPERATORS:
            continue
        if isinstance(value, staticmethod):
            text += "    @staticmethod\n" + function(name, getattr(cls, name), "    ")
        elif inspect.isgetsetdescriptor(value):
            kind = PROPERTIES.get(name, "Tensor")
            text += f"    @property\n    def {name}(self) -> {kind}:\n" + documentation(value, "        ")
        elif name in ("__add__", "__sub__", "__mul__", "__truediv__", "__matmul__") or name.startswith("__r"):
            text += function(name, value, "    ", "self, other: Operand")
        elif name in SIGNATURES:
            text += function(name, value, "    ", SIGNATURES[name] if cls is not tensor.Lora else CALL_OF_LORA)
        else:
            text += function(name, value, "    ")
    return text


def stubs():
    """Returns the text of the stub."""
    text = HEAD
    named = [(name, getattr(tensor, name)) for name in tensor.__all__]
    for name, value in named:
        if inspect.isclass(value):
            text += stub_class(value)
    text += "\n"
    for name, value in named:
        if not inspect.isclass(value):
            text += function(name, value)
    return text
