"""Types of dapple_gs.tensor. Written by stubs.py from the module itself."""

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

class Adam:
    """Adam, or AdamW with `weight_decay`, for a list of parameters, which are leaves."""
    def __init__(self, parameters: Tensors, learning_rate: float = ..., betas: Tuple[float, float] = ..., epsilon: float = ..., weight_decay: float = ...) -> None: ...
    @property
    def learning_rate(self) -> Tensor:
        """Learning rate, a leaf without axes: write it between runs to change it."""
    @property
    def moments(self) -> List[Tuple[Tensor, Tensor]]:
        """Means of the gradients and of their squares, a pair of leaves for each parameter."""
    def step(self, gradients: Tensors) -> List[Tuple[Tensor, Tensor]]:
        """Returns the updates of one step, for `Plan(outputs, updates)`: pairs of a leaf and its new value. `gradients` has
        a gradient for each parameter.
        """
    @property
    def steps(self) -> Tensor:
        """Number of steps, a leaf without axes."""

class Context:
    """A device for tensors. Tensors of different contexts cannot be combined."""
    @property
    def is_gpu(self) -> bool:
        """True if the device is a GPU."""
    @property
    def name(self) -> str:
        """Name of the device."""

class Linear:
    """A linear layer: x W + b, [..., inputs] to [..., outputs].

    Weights are random, of deviation sqrt(2 / inputs), and the bias is 0. `Linear.of` takes weights instead.
    """
    def __init__(self, inputs: int, outputs: int, bias: bool = ..., seed: int = ..., device: Device = ...) -> None: ...
    def __call__(self, x: Tensor) -> Tensor: ...
    @property
    def bias(self) -> Optional[Tensor]:
        """[outputs], or None."""
    @staticmethod
    def of(weight: Tensor, bias: Optional[Tensor] = ...) -> Linear:
        """Creates a layer of given tensors: `weight`, [inputs, outputs], and `bias`, [outputs] or None."""
    def parameters(self) -> List[Tensor]:
        """Returns the trainable tensors."""
    @property
    def weight(self) -> Tensor:
        """[inputs, outputs]."""

class Lora:
    """A low-rank addition to a linear layer (Hu et al. 2021): base(x) + alpha / rank (x A) B. `b` is 0 at first."""
    def __init__(self, base: Linear, rank: int = ..., alpha: float = ..., dropout: float = ..., seed: int = ...) -> None: ...
    def __call__(self, x: Tensor, kept: Optional[Tensor] = ...) -> Tensor: ...
    @property
    def a(self) -> Tensor:
        """[inputs, rank]."""
    @property
    def b(self) -> Tensor:
        """[rank, outputs]."""
    @property
    def base(self) -> Linear:
        """The layer with the addition."""
    def mask(self, shape: Sizes, seed: int) -> np.ndarray:
        """Returns the mask of inputs for one step, an array of numpy: write it to a tensor, with another seed each step."""
    def merged(self) -> Linear:
        """Returns the base with the addition merged into its weight."""
    def parameters(self) -> List[Tensor]:
        """Returns the trainable tensors: `a` and `b`."""

class Plan:
    """Kernels with their memory: compiled once, run repeatedly.

    A run computes `outputs`, then writes each value of `updates`, pairs of a leaf and its new value, into its leaf.
    With `fuse=False`, each operation has a kernel of its own.
    """
    def __init__(self, outputs: Tensors, updates: Updates = ..., fuse: bool = ...) -> None: ...
    def explain(self) -> str:
        """Returns a description of the kernels; on a GPU with their WGSL."""
    def kernels(self) -> List[Tuple[str, float, float]]:
        """Returns the kernels in order: name, bytes and operations of each."""
    def output(self, output: int = ...) -> Tensor:
        """Returns an output as a leaf for other plans: its values are those of the last run."""
    def read(self, output: int = ...) -> np.ndarray:
        """Returns the values of an output after the last run, as an array of numpy."""
    def run(self, count: int = ...) -> None:
        """Runs the plan `count` times. On a GPU, the call does not wait for the results."""
    @property
    def work(self) -> Dict[str, float]:
        """Work of a run: `kernels`, `copies`, `buffers`, `buffer_bytes`, `bytes` read and written, `flops`."""

