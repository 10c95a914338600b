"""Norms, ranks, determinants and products."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _native, _ops
from .._checked import value_error
from .._functions.arguments import axes_of, is_complex, is_number, tensor
from .._functions.products import multi_dot
from .._native import Tensor

__all__ = [
    "SlogdetResult", "cond", "cross", "det", "diagonal", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "slogdet", "vander", "vecdot", "vector_norm",
]  # fmt: skip

Dims = int | Sequence[int] | None


class SlogdetResult(NamedTuple):
    """What ``slogdet`` returns."""

    sign: Tensor
    logabsdet: Tensor


def _typed(A: Tensor, dtype: Any) -> Tensor:
    return A if dtype is None else A.astype(dtype)


def vector_norm(x: Any, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The length of vectors along dimensions, by an order: 2, 1, 0 (what is not zero), inf, -inf, or another.

    >>> tw.linalg.vector_norm(tw.tensor([3.0, 4.0])).item()
    5.0
    """
    x = _typed(tensor(x), dtype)
    if x.ndim == 0:
        axes_of(dim, 0, "vector_norm")
        return _ops.vector_norm(x.reshape(1), float(ord), [0])
    axes = axes_of(dim, x.ndim, "vector_norm")
    return _ops.vector_norm(x, float(ord), axes, keepdims=keepdim)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The size of matrices: ``"fro"``, ``"nuc"``, 1, -1, 2, -2, inf or -inf.

    >>> tw.linalg.matrix_norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    A = _typed(tensor(A), dtype)
    if A.ndim < 2 or len(dim) != 2:
        raise value_error(f"matrix_norm: expected a matrix and two dimensions, not {A.ndim} and {tuple(dim)}")
    return _ops.matrix_norm(A, ord, tuple(axes_of(dim, A.ndim, "matrix_norm")), keepdims=keepdim)


def norm(A: Any, ord: Any = None, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of vectors, or of matrices where ``dim`` names two dimensions or ``ord`` is given for a matrix.

    >>> tw.linalg.norm(tw.tensor([3.0, 4.0])).item()
    5.0
    >>> tw.linalg.norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]]), 2).item()
    4.0
    """
    A = _typed(tensor(A), dtype)
    if dim is None and ord is not None and A.ndim == 2:
        dim = (0, 1)
    if isinstance(dim, (tuple, list)) and len(dim) == 2 and ord is not None:
        return matrix_norm(A, ord, dim, keepdim)
    if isinstance(ord, str):
        raise value_error(f"norm: order {ord!r} is for matrices: name two dimensions")
    if dim is None and ord is not None and A.ndim > 2:
        raise value_error(f"norm: with ord and no dim, expected a vector or a matrix, not {A.ndim} dimensions")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)


def cond(A: Any, p: Any = None) -> Tensor:
    """How much a matrix magnifies relative errors: its norm times that of its inverse.

    >>> tw.linalg.cond(tw.tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    2.0
    """
    A = tensor(A)
    if math.prod(A.shape) == 0:
        return _native.zeros(A.shape[:-2], dtype=A.real.dtype if is_complex(A) else A.dtype)
    if p is None or p in (2, -2):
        s = _ops.svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(A, p) * matrix_norm(_ops.inv(A), p)


def tolerance(A: Tensor, largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Singular values not above this count as zero."""
    eps = 2.0**-52 if A.dtype.name in ("float64", "complex128") else 2.0**-23
    kind = largest.dtype
    least = None if atol is None else tensor(atol).astype(kind)
    if rtol is None:
        relative: Any = max(A.shape[-2:]) * eps
        if least is not None:
            # An absolute tolerance above zero replaces the default.
            relative = _ops.where(least > 0, 0.0, relative).astype(kind)
    else:
        relative = rtol if is_number(rtol) else tensor(rtol).astype(kind)
    bound = largest * relative
    return bound if least is None else _ops.maximum(bound, least + bound * 0)


def singular_values(A: Tensor, hermitian: bool) -> Tensor:
    return _ops.abs(_ops.eigvalsh(A)) if hermitian else _ops.svdvals(A)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The number of singular values above ``max(atol, rtol * largest)``.

    >>> tw.linalg.matrix_rank(tw.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    A = tensor(A)
    if math.prod(A.shape) == 0:
        return _native.zeros(A.shape[:-2], dtype="int64")
    if tol is not None:
        atol, rtol = tol, 0.0
    s = singular_values(A, hermitian)
    return (s > tolerance(A, _ops.amax(s, -1), atol, rtol).unsqueeze(-1)).astype("int64").sum(-1)


def det(A: Any) -> Tensor:
    """The determinant of a square matrix.

    >>> tw.linalg.det(tw.tensor([[2.0, 0.0], [0.0, 3.0]])).item()
    6.0
    """
    return _ops.det(A)


def slogdet(A: Any) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude.

    >>> tw.linalg.slogdet(tw.tensor([[0.0, 1.0], [1.0, 0.0]])).sign.item()
    -1.0
    """
    return SlogdetResult(*_ops.slogdet(A))


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements.

    >>> tw.linalg.cross(tw.tensor([1.0, 0.0, 0.0]), tw.tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    return _ops.cross(input, other, dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The elements on a diagonal of matrices.

    >>> tw.linalg.diagonal(tw.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return _ops.diagonal(A, offset, dim1, dim2)


def matmul(input: Any, other: Any) -> Tensor:
    """The matrix product.

    >>> tw.linalg.matmul(tw.ones(2, 3), tw.ones(3, 1)).tolist()
    [[3.0], [3.0]]
    """
    return _ops.matmul(input, other)


def matrix_exp(A: Any) -> Tensor:
    """The exponential of a square matrix.

    >>> tw.linalg.matrix_exp(tw.zeros(2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _ops.matrix_exp(A)


def matrix_power(A: Any, n: int) -> Tensor:
    """A square matrix multiplied with itself ``n`` times; a negative power is that of the inverse.

    >>> tw.linalg.matrix_power(tw.tensor([[2.0, 0.0], [0.0, 3.0]]), 2).tolist()
    [[4.0, 0.0], [0.0, 9.0]]
    """
    return _ops.matrix_power(A, n)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """Sums of products along a dimension, of which the first factors are conjugated.

    >>> tw.linalg.vecdot(tw.tensor([1.0, 2.0]), tw.tensor([3.0, 4.0])).item()
    11.0
    """
    x = tensor(x)
    return ((_ops.conj(x) if is_complex(x) else x) * tensor(y)).sum(dim)


def vander(x: Any, N: int | None = None) -> Tensor:
    """The matrix of powers 0, 1, … N - 1 of each element.

    >>> tw.linalg.vander(tw.tensor([2, 3])).tolist()
    [[1, 2], [1, 3]]
    """
    x = tensor(x)
    x = x.reshape(1) if x.ndim == 0 else x
    n = x.shape[-1] if N is None else N
    if n <= 1:
        return _native.ones((*x.shape, n), dtype=x.dtype)
    column = x.unsqueeze(-1)
    parts = [column] * (n - 1)
    powers = _ops.cumprod(_ops.concat(parts, -1), -1)
    return _ops.concat([_native.ones(column.shape, dtype=powers.dtype), powers], -1).astype(x.dtype)
