"""Statistics and products."""

from typing import TYPE_CHECKING, Any

from .. import _native, _ops as ops
from .._checked import value_error
from ._array import promoted

if TYPE_CHECKING:
    from .. import Tensor as Array


def along(op: Any, x: Any, axis: Any, *settings: Any) -> Any:
    """A reduction along axes; along none, of each element."""
    if isinstance(axis, tuple) and not axis:
        return op(ops.unsqueeze(x, -1), -1, *settings[:-1], False)
    return op(x, axis, *settings)


def _cumulative(name: str, op: Any, first: int, x: Any, axis: "int | None", dtype: Any, include_initial: bool) -> Any:
    if axis is None:
        if x.ndim != 1:
            raise value_error(f"{name}: axis must be given for {x.ndim} dimensions")
        axis = 0
    # Narrow integers are summed in 64 bits and wrap around in their own.
    y = op(x, axis) if dtype is None else op(x.astype(dtype), axis).astype(dtype)
    if not include_initial:
        return y
    shape = list(y.shape)
    shape[axis] = 1
    return ops.concat([_native.full(shape, first, dtype=y.dtype), y], axis)


def cumulative_prod(x: "Array", /, *, axis: "int | None" = None, dtype: Any = None, include_initial: bool = False) -> "Array":
    """The running product along an axis."""
    return _cumulative("cumulative_prod", ops.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(x: "Array", /, *, axis: "int | None" = None, dtype: Any = None, include_initial: bool = False) -> "Array":
    """The running sum along an axis."""
    return _cumulative("cumulative_sum", ops.cumsum, 0, x, axis, dtype, include_initial)


def max(x: "Array", /, *, axis: Any = None, keepdims: bool = False) -> "Array":
    """The largest element along axes."""
    return along(ops.max, x, axis, keepdims)


def mean(x: "Array", /, *, axis: Any = None, keepdims: bool = False) -> "Array":
    """The mean along axes."""
    return along(ops.mean, x, axis, keepdims)


def min(x: "Array", /, *, axis: Any = None, keepdims: bool = False) -> "Array":
    """The smallest element along axes."""
    return along(ops.min, x, axis, keepdims)


def _typed(op: Any, x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    return along(op, x, axis, keepdims) if dtype is None else along(op, x.astype(dtype), axis, keepdims).astype(dtype)


def prod(x: "Array", /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> "Array":
    """The product along axes."""
    return _typed(ops.prod, x, axis, dtype, keepdims)


def std(x: "Array", /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> "Array":
    """The standard deviation along axes: divided by n - ``correction``."""
    return along(ops.std, x, axis, correction, keepdims)


def sum(x: "Array", /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> "Array":
    """The sum along axes."""
    return _typed(ops.sum, x, axis, dtype, keepdims)


def var(x: "Array", /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> "Array":
    """The variance along axes: divided by n - ``correction``."""
    return along(ops.var, x, axis, correction, keepdims)


def matmul(x1: "Array", x2: "Array", /) -> "Array":
    """The matrix product."""
    return ops.matmul(*promoted(x1, x2))


def tensordot(x1: "Array", x2: "Array", /, *, axes: Any = 2) -> "Array":
    """Products summed over axes: the last of one with the first of the other, or two lists of them."""
    x1, x2 = promoted(x1, x2)
    if isinstance(axes, int):
        return ops.tensordot(x1, x2, list(range(x1.ndim - axes, x1.ndim)), list(range(axes)))
    return ops.tensordot(x1, x2, axes[0], axes[1])


def vecdot(x1: "Array", x2: "Array", /, *, axis: int = -1) -> "Array":
    """The inner product of vectors along an axis."""
    return ops.vecdot(x1, x2, axis)


__all__ = [
    "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var", "matmul", "tensordot",
    "vecdot",
]  # fmt: skip
