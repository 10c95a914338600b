"""Tensors of another element type or on another device."""

from typing import Any

from .. import _native
from .._checked import type_error
from .._device import named
from .register import public
from .._native import Tensor

# Methods that convert, by the type they convert to.
CONVERSIONS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8",
    "char": "int8", "short": "int16", "int": "int32", "long": "int64", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


def _is_device(x: Any) -> bool:
    if isinstance(x, str):
        return x in ("cpu", "cuda") or ":" in x or x in _native.devices()
    return isinstance(x, int) and not isinstance(x, bool)


@public(function=False)
def to(
    self: "Tensor", *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None, other: "Tensor | None" = None,
) -> "Tensor":  # fmt: skip
    """Converted to an element type, moved to a device, or as another tensor is; itself if nothing changes.

    ``non_blocking`` and ``memory_format`` change nothing: a copy never blocks longer than it must, and layouts are the
    compiler's to choose.
    """
    if args:
        rest = [a for a in args if a is not None]
        if rest and _is_device(rest[0]):
            device = rest.pop(0)
        if rest and isinstance(rest[0], Tensor):
            other = rest.pop(0)
        elif rest and not isinstance(rest[0], bool):
            dtype = rest.pop(0)
        if rest and (len(rest) > 2 or not all(isinstance(a, bool) for a in rest)):
            raise type_error(f"to: expected to(device), to(dtype), to(device, dtype) or to(tensor), not {args}")
        copy = copy or rest[1:] == [True]
    if other is not None:
        dtype, device = other.dtype, other.device
    x = self if dtype is None or _native.dtype(dtype) == self.dtype else self.astype(dtype)
    where = named(device)
    x = x if where is None or where == x.device else x.to_device(where)
    return x.clone() if copy and x is self else x


def _conversion(name: str, to: str) -> None:
    def convert(self: Any, memory_format: Any = None) -> Any:
        return self if self.dtype.name == to else self.astype(to)

    convert.__name__, convert.__qualname__ = name, f"Tensor.{name}"
    convert.__doc__ = f"Converted to {to}; itself if it is of that type."
    setattr(Tensor, name, convert)


for _name, _to in CONVERSIONS.items():
    _conversion(_name, _to)


@public(function=False)
def cpu(self: "Tensor", memory_format: Any = None) -> "Tensor":
    """On the host."""
    return to(self, "cpu")


@public(function=False)
def cuda(self: "Tensor", device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> "Tensor":
    """On a GPU."""
    return to(self, device="cuda" if device is None else device)


@public(method=False)
def from_numpy(ndarray: Any) -> "Tensor":
    """A tensor over the memory of a NumPy array of floats; others, and those that are not dense, are copied.

    Who writes into the array afterwards changes the tensor, as in PyTorch: ``tensor(array)`` copies.

    >>> import numpy as np
    >>> a = np.ones(3, dtype="float32")
    >>> from_numpy(a).numpy().ctypes.data == a.ctypes.data
    True
    """
    shared = _native.share(ndarray)
    return _native.tensor(ndarray) if shared is None else shared
