"""Nested structures: lists, tuples, named tuples and dictionaries of tensors."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Iterator


def flatten(x: Any) -> list[Any]:
    """The leaves, in order; keys of dictionaries are sorted."""
    if isinstance(x, dict):
        return [leaf for k in sorted(x) for leaf in flatten(x[k])]
    if isinstance(x, (list, tuple)):
        return [leaf for v in x for leaf in flatten(v)]
    return [x]


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """Leaves in the form of a structure."""
    leaves = iter(flat_sequence)
    return _packed(structure, leaves)


def _packed(x: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(x, dict):
        made = {k: _packed(x[k], leaves) for k in sorted(x)}
        return {k: made[k] for k in x}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[_packed(v, leaves) for v in x])
    if isinstance(x, (list, tuple)):
        return type(x)(_packed(v, leaves) for v in x)
    return next(leaves)


def map_structure(func: Any, *structures: Any) -> Any:
    """A function of corresponding leaves."""
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in zip(*map(flatten, structures))])


def is_nested(x: Any) -> bool:
    """True for a list, tuple or dictionary."""
    return isinstance(x, (list, tuple, dict))


def assert_same_structure(a: Any, b: Any) -> None:
    """Raises if two structures have different numbers of leaves."""
    if len(flatten(a)) != len(flatten(b)):
        raise ValueError(f"structures differ: {a} and {b}")
