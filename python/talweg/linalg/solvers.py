"""Linear systems: solutions, inverses, least squares."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _native, _ops
from .._checked import value_error
from .._functions.arguments import is_complex, tensor
from .decompositions import adjoint, info_of, or_nan, permutation
from .norms import tolerance
from .._native import Tensor

__all__ = [
    "InvExResult", "LstsqResult", "SolveExResult", "inv", "inv_ex", "lstsq", "lu_solve", "pinv", "solve",
    "solve_ex", "solve_triangular", "tensorinv", "tensorsolve",
]  # fmt: skip


class InvExResult(NamedTuple):
    """What ``inv_ex`` returns."""

    inverse: Tensor
    info: Tensor


class SolveExResult(NamedTuple):
    """What ``solve_ex`` returns."""

    result: Tensor
    info: Tensor


class LstsqResult(NamedTuple):
    """What ``lstsq`` returns."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def inv(A: Any) -> Tensor:
    """The inverse of a square matrix.

    >>> tw.linalg.inv(tw.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return _ops.inv(tensor(A))


def inv_ex(A: Any, *, check_errors: bool = False) -> InvExResult:
    """The inverse, and 0, or 1 for a matrix that has none.

    >>> tw.linalg.inv_ex(tw.tensor([[2.0]])).info.item()
    0
    """
    inverse = or_nan(inv, tensor(A))
    return InvExResult(inverse, info_of(inverse, check_errors, "inv_ex: a matrix is singular"))


def _is_vector(A: Tensor, B: Tensor) -> bool:
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(A.shape[:-1]) == tuple(B.shape))


def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """X with A X = B, or with ``left=False`` X A = B. B may be a vector, or one for each matrix.

    >>> tw.linalg.solve(tw.tensor([[2.0, 0.0], [0.0, 4.0]]), tw.tensor([2.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    A, B = tensor(A), tensor(B)
    vector = _is_vector(A, B)
    if vector:
        if not left:
            raise value_error("solve: with left=False, B must be a matrix")
        B = B.unsqueeze(-1)
    X = _solved(A, B, left)
    return X[..., 0] if vector else X


def _solved(A: Tensor, B: Tensor, left: bool) -> Tensor:
    """``solve`` of a matrix: with as many dimensions as A, the op does not take it for vectors."""
    B = B.reshape((1,) * (A.ndim - B.ndim) + tuple(B.shape))
    return _ops.solve(A, B) if left else _ops.solve(A.mT, B.mT).mT


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolveExResult:
    """The result of ``solve``, and 0, or 1 for a matrix that is singular.

    >>> tw.linalg.solve_ex(tw.tensor([[2.0]]), tw.tensor([[4.0]])).result.tolist()
    [[2.0]]
    """
    A, B = tensor(A), tensor(B)
    vector = _is_vector(A, B)
    if vector and not left:
        raise value_error("solve_ex: with left=False, B must be a matrix")
    X = or_nan(lambda A, B: _solved(A, B, left), A, B.unsqueeze(-1) if vector else B)
    info = info_of(X, check_errors, "solve_ex: a matrix is singular")
    return SolveExResult(X[..., 0] if vector else X, info)


def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B, or with ``left=False`` X A = B, for a triangular A, of which the other half is not read.

    >>> tw.linalg.solve_triangular(tw.tensor([[2.0, 0.0], [1.0, 1.0]]), tw.tensor([[2.0], [3.0]]), upper=False).tolist()
    [[1.0], [2.0]]
    """
    return _ops.triangular_solve(tensor(A), tensor(B), upper, not left, unitriangular)


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B, or X A = B, from the factors that ``lu_factor`` found of A; ``adjoint`` is of A's adjoint.

    >>> LU, pivots = tw.linalg.lu_factor(tw.tensor([[0.0, 1.0], [2.0, 0.0]]))
    >>> tw.linalg.lu_solve(LU, pivots, tw.tensor([[1.0], [4.0]])).tolist()
    [[2.0], [1.0]]
    """
    LU, pivots, B = tensor(LU), tensor(pivots), tensor(B)
    if not left:
        # X A = B is A* X* = B*.
        return _adjoint(lu_solve(LU, pivots, _adjoint(B), adjoint=not adjoint))
    order = permutation(pivots, LU.shape[-1])
    batch = _ops.add(_native.zeros((*LU.shape[:-2], 1)), _native.zeros((*B.shape[:-2], 1))).shape[:-1]
    B = B.broadcast_to((*batch, *B.shape[-2:]))
    index = order.unsqueeze(-1).broadcast_to((*batch, *B.shape[-2:]))
    if not adjoint:
        half = _ops.triangular_solve(LU, _ops.gather(B, -2, index), False, False, True)
        return _ops.triangular_solve(LU, half, True, False, False)
    upper = _ops.triangular_solve(_adjoint(LU), B, False, False, False)
    lower = _ops.triangular_solve(_adjoint(LU), upper, True, False, True)
    return _ops.gather(lower, -2, _ops.argsort(order, -1).unsqueeze(-1).broadcast_to((*batch, *B.shape[-2:])))


_adjoint = adjoint


def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The inverse of Moore and Penrose; singular values not above ``max(atol, rtol * largest)`` count as zero.

    >>> tw.linalg.pinv(tw.tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    A = tensor(A)
    rtol = rcond if rtol is None else rtol
    if math.prod(A.shape) == 0:
        return A.mT
    if hermitian:
        # The lower triangle is read; the gradient is that of a symmetric matrix.
        whole = (A + _adjoint(A)) * 0.5
        lower = _ops.tril(A) + _adjoint(_ops.tril(A, -1))
        A = whole + (lower - whole).detach()
    if atol is None and (rtol is None or isinstance(rtol, (int, float))):
        return _ops.pinv(A) if rtol is None else _ops.pinv_rtol(A, float(rtol))
    u, s, vh = _ops.svd(A)
    kept = s > tolerance(A, s[..., 0], atol, rtol).unsqueeze(-1)
    inverse = _ops.where(kept, 1.0 / _ops.where(kept, s, 1.0), 0.0)
    return (_adjoint(vh) * inverse.unsqueeze(-2)) @ _adjoint(u)


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """The X of least length among those that make A X - B shortest, with the squared residuals of a full-rank,
    overdetermined system, the rank, and the singular values. ``driver`` says which of these are there, as in PyTorch.

    >>> tw.linalg.lstsq(tw.tensor([[1.0], [1.0]]), tw.tensor([[1.0], [3.0]])).solution.tolist()
    [[2.0]]
    """
    A, B = tensor(A), tensor(B)
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise value_error(f"lstsq: driver is 'gels', 'gelsy', 'gelsd' or 'gelss', not {driver!r}")
    vector = _is_vector(A, B)
    B2 = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    X = pinv(A, rtol=rcond) @ B2 if rcond is not None and driver != "gels" else _ops.lstsq(A, B2)
    nothing = _native.zeros(0, dtype=A.real.dtype if is_complex(A) else A.dtype)
    rank, values = _native.zeros(0, dtype="int64"), nothing
    if driver != "gels":
        s = _ops.svdvals(A.detach())
        bound = tolerance(A, s[..., :1].sum(-1), None, rcond if rcond is not None and rcond >= 0 else None)
        rank = (s > bound.unsqueeze(-1)).astype("int64").sum(-1)
        values = s if driver in ("gelsd", "gelss") else nothing
    residuals = nothing
    if m > n and driver != "gelsy" and (driver == "gels" or bool((rank == n).all())):
        residuals = (_ops.abs(A @ X - B2) ** 2).sum(-2)
    return LstsqResult(X[..., 0] if vector else X, residuals, rank, values)


def tensorinv(A: Any, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a map from its last dimensions to its first ``ind``.

    >>> tw.linalg.tensorinv(tw.eye(4).reshape(2, 2, 4), ind=2).shape
    talweg.Size([4, 2, 2])
    """
    A = tensor(A)
    first, last = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise value_error(f"tensorinv: {tuple(first)} and {tuple(last)} have different numbers of elements")
    return _ops.inv(A.reshape(math.prod(first), -1)).reshape(*last, *first)


def tensorsolve(A: Any, B: Any, dims: Sequence[int] | None = None) -> Tensor:
    """X with ``tensordot(A, X, X.ndim) = B``.

    >>> tw.linalg.tensorsolve(tw.eye(4).reshape(2, 2, 4), tw.ones(2, 2)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    A, B = tensor(A), tensor(B)
    if dims is not None:
        A = _ops.moveaxis(A, list(dims), list(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    if math.prod(shape) != math.prod(B.shape):
        raise value_error(f"tensorsolve: {tuple(shape)} and {tuple(B.shape)} have different numbers of elements")
    return solve(A.reshape(-1, math.prod(shape)), B.reshape(-1)).reshape(shape)
