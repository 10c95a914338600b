"""Sums, extrema, moments and norms along dimensions, and their running forms."""

import builtins
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _ops as ops, return_types as types
from .._checked import type_error, value_error
from .._native import Tensor
from .register import public

if TYPE_CHECKING:
    from .. import DTypeLike

Dim = builtins.int | Sequence[builtins.int] | None


def whole(dim: Any, input: Any) -> Any:
    """The dimensions of a reduction: an empty list stands for all, as ``None``; 0 and -1 for the one element of a
    tensor without dimensions."""
    if isinstance(dim, (tuple, list)) and not dim:
        return None
    return None if input.ndim == 0 and dim in (0, -1, (0,), (-1,), [0], [-1]) else dim


def signed(result: Any) -> Any:
    """A sum or product of unsigned integers as PyTorch has it: int64, where the ops say uint64 as the standard does."""
    return result.astype("int64") if result.dtype.name == "uint64" else result


def _typed(op: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """A reduction computed and returned in a type."""
    if dtype is None:
        return signed(op(input, whole(dim, input), keepdim))
    return op(input.astype(dtype), whole(dim, input), keepdim).astype(dtype)


@public(method=False)
def sum(input: "Tensor", dim: Dim = None, keepdim: bool = False, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The sum of all elements, or along dimensions.

    >>> tw.sum(tw.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([4, 6])
    """
    return _typed(ops.sum, input, dim, keepdim, dtype)


@functools.wraps(Tensor.sum)
def _sum(self: "Tensor", *args: Any, **kwargs: Any) -> Any:
    # The native method with one question more: it is called often.
    result = _native_sum(self, *args, **kwargs)
    return signed(result) if kwargs.get("dtype") is None else result


_native_sum = Tensor.sum
setattr(Tensor, "sum", _sum)


@public
def prod(input: "Tensor", dim: Dim = None, keepdim: bool = False, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The product of all elements, or along a dimension.

    >>> tw.prod(tw.tensor([2.0, 3.0]))
    tensor(6.)
    """
    return _typed(ops.prod, input, dim, keepdim, dtype)


@public(method=False)
def mean(input: "Tensor", dim: Dim = None, keepdim: bool = False, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The mean of all elements, or along dimensions.

    >>> tw.mean(tw.tensor([1.0, 2.0]))
    tensor(1.5000)
    """
    return _typed(ops.mean, input, dim, keepdim, dtype)


@public
def nansum(input: "Tensor", dim: Dim = None, keepdim: bool = False, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The sum of the elements that are not NaN.

    >>> tw.nansum(tw.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    return _typed(ops.nansum, input, dim, keepdim, dtype)


@public
def nanmean(input: "Tensor", dim: Dim = None, keepdim: bool = False, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The mean of the elements that are not NaN.

    >>> tw.nanmean(tw.tensor([1.0, 3.0, float("nan")]))
    tensor(2.)
    """
    return _typed(ops.nanmean, input, dim, keepdim, dtype)


def _pair(name: str, input: Any, dim: int, keepdim: bool) -> Any:
    """An op that finds an element along a dimension: its value and index, as a named tuple."""
    values, indices = getattr(ops, name + "_index")(input, dim)
    return getattr(types, name)(*(kept(t, dim, keepdim and input.ndim > 0) for t in (values, indices)))


def kept(x: Any, dim: int, keepdim: bool) -> Any:
    """The result of a reduction with the reduced dimension in its place, if that is asked for."""
    return ops.unsqueeze(x, dim if dim >= 0 else dim) if keepdim and (x.ndim or dim in (0, -1)) else x


def _extremum(name: str, other: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        if keepdim:
            raise value_error(f"{name}: keepdim needs dim")
        return getattr(ops, name)(input)
    if isinstance(dim, Tensor):
        return getattr(ops, other)(input, dim)
    if isinstance(dim, (tuple, list)):
        raise type_error(f"{name}: dim must be one dimension; a{name} takes several")
    return _pair(name, input, dim, keepdim)


@public
def max(input: "Tensor", dim: Any = None, keepdim: bool = False, *, other: "Tensor | None" = None) -> Any:
    """The largest element; along ``dim`` the named pair (values, indices); of two tensors the larger elements.

    >>> x = tw.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> tw.max(x), tw.max(x, 1).indices
    (tensor(5.), tensor([1, 0]))
    >>> tw.max(x, tw.tensor(3.0)).tolist()
    [[3.0, 5.0], [4.0, 3.0]]
    """
    return _extremum("max", "maximum", input, dim if other is None else other, keepdim)


@public
def min(input: "Tensor", dim: Any = None, keepdim: bool = False, *, other: "Tensor | None" = None) -> Any:
    """The smallest element; along ``dim`` the named pair (values, indices); of two tensors the smaller elements.

    >>> tw.min(tw.tensor([[1.0, 5.0], [4.0, 2.0]]), 1).values
    tensor([1., 2.])
    """
    return _extremum("min", "minimum", input, dim if other is None else other, keepdim)


@public
def amax(input: "Tensor", dim: Dim = None, keepdim: bool = False) -> "Tensor":
    """The largest element along dimensions; equal ones share the gradient.

    >>> tw.amax(tw.tensor([[1.0, 5.0], [4.0, 2.0]]), (0, 1))
    tensor(5.)
    """
    return ops.amax(input, whole(dim, input), keepdim)


@public
def amin(input: "Tensor", dim: Dim = None, keepdim: bool = False) -> "Tensor":
    """The smallest element along dimensions; equal ones share the gradient.

    >>> tw.amin(tw.tensor([[1.0, 5.0], [4.0, 2.0]]), 0)
    tensor([1., 2.])
    """
    return ops.amin(input, whole(dim, input), keepdim)


@public
def aminmax(input: "Tensor", *, dim: "int | None" = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, as the named pair (min, max).

    >>> tw.aminmax(tw.tensor([1.0, 5.0])).max
    tensor(5.)
    """
    return types.aminmax(amin(input, dim, keepdim), amax(input, dim, keepdim))  # type: ignore[attr-defined]


def _middle(name: str, input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return getattr(ops, name)(input)
    return _pair(name, input, dim, keepdim)


@public
def median(input: "Tensor", dim: "int | None" = None, keepdim: bool = False) -> Any:
    """The median, of an even number the lower of the two in the middle; along ``dim`` the pair (values, indices).

    >>> tw.median(tw.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """
    return _middle("median", input, dim, keepdim)


@public
def nanmedian(input: "Tensor", dim: "int | None" = None, keepdim: bool = False) -> Any:
    """``median`` of the elements that are not NaN.

    >>> tw.nanmedian(tw.tensor([4.0, float("nan"), 3.0]))
    tensor(3.)
    """
    return _middle("nanmedian", input, dim, keepdim)


@public
def kthvalue(input: "Tensor", k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along a dimension, counted from 1: the named pair (values, indices).

    >>> tw.kthvalue(tw.tensor([4.0, 1.0, 3.0]), 2).values
    tensor(3.)
    """
    return types.kthvalue(*(kept(t, dim, keepdim and input.ndim > 0) for t in ops.kthvalue(input, k, dim)))  # type: ignore[attr-defined]


@public
def mode(input: "Tensor", dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along a dimension, the smallest of equally frequent ones, and an index of it.

    >>> tw.mode(tw.tensor([2, 1, 2, 1, 3])).values
    tensor(1)
    """
    if input.ndim == 0:
        return types.mode(input, input.zeros_like().astype("int64"))  # type: ignore[attr-defined]
    x = ops.moveaxis(input, dim, -1)
    ordered, source = ops.sort(x, -1)
    place = ops.cumsum(ordered.ones_like().astype("int64"), -1) - 1
    is_first = ops.concat([place[..., :1] == 0, ordered[..., 1:] != ordered[..., :-1]], -1)
    length = place - ops.cummax(ops.where(is_first, place, 0), -1)[0]
    last = ops.unsqueeze(ops.argmax(length, -1), -1)
    found = (ops.squeeze(ops.gather(t, -1, last), -1) for t in (ordered, source))
    return types.mode(*(kept(t, dim, keepdim) for t in found))  # type: ignore[attr-defined]


def _correction(dim: Any, unbiased: "bool | None", correction: Any) -> "tuple[Any, float]":
    """The dimensions and the correction of PyTorch's several signatures."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise type_error("std and var take unbiased= or correction=, not both")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return None if isinstance(dim, (tuple, list)) and not dim else dim, builtins.float(correction)


def _moments(ops_: Any, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    dim, correction = _correction(dim, unbiased, correction)
    return ops_(input, dim, correction, keepdim)


@public
def std(input: "Tensor", dim: Any = None, unbiased: "bool | None" = None, keepdim: bool = False, *, correction: "float | None" = None) -> "Tensor":
    """The standard deviation: divided by n - 1, or by n - ``correction``.

    >>> tw.std(tw.tensor([1.0, 2.0, 3.0])), tw.std(tw.tensor([1.0, 3.0]), unbiased=False)
    (tensor(1.), tensor(1.))
    """
    return _moments(ops.std, input, dim, unbiased, keepdim, correction)


@public
def var(input: "Tensor", dim: Any = None, unbiased: "bool | None" = None, keepdim: bool = False, *, correction: "float | None" = None) -> "Tensor":
    """The variance: divided by n - 1, or by n - ``correction``.

    >>> tw.var(tw.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _moments(ops.var, input, dim, unbiased, keepdim, correction)


@public(method=False)
def std_mean(input: "Tensor", dim: Any = None, unbiased: "bool | None" = None, keepdim: bool = False, *, correction: "float | None" = None) -> "tuple[Tensor, Tensor]":
    """The standard deviation and the mean.

    >>> tw.std_mean(tw.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = _correction(dim, unbiased, correction)
    return ops.std(input, dim, correction, keepdim), ops.mean(input, dim, keepdim)


@public(method=False)
def var_mean(input: "Tensor", dim: Any = None, unbiased: "bool | None" = None, keepdim: bool = False, *, correction: "float | None" = None) -> "tuple[Tensor, Tensor]":
    """The variance and the mean.

    >>> tw.var_mean(tw.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = _correction(dim, unbiased, correction)
    return ops.var(input, dim, correction, keepdim), ops.mean(input, dim, keepdim)


@public
def cov(input: "Tensor", *, correction: int = 1, fweights: "Tensor | None" = None, aweights: "Tensor | None" = None) -> "Tensor":
    """Covariances of the rows: a variable a row, an observation a column.

    ``fweights`` says how often each observation counts, ``aweights`` how much.

    >>> tw.cov(tw.tensor([[0.0, 2.0], [1.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    x = input if input.ndim == 2 else ops.reshape(input, 1, -1)
    if fweights is None and aweights is None:
        y = ops.cov(x, builtins.float(correction))
    else:
        weights = [w.astype(x.dtype) for w in (fweights, aweights) if w is not None]
        w = weights[0] * weights[1] if len(weights) == 2 else weights[0]
        total = ops.sum(w)
        centered = x - ops.sum(x * w, 1, True) / total
        # As many observations as are counted, less the correction by their average weight.
        spread = total if aweights is None else ops.sum(w * aweights) / total
        norm = total - correction if aweights is None else total - correction * spread
        y = ops.matmul(centered * w, ops.t(centered)) / ops.clamp_min(norm, 0.0)
    return ops.reshape(y, ()) if y.shape == (1, 1) else y


@public
def norm(input: "Tensor", p: "float | str | None" = "fro", dim: Dim = None, keepdim: bool = False, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The p-norm of all elements, or along dimensions; ``"fro"`` is 2, ``"nuc"`` the sum of singular values.

    >>> tw.norm(tw.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
    tensor([ 5., 10.])
    """
    x = input if dtype is None else input.astype(dtype)
    if p == "nuc":
        return ops.matrix_norm(x, "nuc", tuple(dim) if isinstance(dim, Sequence) else (-2, -1), keepdim)
    if isinstance(p, str) and p != "fro":
        raise value_error(f"norm: p is a number, 'fro' or 'nuc', not {p!r}")
    return ops.vector_norm(x, 2.0 if p is None or isinstance(p, str) else builtins.float(p), whole(dim, x), keepdim)


@public
def cumsum(input: "Tensor", dim: int, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The running sum along a dimension.

    >>> tw.cumsum(tw.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    return signed(ops.cumsum(input, dim)) if dtype is None else ops.cumsum(input.astype(dtype), dim).astype(dtype)


@public
def cumprod(input: "Tensor", dim: int, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The running product along a dimension.

    >>> tw.cumprod(tw.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    return signed(ops.cumprod(input, dim)) if dtype is None else ops.cumprod(input.astype(dtype), dim).astype(dtype)


@public
def cummax(input: "Tensor", dim: int) -> Any:
    """The largest element so far along a dimension: the named pair (values, indices).

    >>> tw.cummax(tw.tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return types.cummax(*ops.cummax(input, dim))  # type: ignore[attr-defined]


@public
def cummin(input: "Tensor", dim: int) -> Any:
    """The smallest element so far along a dimension: the named pair (values, indices).

    >>> tw.cummin(tw.tensor([3, 1, 2]), 0).values
    tensor([3, 1, 1])
    """
    return types.cummin(*ops.cummin(input, dim))  # type: ignore[attr-defined]


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
    if interpolation not in _INTERPOLATIONS:
        raise value_error(f"{name}: interpolation is one of {_INTERPOLATIONS}, not {interpolation!r}")
    q = q if isinstance(q, Tensor) else Tensor(q, dtype=input.dtype)
    x = ops.ravel(input) if dim is None or input.ndim == 0 else ops.moveaxis(input, dim, -1)
    ordered = ops.sort(x, -1)[0]
    bad = ops.is_nan(ordered)
    counts = ops.sum(~bad, -1, True) if name == "nanquantile" else ops.sum(ops.ones_like(ordered), -1, True)
    # In 64 bits, as PyTorch: whether a place lies between two elements decides.
    place = (counts.astype("float64") - 1.0) * ops.ravel(q).astype("float64")
    low = ops.clamp_min(ops.floor(place), 0.0)
    share = (place - low).astype(input.dtype)
    if interpolation == "midpoint":
        share = ops.where(share > 0, 0.5, 0.0).astype(input.dtype)
    elif interpolation != "linear":
        low = {"lower": low, "higher": ops.ceil(place), "nearest": ops.round(place)}[interpolation]
        low, share = ops.clamp_min(low, 0.0), ops.zeros_like(share)
    at = low.astype("int64")
    after = ops.minimum(at + 1, ordered.shape[-1] - 1)
    below, above = ops.take_along_axis(ordered, at, -1), ops.take_along_axis(ordered, after, -1)
    y = ops.where(share > 0, ops.lerp(below, above, share), below)
    nothing = ops.any(bad, -1, True) if name == "quantile" else counts == 0
    y = ops.where(nothing, math.nan, y)
    y = ops.moveaxis(y, -1, 0)
    if keepdim:
        y = ops.reshape(y, -1, *[1] * input.ndim) if dim is None or input.ndim == 0 else ops.unsqueeze(y, dim + 1 if dim >= 0 else dim)
    return ops.squeeze(y, 0) if q.ndim == 0 else y


@public
def quantile(input: "Tensor", q: Any, dim: "int | None" = None, keepdim: bool = False, *, interpolation: str = "linear") -> "Tensor":
    """The ``q``-quantiles of all elements, or along a dimension; several ``q`` are a new first dimension.

    >>> tw.quantile(tw.tensor([0.0, 1.0, 3.0]), 0.75)
    tensor(2.)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@public
def nanquantile(input: "Tensor", q: Any, dim: "int | None" = None, keepdim: bool = False, *, interpolation: str = "linear") -> "Tensor":
    """``quantile`` of the elements that are not NaN.

    >>> tw.nanquantile(tw.tensor([0.0, float("nan"), 3.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


@public
def logsumexp(input: "Tensor", dim: Dim, keepdim: bool = False) -> "Tensor":
    """The logarithm of the sum of exp(x) along dimensions.

    >>> tw.logsumexp(tw.tensor([0.0, 0.0]), 0)
    tensor(0.6931)
    """
    dims = whole(dim, input)
    x = input if "float" in input.dtype.name or "complex" in input.dtype.name else input.astype("float32")
    return ops.logsumexp(x, dims, keepdim) if input.ndim else x


@public
def softmax(input: "Tensor", dim: int, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """exp(x) divided by its sum along a dimension, computed in ``dtype``.

    >>> tw.softmax(tw.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return ops.softmax(input if dtype is None else input.astype(dtype), dim)


@public
def log_softmax(input: "Tensor", dim: int, *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """The logarithm of ``softmax``, computed in ``dtype``.

    >>> tw.log_softmax(tw.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return ops.log_softmax(input if dtype is None else input.astype(dtype), dim)


@public(method=False)
def all(input: "Tensor", dim: Dim = None, keepdim: bool = False) -> "Tensor":
    """True if all elements are, or all along dimensions.

    >>> tw.all(tw.tensor([[True, False], [True, True]]), dim=1)
    tensor([False,  True])
    """
    return ops.all(input, whole(dim, input), keepdim)


@public(method=False)
def any(input: "Tensor", dim: Dim = None, keepdim: bool = False) -> "Tensor":
    """True if any element is, or any along dimensions.

    >>> tw.any(tw.tensor([[True, False], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return ops.any(input, whole(dim, input), keepdim)


@public(method=False)
def count_nonzero(input: "Tensor", dim: Dim = None, keepdim: bool = False) -> "Tensor":
    """The number of elements that are not zero, or along dimensions, which NumPy's ``keepdims`` leaves as size 1.

    >>> tw.count_nonzero(tw.tensor([0, 1, 2]))
    tensor(2)
    """
    return ops.count_nonzero(input, whole(dim, input), keepdim)
