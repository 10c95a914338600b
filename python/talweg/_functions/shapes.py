"""Other shapes and orders of the same elements, and elements chosen by index."""

import builtins
import math
import string
from collections.abc import Sequence
from typing import Any

from .. import _ops as ops
from .._checked import type_error, value_error
from .._native import Tensor, tensor
from .._size import Size
from .dtypes import result_type
from .register import public

Dims = builtins.int | Sequence[builtins.int]


@public(method=False)
def reshape(input: "Tensor", shape: Dims) -> "Tensor":
    """The same elements in another shape; one size may be -1.

    >>> tw.reshape(tw.arange(4), (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return ops.reshape(input, shape)


@public(method=False)
def permute(input: "Tensor", dims: Dims) -> "Tensor":
    """The dimensions in another order.

    >>> tw.permute(tw.zeros(2, 3, 4), (2, 0, 1)).shape
    talweg.Size([4, 2, 3])
    """
    return ops.permute(input, dims)


@public
def flatten(input: "Tensor", start_dim: int = 0, end_dim: int = -1) -> "Tensor":
    """Several dimensions as one.

    >>> tw.flatten(tw.zeros(2, 3, 4), start_dim=1).shape
    talweg.Size([2, 12])
    """
    return ops.flatten(input, start_dim, end_dim)


def _spread(first: Any, rest: "tuple[Any, ...]") -> Any:
    """Sizes or dimensions given one by one, or as one sequence."""
    return (first, *rest) if rest or not isinstance(first, (tuple, list)) else first


@public(method=False)
def flip(input: "Tensor", dims: Dims, *more: int) -> "Tensor":
    """The order reversed along dimensions.

    >>> tw.flip(tw.tensor([[1, 2], [3, 4]]), dims=(0,)).tolist()
    [[3, 4], [1, 2]]
    """
    dims = _spread(dims, more)
    return ops.flip(input, dims) if dims else input.clone()


@public(function=False, name="flip")
def _flip(self: "Tensor", *dims: Any, axis: Any = None, **named: Any) -> "Tensor":
    """The order reversed along dimensions."""
    if set(named) - {"dims", "dim"} or (named or axis is not None) and dims:
        raise type_error("flip: expected dims")
    if not (dims or named or axis is not None):
        raise type_error("flip: say along which dimensions, as in x.flip(0) or x.flip(dims=(0, 1))")
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    dims = next(iter(named.values()), axis) if named or axis is not None else dims
    return ops.flip(self, dims) if not isinstance(dims, (tuple, list)) or dims else self.clone()


@public
def roll(input: "Tensor", shifts: Dims, dims: "Dims | None" = None) -> "Tensor":
    """Elements moved along dimensions; those that leave come in again. Without ``dims``, of the flattened tensor.

    >>> tw.roll(tw.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    if dims is None or dims == ():
        return ops.reshape(ops.roll(ops.ravel(input), shifts, 0), input.shape)
    return ops.roll(input, shifts, dims)


@public(method=False)
def tile(input: "Tensor", dims: Dims, *more: int) -> "Tensor":
    """The whole repeated along each dimension.

    >>> tw.tile(tw.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    return ops.tile(input, _spread(dims, more)).clone()


@public(function=False, name="tile")
def _tile(self: "Tensor", *dims: Any) -> "Tensor":
    """The whole repeated along each dimension."""
    return ops.tile(self, _spread(dims[0], dims[1:]) if dims else ()).clone()


@public
def repeat_interleave(input: "Tensor", repeats: Any = None, dim: "int | None" = None, *, output_size: "int | None" = None) -> "Tensor":
    """Each element several times, of the flattened tensor or along a dimension; NumPy's ``repeat``.

    >>> tw.repeat_interleave(tw.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        repeats, input = input, tensor(list(range(input.shape[0])), dtype="int64")
    if dim is None:
        input, dim = ops.ravel(input), 0
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        repeats = repeats.item()
    y = ops.repeat_interleave(input, repeats, dim) if isinstance(repeats, int) else ops.repeat_interleave_by(input, repeats, dim)
    if output_size is not None and y.shape[dim] != output_size:
        raise value_error(f"repeat_interleave: output_size is {output_size}, the result has {y.shape[dim]}")
    return y


@public
def diff(input: "Tensor", n: int = 1, dim: int = -1, prepend: "Tensor | None" = None, append: "Tensor | None" = None) -> "Tensor":
    """Differences of neighbors along a dimension, taken ``n`` times.

    >>> tw.diff(tw.tensor([1, 3, 6]), prepend=tw.tensor([0]))
    tensor([1, 2, 3])
    """
    if n == 0:
        return input
    parts = [t for t in (prepend, input, append) if t is not None]
    return ops.diff(ops.concat(parts, dim) if len(parts) > 1 else input, n, dim)


@public(method=False, names=["concat", "concatenate"])
def cat(tensors: "Sequence[Tensor]", dim: int = 0) -> "Tensor":
    """Tensors one after the other along a dimension.

    >>> tw.cat([tw.tensor([1]), tw.tensor([2, 3])])
    tensor([1, 2, 3])
    """
    parts = list(tensors)
    if len({p.ndim for p in parts}) > 1:
        parts = [p for p in parts if p.shape != (0,)]  # empty vectors are left out, as in PyTorch
    return ops.concat(parts, dim)


@public(method=False)
def stack(tensors: "Sequence[Tensor]", dim: int = 0) -> "Tensor":
    """Tensors of one shape along a new dimension.

    >>> tw.stack([tw.zeros(3), tw.ones(3)], dim=1).shape
    talweg.Size([3, 2])
    """
    return ops.stack(list(tensors), dim)


@public
def split(tensor: "Tensor", split_size_or_sections: Dims, dim: int = 0) -> "tuple[Tensor, ...]":
    """Parts of one size along a dimension, or of several sizes.

    >>> [t.tolist() for t in tw.split(tw.arange(5), [2, 3])]
    [[0, 1], [2, 3, 4]]
    """
    sizes = split_size_or_sections
    return tuple((ops.split if isinstance(sizes, int) else ops.split_sizes)(tensor, sizes, dim))


@public
def chunk(input: "Tensor", chunks: int, dim: int = 0) -> "tuple[Tensor, ...]":
    """At most ``chunks`` parts of one size along a dimension, the last smaller if it does not divide.

    >>> [t.tolist() for t in tw.chunk(tw.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return tuple(ops.chunk(input, chunks, dim))


@public(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> "tuple[Tensor, ...]":
    """Coordinates of a grid; ``indexing="xy"`` swaps the first two dimensions, as in NumPy.

    >>> tw.meshgrid(tw.tensor([1, 2]), tw.tensor([3, 4]), indexing="ij")[0].tolist()
    [[1, 1], [2, 2]]
    """
    if indexing not in ("xy", "ij"):
        raise value_error(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    axes = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    axes = [a if isinstance(a, Tensor) else tensor(a) for a in axes]
    if any(a.ndim > 1 for a in axes):
        raise value_error(f"meshgrid: expected vectors, not shapes {[tuple(a.shape) for a in axes]}")
    sizes = [a.numel() for a in axes]
    grid = [a.reshape([-1 if i == k else 1 for k in range(len(axes))]).expand(sizes) for i, a in enumerate(axes)]
    swap = indexing == "xy" and len(axes) > 1
    return tuple(g.transpose(0, 1) if swap else g for g in grid)


@public(method=False)
def einsum(equation: Any, *operands: Any) -> "Tensor":
    """Einstein's summation: an equation and operands, or each operand followed by the numbers of its dimensions, and
    those of the result at the end.

    >>> tw.einsum("ij,j->i", tw.tensor([[1.0, 2.0]]), tw.tensor([3.0, 4.0]))
    tensor([11.])
    >>> tw.einsum(tw.tensor([[1.0, 2.0]]), [0, 1], tw.tensor([3.0, 4.0]), [1], [0])
    tensor([11.])
    """
    if not isinstance(equation, str):
        return _einsum_by_numbers([equation, *operands])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return ops.einsum(equation, list(operands))


def _einsum_by_numbers(parts: list[Any]) -> "Tensor":
    # In the order of characters: without numbers for the result, its dimensions are in the order of their numbers.
    names = string.ascii_uppercase + string.ascii_lowercase

    def letters(numbers: Any) -> str:
        if not isinstance(numbers, (list, tuple)):
            raise type_error(f"einsum: after an operand comes the list of its dimensions' numbers, not {type(numbers).__name__}")
        for n in numbers:
            if n is not ... and not (isinstance(n, int) and 0 <= n < 52):
                raise value_error(f"einsum: a dimension's number is 0 to 51, or ..., not {n!r}")
        return "".join("..." if n is ... else names[n] for n in numbers)

    terms = ",".join(letters(numbers) for numbers in parts[1::2])
    result = f"->{letters(parts[-1])}" if len(parts) % 2 else ""
    return ops.einsum(terms + result, parts[: len(parts) - len(parts) % 2 : 2])


@public(method=False)
def tensordot(a: "Tensor", b: "Tensor", dims: Any = 2) -> "Tensor":
    """Products summed over dimensions: the last of one with the first of the other, or two lists of them.

    >>> tw.tensordot(tw.ones(2, 3), tw.ones(3, 4), dims=1).shape
    talweg.Size([2, 4])
    """
    dims = dims.tolist() if isinstance(dims, Tensor) else dims
    if isinstance(dims, int):
        return ops.tensordot(a, b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    return ops.tensordot(a, b, *(list(d) for d in dims))


@public(names=["clip"])
def clamp(input: "Tensor", min: Any = None, max: Any = None) -> "Tensor":
    """Elements below ``min`` or above ``max`` become these; ``None`` is no bound.

    >>> tw.clamp(tw.tensor([1, 5, 9]), 2, 7)
    tensor([2, 5, 7])
    """
    if min is None and max is None:
        raise value_error("clamp: give min, max or both")
    min, max = (b.to(result_type(input, b)) if isinstance(b, Tensor) else b for b in (min, max))
    if min is None:
        return ops.clamp_max(input, max)
    return ops.clamp_min(input, min) if max is None else ops.clamp(input, min, max)


@public
def take(input: "Tensor", index: Any, dim: "int | None" = None) -> "Tensor":
    """Elements of the flattened tensor by index; with ``dim``, slices along it. Negative indices count from the end.

    >>> tw.take(tw.tensor([[1, 2], [3, 4]]), tw.tensor([0, -1]))
    tensor([1, 4])
    """
    index = (index if isinstance(index, Tensor) else tensor(index)).astype("int64")
    x, dim = (ops.ravel(input), 0) if dim is None else (input, dim)
    size = x.shape[dim] if x.ndim else 1
    return ops.take(x, ops.where(index < 0, index + size, index), dim)


@public
def triu(input: "Tensor", diagonal: int = 0, *, k: "int | None" = None) -> "Tensor":
    """The elements on and above a diagonal of the last two dimensions, zeros elsewhere.

    >>> tw.triu(tw.ones(2, 2)).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return ops.triu(input, diagonal if k is None else k)


@public
def tril(input: "Tensor", diagonal: int = 0, *, k: "int | None" = None) -> "Tensor":
    """The elements on and below a diagonal of the last two dimensions, zeros elsewhere.

    >>> tw.tril(tw.ones(2, 2)).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return ops.tril(input, diagonal if k is None else k)


@public(method=False)
def pad(input: "Tensor", pad: Any, mode: str = "constant", value: "float | None" = None) -> "Tensor":
    """Padded at the edges of the last dimensions, the last first.

    >>> tw.pad(tw.tensor([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    """
    return ops.pad(input, pad, mode, 0.0 if value is None else value)


@public(method=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have together.

    >>> tw.broadcast_shapes((2, 1), (3,))
    talweg.Size([2, 3])
    """
    shapes = tuple((s,) if isinstance(s, int) else tuple(s) for s in shapes)
    rank = builtins.max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, d in enumerate(s, rank - len(s)):
            if d != 1 and out[i] not in (1, d):
                raise value_error(f"shapes {shapes} do not broadcast")
            if d != 1:
                out[i] = d
    return Size(out)


@public(method=False, names=["broadcast_arrays"])
def broadcast_tensors(*tensors: Any) -> "tuple[Tensor, ...]":
    """All tensors in their common shape.

    >>> [t.shape for t in tw.broadcast_tensors(tw.zeros(2, 1), tw.zeros(3))]
    [talweg.Size([2, 3]), talweg.Size([2, 3])]
    """
    tensors = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(ops.broadcast_to(t, shape) for t in tensors)


@public(function=False)
def view_as(input: "Tensor", other: "Tensor") -> "Tensor":
    """The same elements in the shape of another tensor."""
    return ops.reshape(input, other.shape)


@public(function=False)
def reshape_as(input: "Tensor", other: "Tensor") -> "Tensor":
    """The same elements in the shape of another tensor."""
    return ops.reshape(input, other.shape)


@public(function=False)
def expand_as(input: "Tensor", other: "Tensor") -> "Tensor":
    """Repeated to the shape of another tensor."""
    return ops.broadcast_to(input, other.shape)


@public
def round(input: "Tensor", *, decimals: int = 0) -> "Tensor":
    """The nearest integer, halves to the even one; or so many decimals.

    >>> tw.round(tw.tensor([1.25, 2.5]), decimals=1)
    tensor([1.2000, 2.5000])
    """
    if decimals == 0:
        return ops.round(input)
    if not input.dtype.is_floating_point:
        raise type_error(f"round: decimals are for floats, not {input.dtype}")
    scale = math.pow(10.0, abs(decimals))
    return ops.round(input * scale) / scale if decimals > 0 else ops.round(input / scale) * scale
