"""Elements by index: gather, scatter and their relatives with PyTorch's names and keywords."""

from collections.abc import Sequence
from typing import Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import axis_of, is_number, like, numel, tensor
from .register import public
from .._native import Tensor

_REDUCTIONS = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin", "add": "sum", "multiply": "prod"}


def _raised(x: Tensor) -> Tensor:
    """A tensor without dimensions as one of one element."""
    return x.reshape(1) if x.ndim == 0 else x


def _values(value: Any, index: Tensor, input: Tensor) -> Tensor:
    if is_number(value):
        return _native.full(index.shape, value, dtype=input.dtype)
    return tensor(value)


def _fit(src: Tensor, index: Tensor) -> Tensor:
    """The corner of the values that an index takes."""
    if src.shape == index.shape:
        return src
    return src[tuple(slice(0, n) for n in index.shape)]


@public
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Tensor:
    """Elements chosen along a dimension by an index of the same rank. The gradient is dense.

    >>> tw.gather(tw.tensor([[1, 2], [3, 4]]), 1, tw.tensor([[0, 0], [1, 0]])).tolist()
    [[1, 1], [4, 3]]
    """
    del sparse_grad
    if input.ndim == 0 or index.ndim == 0:
        return _ops.gather(_raised(input), dim, _raised(index)).reshape(index.shape)
    return _ops.gather(input, dim, index)


@public
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
    """Values written at indices along a dimension; ``reduce`` is ``"add"`` or ``"multiply"``.

    >>> tw.scatter(tw.zeros(3), 0, tw.tensor([2, 0]), tw.tensor([1.0, 5.0])).tolist()
    [5.0, 0.0, 1.0]
    """
    index = tensor(index)
    values = _values(value if src is None else src, index, input)
    if numel(index.shape) == 0:
        return input
    x, at, values = _raised(input), _raised(index), _fit(_raised(values), _raised(index))
    if reduce is None:
        return _ops.scatter(x, dim, at, values).reshape(input.shape)
    if reduce not in ("add", "multiply"):
        raise value_error(f"scatter: reduce is 'add' or 'multiply', not {reduce!r}")
    return _ops.scatter_reduce(x, dim, at, values, _REDUCTIONS[reduce]).reshape(input.shape)


@public
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """Values added at indices along a dimension.

    >>> tw.scatter_add(tw.zeros(2), 0, tw.tensor([1, 1]), tw.tensor([1.0, 2.0])).tolist()
    [0.0, 3.0]
    """
    if numel(index.shape) == 0:
        return input
    x, at = _raised(input), _raised(index)
    return _ops.scatter_add(x, dim, at, _fit(_raised(src), at)).reshape(input.shape)


@public
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """Values combined at indices along a dimension, by ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.

    >>> tw.scatter_reduce(tw.zeros(2), 0, tw.tensor([1, 1]), tw.tensor([1.0, 2.0]), "amax").tolist()
    [0.0, 2.0]
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise value_error(f"scatter_reduce: reduce is 'sum', 'prod', 'mean', 'amax' or 'amin', not {reduce!r}")
    if numel(index.shape) == 0:
        return input
    x, at = _raised(input), _raised(index)
    values = _fit(_raised(src), at)
    return _ops.scatter_reduce(x, dim, at, values, reduce, include_self).reshape(input.shape)


def _slices(input: Tensor, dim: int, index: Any, source: Tensor) -> tuple[Tensor, int, Tensor, Tensor]:
    """The operands of a function of slices, none without dimensions."""
    x, at = _raised(input), _raised(tensor(index))
    axis = axis_of(dim, x.ndim, "index")
    if input.ndim == 0 or source.ndim == 0:
        source = source.reshape(at.shape)
    return x, axis, at, source


@public
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """Slices, times ``alpha``, added at indices along a dimension.

    >>> tw.index_add(tw.zeros(2, 2), 0, tw.tensor([1]), tw.ones(1, 2), alpha=3).tolist()
    [[0.0, 0.0], [3.0, 3.0]]
    """
    x, axis, at, values = _slices(input, dim, index, tensor(source))
    values = values if is_number(alpha) and alpha == 1 else values * like(alpha, values)
    return _ops.index_add(x, axis, at, values).reshape(input.shape)


@public
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Tensor:
    """Slices written at indices along a dimension.

    >>> tw.index_copy(tw.zeros(2, 2), 0, tw.tensor([1]), tw.ones(1, 2)).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    x, axis, at, values = _slices(input, dim, index, tensor(source))
    return _ops.index_copy(x, axis, at, values).reshape(input.shape)


