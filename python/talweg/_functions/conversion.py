"""Tensors of another element type or on another device."""

from typing import TYPE_CHECKING, Any

from .. import _native
from .._checked import type_error
from .register import public

if TYPE_CHECKING:
    from .. import Tensor
else:
    from .._native import Tensor

# Methods that convert, by the type they convert to.
CONVERSIONS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8",
    "char": "int8", "short": "int16", "int": "int32", "long": "int64", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


def _is_device(name: Any) -> bool:
    return isinstance(name, str) and (name in ("cpu", "cuda") or ":" in name)


@public(function=False)
def to(self: "Tensor", *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False) -> "Tensor":
    """Converted to an element type, moved to a device, or as another tensor is."""
    for a in args:
        if _is_device(a):
            device = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        else:
            dtype = a
    # Copies never block longer than they must, and values are never changed in place: both words have nothing to do.
    if not isinstance(non_blocking, bool) or not isinstance(copy, bool):
        raise type_error("to: non_blocking and copy are True or False")
    x = self if dtype is None else self.astype(dtype)
    return x if device is None or device == x.device else x.to_device(device)


def _conversion(name: str, to: str) -> None:
    def convert(self: Any) -> Any:
        return self.astype(to)

    convert.__name__, convert.__qualname__, convert.__doc__ = name, f"Tensor.{name}", f"Converted to {to}."
    setattr(Tensor, name, convert)


for _name, _to in CONVERSIONS.items():
    _conversion(_name, _to)


@public(function=False)
def cpu(self: "Tensor") -> "Tensor":
    """On the host."""
    return to(self, "cpu")


@public(function=False)
def cuda(self: "Tensor", device: Any = 0) -> "Tensor":
    """On a GPU."""
    return to(self, f"cuda:{device}")


@public(function=False)
def contiguous(self: "Tensor") -> "Tensor":
    """The tensor itself: elements of a value always lie in order."""
    return self


@public(function=False, names=["ndimension"])
def dim(self: "Tensor") -> int:
    """The number of dimensions."""
    return self.ndim


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
