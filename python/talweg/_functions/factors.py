"""Functions of matrices that PyTorch has outside of ``linalg``."""

from typing import Any, NamedTuple

from .. import _native, _ops
from .._checked import value_error
from .arguments import is_complex, tensor
from .register import public
from .._native import Tensor


class SVDResult(NamedTuple):
    """What ``svd`` returns."""

    U: Tensor
    S: Tensor
    V: Tensor


class LUUnpackResult(NamedTuple):
    """What ``lu_unpack`` returns."""

    P: Tensor
    L: Tensor
    U: Tensor


class TriangularSolveResult(NamedTuple):
    """What ``triangular_solve`` returns."""

    solution: Tensor
    cloned_coefficient: Tensor


class GeqrfResult(NamedTuple):
    """What ``geqrf`` returns."""

    a: Tensor
    tau: Tensor


def _adjoint(A: Tensor) -> Tensor:
    return _ops.conj(A.mT) if is_complex(A) else A.mT


@public
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> SVDResult:
    """U, the singular values in descending order, and V (not its adjoint, as in ``linalg.svd``).

    >>> [t.shape for t in tw.svd(tw.ones(3, 2))]
    [talweg.Size([3, 2]), talweg.Size([2]), talweg.Size([2, 2])]
    """
    if not compute_uv:
        m, n = input.shape[-2:]
        u = _native.zeros((*input.shape[:-2], m, m), dtype=input.dtype)
        return SVDResult(u, _ops.svdvals(input), _native.zeros((*input.shape[:-2], n, n), dtype=input.dtype))
    u, s, vh = _ops.svd(input) if some else _ops.svd_full(input)
    return SVDResult(u, s, _adjoint(vh))


@public
def qr(input: Any, some: bool = True) -> Any:
    """The result of ``linalg.qr``; ``some=False`` makes the first factor square.

    >>> [t.shape for t in tw.qr(tw.ones(3, 2))]
    [talweg.Size([3, 2]), talweg.Size([2, 2])]
    """
    from ..linalg import qr

    return qr(input, "reduced" if some else "complete")


