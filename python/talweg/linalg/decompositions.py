"""Factors of matrices: LU, QR, Cholesky, eigenvalues, singular values, reflectors."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _native, _ops
from .._checked import value_error
from .._functions.arguments import is_complex, tensor
from .._native import Tensor
from ..errors import ArgumentError

__all__ = [
    "CholeskyExResult", "EigResult", "EighResult", "LUFactorExResult", "LUFactorResult", "LUResult", "PolarResult",
    "QRResult", "SVDResult", "cholesky", "cholesky_ex", "eig", "eigh", "eigvals", "eigvalsh", "householder_product",
    "lu", "lu_factor", "lu_factor_ex", "matrix_sqrth", "polar", "qr", "svd", "svdvals",
]  # fmt: skip


class EigResult(NamedTuple):
    """What ``eig`` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """What ``eigh`` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What ``qr`` returns."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """What ``svd`` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class LUResult(NamedTuple):
    """What ``lu`` returns."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactorResult(NamedTuple):
    """What ``lu_factor`` returns."""

    LU: Tensor
    pivots: Tensor


class LUFactorExResult(NamedTuple):
    """What ``lu_factor_ex`` returns."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class CholeskyExResult(NamedTuple):
    """What ``cholesky_ex`` returns."""

    L: Tensor
    info: Tensor


class PolarResult(NamedTuple):
    """What ``polar`` returns."""

    U: Tensor
    H: Tensor


def adjoint(A: Tensor) -> Tensor:
    return _ops.conj(A.mT) if is_complex(A) else A.mT


def _lower(UPLO: str) -> str:
    if UPLO not in ("L", "U", "l", "u"):
        raise value_error(f"UPLO is 'L' or 'U', not {UPLO!r}")
    return UPLO.upper()


def eig(A: Any) -> EigResult:
    """Complex eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1.

    >>> tw.linalg.eig(tw.tensor([[1.0, 5.0], [0.0, 2.0]])).eigenvalues.tolist()
    [(1+0j), (2+0j)]
    """
    return EigResult(*_ops.eig(tensor(A)))


def eigvals(A: Any) -> Tensor:
    """Complex eigenvalues of a square matrix, in no order.

    >>> tw.linalg.eigvals(tw.tensor([[1.0, 5.0], [0.0, 2.0]])).tolist()
    [(1+0j), (2+0j)]
    """
    return _ops.eigvals(tensor(A))


def eigh(A: Any, UPLO: str = "L") -> EighResult:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns.

    >>> tw.linalg.eigh(tw.tensor([[2.0, 1.0j], [-1.0j, 2.0]])).eigenvalues.tolist()
    [1.0, 3.0]
    """
    return EighResult(*_ops.eigh_of(tensor(A), _lower(UPLO)))


def eigvalsh(A: Any, UPLO: str = "L") -> Tensor:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending.

    >>> tw.linalg.eigvalsh(tw.tensor([[2.0, 1.0], [1.0, 2.0]])).tolist()
    [1.0, 3.0]
    """
    return _ops.eigvalsh_of(tensor(A), _lower(UPLO))


def qr(A: Any, mode: str = "reduced") -> QRResult:
    """A matrix with orthonormal columns and a triangular one whose product is this one. ``mode="complete"`` makes the
    first square, ``mode="r"`` leaves it out.

    >>> [t.shape for t in tw.linalg.qr(tw.ones(3, 2), mode="complete")]
    [talweg.Size([3, 3]), talweg.Size([3, 2])]
    """
    if mode not in ("reduced", "complete", "r"):
        raise value_error(f"qr: mode is 'reduced', 'complete' or 'r', not {mode!r}")
    q, r = _ops.qr_full(tensor(A)) if mode == "complete" else _ops.qr(tensor(A))
    return QRResult(_native.zeros(0, dtype=r.dtype) if mode == "r" else q, r)


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> SVDResult:
    """U, the singular values in descending order, and V*, whose product is this matrix. ``full_matrices=False`` leaves
    out the columns of U and rows of V* that belong to no singular value. ``driver`` chooses nothing.

    >>> u, s, vh = tw.linalg.svd(tw.tensor([[0.0, 2.0j], [3.0, 0.0], [0.0, 0.0]]))
    >>> u.shape, s.tolist(), vh.shape
    (talweg.Size([3, 3]), [3.0, 2.0], talweg.Size([2, 2]))
    """
    del driver
    return SVDResult(*(_ops.svd_full(tensor(A)) if full_matrices else _ops.svd(tensor(A))))


