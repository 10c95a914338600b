"""Linear algebra, the array API standard's extension of this name."""

from typing import Any, NamedTuple

from .. import _ops as ops, linalg as _linalg
from .._checked import check, value_error
from ._manipulation import matrix_transpose as matrix_transpose
from ._statistics import matmul as matmul, tensordot as tensordot, vecdot as vecdot
from .._native import Tensor as Array



def cross(x1: "Array", x2: "Array", /, *, axis: int = -1) -> "Array":
    """The cross product of vectors of three elements."""
    return ops.cross(x1, x2, axis)


def det(x: "Array", /) -> "Array":
    """The determinant."""
    return ops.det(x)


def inv(x: "Array", /) -> "Array":
    """The inverse of a matrix."""
    return ops.inv(x)


def matrix_power(x: "Array", n: int, /) -> "Array":
    """A matrix multiplied by itself ``n`` times."""
    return ops.matrix_power(x, n)


def outer(x1: "Array", x2: "Array", /) -> "Array":
    """The products of each element of one vector with each of another."""
    return ops.outer(x1, x2)


def solve(x1: "Array", x2: "Array", /) -> "Array":
    """The solution of a system of linear equations."""
    return ops.solve(x1, x2)


def svdvals(x: "Array", /) -> "Array":
    """The singular values in descending order."""
    return ops.svdvals(x)


def vector_norm(x: "Array", /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> "Array":
    """The norm of vectors along axes."""
    if axis == ():
        # Every element is its own vector.
        return ops.ne(x, 0).astype(ops.abs(x).dtype) if ord == 0 else ops.abs(x)
    return ops.vector_norm(x, ord, axis, keepdims)


class EigResult(NamedTuple):
    """What ``eig`` returns."""

    eigenvalues: "Array"
    eigenvectors: "Array"


class EighResult(NamedTuple):
    """What ``eigh`` returns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What ``qr`` returns."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """What ``slogdet`` returns."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """What ``svd`` returns."""

    U: Any
    S: Any
    Vh: Any


def diagonal(x: "Array", /, *, offset: int = 0) -> "Array":
    """The elements on a diagonal of the matrices in the last two axes."""
    return ops.diagonal(x, offset, -2, -1)


def eig(x: "Array", /) -> EigResult:
    """Complex eigenvalues of a square matrix, and eigenvectors as columns."""
    return EigResult(*_linalg.eig(x))


def eigvals(x: "Array", /) -> "Array":
    """Complex eigenvalues of a square matrix."""
    return _linalg.eigvals(x)


def eigh(x: "Array", /) -> EighResult:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns."""
    return EighResult(*ops.eigh_of(x, "L"))


def eigvalsh(x: "Array", /) -> "Array":
    """Eigenvalues of a symmetric or Hermitian matrix, ascending."""
    return ops.eigvalsh_of(x, "L")


def qr(x: "Array", /, *, mode: str = "reduced") -> QRResult:
    """A matrix with orthonormal columns and a triangular one whose product is this one. ``mode="complete"`` makes the
    first square."""
    if mode not in ("reduced", "complete"):
        raise value_error(f'mode must be "reduced" or "complete", not {mode!r}')
    return QRResult(*(ops.qr_full(x) if mode == "complete" else ops.qr(x)))


def slogdet(x: "Array", /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude."""
    return SlogdetResult(*ops.slogdet(x))


def svd(x: "Array", /, *, full_matrices: bool = True) -> SVDResult:
    """U, the singular values in descending order, and V*, whose product is this matrix. ``full_matrices=False`` leaves
    out the columns of U and rows of V* that belong to no singular value."""
    return SVDResult(*(ops.svd_full(x) if full_matrices else ops.svd(x)))


def pinv(x: "Array", /, *, rtol: Any = None) -> "Array":
    """The inverse of Moore and Penrose; singular values not above ``rtol`` times the greatest count as zero."""
    if isinstance(rtol, Array) and rtol.ndim > 0:
        # A tolerance for each matrix.
        u, s, vh = ops.svd(x)
        is_kept = s > rtol.astype(s.dtype)[..., None] * s[..., :1]
        inverse = ops.where(is_kept, 1.0 / s, ops.zeros_like(s))
        return (vh.mT.conj() * inverse[..., None, :]) @ u.mT.conj()
    return ops.pinv(x) if rtol is None else ops.pinv_rtol(x, float(rtol))


def cholesky(x: "Array", /, *, upper: bool = False) -> "Array":
    """The triangular factor of a positive definite matrix."""
    return ops.cholesky_upper(x) if upper else ops.cholesky(x)


def matrix_norm(x: "Array", /, *, keepdims: bool = False, ord: Any = "fro") -> "Array":
    """A norm of the matrices in the last two axes."""
    return ops.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: "Array", /, *, rtol: Any = None) -> "Array":
    """How many singular values count."""
    s = ops.svdvals(x)
    if rtol is None:
        rtol = max(x.shape[-2:]) * (2.0**-52 if x.dtype.name in ("float64", "complex128") else 2.0**-23)
    # A tolerance for each matrix, or one for all.
    rtol = rtol[..., None] if getattr(rtol, "ndim", 0) else rtol
    return ops.sum((s > ops.amax(s, -1, True) * rtol).astype("int64"), -1)


def trace(x: "Array", /, *, offset: int = 0, dtype: Any = None) -> "Array":
    """The sum of the elements on a diagonal."""
    chosen = diagonal(x, offset=offset)
    y = ops.sum(chosen if dtype is None else chosen.astype(dtype), -1)
    return y if dtype is None else y.astype(dtype)


__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult",
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip

check(globals(), __all__)
