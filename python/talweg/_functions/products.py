"""Products of vectors and matrices that PyTorch has beyond the op table."""

from collections.abc import Sequence
from typing import Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import is_complex, is_floating, is_number, like, many, numel, tensor
from .reductions import cov
from .register import public
from .._native import Tensor


@public
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input`` plus ``alpha`` times the outer product of two vectors.

    >>> tw.addr(tw.ones(2, 2), tw.tensor([1.0, 2.0]), tw.tensor([3.0, 4.0])).tolist()
    [[4.0, 5.0], [7.0, 9.0]]
    """
    product = _ops.outer(vec1, vec2)
    product = product if is_number(alpha) and alpha == 1 else product * like(alpha, product)
    if is_number(beta) and beta == 0:
        return product
    return (input if is_number(beta) and beta == 1 else input * like(beta, input)) + product


@public
def vdot(input: Any, other: Any) -> Tensor:
    """The sum of the products of two vectors, of which the first is conjugated.

    >>> tw.vdot(tw.tensor([1.0j]), tw.tensor([1.0j])).item()
    (1+0j)
    """
    return _ops.dot(input.conj() if is_complex(input) else input, other)


@public(method=False)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The distance of each row of one matrix from each row of another, in the p-norm.

    >>> tw.cdist(tw.zeros(1, 2), tw.tensor([[3.0, 4.0]])).tolist()
    [[5.0]]
    """
    if compute_mode not in _MODES:
        raise value_error(f"cdist: compute_mode is one of {', '.join(_MODES)}, not {compute_mode!r}")
    x1, x2 = tensor(x1), tensor(x2)
    _native.check_types("cdist", [x1, x2], False)
    if x1.shape[-1] == 0 or numel(x1.shape) == 0 or numel(x2.shape) == 0:
        batch = _ops.add(_native.zeros((*x1.shape[:-2], 1)), _native.zeros((*x2.shape[:-2], 1))).shape[:-1]
        return _native.zeros((*batch, x1.shape[-2], x2.shape[-2]), dtype=x1.dtype)
    is_large = max(x1.shape[-2], x2.shape[-2]) > 25
    is_narrow = x1.dtype.name in ("float16", "bfloat16")
    is_float = x1.dtype == x2.dtype and (is_narrow or x1.dtype.name in ("float32", "float64"))
    if p == 2 and is_float and (compute_mode == _MODES[1] or (compute_mode == _MODES[0] and is_large)):
        # Squares of 16-bit floats are subtracted in 32 bits.
        return _distance_by_product(x1.float(), x2.float()).to(x1.dtype) if is_narrow else _distance_by_product(x1, x2)
    return _ops.cdist(x1, x2, p)


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _distance_by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """Euclidean distances from |x|² + |y|² - 2 x·y; their gradient is 0 where they are."""
    other = x2.transpose(-1, -2)
    squares = (x1 * x1).sum(-1, keepdim=True) + (other * other).sum(-2, keepdim=True) - 2 * (x1 @ other)
    is_far = squares > 0
    return _ops.where(is_far, _ops.sqrt(_ops.where(is_far, squares, 1.0)), 0.0)


@public(method=False)
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices.

    >>> tw.chain_matmul(tw.ones(2, 3), tw.ones(3, 4), tw.ones(4, 1)).tolist()
    [[12.0], [12.0]]
    """
    return multi_dot(many(matrices))


def multi_dot(tensors: Sequence[Any]) -> Tensor:
    """The product of several matrices in the order that needs the fewest multiplications. The first and the last may
    be vectors.

    >>> tw.linalg.multi_dot([tw.ones(2, 3), tw.ones(3, 4), tw.ones(4)]).tolist()
    [12.0, 12.0]
    """
    parts = [tensor(t) for t in tensors]
    if len(parts) < 2:
        raise value_error(f"multi_dot: expected at least 2 tensors, not {len(parts)}")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    if first:
        parts[0] = parts[0].reshape(1, -1)
    if last:
        parts[-1] = parts[-1].reshape(-1, 1)
    for a, b in zip(parts, parts[1:]):
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise value_error(f"multi_dot: shapes {[tuple(p.shape) for p in tensors]} do not multiply")
    sizes = [parts[0].shape[0], *(p.shape[1] for p in parts)]
    out = _product(parts, _best_splits(sizes), 0, len(parts) - 1)
    if first:
        out = out.reshape(out.shape[1:])
    return out.reshape(out.shape[:-1]) if last else out


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each product of neighbors (Cormen and others, chapter 15.2)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            at = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(at, key=at.__getitem__)
            cost[i, j] = at[split[i, j]]
    return split


def _product(parts: list[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return parts[i]
    k = split[i, j]
    return _product(parts, split, i, k) @ _product(parts, split, k + 1, j)


@public
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices along a dimension, those longer than ``maxnorm`` in the p-norm shortened to that.

    >>> tw.renorm(tw.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    axes = [i for i in range(input.ndim) if i != dim % input.ndim]
    size = _ops.vector_norm(input, p, axes, keepdims=True)
    factor = _ops.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return input * factor


@public(method=False)
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule, over points ``x`` or ``dx`` apart.

    >>> tw.trapezoid(tw.tensor([1.0, 2.0, 4.0])).item()
    4.5
    """
    return _ops.sum(_trapezoids(tensor(y), x, dx, dim), [dim])


