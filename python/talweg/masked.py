"""Reductions and normalizations of the elements that a mask keeps, with PyTorch's names and arguments."""

import math
from collections.abc import Sequence
from typing import Any

from . import _native, _ops
from ._checked import tensor_first, value_error
from ._functions import dtypes, reductions
from ._functions.arguments import axes_of, floating, is_complex, is_floating, tensor
from ._native import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
    "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Dims = int | Sequence[int] | None


def _kept(input: Tensor, mask: Any, neutral: Any) -> Tensor:
    """The tensor with a neutral element where the mask is false."""
    if mask is None:
        return input
    return _ops.where(tensor(mask), input, _native.tensor(neutral, dtype=input.dtype))


def _typed(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else x.astype(dtype)


def _least(x: Tensor) -> Any:
    return -math.inf if is_floating(x) else dtypes.iinfo(x.dtype).min


def _most(x: Tensor) -> Any:
    return math.inf if is_floating(x) else dtypes.iinfo(x.dtype).max


def _axes(input: Tensor, dim: Dims) -> list[int]:
    return axes_of(dim, input.ndim, "masked") if input.ndim else []


def sum(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The sum of the elements that the mask keeps.

    >>> tw.masked.sum(tw.tensor([1.0, 2.0]), mask=tw.tensor([True, False])).item()
    1.0
    """
    return _typed(_ops.sum(_kept(_typed(input, dtype), mask, 0), _axes(input, dim), keepdim), dtype)


def prod(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The product of the elements that the mask keeps.

    >>> tw.masked.prod(tw.tensor([2.0, 3.0]), mask=tw.tensor([True, False])).item()
    2.0
    """
    return _typed(_ops.prod(_kept(_typed(input, dtype), mask, 1), _axes(input, dim), keepdim), dtype)


def amax(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The largest of the elements that the mask keeps.

    >>> tw.masked.amax(tw.tensor([1.0, 2.0]), mask=tw.tensor([True, False])).item()
    1.0
    """
    return _typed(_ops.amax(_kept(input, mask, _least(input)), _axes(input, dim), keepdim), dtype)


def amin(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The smallest of the elements that the mask keeps.

    >>> tw.masked.amin(tw.tensor([1.0, 2.0]), mask=tw.tensor([False, True])).item()
    2.0
    """
    return _typed(_ops.amin(_kept(input, mask, _most(input)), _axes(input, dim), keepdim), dtype)


def _place(op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        found = op(x.reshape(-1), 0)
        return found.reshape([1] * x.ndim) if keepdim else found
    if x.ndim == 0:
        return op(x.reshape(1), 0)
    found = op(x, dim)
    return found.unsqueeze(dim) if keepdim else found


def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The index of the largest of the elements that the mask keeps, in the input's type, as in PyTorch.

    >>> tw.masked.argmax(tw.tensor([1.0, 2.0]), dtype=tw.int64, mask=tw.tensor([True, False])).item()
    0
    """
    return _typed(_place(_ops.argmax, _kept(input, mask, _least(input)), dim, keepdim), dtype or input.dtype)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The index of the smallest of the elements that the mask keeps, in the input's type, as in PyTorch.

    >>> tw.masked.argmin(tw.tensor([1.0, 2.0]), dtype=tw.int64, mask=tw.tensor([False, True])).item()
    1
    """
    return _typed(_place(_ops.argmin, _kept(input, mask, _most(input)), dim, keepdim), dtype or input.dtype)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The running sum of the elements that the mask keeps.

    >>> tw.masked.cumsum(tw.tensor([1.0, 2.0]), 0, mask=tw.tensor([False, True])).tolist()
    [0.0, 2.0]
    """
    return reductions.cumsum(_kept(input, mask, 0), dim, dtype=dtype)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The running product of the elements that the mask keeps.

    >>> tw.masked.cumprod(tw.tensor([3.0, 2.0]), 0, mask=tw.tensor([False, True])).tolist()
    [1.0, 2.0]
    """
    return reductions.cumprod(_kept(input, mask, 1), dim, dtype=dtype)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Any) -> Tensor:
    """How many elements the mask keeps."""
    kept = _native.ones(input.shape, dtype="bool") if mask is None else tensor(mask).broadcast_to(input.shape)
    return _ops.sum(kept.astype("int64"), _axes(input, dim), keepdim)


def mean(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The mean of the elements that the mask keeps; NaN where it keeps none.

    >>> tw.masked.mean(tw.tensor([1.0, 2.0, 4.0]), mask=tw.tensor([True, False, True])).item()
    2.5
    """
    x = _typed(input, dtype)
    if not is_floating(x) and not is_complex(x):
        raise value_error(f"mean: expected floats or complex numbers, not {x.dtype.name}: give dtype")
    return sum(x, dim, keepdim=keepdim, mask=mask) / _count(input, dim, keepdim, mask)


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The median of the elements that the mask keeps; NaN where it keeps none.

    >>> tw.masked.median(tw.tensor([1.0, 9.0, 4.0]), mask=tw.tensor([True, False, True])).item()
    1.0
    """
    found = reductions.nanmedian(_kept(floating(input), mask, math.nan), dim, keepdim).values
    return found if is_floating(input) else _typed(found, dtype or input.dtype)


def logsumexp(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of the sum of exp(x) of the elements that the mask keeps.

    >>> tw.masked.logsumexp(tw.tensor([0.0, 0.0]), mask=tw.tensor([True, False])).item()
    0.0
    """
    x = _kept(input, mask, -math.inf)
    return _typed(_ops.logsumexp(x, _axes(input, dim), keepdim) if input.ndim else x, dtype)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Tensor:
    """log(exp(x) + exp(y)) of the elements that the masks keep.

    >>> tw.masked.logaddexp(tw.tensor([0.0]), tw.tensor([0.0]), other_mask=tw.tensor([False])).tolist()
    [0.0]
    """
    other = tensor(other)
    return _typed(_ops.logaddexp(_kept(input, input_mask, -math.inf), _kept(other, other_mask, -math.inf)), dtype)


def norm(
    input: Any, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The norm of the elements that the mask keeps.

    >>> tw.masked.norm(tw.tensor([3.0, 9.0, 4.0]), mask=tw.tensor([True, False, True])).item()
    5.0
    """
    from .linalg import vector_norm

    order = 2.0 if ord is None else float(ord)
    x = _kept(input, mask, math.inf if order == -math.inf else 0)
    return vector_norm(x, order, _axes(input, dim), keepdim, dtype=dtype)


def var(
    input: Any, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool = False,
    dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements that the mask keeps.

    >>> tw.masked.var(tw.tensor([1.0, 9.0, 3.0]), mask=tw.tensor([True, False, True])).item()
    2.0
    """
    if unbiased is not None and correction is not None:
        raise value_error("var and std take unbiased= or correction=, not both")
    less = (1.0 if unbiased is None or unbiased else 0.0) if correction is None else float(correction)
    x = floating(_typed(input, dtype))
    average = mean(x, dim, keepdim=True, mask=mask)
    off = x - average
    square = off * _ops.conj(off) if is_complex(off) else off * off
    total = sum(square, dim, keepdim=keepdim, mask=mask)
    count = _count(input, dim, keepdim, mask).astype(x.real.dtype if is_complex(x) else x.dtype)
    return total / _ops.clamp_min(count - less, 0.0)


def std(
    input: Any, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool = False,
    dtype: Any = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The standard deviation of the elements that the mask keeps.

    >>> tw.masked.std(tw.tensor([1.0, 9.0, 5.0]), unbiased=False, mask=tw.tensor([True, False, True])).item()
    2.0
    """
    return _ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Softmax of the elements that the mask keeps; the others get 0.

    >>> tw.masked.softmax(tw.tensor([1.0, 2.0]), 0, mask=tw.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    return _ops.softmax(_kept(_typed(input, dtype), mask, -math.inf), dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of ``softmax``.

    >>> tw.masked.log_softmax(tw.tensor([1.0, 2.0]), 0, mask=tw.tensor([True, False])).tolist()
    [0.0, -inf]
    """
    return _ops.log_softmax(_kept(_typed(input, dtype), mask, -math.inf), dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Softmax of the negative.

    >>> tw.masked.softmin(tw.tensor([1.0, 2.0]), 0, mask=tw.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    return _ops.softmax(-_kept(_typed(input, dtype), mask, math.inf), dim)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Tensor:
    """The elements that the mask keeps, divided by their norm, or by ``eps`` where that is greater; the others get 0.

    >>> tw.masked.normalize(tw.tensor([3.0, 9.0]), 2.0, 0, mask=tw.tensor([True, False])).tolist()
    [1.0, 0.0]
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _kept(input, mask, 0) / _ops.maximum(size, _native.tensor(eps, dtype=size.dtype))


globals().update({name: tensor_first(globals()[name]) for name in __all__})
