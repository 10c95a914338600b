"""Linear algebra, as the array API standard's extension of this name."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, Self

from . import Tensor as Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

def cholesky(x: Tensor, /, *, upper: int = False) -> Tensor:
    """The triangular factor of a positive definite matrix.

    >>> import talweg as tw
    >>> tw.linalg.cholesky(tw.tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]"""
cross = Tensor.cross
det = Tensor.det
diagonal = Tensor.diagonal
eigh = Tensor.eigh
eigvalsh = Tensor.eigvalsh
inv = Tensor.inv
lstsq = Tensor.lstsq
lu = Tensor.lu
matmul = Tensor.matmul
def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: int | float | str = 'fro') -> Tensor:
    """A norm of the matrices in the last two axes.

    >>> import talweg as tw
    >>> tw.linalg.matrix_norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0"""
matrix_power = Tensor.matrix_power
def matrix_rank(x: Tensor, /, *, rtol: float | None = None) -> Tensor:
    """How many singular values count.

    >>> import talweg as tw
    >>> tw.linalg.matrix_rank(tw.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1"""
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged.

    >>> import talweg as tw
    >>> tw.linalg.matrix_transpose(tw.zeros(2, 3)).shape
    (3, 2)"""
def norm(x: Tensor, ord: Any = 2.0, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors.

    >>> import talweg as tw
    >>> tw.linalg.norm(tw.tensor([3.0, 4.0])).item()
    5.0"""
outer = Tensor.outer
pinv = Tensor.pinv
qr = Tensor.qr
slogdet = Tensor.slogdet
solve = Tensor.solve
svd = Tensor.svd
svdvals = Tensor.svdvals
tensordot = Tensor.tensordot
trace = Tensor.trace
vecdot = Tensor.vecdot
vector_norm = Tensor.vector_norm
