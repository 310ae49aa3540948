"""Tensors on the device of the package: lazy graphs, gradients, plans, LoRA, Adam.

    from dapple_gs import tensor as dt
    x = dt.tensor(array)                            # a leaf: float32 or float16, of numpy or DLPack
    loss = (x @ w - target).pow(2).mean()           # computes nothing
    by_w, = loss.gradients([w])
    plan = dt.Plan([loss], updates=[(w, w - 0.1 * by_w)])
    plan.run(100)                                   # on a GPU without a wait
    print(plan.read(0))

Operations are methods of `Tensor`; shapes broadcast as those of numpy. `...` in shapes is any number of axes. Sums have a fixed
order, so equal inputs give equal bytes. This is the runtime of docs/TENSORS.md.
"""

from ._native import tensor as _native

Adam = _native.Adam
AdamW = _native.AdamW
Context = _native.Context
Linear = _native.Linear
Lora = _native.Lora
Plan = _native.Plan
Tensor = _native.Tensor
cat = _native.cat
context = _native.context
full = _native.full
indices = _native.indices
load = _native.load
normal = _native.normal
save = _native.save
tensor = _native.tensor
zeros = _native.zeros

__all__ = [
    "Adam", "AdamW", "Context", "Linear", "Lora", "Plan", "Tensor", "cat", "context", "full", "gradients", "indices", "load",
    "normal", "save", "tensor", "zeros",
]


def gradients(loss, wrt):
    """Returns the gradients of `loss`, a tensor with one element, by each tensor of `wrt`: `loss.gradients(wrt)`."""
    if not isinstance(loss, Tensor):
        from ._errors import ArgumentTypeError

        raise ArgumentTypeError(f"loss is {type(loss).__name__}, not a Tensor", "loss", "compute it from tensors")
    return loss.gradients(wrt)