def svdvals(A: Any, *, driver: str | None = None) -> Tensor:
    """Singular values in descending order. ``driver`` chooses nothing.

    >>> tw.linalg.svdvals(tw.tensor([[0.0, 2.0], [3.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    del driver
    return _ops.svdvals(tensor(A))


def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix.

    >>> tw.linalg.cholesky(tw.tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    A = tensor(A)
    return _ops.cholesky_upper(A) if upper else _ops.cholesky(A)


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyExResult:
    """The triangular factor, and 0, or 1 for a matrix that is not positive definite, whose factor is NaN.

    >>> tw.linalg.cholesky_ex(tw.tensor([[4.0]])).info.item()
    0
    """
    L = or_nan(lambda A: cholesky(A, upper=upper), tensor(A))
    return CholeskyExResult(L, info_of(L, check_errors, "cholesky_ex: a matrix is not positive definite"))


def or_nan(f: Callable[..., Tensor], *matrices: Tensor) -> Tensor:
    """The result for each matrix; NaN where there is none, which otherwise ends the computation."""
    result = f(*matrices)
    if result.is_symbolic:
        return result
    for m in matrices:
        m.detach().eval()  # an error in what they are made of is no matrix without a result
    try:
        result.detach().reshape(-1)[:1].tolist()
        return result
    except ArgumentError:
        batch = tuple(result.shape[:-2])
        if not batch:
            return matrices[0].new_full(tuple(result.shape), float("nan"))
        rows = [m.broadcast_to(batch + tuple(m.shape[m.ndim - 2 :])).reshape((-1, *m.shape[m.ndim - 2 :])) for m in matrices]
        each = [or_nan(f, *parts) for parts in zip(*rows)]
        return Tensor.stack(each).reshape(result.shape)


def info_of(result: Tensor, check_errors: bool, what: str) -> Tensor:
    """0 for each matrix of a result that is finite, else 1."""
    finite = (_ops.abs(result) if is_complex(result) else result).detach().isfinite()
    bad = (~finite).any((-2, -1)) if finite.ndim > 1 else ~finite
    info = bad.astype("int32")
    if check_errors and bool(bad.any()):
        raise value_error(what)
    return info


def lu(A: Any, *, pivot: bool = True) -> LUResult:
    """A permutation matrix, a unit lower and an upper triangular matrix whose product is this one.

    >>> [t.shape for t in tw.linalg.lu(tw.ones(3, 2))]
    [talweg.Size([3, 3]), talweg.Size([3, 2]), talweg.Size([2, 2])]
    """
    _pivoted(pivot, "lu")
    return LUResult(*_ops.lu(tensor(A)))


def _pivoted(pivot: bool, name: str) -> None:
    if not pivot:
        raise value_error(f"{name}: pivot=False is not supported, as in PyTorch on the CPU: leave it out")


def lu_factor(A: Any, *, pivot: bool = True) -> LUFactorResult:
    """The factors of ``lu`` in one matrix, and the row each step exchanged with its own, counted from 1.

    >>> tw.linalg.lu_factor(tw.tensor([[0.0, 1.0], [2.0, 3.0]])).pivots.tolist()
    [2, 2]
    """
    _pivoted(pivot, "lu_factor")
    P, L, U = _ops.lu(tensor(A))
    m, n = L.shape[-2], U.shape[-1]
    k = min(m, n)
    below = _ops.tril(L, -1)
    if n > k:
        below = _ops.pad(below, [0, n - k])
    upper = _ops.pad(U, [0, 0, 0, m - k]) if m > k else U
    return LUFactorResult(below + upper, _pivots(P, k))


def _pivots(P: Tensor, k: int) -> Tensor:
    """The exchanges of rows that make up a permutation matrix."""
    from .._graph import fori_loop

    m = P.shape[-1]
    rows = _ops.argmax(P.detach(), -2).reshape(math.prod(P.shape[:-2]), m)  # the row that ends at each place
    here = _native.arange(m)

    def step(i: Any, state: Any) -> Any:
        order, pivots = state
        at_i = here == i
        wanted = _ops.where(at_i, rows, 0).sum(-1, keepdims=True)
        found = order == wanted
        j = _ops.where(found, here, 0).sum(-1, keepdims=True)
        moved = _ops.where(at_i, order, 0).sum(-1, keepdims=True)
        order = _ops.where(at_i, wanted, _ops.where(found, moved, order))
        return order, _ops.where(at_i, j + 1, pivots)

    start = (here.broadcast_to(rows.shape) + rows * 0, rows * 0)
    _, pivots = fori_loop(0, k, step, start) if k else start
    return pivots[:, :k].reshape(*P.shape[:-2], k).astype("int32")


def permutation(pivots: Tensor, m: int) -> Tensor:
    """The row of the matrix that exchanges bring to each place."""
    from .._graph import fori_loop

    k = pivots.shape[-1]
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), k).astype("int64") - 1
    here, steps = _native.arange(m), _native.arange(k)

    def step(i: Any, order: Any) -> Any:
        j = _ops.where(steps == i, flat, 0).sum(-1, keepdims=True)
        at_i, at_j = here == i, here == j
        first = _ops.where(at_i, order, 0).sum(-1, keepdims=True)
        second = _ops.where(at_j, order, 0).sum(-1, keepdims=True)
        return _ops.where(at_i, second, _ops.where(at_j, first, order))

    start = here.broadcast_to((flat.shape[0], m)) + flat.sum(-1, keepdims=True) * 0
    order = fori_loop(0, k, step, start) if k else start
    return order.reshape(*pivots.shape[:-1], m)


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> LUFactorExResult:
    """The result of ``lu_factor``, and the first zero on the diagonal of U, counted from 1, or 0.

    >>> tw.linalg.lu_factor_ex(tw.ones(2, 2)).info.item()
    2
    """
    LU, pivots = lu_factor(A, pivot=pivot)
    zero = _ops.diagonal(LU.detach(), 0, -2, -1) == 0
    if math.prod(zero.shape) == 0:
        return LUFactorExResult(LU, pivots, _native.zeros(LU.shape[:-2], dtype="int32"))
    first = _ops.argmax(zero.astype("int32"), -1) + 1
    info = _ops.where(zero.any(-1), first, 0).astype("int32")
    if check_errors and bool((info != 0).any()):
        raise value_error("lu_factor_ex: a matrix is singular")
    return LUFactorExResult(LU, pivots, info)


def householder_product(A: Any, tau: Any) -> Tensor:
    """The first columns of the product of reflectors ``I - tau v v*``, whose vectors are below A's diagonal.

    >>> tw.linalg.householder_product(tw.tensor([[1.0], [0.0]]), tw.tensor([0.0])).tolist()
    [[1.0], [0.0]]
    """
    A, tau = tensor(A), tensor(tau)
    m, n = A.shape[-2:]
    if math.prod(A.shape) == 0:
        return A
    start = _native.eye(m, n, dtype=A.dtype).broadcast_to((*A.shape[:-2], m, n))
    return reflected(A, tau, start, False) if tau.shape[-1] else start + A * 0


def reflected(A: Tensor, tau: Tensor, other: Tensor, is_adjoint: bool) -> Tensor:
    """The product of reflectors, or its adjoint, times a matrix."""
    m, k = A.shape[-2], tau.shape[-1]
    vectors = _ops.tril(A[..., :k], -1) + _native.eye(m, k, dtype=A.dtype)
    for i in range(k) if is_adjoint else reversed(range(k)):
        v = vectors[..., i : i + 1]
        scale = tau[..., i : i + 1].unsqueeze(-1)
        scale = _ops.conj(scale) if is_adjoint and is_complex(scale) else scale
        other = other - scale * (v @ (adjoint(v) @ other))
    return other


def matrix_sqrth(A: Any) -> Tensor:
    """The square root of a symmetric or Hermitian positive definite matrix.

    >>> tw.linalg.matrix_sqrth(tw.tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    values, vectors = eigh(A)
    return (vectors * _ops.sqrt(values).unsqueeze(-2)) @ adjoint(vectors)


def polar(A: Any) -> PolarResult:
    """A matrix with orthonormal columns and a positive semidefinite one whose product is this one.

    >>> tw.linalg.polar(tw.tensor([[0.0, 2.0], [-3.0, 0.0]])).H.tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """
    u, s, vh = svd(A, full_matrices=False)
    return PolarResult(u @ vh, (adjoint(vh) * s.unsqueeze(-2)) @ vh)
