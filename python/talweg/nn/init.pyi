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

def calculate_gain(nonlinearity: str, param: Tensor | None = None) -> float:
    """How much a weight must be larger for what an activation takes away.

    >>> import talweg as tw
    >>> round(tw.nn.init.calculate_gain("relu"), 4), round(tw.nn.init.calculate_gain("tanh"), 4)
    (1.4142, 1.6667)"""
def constant(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``constant_``."""
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number.

    >>> import talweg as tw
    >>> tw.nn.init.constant_(tw.nn.Parameter(tw.zeros(2)), 3.0).tolist()
    [3.0, 3.0]"""
def dirac(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``dirac_``."""
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution that returns its input, as many channels as there are.

    >>> import talweg as tw
    >>> w = tw.nn.init.dirac_(tw.nn.Parameter(tw.zeros(1, 1, 3)))
    >>> w.tolist()
    [[[0.0, 1.0, 0.0]]]"""
def eye(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``eye_``."""
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere.

    >>> import talweg as tw
    >>> tw.nn.init.eye_(tw.nn.Parameter(tw.zeros(2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]"""
def kaiming_normal(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``kaiming_normal_``."""
def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = 'fan_in', nonlinearity: str = 'leaky_relu', generator: Any = None) -> Tensor:
    """Normal numbers (He and others 2015).

    >>> import talweg as tw
    >>> tw.nn.init.kaiming_normal_(tw.nn.Parameter(tw.zeros(2, 6)), mode="fan_out").shape
    talweg.Size([2, 6])"""
def kaiming_uniform(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``kaiming_uniform_``."""
def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = 'fan_in', nonlinearity: str = 'leaky_relu', generator: Any = None) -> Tensor:
    """Uniform numbers (He and others 2015).

    >>> import talweg as tw
    >>> w = tw.nn.init.kaiming_uniform_(tw.nn.Parameter(tw.zeros(2, 6)), mode="fan_in", nonlinearity="relu")
    >>> bool((w.abs() <= 1.0).all())
    True"""
def normal(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``normal_``."""
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers.

    >>> import talweg as tw
    >>> tw.nn.init.normal_(tw.nn.Parameter(tw.zeros(4)), std=0.02).shape
    talweg.Size([4])"""
def ones_(tensor: Tensor) -> Tensor:
    """Ones.

    >>> import talweg as tw
    >>> tw.nn.init.ones_(tw.nn.Parameter(tw.zeros(2))).tolist()
    [1.0, 1.0]"""
def orthogonal(*args: Any, **kwargs: Any) -> Module:
    """PyTorch's old name of ``orthogonal_``."""
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows, or columns if there are fewer of them, at right angles (Saxe and others 2014).

    >>> import talweg as tw
    >>> w = tw.nn.init.orthogonal_(tw.nn.Parameter(tw.zeros(3, 3)))
    >>> bool(tw.allclose(w @ w.T, tw.eye(3), atol=1e-5))
    True"""
def sparse(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``sparse_``."""
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers, of which a share in each column is zero.

    >>> import talweg as tw
    >>> w = tw.nn.init.sparse_(tw.nn.Parameter(tw.zeros(10, 4)), sparsity=0.3)
    >>> (w == 0).sum(0).tolist()
    [3, 3, 3, 3]"""
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Tensor:
    """Normal numbers between ``a`` and ``b``.

    >>> import talweg as tw
    >>> w = tw.nn.init.trunc_normal_(tw.nn.Parameter(tw.zeros(100)), std=0.5, a=-0.5, b=0.5)
    >>> bool((w.abs() <= 0.5).all())
    True"""
def uniform(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``uniform_``."""
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers from ``a`` to ``b``.

    >>> import talweg as tw
    >>> w = tw.nn.init.uniform_(tw.nn.Parameter(tw.zeros(4)), 1.0, 2.0)
    >>> bool((w >= 1.0).all())
    True"""
def xavier_normal(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``xavier_normal_``."""
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers (Glorot and Bengio 2010).

    >>> import talweg as tw
    >>> tw.nn.init.xavier_normal_(tw.nn.Parameter(tw.zeros(2, 4))).shape
    talweg.Size([2, 4])"""
def xavier_uniform(*args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's old name of ``xavier_uniform_``."""
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers (Glorot and Bengio 2010).

    >>> import talweg as tw
    >>> bool((tw.nn.init.xavier_uniform_(tw.nn.Parameter(tw.zeros(2, 4))).abs() <= 1.0).all())
    True"""
def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> import talweg as tw
    >>> tw.nn.init.zeros_(tw.nn.Parameter(tw.ones(2))).tolist()
    [0.0, 0.0]"""
