"""Manipulation, indexing, searching, sorting, sets and utilities."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _ops as ops
from .._checked import value_error
from .._functions import sorting
from .._functions.arithmetic import isin as _isin
from .._functions.shapes import broadcast_shapes as _broadcast_shapes, take as _take
from .._native import Tensor as Array
from .._native import located, tensor
from ..errors import OutOfRangeError
from ._array import promoted
from ._dtypes import result_type
from ._statistics import along


def broadcast_arrays(*arrays: "Array") -> "tuple[Array, ...]":
    """All arrays in their common shape."""
    shape = _broadcast_shapes(*(a.shape for a in arrays))
    return tuple(ops.broadcast_to(a, shape) for a in arrays)


def broadcast_shapes(*shapes: "tuple[int | None, ...]") -> "tuple[int | None, ...]":
    """The common shape; an unknown size (``None``) stays unknown beside 1 and itself."""
    known = [[n for s in shapes for n in s[-i:][:1] if len(s) >= i] for i in range(max(map(len, shapes), default=0), 0, -1)]
    out = []
    for sizes in known:
        rest = {n for n in sizes if n != 1}
        if len(rest - {None}) > 1:
            raise value_error(f"broadcast_shapes: {', '.join(map(str, shapes))} do not broadcast")
        out.append(next(iter(rest - {None} or rest), 1))
    return tuple(out)


def broadcast_to(x: "Array", /, shape: Any) -> "Array":
    """Repeated to a larger shape."""
    return ops.broadcast_to(x, shape)


def concat(arrays: "Sequence[Array]", /, *, axis: "int | None" = 0) -> "Array":
    """Arrays one after the other along an axis, or with ``None`` as one row."""
    if axis is None:
        return ops.concat([ops.ravel(a) for a in arrays], 0)
    return ops.concat(list(arrays), axis)


def expand_dims(x: "Array", /, axis: "int | tuple[int, ...]") -> "Array":
    """With new axes of size 1, counted in the result."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = x.ndim + len(axes)
    if [a for a in axes if not -rank <= a < rank]:
        raise OutOfRangeError(located(f"expand_dims: axis {axis} is out of range for {rank} dimensions"))
    places = sorted(a % rank for a in axes)
    if len(set(places)) < len(places):
        raise value_error(f"expand_dims: an axis is named twice in {axis}")
    for a in places:
        x = ops.unsqueeze(x, a)
    return x


def flip(x: "Array", /, *, axis: Any = None) -> "Array":
    """The order reversed along axes."""
    return ops.flip(x, axis) if axis != () else x


def matrix_transpose(x: "Array", /) -> "Array":
    """The last two axes exchanged."""
    return x.mT


def moveaxis(x: "Array", source: Any, destination: Any, /) -> "Array":
    """Axes moved to other positions; the others keep their order."""
    return ops.moveaxis(x, source, destination)


def permute_dims(x: "Array", /, axes: Any) -> "Array":
    """The axes in another order."""
    return ops.permute(x, axes)


def repeat(x: "Array", repeats: Any, /, *, axis: "int | None" = None) -> "Array":
    """Each element several times."""
    if axis is None:
        x, axis = ops.ravel(x), 0
    return (ops.repeat_interleave_by if isinstance(repeats, Array) else ops.repeat_interleave)(x, repeats, axis)


def reshape(x: "Array", /, shape: Any, *, copy: "bool | None" = None) -> "Array":
    """The same elements in another shape; one size may be -1."""
    y = ops.reshape(x, shape)
    return y.clone() if copy else y


def roll(x: "Array", /, shift: Any, *, axis: Any = None) -> "Array":
    """Elements moved along axes; those that leave come in again."""
    if axis is None:
        return ops.reshape(ops.roll(ops.ravel(x), shift, 0), x.shape)
    return ops.roll(x, shift, axis)


