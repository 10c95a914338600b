"""``tf.linalg``, and sums over segments."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import talweg as tw

from ... import _native
from ...distributions.special import solve_triangular
from .dtypes import INT64
from .arrays import diag_part, ints, matrix_band_part, matrix_diag, matrix_transpose  # noqa: F401
from .constants import eye  # noqa: F401
from .errors import wrong_shape
from .graph import Tensor, convert_to_tensor, make
from .infer import constant_value
from .maths import einsum, matmul, norm, same_type, tensordot, trace  # noqa: F401
from .shapes import TensorShape

band_part, transpose = matrix_band_part, matrix_transpose


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangular factor of positive definite matrices."""
    x = convert_to_tensor(input)
    return make("Cholesky", [x], lambda ctx, v: v.cholesky(), name, x.dtype, x.shape)


def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of matrices."""
    x = convert_to_tensor(input)
    return make("MatrixInverse", [x], lambda ctx, v: (v.mT if adjoint else v).inv(), name, x.dtype, x.shape)


def det(input: Any, name: str | None = None) -> Tensor:
    """The determinant of matrices."""
    return make("MatrixDeterminant", [convert_to_tensor(input)], lambda ctx, v: v.det(), name)


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """``X`` with ``matrix X = rhs``."""
    a, b = same_type("matrix_solve", matrix, rhs)
    return make("MatrixSolve", [a, b], lambda ctx, m, r: tw.linalg.solve(m.mT if adjoint else m, r), name, b.dtype, b.shape)


def triangular_solve(matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None) -> Tensor:
    """``X`` with ``matrix X = rhs`` for triangular matrices."""
    a, b = same_type("matrix_triangular_solve", matrix, rhs)

    def lowered(ctx: Any, m: Any, r: Any) -> Any:
        m = m.tril() if lower else m.triu()
        return solve_triangular(m.mT if adjoint else m, r, lower == adjoint)

    return make("MatrixTriangularSolve", [a, b], lowered, name, b.dtype, b.shape)


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values, and the vectors ``u`` and ``v`` with ``a = u diag(s) vᵀ``."""
    x = convert_to_tensor(tensor)
    if not compute_uv:
        return make("Svd", [x], lambda ctx, a: tw.linalg.svdvals(a), name)
    if full_matrices:
        from .errors import unimplemented

        raise unimplemented("svd(full_matrices=True)")
    known = x.shape.as_list()
    batch, (m, n) = known[:-2], known[-2:]
    k = None if m is None or n is None else min(m, n)

    def lowered(ctx: Any, a: Any) -> list[Any]:
        u, s, vh = tw.linalg.svd(a, full_matrices=False)
        return [s, u, vh.mT]

    outputs = [(x.dtype, [*batch, k]), (x.dtype, [*batch, m, k]), (x.dtype, [*batch, n, k])]
    return tuple(make("Svd", [x], lowered, name, outputs=outputs))


def eigh(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues in ascending order and eigenvectors of symmetric matrices."""
    x = convert_to_tensor(tensor)
    made = make("SelfAdjointEigV2", [x], lambda ctx, a: list(tw.linalg.eigh(a)), name, outputs=[(x.dtype, x.shape[:-1]), (x.dtype, x.shape)])
    return tuple(made)


matrix_inverse, matrix_determinant, matrix_solve, matrix_triangular_solve, self_adjoint_eig = inv, det, solve, triangular_solve, eigh


def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Rows summed by their segment."""
    x, i, n = convert_to_tensor(data), convert_to_tensor(segment_ids), ints(num_segments)
    known = constant_value(n)
    size = None if known is None else known.item()

    def lowered(ctx: Any, v: Any, j: Any, _: Any) -> Any:
        rows = v.reshape([-1, *v.shape[j.ndim :]])
        zeros = _native.zeros([int(ctx.host(n)), *v.shape[j.ndim :]], dtype=v.dtype)
        return zeros.index_add(0, j.reshape(-1).to(INT64), rows)

    rest = TensorShape(None) if x.shape.ndims is None or i.shape.ndims is None else x.shape[len(i.shape) :]
    return make("UnsortedSegmentSum", [x, i, n], lowered, name, x.dtype, TensorShape([size]).concatenate(rest))


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Rows summed by their segment; the numbers of segments ascend, and the last one says how many there are."""
    i = convert_to_tensor(segment_ids)
    return unsorted_segment_sum(data, i, i[-1] + 1, name)


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The mean of rows by their segment."""
    from .constants import ones_like
    from .maths import div_no_nan

    x = convert_to_tensor(data)
    return div_no_nan(segment_sum(x, segment_ids), segment_sum(ones_like(x), segment_ids), name)


def confusion_matrix(labels: Any, predictions: Any, num_classes: Any = None, dtype: Any = "int32", name: str | None = None, weights: Any = None) -> Tensor:
    """How often each label was predicted as each class."""
    from .arrays import reshape
    from .constants import ones_like
    from .maths import cast

    if num_classes is None:
        raise wrong_shape("confusion_matrix: give num_classes")
    y, x = cast(convert_to_tensor(labels), "int64"), cast(convert_to_tensor(predictions), "int64")
    w = cast(ones_like(y) if weights is None else convert_to_tensor(weights), dtype)
    flat = unsorted_segment_sum(w, y * num_classes + x, num_classes * num_classes)
    return reshape(flat, [num_classes, num_classes], name)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The inverse of an order."""
    t = convert_to_tensor(x)
    return make("InvertPermutation", [t], lambda ctx, v: v.argsort(0).to(t.dtype.native), name, t.dtype, t.shape)


__all__ = [
    "cholesky",
    "matrix_inverse",
    "matrix_determinant",
    "matrix_solve",
    "matrix_triangular_solve",
    "self_adjoint_eig",
    "svd",
    "segment_sum",
    "segment_mean",
    "unsorted_segment_sum",
    "confusion_matrix",
    "invert_permutation",
]