@public(method=False)
def trapz(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The same as ``trapezoid``.

    >>> tw.trapz(tw.tensor([1.0, 2.0, 4.0]), dx=2.0).item()
    9.0
    """
    return trapezoid(y, x, dx=dx, dim=dim)


@public(method=False)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals from the first point to each other one.

    >>> tw.cumulative_trapezoid(tw.tensor([1.0, 2.0, 4.0])).tolist()
    [1.5, 4.5]
    """
    return _ops.cumsum(_trapezoids(tensor(y), x, dx, dim), dim)


def _trapezoids(y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    n = y.shape[dim]
    if n == 0:
        return y
    pairs = _ops.narrow(y, dim, 0, n - 1) + _ops.narrow(y, dim, 1, n - 1)
    if x is None:
        return pairs * (0.5 * (1.0 if dx is None else dx))
    if dx is not None:
        raise value_error("trapezoid: give x or dx, not both")
    x = tensor(x)
    if x.ndim == 1:
        shape = [1] * y.ndim
        shape[dim] = -1
        x = x.reshape(shape)
        steps = _ops.diff(x, 1, dim)
    else:
        # PyTorch lines up the last dimensions and sums along the same one.
        x = x.reshape(*[1] * (y.ndim - x.ndim), *x.shape)
        steps = _ops.diff(x, 1, dim)
    return pairs * steps * 0.5


@public
def corrcoef(input: Any) -> Tensor:
    """Correlation coefficients of the rows.

    >>> tw.corrcoef(tw.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(input)
    if c.ndim == 0:
        return c / c
    size = _ops.sqrt(_ops.diagonal(c).real if is_complex(c) else _ops.diagonal(c))
    c = c / size.reshape(-1, 1) / size.reshape(1, -1)
    if is_complex(c):
        return _ops.complex(_ops.clamp(c.real, -1.0, 1.0), _ops.clamp(c.imag, -1.0, 1.0))
    return _ops.clamp(c, -1.0, 1.0)




def _widened(dtype: Any, *tensors: Any) -> tuple[Any, ...]:
    """Operands in the type of the result, if that is given."""
    return tensors if dtype is None else tuple(tensor(t).astype(dtype) for t in tensors)


@public
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None) -> Tensor:
    """``beta * input`` plus ``alpha`` times the product of two matrices.

    >>> tw.addmm(tw.ones(1, 1), tw.ones(1, 2), tw.ones(2, 1), alpha=2).tolist()
    [[5.0]]
    """
    return _ops.addmm(*_widened(out_dtype, input, mat1, mat2), beta, alpha)


@public
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input`` plus ``alpha`` times the product of a matrix and a vector.

    >>> tw.addmv(tw.ones(1), tw.ones(1, 2), tw.ones(2)).tolist()
    [3.0]
    """
    return _ops.addmv(input, mat, vec, beta, alpha)


@public
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input`` plus ``alpha`` times the sum of the products of two lists of matrices.

    >>> tw.addbmm(tw.ones(1, 1), tw.ones(2, 1, 2), tw.ones(2, 2, 1)).tolist()
    [[5.0]]
    """
    return _ops.addbmm(input, batch1, batch2, beta, alpha)


@public
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None) -> Tensor:
    """``beta * input`` plus ``alpha`` times the products of two lists of matrices.

    >>> tw.baddbmm(tw.ones(1, 1, 1), tw.ones(1, 1, 2), tw.ones(1, 2, 1)).tolist()
    [[[3.0]]]
    """
    return _ops.baddbmm(*_widened(out_dtype, input, batch1, batch2), beta, alpha)


@public(method=False)
def mm(input: Any, mat2: Any, out_dtype: Any = None) -> Tensor:
    """The product of two matrices, without broadcasting, computed in ``out_dtype`` if given.

    >>> tw.mm(tw.ones(1, 2), tw.ones(2, 1)).tolist()
    [[2.0]]
    """
    return _ops.mm(*_widened(out_dtype, input, mat2))


@public(method=False)
def bmm(input: Any, mat2: Any, out_dtype: Any = None) -> Tensor:
    """The products of two lists of matrices, without broadcasting, computed in ``out_dtype`` if given.

    >>> tw.bmm(tw.ones(1, 1, 2), tw.ones(1, 2, 1)).tolist()
    [[[2.0]]]
    """
    return _ops.bmm(*_widened(out_dtype, input, mat2))


@public(method=False)
def mv(input: Any, vec: Any) -> Tensor:
    """The product of a matrix and a vector.

    >>> tw.mv(tw.ones(1, 2), tw.ones(2)).tolist()
    [2.0]
    """
    return _ops.mv(input, vec)


@public(names=["ger"])
def outer(input: Any, vec2: Any) -> Tensor:
    """The matrix of the products of each element of one vector with each of another.

    >>> tw.outer(tw.tensor([1, 2]), tw.tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    return _ops.outer(input, vec2)


@public
def dot(input: Any, tensor: Any) -> Tensor:
    """The sum of the products of two vectors.

    >>> tw.dot(tw.tensor([1, 2]), tw.tensor([3, 4])).item()
    11
    """
    return _ops.dot(input, tensor)


@public
def dist(input: Any, other: Any, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors.

    >>> tw.dist(tw.zeros(2), tw.tensor([3.0, 4.0])).item()
    5.0
    """
    return _ops.dist(input, other, float(p))


@public(method=False)
def vander(x: Any, N: int | None = None, *, increasing: bool = False) -> Tensor:
    """The matrix of powers of each element, the highest first; ``increasing`` begins with the lowest.

    >>> tw.vander(tw.tensor([2, 3])).tolist()
    [[2, 1], [3, 1]]
    """
    from ..linalg import vander

    powers = vander(x, N)
    return powers if increasing else _ops.flip(powers, [-1])