def squeeze(x: "Array", /, axis: Any) -> "Array":
    """Without axes of size 1."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not axes:
        return x
    for a in axes:
        if -x.ndim <= a < x.ndim and x.shape[a] != 1:
            raise value_error(f"squeeze: axis {a} has size {x.shape[a]}, not 1")
    return ops.squeeze(x, axis)


def stack(arrays: "Sequence[Array]", /, *, axis: int = 0) -> "Array":
    """Arrays of one shape along a new axis."""
    return ops.stack(list(arrays), axis)


def tile(x: "Array", repetitions: Any, /) -> "Array":
    """The whole repeated along each axis."""
    return ops.tile(x, repetitions)


def unstack(x: "Array", /, *, axis: int = 0) -> "tuple[Array, ...]":
    """The parts of an array along an axis."""
    return tuple(ops.unbind(x, axis))


def take(x: "Array", indices: "Array", /, *, axis: "int | None" = None) -> "Array":
    """Slices chosen along an axis; negative indices count from the end."""
    if axis is None:
        if x.ndim != 1:
            raise value_error(f"take: axis must be given for {x.ndim} dimensions")
        axis = 0
    return _take(x, indices, axis)


def take_along_axis(x: "Array", indices: "Array", /, *, axis: int = -1) -> "Array":
    """Elements chosen along an axis by an index of the same rank."""
    return ops.take_along_axis(x, indices, axis)


def argmax(x: "Array", /, *, axis: "int | None" = None, keepdims: bool = False) -> "Array":
    """The index of the largest element."""
    return ops.argmax(x, axis, keepdims)


def argmin(x: "Array", /, *, axis: "int | None" = None, keepdims: bool = False) -> "Array":
    """The index of the smallest element."""
    return ops.argmin(x, axis, keepdims)


def count_nonzero(x: "Array", /, *, axis: Any = None, keepdims: bool = False) -> "Array":
    """How many elements are not zero."""
    return along(ops.count_nonzero, x, axis, keepdims)


def nonzero(x: "Array", /) -> "tuple[Array, ...]":
    """The indices of the elements that are not zero, an array for each axis."""
    if x.ndim == 0:
        raise value_error("nonzero: an array without dimensions has no indices")
    return tuple(ops.unbind(ops.nonzero(x), 1))


def searchsorted(x1: "Array", x2: Any, /, *, side: str = "left", sorter: "Array | None" = None) -> "Array":
    """Where elements would be inserted so that order is kept."""
    if side not in ("left", "right"):
        raise value_error(f"searchsorted: side is 'left' or 'right', not {side!r}")
    x1 = x1 if sorter is None else ops.take(x1, sorter, 0)
    x2 = x2 if isinstance(x2, Array) else tensor(x2, result_type(x1, x2))
    return (ops.searchsorted if side == "left" else ops.searchsorted_right)(x1, x2)


def where(condition: "Array", x1: Any, x2: Any, /) -> "Array":
    """``x1`` where the condition holds, else ``x2``; a number takes the other's type."""
    return sorting.chosen(condition, *promoted(x1, x2))


def argsort(x: "Array", /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> "Array":
    """The indices of the elements in order; the order is always stable."""
    return (ops.argsort_descending if descending else ops.argsort)(x, axis)


def sort(x: "Array", /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> "Array":
    """The elements in order along an axis; the order is always stable."""
    return (ops.sort_descending if descending else ops.sort)(x, axis)[0]


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> "Array":
    """Whether each element of ``x1`` is in ``x2``."""
    return _isin(*(x if isinstance(x, Array) else tensor(x) for x in (x1, x2)), invert=invert)


class UniqueAllResult(NamedTuple):
    """What ``unique_all`` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What ``unique_counts`` returns."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What ``unique_inverse`` returns."""

    values: Any
    inverse_indices: Any


def unique_all(x: "Array", /) -> UniqueAllResult:
    """The distinct elements in order, the first index of each, the index of each element among them, and counts."""
    values, inverse, counts = ops.unique(x, True, True)
    first = ops.take(ops.argsort(ops.ravel(inverse), 0), ops.cumsum(counts, 0) - counts, 0)
    return UniqueAllResult(values, first, inverse, counts)


def unique_counts(x: "Array", /) -> UniqueCountsResult:
    """The distinct elements in order, and how often each is there."""
    return UniqueCountsResult(*ops.unique(x, False, True))


def unique_inverse(x: "Array", /) -> UniqueInverseResult:
    """The distinct elements in order, and the index of each element among them."""
    return UniqueInverseResult(*ops.unique(x, True, False))


def unique_values(x: "Array", /) -> "Array":
    """The distinct elements in order."""
    return ops.unique(x)


def all(x: "Array", /, *, axis: Any = None, keepdims: bool = False) -> "Array":
    """True if all elements are true."""
    return along(ops.all, x, axis, keepdims)


def any(x: "Array", /, *, axis: Any = None, keepdims: bool = False) -> "Array":
    """True if one element is true."""
    return along(ops.any, x, axis, keepdims)


def diff(x: "Array", /, *, axis: int = -1, n: int = 1, prepend: "Array | None" = None, append: "Array | None" = None) -> "Array":
    """Differences of neighbors along an axis, taken ``n`` times."""
    if n == 0:
        return x
    parts = [t for t in (prepend, x, append) if t is not None]
    return ops.diff(ops.concat(parts, axis) if len(parts) > 1 else x, n, axis)


__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "matrix_transpose", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "unstack", "take", "take_along_axis",
    "argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where", "argsort", "sort", "UniqueAllResult",
    "UniqueCountsResult", "UniqueInverseResult", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "all", "any", "diff", "isin",
]  # fmt: skip
