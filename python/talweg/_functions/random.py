"""Random tensors."""

from typing import TYPE_CHECKING, Any

from .. import _native, _ops as ops
from .register import public

if TYPE_CHECKING:
    from .. import DTypeLike, Tensor


@public(method=False)
def rand_like(input: "Tensor", *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """Uniform random numbers from 0 to 1 in the shape of another tensor.

    >>> import talweg as tw
    >>> tw.rand_like(tw.zeros(2, 3)).shape
    (2, 3)
    """
    return _native.rand(input.shape, dtype=dtype or input.dtype)


@public(method=False)
def randn_like(input: "Tensor", *, dtype: "DTypeLike | None" = None) -> "Tensor":
    """Normal random numbers in the shape of another tensor.

    >>> import talweg as tw
    >>> tw.randn_like(tw.zeros(2, 3)).shape
    (2, 3)
    """
    return _native.randn(input.shape, dtype=dtype or input.dtype)


@public(method=False)
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = ()) -> "Tensor":
    """Normal random numbers.

    >>> import talweg as tw
    >>> tw.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    return _native.randn(size) * std + mean


@public(method=False)
def bernoulli(input: "Tensor") -> "Tensor":
    """1 with the probability that each element states, else 0.

    >>> import talweg as tw
    >>> tw.bernoulli(tw.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    return ops.random_bernoulli(_native.random_key(), input).astype(input.dtype)
