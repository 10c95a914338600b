"""Linear algebra, as the array API standard's extension of this name."""

from typing import NamedTuple

from . import _ops as ops
from ._checked import check, function, value_error
from ._native import Tensor
from ._functions.shapes import tensordot

cross = function("cross")
det = function("det")
eigvals = function("eigvals")
inv = function("inv")
lstsq = function("lstsq")
lu = function("lu")
matmul = function("matmul")
matrix_exp = function("matrix_exp")
matrix_power = function("matrix_power")
outer = function("outer")
solve = function("solve")
svdvals = function("svdvals")
vecdot = function("vecdot")
vector_norm = function("vector_norm")


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


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What ``svd`` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def diagonal(x, /, *, offset=0):
    """The elements on a diagonal of the matrices in the last two axes.

    >>> import talweg as tw
    >>> tw.linalg.diagonal(tw.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return x.diagonal(offset, -2, -1)


def eig(x, /):
    """Complex eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1.

    >>> import talweg as tw
    >>> tw.linalg.eig(tw.tensor([[1.0, 5.0], [0.0, 2.0]])).eigenvalues.tolist()
    [(1+0j), (2+0j)]
    """
    return EigResult(*x.eig())


def eigh(x, /, UPLO="L"):
    """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns.

    >>> import talweg as tw
    >>> tw.linalg.eigh(tw.tensor([[2.0, 1.0j], [-1.0j, 2.0]])).eigenvalues.tolist()
    [1.0, 3.0]
    """
    return EighResult(*x.eigh_of(UPLO))


def eigvalsh(x, /, UPLO="L"):
    """Eigenvalues of a symmetric or Hermitian matrix, ascending.

    >>> import talweg as tw
    >>> tw.linalg.eigvalsh(tw.tensor([[2.0, 1.0], [1.0, 2.0]])).tolist()
    [1.0, 3.0]
    """
    return x.eigvalsh_of(UPLO)


def qr(x, /, *, mode="reduced"):
    """A matrix with orthonormal columns and a triangular one whose product is this one. ``mode="complete"`` makes the
    first square.

    >>> import talweg as tw
    >>> [t.shape for t in tw.linalg.qr(tw.ones(3, 2), mode="complete")]
    [(3, 3), (3, 2)]
    """
    if mode not in ("reduced", "complete"):
        raise value_error(f'mode must be "reduced" or "complete", not {mode!r}')
    return QRResult(*(x.qr_full() if mode == "complete" else x.qr()))


def slogdet(x, /):
    """The sign of the determinant and the logarithm of its magnitude.

    >>> import talweg as tw
    >>> tw.linalg.slogdet(tw.tensor([[0.0, 1.0], [1.0, 0.0]])).sign.item()
    -1.0
    """
    return SlogdetResult(*x.slogdet())


def svd(x, /, *, full_matrices=True):
    """U, the singular values in descending order, and V*, whose product is this matrix. ``full_matrices=False`` leaves
    out the columns of U and rows of V* that belong to no singular value.

    >>> import talweg as tw
    >>> u, s, vh = tw.linalg.svd(tw.tensor([[0.0, 2.0j], [3.0, 0.0], [0.0, 0.0]]))
    >>> u.shape, s.tolist(), vh.shape
    ((3, 3), [3.0, 2.0], (2, 2))
    """
    return SVDResult(*(x.svd_full() if full_matrices else x.svd()))


def pinv(x, /, *, rtol=None):
    """The inverse of Moore and Penrose; singular values not above ``rtol`` times the greatest count as zero.

    >>> import talweg as tw
    >>> tw.linalg.pinv(tw.tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    if isinstance(rtol, Tensor) and rtol.ndim > 0:
        # A tolerance for each matrix.
        u, s, vh = x.svd()
        is_kept = s > rtol.astype(s.dtype)[..., None] * s[..., :1]
        inverse = ops.where(is_kept, 1.0 / s, s.zeros_like())
        return (vh.mT.conj() * inverse[..., None, :]) @ u.mT.conj()
    return x.pinv() if rtol is None else x.pinv_rtol(float(rtol))


def cond(x, /, p=None):
    """How much a matrix magnifies relative errors: its norm times that of its inverse.

    >>> import talweg as tw
    >>> tw.linalg.cond(tw.tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    2.0
    """
    if p is None or p in (2, -2):
        s = x.svdvals()
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(x, ord=p) * matrix_norm(x.inv(), ord=p)


def cholesky(x, /, *, upper=False):
    """The triangular factor of a positive definite matrix.

    >>> import talweg as tw
    >>> tw.linalg.cholesky(tw.tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return x.cholesky_upper() if upper else x.cholesky()


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of the matrices in the last two axes.

    >>> import talweg as tw
    >>> tw.linalg.matrix_norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    return x.matrix_norm(ord, (-2, -1), keepdims=keepdims)


def matrix_transpose(x, /):
    """The last two axes exchanged.

    >>> import talweg as tw
    >>> tw.linalg.matrix_transpose(tw.zeros(2, 3)).shape
    (3, 2)
    """
    return x.mT


def norm(x, /, ord=None, axis=None, keepdims=False):
    """The norm of vectors, or of matrices where ``axis`` names two axes or ``ord`` is given for a matrix.

    >>> import talweg as tw
    >>> tw.linalg.norm(tw.tensor([3.0, 4.0])).item()
    5.0
    >>> tw.linalg.norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]]), 2).item()
    4.0
    """
    axes = (0, 1) if axis is None and ord is not None and x.ndim == 2 else axis
    if isinstance(axes, (tuple, list)) and len(axes) == 2:
        return x.matrix_norm("fro" if ord is None else ord, tuple(axes), keepdims=keepdims)
    return x.vector_norm(2.0 if ord is None else ord, axes, keepdims=keepdims)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values count.

    >>> import talweg as tw
    >>> tw.linalg.matrix_rank(tw.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    s = x.svdvals()
    if rtol is None:
        rtol = max(x.shape[-2:]) * (2.0**-52 if x.dtype.name in ("float64", "complex128") else 2.0**-23)
    return (s > s.amax(-1, keepdims=True) * rtol).astype("int64").sum(-1)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of the elements on a diagonal.

    >>> import talweg as tw
    >>> tw.linalg.trace(tw.asarray([[1, 2], [3, 4]])).item()
    5
    """
    chosen = diagonal(x, offset=offset)
    return (chosen if dtype is None else chosen.astype(dtype)).sum(-1)


__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult",
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "lu",
    "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

check(globals(), __all__)
