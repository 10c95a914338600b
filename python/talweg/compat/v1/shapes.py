"""Partial static shapes: a size or the rank may be unknown until ``Session.run``."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Iterator, Sequence

from .errors import wrong_shape


class Dimension:
    """A size, or ``Dimension(None)``: one that is known when the graph runs."""

    def __init__(self, value: Any):
        value = value.value if isinstance(value, Dimension) else value
        self.value = None if value is None else int(value)

    def __int__(self) -> int:
        if self.value is None:
            raise wrong_shape("this size is known when the graph runs: use tf.shape(x)[i]")
        return self.value

    __index__ = __int__

    def __eq__(self, other: Any) -> Any:
        other = size_of(other)
        return None if self.value is None or other is None else self.value == other

    def __ne__(self, other: Any) -> Any:
        same = self == other
        return None if same is None else not same

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Dimension({self.value})"

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)

    def _with(self, other: Any, f: Any) -> Dimension:
        other = size_of(other)
        return Dimension(None if self.value is None or other is None else f(self.value, other))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a * b)

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a // b)

    def __mod__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a % b)

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Any) -> bool:
        return int(self) < int(other)

    def __le__(self, other: Any) -> bool:
        return int(self) <= int(other)

    def __gt__(self, other: Any) -> bool:
        return int(self) > int(other)

    def __ge__(self, other: Any) -> bool:
        return int(self) >= int(other)

    def merge_with(self, other: Any) -> Dimension:
        """The size that both are."""
        return Dimension(merge_sizes(self.value, size_of(other)))

    def is_compatible_with(self, other: Any) -> bool:
        """False if both are known and differ."""
        return (self == other) is not False


def size_of(x: Any) -> int | None:
    """The size of a dimension or number; ``None`` and -1 are unknown."""
    x = x.value if isinstance(x, Dimension) else x
    return None if x is None or int(x) < 0 else int(x)


def merge_sizes(a: int | None, b: int | None) -> int | None:
    """The size that both are."""
    if a is not None and b is not None and a != b:
        raise wrong_shape(f"sizes differ: {a} and {b}")
    return b if a is None else a


class TensorShape:
    """A static shape. ``TensorShape(None)`` has an unknown rank."""

    def __init__(self, dims: Any):
        if isinstance(dims, TensorShape):
            self._sizes = dims._sizes
        elif dims is None:
            self._sizes = None
        elif isinstance(dims, (int, Dimension)):
            self._sizes = (size_of(dims),)
        else:
            self._sizes = tuple(size_of(d) for d in dims)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The sizes as a tuple; the rank must be known."""
        if self._sizes is None:
            raise wrong_shape("the rank is unknown: use set_shape(...) or tf.shape(x)")
        return self._sizes

    ndims = property(lambda self: None if self._sizes is None else len(self._sizes))
    rank = ndims
    dims = property(lambda self: None if self._sizes is None else [Dimension(d) for d in self._sizes])

    def as_list(self) -> list[int | None]:
        """The sizes, ``None`` where unknown."""
        return list(self.sizes)

    def is_fully_defined(self) -> bool:
        """True if every size is known."""
        return self._sizes is not None and None not in self._sizes

    def num_elements(self) -> int | None:
        """The number of elements, ``None`` where unknown."""
        if not self.is_fully_defined():
            return None
        n = 1
        for d in self.sizes:
            n *= d or 0
        return n

    def merge_with(self, other: Any) -> TensorShape:
        """What both say; an error where they contradict."""
        other = TensorShape(other)
        if self._sizes is None or other._sizes is None:
            return other if self._sizes is None else self
        if len(self._sizes) != len(other._sizes):
            raise wrong_shape(f"shapes {self} and {other} are not compatible: the ranks differ")
        try:
            return TensorShape([merge_sizes(a, b) for a, b in zip(self._sizes, other._sizes)])
        except ValueError:
            raise wrong_shape(f"shapes {self} and {other} are not compatible") from None

    def is_compatible_with(self, other: Any) -> bool:
        """True if one tensor could have both shapes."""
        try:
            self.merge_with(other)
        except ValueError:
            return False
        return True

    def admits(self, sizes: Sequence[int]) -> bool:
        """True if a tensor of known sizes has this shape."""
        own = self._sizes
        return own is None or (len(own) == len(sizes) and all(a is None or a == b for a, b in zip(own, sizes)))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises if no tensor has both shapes."""
        self.merge_with(other)

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, of that rank."""
        return self.merge_with([None] * rank)

    def assert_has_rank(self, rank: int) -> None:
        """Raises if the rank is another."""
        self.with_rank(rank)

    def assert_is_fully_defined(self) -> None:
        """Raises if a size is unknown."""
        if not self.is_fully_defined():
            raise wrong_shape(f"shape {self} is not fully defined")

    def concatenate(self, other: Any) -> TensorShape:
        """The sizes of both, one after the other."""
        other = TensorShape(other)
        return TensorShape(None if self._sizes is None or other._sizes is None else self._sizes + other._sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __bool__(self) -> bool:
        return self._sizes is not None

    def __iter__(self) -> Iterator[Dimension]:
        return iter([Dimension(d) for d in self.sizes])

    def __getitem__(self, key: Any) -> Any:
        if self._sizes is None:
            return TensorShape(None) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self._sizes[key]) if isinstance(key, slice) else Dimension(self._sizes[key])

    def __eq__(self, other: Any) -> bool:
        try:
            return self._sizes == TensorShape(other)._sizes
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._sizes)

    def __str__(self) -> str:
        if self._sizes is None:
            return "<unknown>"
        inside = ", ".join("?" if d is None else str(d) for d in self._sizes)
        return f"({inside},)" if len(self._sizes) == 1 else f"({inside})"

    def __repr__(self) -> str:
        return "TensorShape(None)" if self._sizes is None else f"TensorShape({self.dims})"


def broadcast(a: TensorShape, b: TensorShape) -> TensorShape:
    """The shape of an elementwise op."""
    if a.ndims is None or b.ndims is None:
        return TensorShape(None)
    rank = max(len(a), len(b))
    x, y = ([1] * (rank - len(s)) + s.as_list() for s in (a, b))
    out = []
    for i, j in zip(x, y):
        if i is not None and j is not None and i != j and 1 not in (i, j):
            raise wrong_shape(f"shapes {a} and {b} do not broadcast")
        known = [d for d in (i, j) if d is not None and d != 1]
        out.append(known[0] if known else (1 if i == j == 1 else None))
    return TensorShape(out)


def product(sizes: Sequence[int | None]) -> int | None:
    """The product of sizes; ``None`` where one is unknown."""
    n = 1
    for d in sizes:
        if d is None:
            return None
        n *= d
    return n