class Tensor:
    """Values on a device, or an operation to compute."""
    def __add__(self, other: Operand) -> Tensor: ...
    def __array__(self, dtype: Optional[DType] = ..., copy: Optional[bool] = ...) -> np.ndarray: ...
    def __float__(self) -> float: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __matmul__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pow__(self, exponent: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def abs(self) -> Tensor:
        """Returns the absolute value."""
    def add(self, other: Operand) -> Tensor:
        """Returns the sum; shapes broadcast."""
    def clamp(self, least: float, most: float) -> Tensor:
        """Clamps to two numbers. The gradient passes between them and at them."""
    def conv2d(self, weight: Tensor, stride: Optional[Sizes] = ..., padding: Sizes = ...) -> Tensor:
        """Returns the convolution of images, [n, channels, rows, columns], with `weight`, [outputs, channels, kernel
        rows, kernel columns]: [n, outputs, ...]. Images are zero outside.
        """
    def cos(self) -> Tensor:
        """Returns the cosine of radians."""
    def cross_entropy(self, wanted: Tensor) -> Tensor:
        """Returns the mean over rows of -sum(wanted log softmax): `wanted` has the class of each row, [...] by
        `indices`, or the share of each class, [..., classes]. The result has no axes.
        """
    def detach(self) -> Tensor:
        """Returns the same values without a gradient."""
    @property
    def device(self) -> str:
        """Name of the device."""
    def div(self, other: Operand) -> Tensor:
        """Returns the quotient; shapes broadcast."""
    @property
    def dtype(self) -> str:
        """"float32", "float16", or "uint32" for indices."""
    def embedding(self, numbers: Tensor) -> Tensor:
        """Returns rows of this table, [rows, width], by `numbers` of `indices`, [...]: [..., width]. A number beyond
        the table gives NaN.
        """
    def equal(self, other: Operand) -> Tensor:
        """Returns 1 where both are equal, else 0; shapes broadcast."""
    def exp(self) -> Tensor:
        """Returns e to the power of x."""
    def expand(self, shape: Sizes) -> Tensor:
        """Broadcasts to a shape, a view."""
    def gelu(self) -> Tensor:
        """Returns GELU in its tanh form."""
    def gelu_erf(self) -> Tensor:
        """Returns GELU by the error function."""
    def gradients(self, wrt: Tensors, seed: Optional[Tensor] = ...) -> List[Tensor]:
        """Returns the gradients of this tensor by `wrt`, a list of tensors, each of the shape and type of its tensor.
        Without `seed` this tensor has one element. With `seed`, of this shape, they are those of sum(x * seed).
        """
    def greater(self, other: Operand) -> Tensor:
        """Returns 1 where x is greater, else 0; shapes broadcast."""
    def item(self) -> float:
        """Returns the only element as a float."""
    def layer_norm(self, epsilon: float = ...) -> Tensor:
        """Returns (x - mean) / sqrt(variance + epsilon) over the last axis."""
    def log(self) -> Tensor:
        """Returns the natural logarithm."""
    def log_softmax(self) -> Tensor:
        """Returns the logarithm of the softmax over the last axis."""
    def matmul(self, other: Operand) -> Tensor:
        """Returns the matrix product: [..., m, k] by [..., k, n]; axes before the last two broadcast."""
    def max(self, axes: Optional[Sizes] = ..., keep: bool = ...) -> Tensor:
        """Returns maxima over axes, of all elements without `axes`. With `keep`, axes remain with one element."""
    def max_pool2d(self, kernel: Sizes, stride: Optional[Sizes] = ..., padding: Sizes = ...) -> Tensor:
        """Returns the maximum of each window of images, [n, channels, rows, columns]. Windows touch without `stride`."""
    def maximum(self, other: Operand) -> Tensor:
        """Returns the larger of two values; shapes broadcast."""
    def mean(self, axes: Optional[Sizes] = ..., keep: bool = ...) -> Tensor:
        """Returns means over axes, of all elements without `axes`. With `keep`, axes remain with one element."""
    def min(self, axes: Optional[Sizes] = ..., keep: bool = ...) -> Tensor:
        """Returns minima over axes, of all elements without `axes`. With `keep`, axes remain with one element."""
    def minimum(self, other: Operand) -> Tensor:
        """Returns the smaller of two values; shapes broadcast."""
    def mul(self, other: Operand) -> Tensor:
        """Returns the product of elements; shapes broadcast."""
    def named(self, name: str) -> Tensor:
        """Names the tensor for errors; the first name remains. Returns the tensor."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    def neg(self) -> Tensor:
        """Returns -x."""
    def numpy(self) -> np.ndarray:
        """Returns a copy of the values as an array of numpy: those of a leaf, or of an operation computed now. A Plan
        computes repeatedly at less cost.
        """
    def permute(self, axes: Sequence[int]) -> Tensor:
        """Orders the axes: axis i of the result is axis axes[i], a view."""
    def pow(self, exponent: Operand) -> Tensor:
        """Returns the power by a number, or by a Tensor element by element."""
    def relu(self) -> Tensor:
        """Returns max(x, 0)."""
    def reshape(self, shape: Sizes) -> Tensor:
        """Returns the same elements in another shape; one size may be -1."""
    def rms_norm(self, epsilon: float = ...) -> Tensor:
        """Returns x / sqrt(mean(x^2) + epsilon) over the last axis."""
    def select(self, a: Operand, b: Operand) -> Tensor:
        """Returns `a` where x is not 0, else `b`: tensors or numbers; shapes broadcast."""
    @property
    def shape(self) -> Tuple[int, ...]:
        """Sizes of the axes."""
    def sigmoid(self) -> Tensor:
        """Returns 1 / (1 + exp(-x))."""
    def sign(self) -> Tensor:
        """Returns the sign: -1, 0 or 1."""
    def sin(self) -> Tensor:
        """Returns the sine of radians."""
    @property
    def size(self) -> int:
        """Number of elements."""
    def softmax(self) -> Tensor:
        """Returns the softmax over the last axis."""
    def sqrt(self) -> Tensor:
        """Returns the square root."""
    def sub(self, other: Operand) -> Tensor:
        """Returns the difference; shapes broadcast."""
    def sum(self, axes: Optional[Sizes] = ..., keep: bool = ...) -> Tensor:
        """Returns sums over axes, of all elements without `axes`. With `keep`, axes remain with one element."""
    def t(self) -> Tensor:
        """Exchanges the last two axes: [..., m, n] to [..., n, m], a view."""
    def tan(self) -> Tensor:
        """Returns the tangent of radians."""
    def tanh(self) -> Tensor:
        """Returns the hyperbolic tangent."""
    def to(self, dtype: Optional[DType]) -> Tensor:
        """Converts to "float32" or "float16", rounded to the nearest."""
    def unsqueeze(self, axis: int) -> Tensor:
        """Inserts an axis of one element before `axis`, a view; -1 appends it."""
    def variance(self, axes: Optional[Sizes] = ..., keep: bool = ...) -> Tensor:
        """Returns variances over axes, divided by the number of elements. With `keep`, axes remain with one element."""
    def write(self, array: Array) -> None:
        """Replaces the values of a leaf, by an array of its shape; plans read them from their next run on."""

def AdamW(parameters: Tensors, learning_rate: float = ..., betas: Tuple[float, float] = ..., epsilon: float = ..., weight_decay: float = ...) -> Adam:
    """Creates an `Adam` with a weight decay, separate from the gradient (Loshchilov and Hutter 2019)."""
def cat(tensors: Tensors, axis: int = ...) -> Tensor:
    """Concatenates tensors along an axis; their other sizes are equal."""
def context(device: Device = ...) -> Context:
    """Returns the context of a device: "auto", "cpu", "gpu", "gpu:1" or "gpu:name". The default is the device of
    `dapple_gs.set_device`, else of DAPPLE_DEVICE, else "auto". One device has one context.
    """
def full(shape: Sizes, value: float, device: Device = ...) -> Tensor:
    """Creates a tensor with the same number everywhere. It costs no memory and is no leaf: it cannot be written."""
def gradients(loss: Tensor, wrt: Tensors) -> List[Tensor]:
    """Returns the gradients of `loss`, a tensor with one element, by each tensor of `wrt`: `loss.gradients(wrt)`."""
def indices(array: Array, device: Device = ...) -> Tensor:
    """Creates a leaf of indices for `embedding` and `cross_entropy` from an array of integers, which are not negative."""
def load(path: Path, device: Device = ...) -> Dict[str, Tensor]:
    """Reads a safetensors file with values of float32 and float16: a dictionary of leaves by name."""
def normal(shape: Sizes, deviation: float = ..., seed: int = ..., device: Device = ...) -> Tensor:
    """Creates a leaf of random values with mean 0; equal seeds give equal values on every device."""
def save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes a dictionary of tensors to a safetensors file, completely or not at all. Computes those that are no leaves."""
def tensor(array: Array, dtype: Optional[DType] = ..., device: Device = ..., name: Optional[str] = ...) -> Tensor:
    """Creates a leaf from an array of float32 or float16, or a number. The values are copied. `dtype` is that of the
    array, or "float32" or "float16"; `name` is shown in errors.
    """
def zeros(shape: Sizes, dtype: Optional[DType] = ..., device: Device = ...) -> Tensor:
    """Creates a leaf of zeros."""
