"""The row of `bitcast_convert`: the bits of numbers as other numbers, by arithmetic that is exact."""

# mypy: ignore-errors
import numpy as np

import talweg as tw
from .table import bits_of, dtype_of, is_float, need, one, row, splat

# Bits of the exponent and of the mantissa.
_FIELDS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def _unsigned(bits):
    return dtype_of(f"uint{bits}")


@row("bitcast_convert")
def bitcast_convert(node, x):
    to = dtype_of(node.dtype)
    if x.dtype == to:
        return x
    for dtype in (x.dtype, to):
        need(not is_float(dtype) or dtype.name in _FIELDS, f"a bitcast of {dtype.name}")
        need(not dtype.name.startswith("complex"), "a bitcast of complex numbers")
    bits = _bits(x) if is_float(x.dtype) else x.to(_unsigned(bits_of(x.dtype)))
    bits = _resized(bits, bits_of(to))
    return _number(bits, to) if is_float(to) else bits.to(to)


def _resized(x, width):
    """Integers in pieces of fewer bits along a new last axis, or pieces along the last axis as wider ones."""
    have = bits_of(x.dtype)
    if have == width:
        return x
    if have > width:
        pieces = [one("shr", [x, splat(i, (), x.dtype)]).to(_unsigned(width)) for i in range(0, have, width)]
        return tw.stack(pieces, -1)
    x = x.to(_unsigned(width))
    places = tw.tensor(np.arange(0, width, have).astype(f"uint{width}"))
    return tw.sum(one("shl", [x, places]), -1).to(_unsigned(width))


def _bits(x):
    """The bits of floats."""
    exponent_bits, mantissa_bits = _FIELDS[x.dtype.name]
    width, bias = bits_of(x.dtype), (1 << (exponent_bits - 1)) - 1
    unsigned, wide = _unsigned(width), tw.float64 if width == 64 else tw.float32
    is_finite = tw.isfinite(x)
    size = tw.where(is_finite, x, tw.zeros_like(x)).abs().to(wide)
    # Scaled so that the mantissa is an integer. Powers come from a table, which is exact.
    _, exponent = tw.frexp(size)
    field = tw.clamp(exponent.to(tw.int64) + (bias - 1), 0, 2 * bias)
    field = tw.where(size == 0, tw.zeros_like(field), field)
    places = mantissa_bits + bias - tw.clamp(field, 1, 2 * bias)
    half = tw.div(places, 2, rounding_mode="floor")
    whole = (size * _powers(half, wide) * _powers(places - half, wide)).to(tw.int64)
    # Normal numbers have a bit more, which is added to the exponent instead.
    hidden = splat(1 << mantissa_bits, (), tw.int64)
    mantissa = tw.where(field > 0, whole - hidden, whole)
    special = splat(((1 << exponent_bits) - 1) << mantissa_bits, (), tw.int64)
    quiet = splat(1 << (mantissa_bits - 1), (), tw.int64)
    finite = field * (1 << mantissa_bits) + mantissa
    bits = tw.where(is_finite, finite, tw.where(tw.isnan(x), special + quiet, special))
    is_negative = tw.copysign(tw.ones_like(x), x) < 0
    sign = splat(1 << (width - 1), (), unsigned)
    bits = bits.to(unsigned)
    return tw.where(is_negative & tw.logical_not(tw.isnan(x)), bits | sign, bits)


def _number(bits, to):
    """The floats with these bits."""
    exponent_bits, mantissa_bits = _FIELDS[to.name]
    width, bias = bits_of(to), (1 << (exponent_bits - 1)) - 1
    wide = tw.float64 if width == 64 else tw.float32
    mantissa = bits & splat((1 << mantissa_bits) - 1, (), bits.dtype)
    field = one("shr", [bits, splat(mantissa_bits, (), bits.dtype)]) & splat((1 << exponent_bits) - 1, (), bits.dtype)
    field, mantissa = field.to(tw.int64), mantissa.to(tw.int64)
    whole = mantissa + tw.where(field > 0, splat(1 << mantissa_bits, (), tw.int64), splat(0, (), tw.int64))
    places = tw.clamp(field, 1, 2 * bias) - (bias + mantissa_bits)
    half = tw.div(places, 2, rounding_mode="floor")
    size = whole.to(wide) * _powers(half, wide) * _powers(places - half, wide)
    top = (1 << exponent_bits) - 1
    size = tw.where(field == top, tw.where(mantissa == 0, splat(np.inf, (), wide), splat(np.nan, (), wide)), size)
    negative = one("shr", [bits, splat(width - 1, (), bits.dtype)]) != 0
    return tw.where(negative, -size, size).to(to)


def _powers(exponent, dtype):
    """Powers of two, for exponents of half the range of a type."""
    most = 560 if dtype == tw.float64 else 90
    table = tw.tensor(np.ldexp(1.0, np.arange(-most, most + 1)).astype(dtype.name))
    return one("take", [table, exponent + most], axis=0)