@public
def lu(input: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """The factors in one matrix and the exchanges of rows, as ``linalg.lu_factor`` has them.

    >>> tw.lu(tw.tensor([[0.0, 1.0], [2.0, 3.0]]))[1].tolist()
    [2, 2]
    """
    from ..linalg import lu_factor_ex

    factors, pivots, infos = lu_factor_ex(input, pivot=pivot)
    return (factors, pivots, infos) if get_infos else (factors, pivots)


@public
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Tensor:
    """X with A X = input, from the factors that ``lu`` found of A.

    >>> tw.lu_solve(tw.tensor([[1.0], [4.0]]), *tw.lu(tw.tensor([[0.0, 1.0], [2.0, 0.0]]))).tolist()
    [[2.0], [1.0]]
    """
    from ..linalg import lu_solve

    return lu_solve(LU_data, LU_pivots, input)


@public(method=False)
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> LUUnpackResult:
    """The matrices P, L and U of what ``lu_factor`` found.

    >>> P, L, U = tw.lu_unpack(*tw.linalg.lu_factor(tw.tensor([[0.0, 1.0], [2.0, 3.0]])))
    >>> (P @ L @ U).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    from ..linalg.decompositions import permutation

    LU, pivots = tensor(LU_data), tensor(LU_pivots)
    m, n = LU.shape[-2:]
    k = min(m, n)
    P = L = U = _native.zeros(0, dtype=LU.dtype)
    if unpack_data:
        L = _ops.tril(LU[..., :k], -1) + _native.eye(m, k, dtype=LU.dtype)
        U = _ops.triu(LU[..., :k, :])
    if unpack_pivots:
        rows = permutation(pivots, m)
        P = (rows.unsqueeze(-2) == _native.arange(m).reshape(-1, 1)).astype(LU.dtype)
    return LUUnpackResult(P, L, U)


@public
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolveResult:
    """X with A X = input for a triangular A, or its transposed.

    >>> tw.triangular_solve(tw.tensor([[2.0]]), tw.tensor([[4.0]])).solution.tolist()
    [[0.5]]
    """
    A = tensor(A)
    read = A.mT if transpose else A
    X = _ops.triangular_solve(read, input, upper != transpose, False, unitriangular)
    return TriangularSolveResult(X, A.clone())


@public
def cholesky(input: Any, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix.

    >>> tw.cholesky(tw.tensor([[4.0]])).tolist()
    [[2.0]]
    """
    return _ops.cholesky_upper(input) if upper else _ops.cholesky(input)


@public
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Tensor:
    """X with A X = input, from A's factor ``input2``.

    >>> tw.cholesky_solve(tw.tensor([[8.0]]), tw.tensor([[2.0]])).tolist()
    [[2.0]]
    """
    factor = tensor(input2)
    lower = _adjoint(factor) if upper else factor
    half = _ops.triangular_solve(lower, input, False, False, False)
    return _ops.triangular_solve(_adjoint(lower), half, True, False, False)


@public
def cholesky_inverse(input: Any, upper: bool = False) -> Tensor:
    """The inverse of A, from its factor.

    >>> tw.cholesky_inverse(tw.tensor([[2.0]])).tolist()
    [[0.25]]
    """
    n = input.shape[-1]
    return cholesky_solve(_native.eye(n, dtype=input.dtype).broadcast_to(input.shape), input, upper)


@public
def pinverse(input: Any, rcond: float = 1e-15) -> Tensor:
    """The inverse of Moore and Penrose.

    >>> tw.pinverse(tw.tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    return _ops.pinv_rtol(input, float(rcond))


@public
def inverse(input: Any) -> Tensor:
    """The inverse of a square matrix.

    >>> tw.inverse(tw.tensor([[2.0]])).tolist()
    [[0.5]]
    """
    return _ops.inv(input)


@public
def slogdet(input: Any) -> Any:
    """The sign of the determinant and the logarithm of its magnitude.

    >>> tw.slogdet(tw.tensor([[-1.0]])).sign.item()
    -1.0
    """
    from ..linalg import slogdet

    return slogdet(input)


@public
def geqrf(input: Any) -> GeqrfResult:
    """The QR decomposition as reflectors: R on and above the diagonal, their vectors below it, and their factors.

    >>> tw.geqrf(tw.tensor([[3.0], [4.0]])).tau.tolist()
    [1.6]
    """
    m, n = input.shape[-2:]
    x, taus = input, []
    row = _native.arange(m).reshape(-1, 1)
    for i in range(min(m, n)):
        column = x[..., i : i + 1]
        alpha, below = x[..., i : i + 1, i : i + 1], _ops.where(row > i, column, 0.0)
        size = _ops.sqrt((below * below).sum((-2, -1), keepdims=True) + alpha * alpha)
        flat = (below * below).sum((-2, -1), keepdims=True) == 0
        beta = _ops.where(flat, alpha, -size * _ops.where(alpha < 0, -1.0, 1.0))
        tau = _ops.where(flat, 0.0, (beta - alpha) / _ops.where(flat, 1.0, beta))
        v = _ops.where(flat, 0.0, below / _ops.where(flat, 1.0, alpha - beta)) + (row == i).astype(x.dtype)
        right = x[..., :, i + 1 :]
        right = right - tau * (v @ (v.mT @ right))
        here = _ops.where(row == i, beta, _ops.where(row > i, v, column))
        x = _ops.concat([x[..., :, :i], here, right], -1)
        taus.append(tau[..., 0, 0])
    return GeqrfResult(x, _ops.stack(taus, -1) if taus else _native.zeros((*input.shape[:-2], 0), dtype=input.dtype))


@public
def orgqr(input: Any, input2: Any) -> Tensor:
    """The first columns of the product of reflectors with factors ``input2``, as ``linalg.householder_product``.

    >>> tw.orgqr(tw.tensor([[1.0]]), tw.tensor([0.0])).tolist()
    [[1.0]]
    """
    from ..linalg import householder_product

    return householder_product(input, input2)


@public
def ormqr(input: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of reflectors with factors ``input2``, or its adjoint, times the matrix ``input3``, or that times it.

    >>> tw.ormqr(tw.tensor([[1.0]]), tw.tensor([2.0]), tw.tensor([[3.0]])).tolist()
    [[-3.0]]
    """
    from ..linalg.decompositions import reflected

    tau, other = tensor(input2), tensor(input3)
    if left:
        return reflected(input, tau, other, transpose)
    return _adjoint(reflected(input, tau, _adjoint(other), not transpose))


def _range(A: Tensor, q: int, niter: int, M: Any) -> Tensor:
    """An orthonormal basis near the range of a matrix (Halko, Martinsson and Tropp 2009, algorithm 4.4)."""
    A = A if M is None else A - tensor(M)
    Q, _ = _ops.qr(A @ _native.randn((*A.shape[:-2], A.shape[-1], q), dtype=A.dtype))
    for _ in range(niter):
        Q, _ = _ops.qr(_adjoint(A) @ Q)
        Q, _ = _ops.qr(A @ Q)
    return Q


@public(method=False)
def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> SVDResult:
    """The largest ``q`` singular values of a matrix and their vectors, nearly, by random projection.

    >>> tw.svd_lowrank(tw.ones(5, 4), q=1).S.shape
    talweg.Size([1])
    """
    A = tensor(A) if M is None else tensor(A) - tensor(M)
    if not 0 <= q <= min(A.shape[-2:]):
        raise value_error(f"svd_lowrank: q must be at most {min(A.shape[-2:])}, not {q}")
    wide = A.shape[-2] < A.shape[-1]
    A = _adjoint(A) if wide else A
    Q = _range(A, q, niter, None)
    u, s, vh = _ops.svd(_adjoint(Q) @ A)
    u, v = Q @ u, _adjoint(vh)
    return SVDResult(v, s, u) if wide else SVDResult(u, s, v)


@public(method=False)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> SVDResult:
    """The principal components of rows, nearly, by random projection.

    >>> tw.pca_lowrank(tw.ones(5, 4), q=2).V.shape
    talweg.Size([4, 2])
    """
    A = tensor(A)
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdims=True) if center else A, q, niter)
