"""Strided views, functions that write into a part of a tensor and return the whole, and copies of views."""

from collections.abc import Sequence
from typing import Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import axis_of, numel, tensor
from .layout import transpose
from .register import public
from .._native import Tensor


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """The place of each element of a strided view in its base."""
    if len(size) != len(stride):
        raise value_error(f"as_strided: {len(size)} sizes, but {len(stride)} strides")
    places = _native.full((), offset, dtype="int64")
    for i, (n, step) in enumerate(zip(size, stride)):
        shape = [1] * len(size)
        shape[i] = n
        places = places + (_native.arange(n) * step).reshape(shape)
    return places.broadcast_to(tuple(size))


@public(names=["as_strided_copy"])
def as_strided(input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Elements of a tensor by strides over its elements in row-major order. The result is a copy: a write to it does
    not reach the tensor.

    >>> tw.as_strided(tw.arange(4), (2, 2), (1, 2)).tolist()
    [[0, 2], [1, 3]]
    """
    places = _places(size, stride, storage_offset or 0)
    return _ops.take(input.reshape(-1), places, 0)


@public
def as_strided_scatter(
    input: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The tensor with other values where ``as_strided`` would read.

    >>> tw.as_strided_scatter(tw.zeros(4), tw.ones(2), (2,), (2,)).tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    places = _places(size, stride, storage_offset or 0)
    return _ops.index_copy(input.reshape(-1), 0, places.reshape(-1), src.reshape(-1)).reshape(input.shape)


def _written(input: Tensor, chosen: Tensor, src: Tensor) -> Tensor:
    """The tensor with other values at flat indices."""
    if tuple(chosen.shape) != tuple(src.shape):
        raise value_error(f"src must have shape {tuple(chosen.shape)}, not {tuple(src.shape)}")
    flat = _ops.index_copy(input.reshape(-1), 0, chosen.reshape(-1), src.astype(input.dtype).reshape(-1))
    return flat.reshape(input.shape)


def _numbered(input: Tensor) -> Tensor:
    return _native.arange(numel(input.shape)).reshape(input.shape)


@public
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The tensor with other values on a diagonal.

    >>> tw.diagonal_scatter(tw.zeros(2, 2), tw.tensor([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    return _written(input, _ops.diagonal(_numbered(input), offset, dim1, dim2), tensor(src))


@public
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Tensor:
    """The tensor with other values at one index of a dimension.

    >>> tw.select_scatter(tw.zeros(2, 2), tw.ones(2), 0, 1).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    return _written(input, _ops.select(_numbered(input), dim, index), tensor(src))


@public
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The tensor with other values in a slice of a dimension.

    >>> tw.slice_scatter(tw.zeros(4), tw.ones(2), start=1, end=3).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    axis = axis_of(dim, input.ndim, "slice_scatter")
    chosen = _numbered(input)[(slice(None),) * axis + (slice(start, end, step),)]
    return _written(input, chosen, tensor(src))


@public(method=False)
def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of what ``diagonal`` shows.

    >>> tw.diagonal_copy(tw.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return input.diagonal(offset, dim1, dim2).clone()


@public(method=False)
def expand_copy(input: Any, size: Any) -> Tensor:
    """A copy of what ``expand`` shows.

    >>> tw.expand_copy(tw.ones(1), (2,)).tolist()
    [1.0, 1.0]
    """
    return input.expand(size).clone()


@public(method=False)
def permute_copy(input: Any, dims: Any) -> Tensor:
    """A copy of what ``permute`` shows.

    >>> tw.permute_copy(tw.zeros(2, 3), (1, 0)).shape
    talweg.Size([3, 2])
    """
    return input.permute(dims).clone()


@public(method=False)
def transpose_copy(input: Any, dim0: int, dim1: int) -> Tensor:
    """A copy of what ``transpose`` shows.

    >>> tw.transpose_copy(tw.zeros(2, 3), 0, 1).shape
    talweg.Size([3, 2])
    """
    return transpose(input, dim0, dim1).clone()


@public(method=False)
def t_copy(input: Any) -> Tensor:
    """A copy of what ``t`` shows.

    >>> tw.t_copy(tw.zeros(2, 3)).shape
    talweg.Size([3, 2])
    """
    return input.t().clone()


@public(method=False)
def unsqueeze_copy(input: Any, dim: int) -> Tensor:
    """A copy of what ``unsqueeze`` shows.

    >>> tw.unsqueeze_copy(tw.zeros(2), 0).shape
    talweg.Size([1, 2])
    """
    return input.unsqueeze(dim).clone()


@public(method=False)
def unfold_copy(input: Any, dimension: int, size: int, step: int) -> Tensor:
    """A copy of what ``unfold`` shows.

    >>> tw.unfold_copy(tw.arange(3), 0, 2, 1).tolist()
    [[0, 1], [1, 2]]
    """
    return input.unfold(dimension, size, step).clone()


@public(method=False)
def view_copy(input: Any, size: Any) -> Tensor:
    """A copy of what ``view`` shows.

    >>> tw.view_copy(tw.zeros(2, 3), (3, 2)).shape
    talweg.Size([3, 2])
    """
    return input.view(size).clone()


@public(method=False)
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Tensor:
    """A copy of what ``narrow`` shows.

    >>> tw.narrow_copy(tw.arange(3), 0, 1, 2).tolist()
    [1, 2]
    """
    return input.narrow(dim, start, length).clone()


@public(method=False)
def select_copy(input: Any, dim: int, index: int) -> Tensor:
    """A copy of what ``select`` shows.

    >>> tw.select_copy(tw.tensor([[1, 2], [3, 4]]), 0, 1).tolist()
    [3, 4]
    """
    return input.select(dim, index).clone()


@public(method=False)
def detach_copy(input: Any) -> Tensor:
    """A copy of what ``detach`` shows.

    >>> tw.detach_copy(tw.ones(2)).tolist()
    [1.0, 1.0]
    """
    return input.detach().clone()


@public(method=False)
def view_as_real_copy(input: Any) -> Tensor:
    """A copy of what ``view_as_real`` shows.

    >>> tw.view_as_real_copy(tw.tensor([1.0j])).tolist()
    [[0.0, 1.0]]
    """
    return input.view_as_real().clone()


@public(method=False)
def view_as_complex_copy(input: Any) -> Tensor:
    """A copy of what ``view_as_complex`` shows.

    >>> tw.view_as_complex_copy(tw.tensor([[0.0, 1.0]])).tolist()
    [1j]
    """
    return input.view_as_complex().clone()


@public(method=False)
def squeeze_copy(input: Any, dim: Any = None) -> Tensor:
    """A copy of what ``squeeze`` shows.

    >>> tw.squeeze_copy(tw.zeros(1, 2)).shape
    talweg.Size([2])
    """
    return (input.squeeze() if dim is None else input.squeeze(dim)).clone()


@public(method=False)
def unbind_copy(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of what ``unbind`` shows.

    >>> [t.item() for t in tw.unbind_copy(tw.arange(2))]
    [0, 1]
    """
    return tuple(t.clone() for t in input.unbind(dim))


@public(method=False)
def split_copy(input: Any, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of what ``split`` shows.

    >>> [t.tolist() for t in tw.split_copy(tw.arange(3), 2)]
    [[0, 1], [2]]
    """
    return tuple(t.clone() for t in input.split(split_size, dim))


@public(method=False)
def split_with_sizes_copy(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of what ``split_with_sizes`` shows.

    >>> [t.tolist() for t in tw.split_with_sizes_copy(tw.arange(3), [1, 2])]
    [[0], [1, 2]]
    """
    return tuple(t.clone() for t in input.split(list(split_sizes), dim))


@public(method=False)
def alias_copy(input: Any) -> Tensor:
    """A copy of the tensor.

    >>> tw.alias_copy(tw.ones(2)).tolist()
    [1.0, 1.0]
    """
    return input.clone()
