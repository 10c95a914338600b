"""Shapes: joining, splitting, turning and repeating tensors, with PyTorch's names and keywords."""

import builtins
import itertools
from collections.abc import Sequence
from typing import Any

from .. import _native, _ops
from .._checked import type_error, value_error
from .arguments import axes_of, axis_of, ints, many, numel, tensor
from .register import public
from .shapes import cat
from .._native import Tensor


def _each(f: Any, tensors: Sequence[Any]) -> Any:
    """A function of one tensor, of one or of several."""
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return f(tensor(tensors[0]))
    return tuple(f(t) for t in many(tensors))


@public(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension.

    >>> tw.atleast_1d(tw.tensor(1.0)).shape
    talweg.Size([1])
    """
    return _each(lambda x: x if x.ndim >= 1 else x.reshape(1), tensors)


@public(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions, new ones in front.

    >>> tw.atleast_2d(tw.ones(3)).shape
    talweg.Size([1, 3])
    """
    return _each(lambda x: x if x.ndim >= 2 else x.reshape(1, -1), tensors)


@public(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions: a vector becomes ``[1, n, 1]``, a matrix ``[m, n, 1]``.

    >>> tw.atleast_3d(tw.ones(3)).shape
    talweg.Size([1, 3, 1])
    """
    return _each(lambda x: x if x.ndim >= 3 else x.unsqueeze(-1) if x.ndim == 2 else x.reshape(1, -1, 1), tensors)


@public(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of one, zeros elsewhere.

    >>> tw.block_diag(tw.ones(1, 2), tw.tensor([3.0])).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 3.0]]
    """
    parts = [atleast_2d(t) for t in many(tensors)]
    if builtins.any(p.ndim != 2 for p in parts):
        raise value_error("block_diag: expected tensors of at most two dimensions")
    columns = builtins.sum(p.shape[1] for p in parts)
    rows, before = [], 0
    for p in parts:
        rows.append(p.pad((before, columns - before - p.shape[1])))
        before += p.shape[1]
    return cat(rows, 0)


@public(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of the elements of vectors, a row for each.

    >>> tw.cartesian_prod(tw.tensor([1, 2]), tw.tensor([4, 5])).tolist()
    [[1, 4], [1, 5], [2, 4], [2, 5]]
    """
    parts = many(tensors)
    if len(parts) == 1:
        return parts[0]
    return _ops.stack([g.reshape(-1) for g in _ops.meshgrid(parts)], 1)


@public
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector, a row for each.

    >>> tw.combinations(tw.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if input.ndim != 1:
        raise value_error(f"combinations: expected a vector, not {input.ndim} dimensions")
    if r == 0:
        return input[:0]
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    index = _native.tensor(places, dtype="int64") if places else _native.zeros((0, r), dtype="int64")
    return _ops.take(input, index, 0)


@public(method=False)
def column_stack(tensors: Any) -> Tensor:
    """Tensors side by side; vectors are columns.

    >>> tw.column_stack([tw.tensor([1, 2]), tw.tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    return cat([t.reshape(-1, 1) if t.ndim <= 1 else t for t in many(tensors)], 1)


@public(method=False)
def dstack(tensors: Any) -> Tensor:
    """Tensors along their third dimension.

    >>> tw.dstack([tw.tensor([1, 2]), tw.tensor([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return cat([atleast_3d(t) for t in many(tensors)], 2)


@public
def fliplr(input: Any) -> Tensor:
    """Columns in reverse order.

    >>> tw.fliplr(tw.tensor([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    return _ops.flip(input, [1])


@public
def flipud(input: Any) -> Tensor:
    """Rows in reverse order.

    >>> tw.flipud(tw.tensor([[1, 2], [3, 4]])).tolist()
    [[3, 4], [1, 2]]
    """
    return _ops.flip(input, [0])


@public
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by ``k`` quarters from the first dimension toward the second.

    >>> tw.rot90(tw.tensor([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    return _ops.rot90(input, k, tuple(dims))


@public(names=["moveaxis"])
def movedim(input: Any, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other positions; the others keep their order.

    >>> tw.movedim(tw.zeros(2, 3, 4), 0, -1).shape
    talweg.Size([3, 4, 2])
    """
    if input.ndim == 0:
        axes_of(source, 0, "movedim"), axes_of(destination, 0, "movedim")
        return input
    return _ops.moveaxis(input, source, destination)


@public(method=False)
def transpose(input: Any, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged.

    >>> tw.transpose(tw.zeros(2, 3), 0, 1).shape
    talweg.Size([3, 2])
    """
    return _ops.transpose(input, dim0, dim1)


@public
def narrow(input: Any, dim: int, start: Any, length: int) -> Tensor:
    """``length`` elements from ``start`` on along a dimension.

    >>> tw.narrow(tw.tensor([1, 2, 3, 4]), 0, 1, 2).tolist()
    [2, 3]
    """
    axis, start = axis_of(dim, input.ndim, "narrow"), int(start)
    return _ops.narrow(input, axis, start + input.shape[axis] if start < 0 else start, length)


@public
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of these sizes along a dimension.

    >>> [t.tolist() for t in tw.split_with_sizes(tw.arange(5), [2, 3])]
    [[0, 1], [2, 3, 4]]
    """
    return tuple(_ops.split_sizes(input, list(split_sizes), dim))


@public
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Parts along a dimension: so many of nearly one size, or between indices.

    >>> [t.tolist() for t in tw.tensor_split(tw.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    >>> [t.tolist() for t in tw.tensor_split(tw.arange(5), (1, 3))]
    [[0], [1, 2], [3, 4]]
    """
    where = next((w for w in (indices_or_sections, indices, sections) if w is not None), None)
    where = where.tolist() if isinstance(where, Tensor) else where
    axis = axis_of(dim, input.ndim, "tensor_split")
    size = input.shape[axis]
    if isinstance(where, int):
        if where <= 0:
            raise value_error(f"tensor_split: the number of sections must be positive, not {where}")
        small, more = divmod(size, where)
        sizes = [small + (i < more) for i in range(where)]
        where = list(itertools.accumulate(sizes))[:-1]
    if where is None:
        raise type_error("tensor_split: give indices_or_sections")
    ends = [builtins.min(builtins.max(w + size if w < 0 else w, 0), size) for w in where]
    starts = [0, *ends]
    return tuple(_ops.narrow(input, axis, a, builtins.max(b - a, 0)) for a, b in zip(starts, [*ends, size]))


def _split_along(name: str, input: Any, given: Any, more: tuple[int, ...], axis: int, least: int) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise value_error(f"{name}: at least {least} dimensions are needed, not {input.ndim}")
    where = (given, *more) if more else given
    if isinstance(where, int) and input.shape[axis] % where:
        raise value_error(f"{name}: {where} parts do not divide a dimension of size {input.shape[axis]}")
    return tensor_split(input, where, axis)


@public
def hsplit(input: Any, indices_or_sections: Any, *more: int) -> tuple[Tensor, ...]:
    """Parts of the columns: along dimension 1, of a vector along 0.

    >>> [t.tolist() for t in tw.hsplit(tw.tensor([[1, 2], [3, 4]]), 2)]
    [[[1], [3]], [[2], [4]]]
    """
    return _split_along("hsplit", input, indices_or_sections, more, 0 if input.ndim == 1 else 1, 1)


@public
def vsplit(input: Any, indices_or_sections: Any, *more: int) -> tuple[Tensor, ...]:
    """Parts of the rows: along dimension 0.

    >>> [t.tolist() for t in tw.vsplit(tw.tensor([[1, 2], [3, 4]]), 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _split_along("vsplit", input, indices_or_sections, more, 0, 2)


@public
def dsplit(input: Any, indices_or_sections: Any, *more: int) -> tuple[Tensor, ...]:
    """Parts along dimension 2.

    >>> [t.shape for t in tw.dsplit(tw.zeros(1, 1, 4), 2)]
    [talweg.Size([1, 1, 2]), talweg.Size([1, 1, 2])]
    """
    return _split_along("dsplit", input, indices_or_sections, more, 2, 3)


@public
def unfold(input: Any, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` elements along a dimension, ``step`` apart; their elements are a new last dimension.

    >>> tw.tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    if input.ndim == 0:
        return input.reshape(1)[:size]
    return _ops.unfold(input, dimension, size, step)


@public
def unflatten(input: Any, dim: int, sizes: Any) -> Tensor:
    """One dimension as several; one size may be -1.

    >>> tw.unflatten(tw.zeros(6, 2), 0, (2, -1)).shape
    talweg.Size([2, 3, 2])
    """
    return _ops.unflatten(input, dim, tuple(sizes))


@public(function=False)
def repeat(input: Any, repeats: Any, *more: int) -> Tensor:
    """The whole repeated along each dimension.

    >>> tw.tensor([1, 2]).repeat(2, 2).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    counts = ints((repeats, *more))
    if len(counts) < input.ndim:
        raise value_error(f"repeat: {len(counts)} counts for {input.ndim} dimensions")
    out = _ops.tile(input, list(counts))
    return out.clone() if set(counts) <= {1} else out  # a copy, also where nothing is repeated


@public
def sum_to_size(input: Any, size: Any, *more: int) -> Tensor:
    """Summed over the dimensions by which a tensor of this size would be broadcast.

    >>> tw.ones(2, 3).sum_to_size(1, 3).tolist()
    [[2.0, 2.0, 2.0]]
    """
    shape = ints((size, *more))
    extra = input.ndim - len(shape)
    axes = [i for i in range(input.ndim) if i < extra or (shape[i - extra] == 1 and input.shape[i] != 1)]
    return (_ops.sum(input, axes) if axes else input).reshape(shape)


@public
def diagflat(input: Any, offset: int = 0) -> Tensor:
    """A matrix with the elements on a diagonal.

    >>> tw.diagflat(tw.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    return _ops.diag_embed(input.reshape(-1), offset)


@public(method=False)
def constant_pad_nd(input: Any, pad: Sequence[int], value: Any = 0) -> Tensor:
    """Padded at the edges of the last dimensions, last dimension first.

    >>> tw.constant_pad_nd(tw.ones(2), (1, 0), 5.0).tolist()
    [5.0, 1.0, 1.0]
    """
    return _ops.pad(input, list(pad), "constant", value)


def _indices(row: int, col: int, offset: int, dtype: Any, upper: bool) -> Tensor:
    if row < 0 or col < 0:
        raise value_error(f"sizes must not be negative: {row}, {col}")
    i, j = _native.arange(row).reshape(-1, 1), _native.arange(col).reshape(1, -1)
    kept = (j - i >= offset) if upper else (j - i <= offset)
    return _ops.nonzero(kept.broadcast_to((row, col))).mT.astype(dtype or "int64")


@public(method=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """Rows and columns of the elements on and above a diagonal.

    >>> tw.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    del layout
    x = _indices(row, col, offset, dtype, True)
    return x if device is None else x.to(device)


@public(method=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """Rows and columns of the elements on and below a diagonal.

    >>> tw.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    del layout
    x = _indices(row, col, offset, dtype, False)
    return x if device is None else x.to(device)


@public(method=False)
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Flat indices as indices along each dimension of a shape.

    >>> [t.item() for t in tw.unravel_index(tw.tensor(5), (2, 3))]
    [1, 2]
    """
    sizes = [shape] if isinstance(shape, int) else list(shape)
    rest, out = tensor(indices), []
    for size in reversed(sizes):
        out.append(_ops.rem(rest, size))
        rest = _ops.floor_divide(rest, size)
    return tuple(reversed(out))


@public
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """The same as ``chunk``.

    >>> [t.tolist() for t in tw.unsafe_chunk(tw.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    return tuple(_ops.chunk(input, chunks, dim))


@public
def unsafe_split(input: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """The same as ``split``.

    >>> [t.tolist() for t in tw.unsafe_split(tw.arange(3), 2)]
    [[0, 1], [2]]
    """
    return input.split(split_size, dim)


@public
def unsafe_split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The same as ``split_with_sizes``.

    >>> [t.tolist() for t in tw.unsafe_split_with_sizes(tw.arange(3), [1, 2])]
    [[0], [1, 2]]
    """
    return split_with_sizes(input, split_sizes, dim)


@public(method=False)
def hstack(tensors: Any) -> Tensor:
    """Tensors side by side: along dimension 1, vectors along 0.

    >>> tw.hstack([tw.tensor([1]), tw.tensor([2, 3])]).tolist()
    [1, 2, 3]
    """
    parts = [atleast_1d(t) for t in many(tensors)]
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


@public(method=False, names=["row_stack"])
def vstack(tensors: Any) -> Tensor:
    """Tensors below each other; vectors are rows.

    >>> tw.vstack([tw.tensor([1, 2]), tw.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return cat([atleast_2d(t) for t in many(tensors)], 0)


@public
def diag(input: Any, diagonal: int = 0) -> Tensor:
    """The elements on a diagonal of a matrix, or a matrix with a vector there.

    >>> tw.diag(tw.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    return _ops.diag(input, diagonal)


@public
def adjoint(input: Any) -> Tensor:
    """The last two dimensions exchanged, and complex numbers conjugated.

    >>> tw.adjoint(tw.tensor([[1.0j, 2.0]])).tolist()
    [[-1j], [(2-0j)]]
    """
    return input.mH


@public(method=False)
def t(input: Any) -> Tensor:
    """A matrix transposed; vectors stay as they are.

    >>> tw.t(tw.zeros(2, 3)).shape
    talweg.Size([3, 2])
    """
    return input.t()


@public(method=False)
def clone(input: Any, *, memory_format: Any = None) -> Tensor:
    """A copy. Elements always lie one after the other: ``memory_format`` changes nothing.

    >>> tw.clone(tw.ones(2)).tolist()
    [1.0, 1.0]
    """
    del memory_format
    return input.clone()


@public(method=False)
def detach(input: Any) -> Tensor:
    """The tensor without its history of gradients; it shares the elements.

    >>> tw.detach(tw.tensor([1.0], requires_grad=True)).requires_grad
    False
    """
    return input.detach()


@public(method=False)
def squeeze(input: Any, dim: Any = None) -> Tensor:
    """Without the dimensions of size 1, or without those of ``dim`` that are.

    >>> tw.squeeze(tw.zeros(1, 2, 1)).shape
    talweg.Size([2])
    """
    if dim is None:
        return input.squeeze()
    return input if isinstance(dim, (tuple, list)) and not dim else input.squeeze(dim)


@public(method=False)
def broadcast_to(input: Any, size: Any) -> Tensor:
    """The tensor in a larger shape, its dimensions of size 1 repeated.

    >>> tw.broadcast_to(tw.ones(1), (2,)).tolist()
    [1.0, 1.0]
    """
    return input.broadcast_to(size)


@public(method=False)
def swapaxes(input: Any, axis0: int, axis1: int) -> Tensor:
    """Two dimensions exchanged: ``transpose``.

    >>> tw.swapaxes(tw.zeros(2, 3), 0, 1).shape
    talweg.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


@public
def swapdims(input: Any, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: ``transpose``.

    >>> tw.swapdims(tw.zeros(2, 3), 0, 1).shape
    talweg.Size([3, 2])
    """
    return transpose(input, dim0, dim1)
