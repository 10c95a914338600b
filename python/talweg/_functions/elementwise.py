"""Elementwise functions that are not rows of the table, and other names of those that are."""

import math
from typing import Any

from .. import _native, _ops as ops
from .._checked import type_error
from . import dtypes
from .register import alias, public
from .._native import Tensor

# Each is the same function and method under another name.
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "bitwise_invert": "bitwise_not",
    "expand_dims": "unsqueeze",
    "greater": "gt",
    "greater_equal": "ge",
    "isfinite": "is_finite",
    "isinf": "is_inf",
    "isnan": "is_nan",
    "less": "lt",
    "less_equal": "le",
    "logsigmoid": "log_sigmoid",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "reciprocal": "recip",
    "remainder": "rem",
    "unstack": "unbind",
}


@public
def positive(input: "Tensor") -> "Tensor":
    """The tensor itself.

    >>> tw.positive(tw.tensor([-1.0]))
    tensor([-1.])
    """
    if input.dtype.name == "bool":
        raise type_error("positive: expected numbers, not bool")
    return input


@public
def signbit(input: "Tensor") -> "Tensor":
    """True where the sign is negative, also of negative zero.

    >>> tw.signbit(tw.tensor([-0.0, 0.0, 3.0])).tolist()
    [True, False, False]
    """
    return ops.copysign(ops.ones_like(input), input) < 0


@public(method=False)
def real(input: "Tensor") -> "Tensor":
    """The real parts.

    >>> tw.real(tw.tensor([1.0 + 2.0j]))
    tensor([1.])
    """
    return input.real


@public(method=False)
def imag(input: "Tensor") -> "Tensor":
    """The imaginary parts.

    >>> tw.imag(tw.tensor([1.0 + 2.0j]))
    tensor([2.])
    """
    return input.imag


# Bits of precision, and the exponent of the smallest number.
_PRECISION = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}


@public
def nextafter(input: "Tensor", other: Any) -> "Tensor":
    """The number after ``input`` in the direction of ``other``.

    >>> tw.nextafter(tw.tensor(1.0), tw.tensor(2.0)).item() == 1.0 + 2.0**-23
    True
    """
    x1, x2 = (x if isinstance(x, Tensor) else _native.tensor(x) for x in (input, other))
    dtype = _native.promote(x1.dtype, x2.dtype)
    if dtype.name not in _PRECISION:
        raise type_error(f"nextafter: expected floats, not {dtype.name}")
    bits, least = _PRECISION[dtype.name]
    x, to = x1.astype(dtype), x2.astype(dtype)
    # Rump, Zimmermann, Boldo and Melquiond 2009: a bit more than half a unit is added and rounded away.
    unit, eta = 2.0**-bits, 2.0**least
    more = unit * (1.0 + 2.0 * unit)
    up, size = to > x, ops.abs(x)
    # Small numbers are computed with where nothing is lost to underflow; the smallest have one step.
    is_small = size < eta / unit / unit * 0.5
    big = ops.where(is_small, x / unit, x)
    y = ops.where(up, big + ops.abs(big) * more, big - ops.abs(big) * more)
    y = ops.where(is_small, y * unit, y)
    y = ops.where(size < eta / unit, ops.where(up, x + eta, x - eta), y)
    largest = _native.tensor(dtypes.FLOATS[dtype.name][2], dtype=dtype)
    # From infinity down to the largest number, where the sum above stays infinite.
    y = ops.where(ops.is_inf(x), ops.copysign(largest, x), y)
    y = ops.where(x == to, to, y)
    return ops.where(ops.is_nan(x) | ops.is_nan(to), math.nan, y).astype(dtype)


for _alias, _name in ALIASES.items():
    alias(_alias, _name)
