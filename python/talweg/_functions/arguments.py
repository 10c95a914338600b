"""Arguments as the functions need them: tensors of numbers, dimensions counted from the front."""

import builtins
import math
from collections.abc import Sequence
from typing import Any

from .. import _native
from .._checked import value_error
from .._native import Tensor
from ..errors import OutOfRangeError

FLOAT_OF_COMPLEX = {"complex64": "float32", "complex128": "float64"}


def tensor(x: Any) -> Tensor:
    """A tensor, also of what can become one."""
    return x if isinstance(x, Tensor) else _native.tensor(x)


def is_number(x: Any) -> bool:
    return isinstance(x, (builtins.bool, int, float, complex))


def is_complex(x: Tensor) -> bool:
    return x.dtype.name.startswith("complex")


def is_floating(x: Tensor) -> bool:
    return "float" in x.dtype.name


def like(number: Any, x: Tensor) -> Tensor:
    """A number as a tensor of the type it has beside another."""
    if isinstance(number, Tensor) or not is_number(number):
        return tensor(number)
    return _native.tensor(number, dtype=(_native.zeros((), dtype=x.dtype) * number).dtype)


def pair(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors; of one that is a number the other says the type."""
    if isinstance(a, Tensor):
        return a, like(b, a)
    if isinstance(b, Tensor):
        return like(a, b), b
    return tensor(a), tensor(b)


def floating(x: Tensor) -> Tensor:
    """The tensor, integers as float32."""
    return x if is_floating(x) or is_complex(x) else x.astype("float32")


def axis_of(dim: int, rank: int, name: str) -> int:
    """A dimension counted from the front; a tensor without dimensions has the dimensions 0 and -1."""
    size = builtins.max(rank, 1)
    if not -size <= dim < size:
        what = f"{name}: dimension {dim} is out of range for a tensor of {rank} dimensions"
        raise OutOfRangeError(_native.located(what))
    return dim % size


def axes_of(dim: int | Sequence[int] | None, rank: int, name: str) -> list[int]:
    """Dimensions counted from the front; ``None`` and an empty sequence are all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(rank))
    axes = [axis_of(d, rank, name) for d in ([dim] if isinstance(dim, int) else dim)]
    if len(set(axes)) != len(axes):
        raise value_error(f"{name}: a dimension appears twice in {dim}")
    return axes


def ints(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return tuple(sizes)


def many(tensors: Sequence[Any]) -> list[Tensor]:
    """Tensors given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
    return [tensor(t) for t in tensors]


def numel(shape: Sequence[int]) -> int:
    return math.prod(shape)