@public
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Tensor:
    """One value in the slices at indices along a dimension.

    >>> tw.index_fill(tw.zeros(2, 2), 0, tw.tensor([1]), 5.0).tolist()
    [[0.0, 0.0], [5.0, 5.0]]
    """
    x, at = _raised(input), _raised(tensor(index))
    if isinstance(value, Tensor):
        axis = axis_of(dim, x.ndim, "index_fill")
        shape = [*x.shape[:axis], at.shape[0], *x.shape[axis + 1 :]]
        return _ops.index_copy(x, axis, at, value.astype(x.dtype).broadcast_to(shape)).reshape(input.shape)
    return _ops.index_fill(x, dim, at, value).reshape(input.shape)


@public
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """Slices combined at indices along a dimension, by ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.

    >>> tw.index_reduce(tw.ones(2), 0, tw.tensor([1, 1]), tw.tensor([3.0, 2.0]), "prod").tolist()
    [1.0, 6.0]
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise value_error(f"index_reduce: reduce is 'prod', 'mean', 'amax' or 'amin', not {reduce!r}")
    x, axis, at, values = _slices(input, dim, index, tensor(source))
    shape = [1] * x.ndim
    shape[axis] = -1
    at = at.reshape(shape).broadcast_to(values.shape)
    if numel(values.shape) == 0:
        return input
    return _ops.scatter_reduce(x, axis, at, values, reduce, include_self).reshape(input.shape)


@public
def index_select(input: Any, dim: int, index: Any) -> Tensor:
    """Slices chosen along a dimension.

    >>> tw.index_select(tw.tensor([[1, 2], [3, 4]]), 1, tw.tensor([1])).tolist()
    [[2], [4]]
    """
    at = _raised(tensor(index))
    return _ops.index_select(_raised(input), dim, at).reshape(()) if input.ndim == 0 else _ops.index_select(input, dim, at)


def _flat_places(input: Tensor, indices: Sequence[Any]) -> Tensor:
    """The flat indices that an index by tensors selects."""
    numbered = _native.arange(numel(input.shape)).reshape(input.shape)
    return numbered[tuple(slice(None) if i is None else i for i in indices)]


@public
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """Values written or added at the elements that index tensors select.

    >>> tw.index_put(tw.zeros(2, 2), (tw.tensor([0, 1]), tw.tensor([1, 0])), tw.tensor([5.0, 6.0])).tolist()
    [[0.0, 5.0], [6.0, 0.0]]
    """
    places = _flat_places(input, indices)
    values = tensor(values).broadcast_to(places.shape).reshape(-1)
    put = _ops.index_add if accumulate else _ops.index_copy
    return put(input.reshape(-1), 0, places.reshape(-1), values).reshape(input.shape)


@public
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """Values written or added at flat indices; negative indices count from the end.

    >>> tw.put(tw.zeros(3), tw.tensor([0, -1]), tw.tensor([5.0, 6.0])).tolist()
    [5.0, 0.0, 6.0]
    """
    source, index = tensor(source), tensor(index)
    if numel(index.shape) == 0:
        return input
    return (_ops.put_add if accumulate else _ops.put)(input, index, source.reshape(index.shape))


@public
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Tensor:
    """Elements chosen along a dimension by an index that broadcasts with the tensor; without one, of the flat tensor.

    >>> x = tw.tensor([[3, 1], [2, 4]])
    >>> tw.take_along_dim(x, tw.argsort(x, dim=1), dim=1).tolist()
    [[1, 3], [2, 4]]
    """
    if dim is None:
        return _ops.take_along_axis(input.reshape(-1), indices.reshape(-1), 0)
    return _ops.take_along_axis(input, indices, dim)


@public
def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor:
    """Values put, in order, where a mask is true.

    >>> tw.masked_scatter(tw.zeros(3), tw.tensor([True, False, True]), tw.tensor([5.0, 6.0])).tolist()
    [5.0, 0.0, 6.0]
    """
    shape = _ops.where(mask, input, input).shape
    x, mask = input.broadcast_to(shape), mask.broadcast_to(shape).reshape(-1)
    order = _ops.cumsum(mask.astype("int64"), 0) - 1
    values = source.reshape(-1)
    if values.shape[0] == 0:
        return x
    # A mask with more places than values is an index out of range.
    chosen = _ops.take(values, _ops.where(mask, order, 0), 0)
    return _ops.where(mask, chosen, x.reshape(-1)).reshape(shape)




@public
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Tensor:
    """The first ``size`` indices of nonzero elements, padded with ``fill_value``.

    >>> tw.nonzero_static(tw.tensor([0, 1]), size=2).tolist()
    [[1], [-1]]
    """
    flat = (input.reshape(-1) != 0) if input.ndim else (input.reshape(1) != 0)
    n = flat.shape[0]
    # Places that count come first, in order.
    order = _ops.argsort(_ops.where(flat, 0, 1).astype("int64") * n + _native.arange(n), 0)
    kept = order[:size]
    is_there = _ops.take(flat.astype("int64"), kept, 0) == 1
    out, rest = [], kept
    for s in reversed(input.shape):
        out.append(_ops.rem(rest, max(s, 1)))
        rest = _ops.floor_divide(rest, max(s, 1))
    places = _ops.stack(list(reversed(out)), 1) if out else _native.zeros((kept.shape[0], 0), dtype="int64")
    places = _ops.where(is_there.unsqueeze(1), places, fill_value)
    more = size - kept.shape[0]
    return places if more <= 0 else _ops.pad(places, [0, 0, 0, more], "constant", float(fill_value))


_STARTS = {"sum": 0.0, "prod": 1.0, "mean": 0.0, "max": float("-inf"), "min": float("inf")}


@public(method=False, names=["_segment_reduce"])
def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """Consecutive parts along a dimension, of these lengths or between these offsets, each reduced by ``"sum"``,
    ``"prod"``, ``"mean"``, ``"max"`` or ``"min"``, from ``initial`` on.

    >>> tw.segment_reduce(tw.tensor([1.0, 2.0, 4.0]), "sum", lengths=tw.tensor([1, 2])).tolist()
    [1.0, 6.0]
    """
    del unsafe
    if reduce not in _STARTS:
        raise value_error(f"segment_reduce: reduce is one of {list(_STARTS)}, not {reduce!r}")
    if indices is not None or (lengths is None) == (offsets is None):
        raise value_error("segment_reduce: give lengths or offsets")
    data = tensor(data)
    lengths = _ops.diff(tensor(offsets), 1, -1) if lengths is None else tensor(lengths)
    axis = axis_of(axis, data.ndim, "segment_reduce")
    n, count = data.shape[axis], lengths.shape[-1]
    ends = _ops.cumsum(lengths, -1)
    # The segment of each place; those behind the last are in one more, which is left out.
    segment = (_native.arange(n).reshape(-1, 1) >= ends.unsqueeze(-2)).astype("int64").sum(-1)
    rest = [1] * (data.ndim - axis - 1)
    index = segment.reshape(*segment.shape, *rest).broadcast_to(data.shape)
    start = _STARTS[reduce] if initial is None else float(initial)
    shape = [*data.shape[:axis], count + 1, *data.shape[axis + 1 :]]
    by = {"mean": "sum", "max": "amax", "min": "amin"}.get(reduce, reduce)
    out = _native.full(shape, start, dtype=data.dtype)
    out = _ops.scatter_reduce(out, axis, index, data, by) if numel(data.shape) else out
    out = _ops.narrow(out, axis, 0, count)
    if reduce != "mean":
        return out
    size = lengths.reshape(*lengths.shape, *rest).astype(data.dtype)
    return out / (size if initial is None else _ops.clamp_min(size, 1.0))
