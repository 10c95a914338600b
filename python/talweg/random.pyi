"""Random numbers: drawn from this thread's generator, or as a pure function of a key."""

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

def bernoulli(p: Any, shape: int | Sequence[int] | None = None) -> Tensor:
    """True with probability ``p``.

    >>> import talweg as tw
    >>> tw.random.bernoulli(1.0, (3,)).tolist()
    [True, True, True]"""
def get_state() -> tuple[int, int]:
    """The state of this thread's generator: seed and number of draws."""
def key(seed: int | None = None) -> Tensor:
    """A key of the random functions that take one: the same key gives the same numbers."""
def normal(shape: int | Sequence[int], mean: Any = 0.0, std: float = 1.0, dtype: DTypeLike | None = None) -> Tensor:
    """Normal random numbers.

    >>> import talweg as tw
    >>> tw.random.normal((2, 3), mean=5.0, std=0.1).shape
    (2, 3)"""
def permutation(n: int) -> Tensor:
    """The numbers 0 to n - 1 in a random order.

    >>> import talweg as tw
    >>> sorted(tw.random.permutation(4).tolist())
    [0, 1, 2, 3]"""
def seed(seed: int) -> None:
    """Begins the random numbers of this thread anew."""
def set_state(state: tuple[int, int]) -> None:
    """Puts this thread's generator into a state."""
def uniform(shape: int | Sequence[int], low: float = 0.0, high: float = 1.0, *, dtype: DTypeLike | None = None) -> Tensor:
    """Uniform random numbers from `low` to `high`."""
