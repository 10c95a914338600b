"""Functions of the gamma family and quantiles of the normal distribution."""

import math
from typing import Any

from .. import _native, _ops
from .._checked import spelled, tensor_first
from .._functions import gammas
from .._functions.arguments import is_floating, pair
from .._native import Tensor

__all__ = ["gammainc", "gammaincc", "ndtri", "polygamma", "zeta"]

gammainc = tensor_first(gammas.igamma)
gammaincc = tensor_first(gammas.igammac)
polygamma = spelled(gammas.polygamma)


def ndtri(input: Any) -> Tensor:
    """The quantiles of the normal distribution.

    >>> tw.special.ndtri(tw.tensor([0.5, 0.975])).tolist()
    [0.0, 1.959964]
    """
    dtype = input.dtype if is_floating(input) else "float32"
    p = input.astype("float64")
    inside = (p > 0) & (p < 1)
    q = _ops.where(inside, _ops.where(p > 0.5, 1.0 - p, p), 0.25)
    goal = _ops.log(q)
    # Newton's method on the logarithm; the last two steps carry the derivatives up to the third.
    fixed = goal.detach()
    x = -_ops.sqrt(_ops.clamp_min(-2.0 * fixed - _ops.log(_ops.clamp_min(-4.0 * math.pi * fixed, 1.0)), 0.0))
    for _ in range(6):
        x = _improved(x, fixed)
    x = _improved(_improved(x.detach(), goal), goal)
    y = _ops.where(p > 0.5, -x, x)
    edges = _ops.where(p == 0, -math.inf, _ops.where(p == 1, math.inf, math.nan))
    return _ops.where(inside, y, edges).astype(dtype)


def _improved(x: Tensor, goal: Tensor) -> Tensor:
    value = _ops.log_ndtr(x)
    slope = _ops.exp(-0.5 * x * x - value) * (1.0 / math.sqrt(2.0 * math.pi))
    return x - (value - goal) / slope


# Bernoulli numbers B₂, B₄, … over factorials.
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330]


def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz's zeta function: the sum of (k + other)^-input over k = 0, 1, 2…

    >>> tw.special.zeta(tw.tensor([2.0]), tw.tensor([1.0])).tolist()
    [1.644934]
    """
    s, q = pair(input, other)
    dtype = _native.promote(s.dtype, q.dtype)
    dtype = dtype if "float" in dtype.name else "float32"
    s, q = s.astype("float64"), q.astype("float64")
    low = q <= 0
    pole = low & (_ops.floor(q) == q)
    undefined = (s < 1) | (low & ~pole & (_ops.floor(s) != s))
    safe_s = _ops.where((s > 1) & ~undefined, s, 2.0)
    # Terms below zero are added one by one, up to ten of them.
    total = safe_s * 0.0 + q * 0.0
    a = _ops.where(pole, 1.0, q)
    for _ in range(20):
        total = total + _ops.where(a == 0, 0.0, _power(a, safe_s))
        a = a + 1.0
    a = _ops.where(a > 0, a, 1.0)
    tail = a * _power(a, safe_s) / (safe_s - 1.0) + 0.5 * _power(a, safe_s)
    factor, power = safe_s, _power(a, safe_s) / a
    for k, b in enumerate(_BERNOULLI):
        tail = tail + b / math.factorial(2 * k + 2) * factor * power
        factor = factor * (safe_s + 2.0 * k + 1.0) * (safe_s + 2.0 * k + 2.0)
        power = power / (a * a)
    y = _ops.where(pole | (s == 1), math.inf, total + tail)
    return _ops.where(undefined, math.nan, y).astype(dtype)


def _power(a: Tensor, s: Tensor) -> Tensor:
    """a^-s, for negative a and whole s as well."""
    sign = _ops.where((a < 0) & (_ops.rem(s, 2.0) == 1.0), -1.0, 1.0)
    return sign * _ops.exp(-s * _ops.log(_ops.abs(a)))


ndtri, zeta = tensor_first(ndtri), tensor_first(zeta)
