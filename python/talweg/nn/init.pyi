"""Initial values: each function fills a parameter in place and returns it, as PyTorch's do."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from .. import Tensor
from .. import dtype
from .. import DTypeLike
from .. import Update
from ..nn import Module
from ..train import Callback
from ..train import History
from ..train import Silent
from ..train import Trainer
from ..utils.data import Subset

def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number.

    >>> import talweg as tw
    >>> tw.nn.init.constant_(tw.nn.Parameter(tw.zeros(2)), 3.0).tolist()
    [3.0, 3.0]"""
def kaiming_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Values of the kind kaiming normal."""
def kaiming_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Values of the kind kaiming uniform."""
def no_grad(f: Callable[..., Any] | None = None) -> Any:
    """A scope or decorator in which no gradient is prepared.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False"""
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal numbers.

    >>> import talweg as tw
    >>> tw.nn.init.normal_(tw.nn.Parameter(tw.zeros(4)), std=0.02).shape
    (4,)"""
def ones_(tensor: Tensor) -> Tensor:
    """Ones.

    >>> import talweg as tw
    >>> tw.nn.init.ones_(tw.nn.Parameter(tw.zeros(2))).tolist()
    [1.0, 1.0]"""
def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Values of the kind orthogonal."""
def trunc_normal_(tensor: Tensor, std: float = 1.0) -> Tensor:
    """Normal numbers of at most two standard deviations.

    >>> import talweg as tw
    >>> w = tw.nn.init.trunc_normal_(tw.nn.Parameter(tw.zeros(100)))
    >>> bool((w.abs() <= 2.0).all())
    True"""
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform numbers from ``a`` to ``b``.

    >>> import talweg as tw
    >>> w = tw.nn.init.uniform_(tw.nn.Parameter(tw.zeros(4)), 1.0, 2.0)
    >>> bool((w >= 1.0).all())
    True"""
def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Values of the kind xavier normal."""
def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Values of the kind xavier uniform."""
def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> import talweg as tw
    >>> tw.nn.init.zeros_(tw.nn.Parameter(tw.ones(2))).tolist()
    [0.0, 0.0]"""
