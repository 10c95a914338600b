"""Histograms and counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _native, _ops
from .._checked import type_error, value_error
from .arguments import is_floating, tensor
from .register import public
from .._native import Tensor


class HistogramResult(NamedTuple):
    """What ``histogram`` and ``histogramdd`` return."""

    hist: Tensor
    bin_edges: Any


@public
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of the numbers 0, 1, 2… occurs, or the sum of its weights.

    >>> tw.bincount(tw.tensor([1, 1, 3])).tolist()
    [0, 2, 0, 1]
    """
    if input.ndim != 1 or "int" not in input.dtype.name:
        raise value_error("bincount: expected a vector of integers")
    counts = _ops.bincount(input, minlength)
    if weights is None:
        return counts
    weights = tensor(weights)
    weights = weights if is_floating(weights) and weights.dtype.name == "float32" else weights.astype("float64")
    return _ops.index_add(_native.zeros(counts.shape, dtype=weights.dtype), 0, input.astype("int64"), weights)


def _edges(low: Tensor, high: Tensor, bins: int, dtype: Any) -> Tensor:
    """The bounds of equal intervals; of an empty range, of one around it."""
    low, high = low.astype(dtype), high.astype(dtype)
    empty = (low == high).astype(dtype)
    low, high = low - empty * 0.5, high + empty * 0.5
    # From both ends to the middle, as `linspace` has them.
    step, place = (high - low) / bins, _native.arange(bins + 1).astype(dtype)
    return _ops.where(place < (bins + 1) // 2, low + step * place, high - step * (bins - place))


def _ends(x: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """The range that is asked for, or that of the elements."""
    if high < low:
        raise value_error(f"the range must not end before it begins: {low}, {high}")
    if low != high:
        return tensor(float(low)), tensor(float(high))
    if x.numel() == 0:
        return tensor(0.0), tensor(1.0)
    return _ops.min(x), _ops.max(x)


def _places(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The interval of each element, and whether there is one; the last interval includes its end."""
    bins = edges.shape[0] - 1
    place = _ops.searchsorted_right(edges, x) - 1
    inside = (x >= edges[0]) & (x <= edges[-1])
    return _ops.clamp(place, 0, bins - 1), inside


@public
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of ``bins`` equal intervals from ``min`` to ``max``; if both are equal, over the
    range of the elements.

    >>> tw.histc(tw.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = input.detach().reshape(-1)
    low, high = _ends(x, min, max)
    edges = _edges(low, high, bins, "float64")
    low, width = edges[0], edges[-1] - edges[0]
    x = x.astype("float64")
    inside = (x >= edges[0]) & (x <= edges[-1])
    place = _ops.clamp(_ops.floor((x - low) / width * bins), 0.0, bins - 1.0).astype("int64")
    # Counts of 32 bits move half the memory, and GPUs add them faster.
    count = "int32" if x.numel() < 2**31 else "int64"
    return _ops.index_add(_native.zeros(bins, dtype=count), 0, place, inside.astype(count)).astype(input.dtype)


def _weighted(hist: Tensor, edges: Sequence[Tensor], density: bool) -> Tensor:
    if not density:
        return hist
    for i, e in enumerate(edges):
        shape = [1] * hist.ndim
        shape[i] = -1
        hist = hist / _ops.diff(e, 1, 0).reshape(shape)
    return hist


@public
def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> HistogramResult:
    """How many elements fall into each interval, or the sum of their weights, and the bounds of the intervals: so many
    equal ones, or between given bounds.

    >>> tw.histogram(tw.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist.tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    weight = None if weight is None else tensor(weight).reshape(-1)
    ends = None if range is None else [tuple(range)]
    grid = bins if isinstance(bins, int) else [tensor(bins)]
    x = input.reshape(-1, 1)
    hist, edges = histogramdd(x, grid, range=None if ends is None else ends[0], weight=weight, density=density)
    return HistogramResult(hist, edges[0])


@public(method=False)
def histogramdd(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> HistogramResult:
    """``histogram`` of rows, of which each element is a coordinate.

    >>> tw.histogramdd(tw.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if not is_floating(input):
        raise type_error(f"histogram: expected floats, not {input.dtype.name}")
    rank = input.shape[-1]
    x = input.reshape(-1, rank).detach()
    bins = [bins] * rank if isinstance(bins, int) else list(bins)
    if len(bins) != rank:
        raise value_error(f"histogramdd: {len(bins)} bins for {rank} coordinates")
    edges, flat, inside, sizes = [], 0, True, []
    for i, b in enumerate(bins):
        column = x[:, i]
        if isinstance(b, Tensor):
            e = b
        elif range is not None:
            low, high = (tensor(float(v)) for v in range[2 * i : 2 * i + 2])
            e = _edges(low, high, b, x.dtype)
        else:
            e = _edges(*_ends(column, 0.0, 0.0), b, x.dtype)
        place, within = _places(column, e)
        size = e.shape[0] - 1
        flat, inside = flat * size + place, within & inside
        edges.append(e)
        sizes.append(size)
    weight = _native.ones(x.shape[0], dtype=x.dtype) if weight is None else tensor(weight).reshape(-1)
    total = 1
    for s in sizes:
        total *= s
    counted = _ops.where(inside, weight, 0.0).astype(x.dtype)
    hist = _ops.index_add(_native.zeros(total, dtype=x.dtype), 0, flat, counted).reshape(sizes)
    if density:
        hist = hist / hist.sum()
    return HistogramResult(_weighted(hist, edges, density), tuple(edges))
