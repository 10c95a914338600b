"""Elementwise functions of the standard."""

from typing import Any

from .. import _native, _ops as ops
from .._checked import checked, type_error
from .._functions import elementwise
from ._array import promoted
from ._dtypes import result_type
from .._native import Tensor as Array

# The standard's names of the table's rows, where they differ.
_ROWS = {
    "bitwise_invert": "bitwise_not",
    "divide": "div",
    "equal": "eq",
    "greater": "gt",
    "greater_equal": "ge",
    "isfinite": "is_finite",
    "isinf": "is_inf",
    "isnan": "is_nan",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "reciprocal": "recip",
    "remainder": "rem",
    "subtract": "sub",
}
_ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil cos cosh exp expm1 floor isfinite isinf isnan log
log10 log1p log2 logical_not negative reciprocal round sign sin sinh sqrt square tan tanh trunc""".split()
_TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum
multiply not_equal pow remainder subtract""".split()


def _floor_divide(x1: Any, x2: Any) -> Any:
    """The quotient rounded down. A finite number divided by an infinite one of the other sign is -0, not -1."""
    y = ops.floor_divide(x1, x2)
    if not y.dtype.is_floating_point:
        return y
    is_zero = ops.is_finite(_array(x1)) & ops.is_inf(_array(x2)) & (y < 0)
    return ops.where(is_zero, -0.0, y).astype(y.dtype)


def _expm1(x: Any) -> Any:
    """exp(x) - 1. The real part of a complex zero is +0."""
    y = ops.expm1(x)
    return ops.complex(y.real + 0.0, y.imag) if y.dtype.is_complex else y


# Functions whose special cases are not the rows'.
_OWN = {"expm1": _expm1, "floor_divide": _floor_divide, "nextafter": elementwise.nextafter}


def _array(x: Any) -> Any:
    return x if isinstance(x, Array) else _native.tensor(x, copy=True)


def _one(name: str) -> Any:
    op = _OWN.get(name) or getattr(ops, _ROWS.get(name, name))

    def call(x: Any, /) -> Any:
        return op(_array(x))

    return _named(call, name, op)


def _two(name: str) -> Any:
    op = _OWN.get(name) or getattr(ops, _ROWS.get(name, name))

    def call(x1: Any, x2: Any, /) -> Any:
        if not isinstance(x1, Array):
            is_number = isinstance(x1, (bool, int, float, complex)) and isinstance(x2, Array)
            x1 = _native.tensor(x1, result_type(x1, x2) if is_number else None)
        return op(*promoted(x1, x2))

    return _named(call, name, op)


def _named(call: Any, name: str, op: Any) -> Any:
    call.__name__ = call.__qualname__ = name
    call.__doc__, call.__module__ = op.__doc__, "talweg.array_api"
    return checked(call)


FUNCTIONS: dict[str, Any] = {name: _one(name) for name in _ONE} | {name: _two(name) for name in [*_TWO, "nextafter"]}


def _numeric(x: Any, name: str) -> Any:
    if x.dtype.name == "bool":
        raise type_error(f"{name}: expected numbers, not bool")
    return x


def clip(x: "Array", /, min: Any = None, max: Any = None) -> "Array":
    """Elements below ``min`` or above ``max`` become these; ``None`` is no bound."""
    if min is None and max is None:
        return x
    x, min, max = _array(x), *(b.to(x.dtype) if isinstance(b, Array) else b for b in (min, max))
    if min is None:
        return ops.clamp_max(x, max)
    return ops.clamp_min(x, min) if max is None else ops.clamp(x, min, max)


def conj(x: "Array", /) -> "Array":
    """The complex conjugates; of real numbers the numbers themselves."""
    return ops.conj(_numeric(x, "conj"))


def imag(x: "Array", /) -> "Array":
    """The imaginary parts; zeros of real numbers."""
    return _numeric(x, "imag").imag


def positive(x: "Array", /) -> "Array":
    """The array itself."""
    return _numeric(x, "positive")


def real(x: "Array", /) -> "Array":
    """The real parts."""
    return _numeric(x, "real").real


def signbit(x: "Array", /) -> "Array":
    """True where the sign is negative, also of negative zero."""
    return elementwise.signbit(x)


__all__ = [
    "clip", "conj", "imag", "positive", "real", "signbit",
]  # fmt: skip
