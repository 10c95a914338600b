"""Static shapes and element types of new operations, and what is known of the values of shape tensors.

An operation without its own rule is lowered for sample sizes. With every size known that gives the shape and
raises what is wrong. Where sizes are unknown two samples are tried: sizes that differ between them are unknown.
"""

# mypy: ignore-errors
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import _native
from ...errors import Error
from .dtypes import DType, as_dtype
from .errors import UnimplementedError, located
from .graph import Operation, Tensor
from .shapes import TensorShape

# Divisible by what kernels, strides and groups usually are.
_SAMPLES = (2520, 5040)
_RANKS = (2, 1, 3, 4, 0)


class NeedValue(Exception):
    """Lowering needs a number that only a run can give."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


class _Probe:
    """The context of a trial: values of shape tensors are samples too."""

    is_probe, depth = True, 1

    def __init__(self, size: int):
        self.size = size

    def host(self, t: Tensor) -> np.ndarray:
        known = constant_value(t)
        if known is None:
            raise NeedValue(t)
        return np.array([self.size if v is None else v for v in known.flat]).reshape(known.shape)

    def key(self, op: Any) -> Any:
        return _native.tensor([0, 0])


def _trial(op: Operation, size: int, rank: int) -> list[Any]:
    values = []
    for t in op.inputs:
        sizes = [None] * rank if t.shape.ndims is None else t.shape.as_list()
        values.append(_native.placeholder(t.dtype.native, [size if d is None else d for d in sizes]))
    made = op.lower(_Probe(size), *values)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def infer(op: Operation, dtype: Any = None) -> list[tuple[DType, TensorShape]]:
    """Types and static shapes of an operation's outputs."""
    if all(t.shape.is_fully_defined() for t in op.inputs):
        try:
            made = _trial(op, _SAMPLES[0], 0)
            others = _trial(op, _SAMPLES[1], 0)
            return [(as_dtype(a.dtype), _common(a, b)) for a, b in zip(made, others)]
        except NeedValue:
            pass
        except Error as e:
            raise _named(op, e) from None
    is_ranked = all(t.shape.ndims is not None for t in op.inputs)
    for rank in [0] if is_ranked else _RANKS:
        try:
            a, b = (_trial(op, size, rank) for size in _SAMPLES)
        except (NeedValue, Error):
            continue
        if not is_ranked:
            return [(as_dtype(x.dtype), TensorShape(None)) for x in a]
        return [(as_dtype(x.dtype), _common(x, y)) for x, y in zip(a, b)]
    kind = as_dtype(dtype) if dtype is not None else op.inputs[0].dtype
    return [(kind, TensorShape(None))]


def _common(a: Any, b: Any) -> TensorShape:
    if len(a.shape) != len(b.shape):
        return TensorShape(None)
    return TensorShape([i if i == j else None for i, j in zip(a.shape, b.shape)])


def _named(op: Operation, e: Error) -> Error:
    """The error with the name of the operation."""
    text = str(e).split(" (at ")[0]
    if isinstance(e, UnimplementedError):
        return e
    shapes = ", ".join(str(t.shape) for t in op.inputs)
    return type(e)(located(f"{op.name} ({op.type} of {shapes}): {text}"))


# Values of shape tensors.

_ARITHMETIC = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Maximum": max,
    "Minimum": min,
}


def constant_value(t: Tensor) -> np.ndarray | None:
    """What is known of an integer tensor's value: an array of ints and ``None``, or ``None``."""
    op = t.op
    if op.type == "Const":
        return op.attributes["value"]
    if op.type == "Shape":
        shape = op.inputs[0].shape
        return None if shape.ndims is None else _objects(shape.as_list())
    if op.type == "Rank":
        return None if op.inputs[0].shape.ndims is None else _objects(op.inputs[0].shape.ndims)
    if op.type == "Size":
        n = op.inputs[0].shape.num_elements()
        return None if n is None else _objects(n)
    if op.type in _ARITHMETIC or op.type in ("Pack", "ConcatV2", "StridedSlice", "Cast", "Identity", "Prod", "ExpandDims"):
        return _folded(op, [constant_value(i) for i in op.inputs])
    if t.shape.is_fully_defined() and t.shape.ndims in (0, 1) and t.dtype.is_integer:
        return _objects(np.full(t.shape.as_list(), None, object))
    return None


def _objects(x: Any) -> np.ndarray:
    made = np.empty(np.shape(x), object)
    made[...] = x
    return made


def _folded(op: Operation, values: list[Any]) -> np.ndarray | None:
    if any(v is None for v in values):
        return None
    if op.type in _ARITHMETIC:
        f = _ARITHMETIC[op.type]
        return _objects(np.frompyfunc(lambda a, b: None if a is None or b is None else f(a, b), 2, 1)(*values))
    if op.type == "Pack":
        return np.stack([_objects(v) for v in values])
    if op.type == "ConcatV2":
        return np.concatenate([_objects(v) for v in values]) if op.attributes.get("axis") == 0 else None
    if op.type == "StridedSlice":
        key = op.attributes.get("static_key")
        return None if key is None else _objects(_objects(values[0])[key])
    if op.type == "Prod":
        flat = list(values[0].flat)
        return None if None in flat or op.outputs and op.outputs[0].shape.ndims != 0 else _objects(int(np.prod(flat or [1])))
    if op.type == "ExpandDims":
        return _objects(values[0]).reshape(-1) if values[0].ndim == 0 else None
    return values[0]


def shape_value(t: Any) -> TensorShape:
    """The static shape that a shape argument means: a list, a shape or a tensor; -1 and ``None`` are unknown."""
    if not isinstance(t, Tensor):
        return TensorShape(t)
    known = constant_value(t)
    if known is None:
        return TensorShape(None)
    return TensorShape([None if v is None or v < 0 else v for v in known.reshape(-1)])
