"""Linear algebra, as the array API standard's extension of this name."""

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

class EigResult(NamedTuple):
    """What ``eig`` gives."""
    eigenvalues: Tensor
    eigenvectors: Tensor

class EighResult(NamedTuple):
    """What ``eigh`` gives."""
    eigenvalues: Tensor
    eigenvectors: Tensor

class QRResult(NamedTuple):
    """What ``qr`` gives."""
    Q: Tensor
    R: Tensor

class SVDResult(NamedTuple):
    """What ``svd`` gives."""
    U: Tensor
    S: Tensor
    Vh: Tensor

class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""
    sign: Tensor
    logabsdet: Tensor

def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix.

    >>> import talweg as tw
    >>> tw.linalg.cholesky(tw.tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]"""
def cond(x: Tensor, /, p: int | float | str | None = None) -> Any:
    """How much a matrix magnifies relative errors: its norm times that of its inverse.

    >>> import talweg as tw
    >>> tw.linalg.cond(tw.tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    2.0"""
cross = Tensor.cross
det = Tensor.det
def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The elements on a diagonal of the matrices in the last two axes.

    >>> import talweg as tw
    >>> tw.linalg.diagonal(tw.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]"""
def eig(x: Tensor, /) -> EigResult:
    """Complex eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1.

    >>> import talweg as tw
    >>> tw.linalg.eig(tw.tensor([[1.0, 5.0], [0.0, 2.0]])).eigenvalues.tolist()
    [(1+0j), (2+0j)]"""
def eigh(x: Tensor, /, UPLO: str = 'L') -> EighResult:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns.

    >>> import talweg as tw
    >>> tw.linalg.eigh(tw.tensor([[2.0, 1.0j], [-1.0j, 2.0]])).eigenvalues.tolist()
    [1.0, 3.0]"""
eigvals = Tensor.eigvals
def eigvalsh(x: Tensor, /, UPLO: str = 'L') -> Tensor:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending.

    >>> import talweg as tw
    >>> tw.linalg.eigvalsh(tw.tensor([[2.0, 1.0], [1.0, 2.0]])).tolist()
    [1.0, 3.0]"""
inv = Tensor.inv
lstsq = Tensor.lstsq
lu = Tensor.lu
matmul = Tensor.matmul
matrix_exp = Tensor.matrix_exp
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
def norm(x: Tensor, /, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors, or of matrices where ``axis`` names two axes or ``ord`` is given for a matrix.

    >>> import talweg as tw
    >>> tw.linalg.norm(tw.tensor([3.0, 4.0])).item()
    5.0
    >>> tw.linalg.norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]]), 2).item()
    4.0"""
outer = Tensor.outer
def pinv(x: Tensor, /, *, rtol: float | None = None) -> Tensor:
    """The inverse of Moore and Penrose; singular values not above ``rtol`` times the greatest count as zero.

    >>> import talweg as tw
    >>> tw.linalg.pinv(tw.tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]"""
def qr(x: Tensor, /, *, mode: str = 'reduced') -> QRResult:
    """A matrix with orthonormal columns and a triangular one whose product is this one. ``mode="complete"`` makes the
    first square.

    >>> import talweg as tw
    >>> [t.shape for t in tw.linalg.qr(tw.ones(3, 2), mode="complete")]
    [(3, 3), (3, 2)]"""
def slogdet(x: Tensor, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude.

    >>> import talweg as tw
    >>> tw.linalg.slogdet(tw.tensor([[0.0, 1.0], [1.0, 0.0]])).sign.item()
    -1.0"""
solve = Tensor.solve
def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """U, the singular values in descending order, and V*, whose product is this matrix. ``full_matrices=False`` leaves
    out the columns of U and rows of V* that belong to no singular value.

    >>> import talweg as tw
    >>> u, s, vh = tw.linalg.svd(tw.tensor([[0.0, 2.0j], [3.0, 0.0], [0.0, 0.0]]))
    >>> u.shape, s.tolist(), vh.shape
    ((3, 3), [3.0, 2.0], (2, 2))"""
svdvals = Tensor.svdvals
def tensordot(x1: Tensor, x2: Tensor, /, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Products summed over axes: the last of one with the first of the other, or two lists of them.

    >>> import talweg as tw
    >>> tw.tensordot(tw.ones(2, 3), tw.ones(3, 4), axes=1).shape
    (2, 4)"""
def trace(x: Tensor, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of the elements on a diagonal.

    >>> import talweg as tw
    >>> tw.linalg.trace(tw.asarray([[1, 2], [3, 4]])).item()
    5"""
vecdot = Tensor.vecdot
vector_norm = Tensor.vector_norm
