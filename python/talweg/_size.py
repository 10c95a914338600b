"""Shapes and numbers of elements: ``x.shape`` is a ``Size``, ``x.size`` a number that can be called."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from ._checked import type_error


class Size(tuple[int, ...]):
    """A shape: a tuple with the number of elements.

    >>> tw.zeros(2, 3).shape.numel(), tw.zeros(2, 3).shape[1:]
    (6, talweg.Size([3]))
    """

    __slots__ = ()

    def __new__(cls, sizes: "Iterable[int] | int" = (), *more: int) -> "Size":
        sizes = (sizes, *more) if isinstance(sizes, int) else tuple(sizes) if isinstance(sizes, Iterable) else None
        if sizes is None or not all(isinstance(n, int) for n in sizes):
            raise type_error("Size: expected integers, such as Size([2, 3])")
        return tuple.__new__(cls, sizes)

    def __repr__(self) -> str:
        return f"talweg.Size({list(self)})"

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "Size": ...
    def __getitem__(self, index: Any) -> Any:
        part = tuple.__getitem__(self, index)
        return tuple.__new__(Size, part) if type(part) is tuple else part

    def __add__(self, other: Any) -> "Size":
        return tuple.__new__(Size, tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> "Size":
        return tuple.__new__(Size, tuple.__add__(tuple(other), self))

    def __mul__(self, times: SupportsIndex) -> "Size":
        return tuple.__new__(Size, tuple.__mul__(self, times))

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)


class Count(int):
    """The number of elements, as NumPy's ``x.size``; called, PyTorch's ``x.size()`` and ``x.size(dim)``."""

    if TYPE_CHECKING:
        shape: Size

    def __call__(self, dim: "int | None" = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def __reduce__(self) -> Any:
        return int, (int(self),)
