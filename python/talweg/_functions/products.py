"""Products of vectors and matrices that PyTorch has beyond the op table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import is_complex, is_floating, is_number, like, many, numel, tensor
from .register import public

if TYPE_CHECKING:
    from .. import Tensor
else:
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
    del compute_mode  # distances are always computed from differences
    x1, x2 = tensor(x1), tensor(x2)
    if x1.shape[-1] == 0 or numel(x1.shape) == 0 or numel(x2.shape) == 0:
        batch = _ops.add(_native.zeros((*x1.shape[:-2], 1)), _native.zeros((*x2.shape[:-2], 1))).shape[:-1]
        return _native.zeros((*batch, x1.shape[-2], x2.shape[-2]), dtype=x1.dtype)
    return _ops.cdist(x1, x2, p)


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


@public(method=False)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Products summed over dimensions: the last of one with the first of the other, or two lists of them.

    >>> tw.tensordot(tw.ones(2, 3), tw.ones(3, 4), dims=1).shape
    (2, 4)
    """
    a, b = tensor(a), tensor(b)
    dims = dims.tolist() if isinstance(dims, Tensor) else dims
    if isinstance(dims, int):
        return _ops.tensordot(a, b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    return _ops.tensordot(a, b, left, right)


@public(method=False)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein's summation: ``einsum("ij,jk->ik", a, b)``, or with numbers for letters
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    >>> tw.einsum("ij,j->i", tw.tensor([[1.0, 2.0]]), tw.tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    if not isinstance(equation, str):
        equation, operands = _letters([equation, *operands])
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return _ops.einsum(equation, [tensor(o) for o in operands])


def _letters(given: list[Any]) -> tuple[str, tuple[Any, ...]]:
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def word(dims: Any) -> str:
        return "".join("..." if d is Ellipsis else names[d] for d in dims)

    out = word(given.pop()) if len(given) % 2 else None
    terms = ",".join(word(dims) for dims in given[1::2])
    return terms if out is None else f"{terms}->{out}", tuple(given[::2])


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


@public
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Covariances of the rows: a variable a row, an observation a column, with repeat counts and weights.

    >>> tw.cov(tw.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if input.ndim > 2:
        raise value_error(f"cov: at most two dimensions, not {input.ndim}")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    x = x if is_floating(x) or is_complex(x) else x.astype("float32")
    kind = x.real.dtype if is_complex(x) else x.dtype
    w = None if fweights is None else tensor(fweights).astype(kind)
    if aweights is not None:
        a = tensor(aweights).astype(kind)
        w = a if w is None else w * a
    n = x.shape[1]
    total: Any = float(n) if w is None else w.sum()
    mean = x.mean(1, keepdims=True) if w is None else (x * w).sum(1, keepdims=True) / total
    if w is None or aweights is None or correction == 0:
        norm = total - correction
    else:
        norm = total - correction * (w * tensor(aweights).astype(kind)).sum() / total
    centered = x - mean
    right = centered.mT.conj() if is_complex(x) else centered.mT
    norm = max(norm, 0.0) if is_number(norm) else _ops.clamp_min(norm, 0.0)
    norm = norm if norm != 0 or not is_number(norm) else _native.zeros((), dtype=kind)
    product = (centered if w is None else centered * w) @ right / norm
    return product.reshape(()) if x.shape[0] == 1 else product
