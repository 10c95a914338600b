"""Incomplete gamma functions and derivatives of digamma."""

import math
from typing import Any

from .. import _native, _ops
from .arguments import pair, tensor
from .register import public
from .._native import Tensor


@public(method=False)
def polygamma(n: int, input: Any) -> Tensor:
    """The n-th derivative of the digamma function.

    >>> tw.polygamma(1, tw.tensor([1.0])).tolist()
    [1.644934]
    """
    return _ops.polygamma(tensor(input), int(n)) if n else _ops.digamma(tensor(input))


@public(function=False, name="polygamma")
def _polygamma(self: Any, n: int) -> Tensor:
    """The n-th derivative of the digamma function.

    >>> tw.tensor([1.0]).polygamma(1).tolist()
    [1.644934]
    """
    return polygamma(n, self)


def _lower(a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower function by its power series, for x below a + 1."""
    from .._graph import while_loop

    def step(state: Any) -> Any:
        k, term, total = state
        term = term * x / (a + k)
        return k + 1.0, term, total + term

    start = (_native.ones((), dtype="float64"), 1.0 / a, 1.0 / a + x * 0.0)
    start = (start[0], start[1] + x * 0.0, start[2])
    state = while_loop(lambda s: (_ops.abs(s[1]) > 1e-17 * _ops.abs(s[2])).any() & (s[0] < 5000.0), step, start)
    return state[2] * _ops.exp(a * _ops.log(x) - x - _ops.lgamma(a))


def _upper(a: Tensor, x: Tensor) -> Tensor:
    """The regularized upper function by Lentz's continued fraction, for x from a + 1 on."""
    from .._graph import while_loop

    b = x + 1.0 - a
    tiny = 1e-300

    def step(state: Any) -> Any:
        k, b, c, d, h, change = state
        an = -k * (k - a)
        b = b + 2.0
        d = an * d + b
        d = 1.0 / _ops.where(_ops.abs(d) < tiny, tiny, d)
        c = b + an / c
        c = _ops.where(_ops.abs(c) < tiny, tiny, c)
        change = d * c
        return k + 1.0, b, c, d, h * change, change

    d = 1.0 / b
    start = (_native.ones((), dtype="float64"), b, b * 0.0 + 1.0 / tiny, d, d, b * 0.0 + 2.0)
    state = while_loop(lambda s: (_ops.abs(s[5] - 1.0) > 1e-16).any() & (s[0] < 5000.0), step, start)
    return state[4] * _ops.exp(a * _ops.log(x) - x - _ops.lgamma(a))


def _incomplete(input: Any, other: Any, upper: bool) -> Tensor:
    a, x = pair(input, other)
    dtype = _native.promote(a.dtype, x.dtype)
    dtype = dtype if "float" in dtype.name else "float32"
    a, x = a.astype("float64"), x.astype("float64")
    plain = (a > 0) & (x > 0) & a.isfinite() & x.isfinite()
    by_series = plain & (x < a + 1.0)
    p = _lower(_ops.where(by_series, a, 1.0), _ops.where(by_series, x, 1.0))
    by_fraction = plain & ~by_series
    q = _upper(_ops.where(by_fraction, a, 1.0), _ops.where(by_fraction, x, 3.0))
    low = _ops.where(by_series, p, 1.0 - q)
    high = _ops.where(by_series, 1.0 - p, q)
    # At the ends: everything lies below an infinite x, nothing below 0 or with an infinite a.
    nothing = (x == 0) | (a.isinf() & x.isfinite())
    whole = (x.isinf() & a.isfinite()) | (a == 0)
    low = _ops.where(plain, low, _ops.where(whole & ~((a == 0) & (x == 0)), 1.0, _ops.where(nothing, 0.0, math.nan)))
    high = _ops.where(plain, high, 1.0 - low)
    bad = (a < 0) | (x < 0) | a.isnan() | x.isnan() | ((a == 0) & (x == 0)) | (a.isinf() & x.isinf())
    return _ops.where(bad, math.nan, high if upper else low).astype(dtype)


@public
def igamma(input: Any, other: Any) -> Tensor:
    """The regularized lower incomplete gamma function.

    >>> tw.igamma(tw.tensor([1.0]), tw.tensor([1.0])).tolist()
    [0.63212056]
    """
    return _incomplete(input, other, False)


@public
def igammac(input: Any, other: Any) -> Tensor:
    """The regularized upper incomplete gamma function.

    >>> tw.igammac(tw.tensor([1.0]), tw.tensor([1.0])).tolist()
    [0.36787945]
    """
    return _incomplete(input, other, True)
