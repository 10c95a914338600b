"""Spellings that people type by habit, of PyTorch and NumPy, where neither the table nor the standard has them."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

def allclose(x: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """True if all elements are close.

    >>> import talweg as tw
    >>> tw.allclose(tw.ones(3), tw.ones(3) + 1e-7)
    True"""
def bernoulli(p: Any) -> Tensor:
    """1 with the probability that each element states, else 0.

    >>> import talweg as tw
    >>> tw.bernoulli(tw.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]"""
double: dtype
half: dtype
def inference_mode(f: Callable[..., Any] | None = None) -> Tensor:
    """A scope or decorator in which no gradient is prepared.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False"""
def is_tensor(x: Any) -> bool:
    """True for a tensor.

    >>> import talweg as tw
    >>> tw.is_tensor(tw.zeros(1)), tw.is_tensor([0.0])
    (True, False)"""
def isclose(x: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """True where elements differ by at most ``atol + rtol * |other|``.

    >>> import talweg as tw
    >>> tw.isclose(tw.tensor([1.0, 2.0]), tw.tensor([1.0, 2.1])).tolist()
    [True, False]"""
long: dtype
def normal(mean: Any = 0.0, std: float = 1.0, size: int | Sequence[int] = ...) -> Tensor:
    """Normal random numbers.

    >>> import talweg as tw
    >>> tw.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)"""
def rand_like(x: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Uniform random numbers from 0 to 1 in the shape of another tensor.

    >>> import talweg as tw
    >>> tw.rand_like(tw.zeros(2, 3)).shape
    (2, 3)"""
def randn_like(x: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Normal random numbers in the shape of another tensor.

    >>> import talweg as tw
    >>> tw.randn_like(tw.zeros(2, 3)).shape
    (2, 3)"""
def split(x: Tensor, split_size_or_sections: int | Sequence[int], dim: int | None = 0, *, axis: int | None = None) -> list[Tensor]:
    """Parts of one size along an axis, or of several sizes.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.split(tw.arange(5), [2, 3])]
    [[0, 1], [2, 3, 4]]
    >>> [t.tolist() for t in tw.split(tw.arange(5), 2)]
    [[0, 1], [2, 3], [4]]"""
def tril(x: Tensor, /, diagonal: int = 0, *, k: int | None = None) -> Tensor:
    """The elements on and below diagonal `k` of the last two dimensions, zeros elsewhere."""
def triu(x: Tensor, /, diagonal: int = 0, *, k: int | None = None) -> Tensor:
    """The elements on and above diagonal `k` of the last two dimensions, zeros elsewhere."""
