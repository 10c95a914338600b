"""Strided views, functions that write into a part of a tensor and return the whole, and copies of views."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import axis_of, numel, tensor
from .register import public

if TYPE_CHECKING:
    from .. import Tensor
else:
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
    """The tensor with other values at chosen places of its flat form."""
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


def _copy(name: str, method: str) -> None:
    """The copy of what a view shows; a write to it does not reach the tensor."""

    def copy(input: Any, *args: Any, **settings: Any) -> Any:
        result = getattr(input, method)(*args, **settings)
        return tuple(r.clone() for r in result) if isinstance(result, (tuple, list)) else result.clone()

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"A copy of what ``{method}`` shows."
    public(copy, method=False)


for _view in """
diagonal expand permute transpose t squeeze unsqueeze unbind split_with_sizes unfold view narrow view_as_real
view_as_complex select slice split detach alias
""".split():
    if hasattr(Tensor, _view):
        _copy(_view + "_copy", _view)


@public(method=False)
def alias_copy(input: Any) -> Tensor:
    """A copy of the tensor.

    >>> tw.alias_copy(tw.ones(2)).tolist()
    [1.0, 1.0]
    """
    return input.clone()
