"""Order, search, sets and the indices of what is true."""

from typing import Any

from .. import _ops as ops, return_types as types
from .._checked import type_error, value_error
from .register import public
from .._native import Tensor, tensor


@public
def sort(input: "Tensor", dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements in order along a dimension, and where each came from: the named pair (values, indices).

    The order is always stable; NaN counts as largest.

    >>> tw.sort(tw.tensor([2, 3, 1]), descending=True).indices
    tensor([1, 0, 2])
    """
    return types.sort(*(ops.sort_descending if descending else ops.sort)(input, dim))  # type: ignore[attr-defined]


@public
def argsort(input: "Tensor", dim: int = -1, descending: bool = False, stable: bool = False) -> "Tensor":
    """The indices that bring the elements into order along a dimension.

    >>> tw.argsort(tw.tensor([2, 3, 1]))
    tensor([2, 0, 1])
    """
    return (ops.argsort_descending if descending else ops.argsort)(input, dim)


@public
def msort(input: "Tensor") -> "Tensor":
    """The elements in order along the first dimension.

    >>> tw.msort(tw.tensor([2, 3, 1]))
    tensor([1, 2, 3])
    """
    return ops.sort(input, 0)[0]


@public
def topk(input: "Tensor", k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` largest elements along a dimension, or the smallest, in order: the named pair (values, indices).

    >>> tw.topk(tw.tensor([2.0, 3.0, 1.0]), 2).values
    tensor([3., 2.])
    """
    if input.ndim == 0:
        values, indices = ops.sort(input, -1)
    else:
        values, indices = (ops.top_k if largest else ops.bottom_k)(input, k, dim)
    return types.topk(values, indices)  # type: ignore[attr-defined]


def _rows_in_order(rows: Any) -> Any:
    """The permutation that sorts the rows of a matrix lexicographically."""
    order = ops.argsort(rows[:, -1], 0) if rows.shape[1] else tensor(list(range(rows.shape[0])), dtype="int64")
    for column in range(rows.shape[1] - 2, -1, -1):
        order = ops.take(order, ops.argsort(ops.take(rows[:, column], order, 0), 0), 0)
    return order


def _runs(rows: Any) -> Any:
    """For each row of a matrix, the number of the run of equal rows it is in."""
    if rows.shape[0] == 0:
        return rows.sum(1).astype("int64")
    changes = ops.any(rows[1:] != rows[:-1], 1).astype("int64")
    return ops.concat([tensor([0]), ops.cumsum(changes, 0)], 0)


def _grouped(input: Any, dim: Any, in_order: bool, return_inverse: bool, return_counts: bool) -> Any:
    """Equal slices along a dimension made one, after they were brought into order."""
    x = ops.ravel(input) if dim is None else ops.moveaxis(input, dim, 0)
    rows = ops.reshape(x, x.shape[0], -1 if x.size else 0) if x.ndim > 1 else ops.unsqueeze(x, 1)
    order = _rows_in_order(rows) if in_order else None
    run = _runs(rows if order is None else ops.take(rows, order, 0))
    count = int(run[-1]) + 1 if run.shape[0] else 0
    numbers = tensor(list(range(count)), dtype="int64")
    first = ops.searchsorted(run, numbers)
    found = first if order is None else ops.take(order, first, 0)
    values = ops.take(x, found, 0)
    out = [values if dim is None else ops.moveaxis(values, 0, dim)]
    if return_inverse:
        inverse = run if order is None else ops.put(ops.zeros_like(run), order, run)
        out.append(ops.reshape(inverse, input.shape) if dim is None else inverse)
    if return_counts:
        out.append(ops.searchsorted_right(run, numbers) - first)
    return out[0] if len(out) == 1 else tuple(out)


@public
def unique(
    input: "Tensor", sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: "int | None" = None
) -> Any:
    """The distinct elements in order, or the distinct slices along a dimension; with the index of each element among
    them, and with their counts.

    >>> tw.unique(tw.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    >>> tw.unique(tw.tensor([[1, 2], [0, 1], [1, 2]]), dim=0).tolist()
    [[0, 1], [1, 2]]
    """
    if dim is None:
        return ops.unique(input, return_inverse, return_counts)
    return _grouped(input, dim, True, return_inverse, return_counts)


@public
def unique_consecutive(
    input: "Tensor", return_inverse: bool = False, return_counts: bool = False, dim: "int | None" = None
) -> Any:
    """The elements without those that equal the one before.

    >>> tw.unique_consecutive(tw.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    return _grouped(input, dim, False, return_inverse, return_counts)


def _side(name: str, right: bool, side: "str | None") -> bool:
    if side not in (None, "left", "right"):
        raise value_error(f"{name}: side is 'left' or 'right', not {side!r}")
    if right and side == "left":
        raise value_error(f"{name}: right=True and side='left' contradict each other")
    return right or side == "right"


@public(method=False)
def searchsorted(
    sorted_sequence: "Tensor", input: Any, *, out_int32: bool = False, right: bool = False, side: "str | None" = None,
    sorter: "Tensor | None" = None,
) -> "Tensor":  # fmt: skip
    """Where elements would be inserted into ascending sequences (the last dimension) so that order is kept.

    >>> tw.searchsorted(tw.tensor([1, 2, 2, 3]), tw.tensor([2]), right=True)
    tensor([3])
    """
    is_right = _side("searchsorted", right, side)
    sequence = sorted_sequence if isinstance(sorted_sequence, Tensor) else tensor(sorted_sequence)
    values = input if isinstance(input, Tensor) else tensor(input)
    if sorter is not None:
        sequence = ops.take_along_axis(sequence, sorter, -1)
    search = ops.searchsorted_right if is_right else ops.searchsorted
    if sequence.ndim == 1 or sequence.shape[:-1] == values.shape[:-1]:
        y = search(sequence, values)
    else:
        shapes = f"{tuple(sequence.shape)} and {tuple(values.shape)}"
        raise value_error(f"searchsorted: all dimensions but the last must be equal: {shapes}")
    return y.astype("int32") if out_int32 else y


@public(function=False, name="searchsorted")
def _searched(self: "Tensor", values: Any, *, right: bool = False, side: "str | None" = None, sorter: Any = None) -> "Tensor":
    """Where values would be inserted into this ascending sequence."""
    return searchsorted(self, values, right=right, side=side, sorter=sorter)


@public
def bucketize(input: "Tensor", boundaries: "Tensor", *, out_int32: bool = False, right: bool = False) -> "Tensor":
    """For each element the number of the interval between ascending boundaries it falls into.

    >>> tw.bucketize(tw.tensor([3, 6, 9]), tw.tensor([1, 3, 5, 7, 9]), right=True)
    tensor([2, 3, 5])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public
def nonzero(input: "Tensor", *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: a matrix with a row for each, or a tensor for each dimension.

    >>> tw.nonzero(tw.tensor([[0, 1], [1, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    if not as_tuple:
        return ops.nonzero(input)
    return tuple(ops.unbind(ops.nonzero(input if input.ndim else ops.ravel(input)), 1))


@public
def argwhere(input: "Tensor") -> "Tensor":
    """The indices of the elements that are not zero, a row for each.

    >>> tw.argwhere(tw.tensor([0, 1, 1])).tolist()
    [[1], [2]]
    """
    return ops.nonzero(input)


def is_number(x: Any) -> bool:
    """True for a Python number."""
    return isinstance(x, (bool, int, float, complex))


def _is_bool(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.name in ("bool", "uint8")


def chosen(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``; a number takes the other's type."""
    condition = condition if isinstance(condition, Tensor) else tensor(condition)
    if is_number(x) and not is_number(y):
        return ops.where(~condition.astype("bool"), y, x)
    return ops.where(condition, x, y)


@public(method=False)
def where(condition: "Tensor", input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; of the condition alone, ``nonzero(as_tuple=True)``.

    >>> tw.where(tw.tensor([True, False]), tw.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return nonzero(condition if isinstance(condition, Tensor) else tensor(condition), as_tuple=True)
    if input is None or other is None:
        raise type_error("where: give both input and other, or neither")
    return chosen(condition, input, other)


@public(function=False, name="where")
def _where(self: "Tensor", condition: "Tensor", other: Any) -> "Tensor":
    """This tensor where the condition holds, else ``other``. ``Tensor.where(condition, x, y)`` is ``tw.where``."""
    if _is_bool(self) and not _is_bool(condition):
        return chosen(self, condition, other)
    return chosen(condition, self, other)

