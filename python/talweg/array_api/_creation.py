"""Arrays from nothing, and from other objects."""

from typing import Any

from .. import _native, _ops as ops
from .._checked import value_error
from .._native import Tensor as Array


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> "Array":
    """Numbers from ``start`` up to but not including ``stop``."""
    return _native.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: "bool | None" = None) -> "Array":
    """An array from numbers, sequences and arrays of other libraries."""
    if isinstance(obj, Array) and not copy and dtype in (None, obj.dtype) and device in (None, obj.device):
        return obj
    # A copy keeps the history.
    return _native.tensor(obj, dtype, device=device, copy=True if copy is None else copy)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> "Array":
    """An array whose elements do not matter."""
    return _native.empty(shape, dtype=dtype, device=device)


def empty_like(x: "Array", /, *, dtype: Any = None, device: Any = None) -> "Array":
    """An array of the shape of another whose elements do not matter."""
    return _native.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: "int | None" = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> "Array":
    """Ones on a diagonal, zeros elsewhere."""
    # Any diagonal beyond the corners is empty.
    k = max(-n_rows, min(k, n_rows if n_cols is None else n_cols))
    return _native.eye(n_rows, n_cols, k=k, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: "bool | None" = None) -> "Array":
    """An array over the memory of another library's."""
    if isinstance(x, Array) and copy is False and device in (None, x.device):
        return x
    return _native.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> "Array":
    """An array of one number."""
    return _native.full(shape, fill_value, dtype=dtype, device=device)


def full_like(x: "Array", /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> "Array":
    """One number in the shape of another array."""
    return _native.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> "Array":
    """``num`` numbers evenly spaced from ``start`` to ``stop``."""
    return _native.linspace(start, stop, num, dtype=dtype, device=device, endpoint=endpoint)


def meshgrid(*arrays: "Array", indexing: str = "xy") -> "tuple[Array, ...]":
    """Coordinates of a grid."""
    if indexing not in ("xy", "ij"):
        raise value_error(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    grid = ops.meshgrid(list(arrays))
    return tuple(ops.swapaxes(g, 0, 1) for g in grid) if indexing == "xy" and len(arrays) > 1 else tuple(grid)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> "Array":
    """Ones."""
    return _native.ones(shape, dtype=dtype, device=device)


def ones_like(x: "Array", /, *, dtype: Any = None, device: Any = None) -> "Array":
    """Ones in the shape of another array."""
    return _native.ones_like(x, dtype=dtype, device=device)


def tril(x: "Array", /, *, k: int = 0) -> "Array":
    """The elements on and below a diagonal of the last two dimensions, zeros elsewhere."""
    return ops.tril(x, k)


def triu(x: "Array", /, *, k: int = 0) -> "Array":
    """The elements on and above a diagonal of the last two dimensions, zeros elsewhere."""
    return ops.triu(x, k)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> "Array":
    """Zeros."""
    return _native.zeros(shape, dtype=dtype, device=device)


def zeros_like(x: "Array", /, *, dtype: Any = None, device: Any = None) -> "Array":
    """Zeros in the shape of another array."""
    return _native.zeros_like(x, dtype=dtype, device=device)


__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip
