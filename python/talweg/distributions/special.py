"""Functions and samplers that several distributions need."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native, linalg, where
from .._graph import fori_loop, while_loop
from .._native import Tensor
from .distribution import FLOAT64, normal, uniform


def solve_triangular(m: Tensor, b: Tensor, upper: bool = False) -> Tensor:
    """``X`` with ``m X = b`` for a triangular matrix."""
    found = getattr(linalg, "solve_triangular", None)
    return m.triangular_solve(b, upper) if found is None else found(m, b, upper=upper)


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function ``P(a, x)``."""
    kind = x.dtype
    a, x = a.to(FLOAT64), x.to(FLOAT64)
    is_low = x < a + 1
    lead = (a * x.clamp_min(1e-300).log() - x - a.lgamma()).exp()

    def series(i: Any, s: Any) -> Any:
        term = s[0] * low / (a + 1 + i)
        return [term, s[1] + term]

    low = where(is_low, x, a)
    small = fori_loop(0, 250, series, [1 / a, 1 / a])[1] * lead
    # Lentz's continued fraction for the upper tail.
    high = where(is_low, a + 2, x)

    def fraction(i: Any, s: Any) -> Any:
        n = i + 1
        an = (a - n) * n
        b = high + 1 - a + 2 * n
        d = 1 / _nonzero(an * s[1] + b)
        c = _nonzero(b + an / s[0])
        return [c, d, s[2] * d * c]

    first = high + 1 - a
    upper = fori_loop(0, 250, fraction, [first * 0 + 1e300, 1 / first, 1 / first])[2] * lead
    return where(x <= 0, x * 0, where(is_low, small, 1 - upper)).to(kind)


def _nonzero(x: Tensor) -> Tensor:
    return where(x.abs() < 1e-300, x * 0 + 1e-300, x)


def standard_gamma(a: Tensor) -> Tensor:
    """Gamma variates of rate 1, by Marsaglia and Tsang's method, with implicit gradients by ``a``."""
    shape = a.stop_gradient()
    is_small = shape < 1
    d = where(is_small, shape + 1, shape) - 1 / 3
    c = 1 / (9 * d).sqrt()
    found, value = None, d * 0
    for _ in range(12):  # each round accepts more than 95 percent
        x = normal(a.shape, a)
        u = uniform(a.shape, a)
        v = 1 + c * x
        v = v * v * v
        safe = v.clamp_min(1e-30)
        ok = (v > 0) & (u.log() < 0.5 * x * x + d - d * safe + d * safe.log())
        take = ok if found is None else ok & ~found
        value = where(take, d * safe, value)
        found = ok if found is None else found | ok
    value = where(found, value, d)
    boost = uniform(a.shape, a).log() / shape.clamp_min(1e-12)
    z = where(is_small, value * boost.exp(), value)
    z = z.clamp_min(2.3e-308 if str(a.dtype).endswith("float64") else 1.2e-38).stop_gradient()
    if not _native.is_grad_enabled() or not (a.requires_grad or a.is_symbolic):
        return z
    return z + (a - shape) * gamma_slope(shape, z)


def gamma_slope(a: Tensor, z: Tensor) -> Tensor:
    """``dz/da`` of a gamma variate at a fixed quantile: ``-(∂P(a, z)/∂a) / p(z)``."""
    kind = a.dtype
    a, z = a.to(FLOAT64), z.to(FLOAT64)
    is_large = a > 30
    b, x = where(is_large, a * 0 + 30, a), where(is_large, a * 0 + 30, z)

    # P = Σ z^(a+n) e^-z / Γ(a+n+1): each term by a, over the density.
    def step(i: Any, s: Any) -> Any:
        term, psi, total = s
        total = total + term * (x.log() - psi)
        return [term * x / (b + i + 1), psi + 1 / (b + i + 1), total]

    first = [x / b, (b + 1).digamma(), x * 0]
    series = -fori_loop(0, 220, step, [f + 0 * x for f in first])[2]
    # Cornish and Fisher's expansion in 1/sqrt(a), and its derivative at a fixed normal quantile.
    big = where(is_large, a, a * 0 + 100)
    y, root = where(is_large, z, big), big.sqrt()
    q = (y - big) / root
    for _ in range(6):
        q = (y - big - (_cornish(q, root) - big - root * q)) / root
    far = 1 + q / (2 * root) - (q**3 - 7 * q) / (72 * root**3) + (3 * q**4 + 7 * q**2 - 16) / (810 * root**4)
    far = far - 1.5 * (9 * q**5 + 256 * q**3 - 433 * q) / (38880 * root**5)
    return where(is_large, far, series).to(kind)


def _cornish(q: Tensor, root: Tensor) -> Tensor:
    a = root * root
    out = a + root * q + (q**2 - 1) / 3 + (q**3 - 7 * q) / (36 * root) - (3 * q**4 + 7 * q**2 - 16) / (810 * a)
    return out + (9 * q**5 + 256 * q**3 - 433 * q) / (38880 * a * root)


def poisson(rate: Tensor) -> Tensor:
    """Poisson variates: arrivals of a process for small rates, Hörmann's rejection for others."""
    rate = rate.stop_gradient()
    small = where(rate < 30, rate, rate * 0)

    def arrive(s: Any) -> Any:
        time, count = s
        time = time - uniform(rate.shape, rate).log()
        return [time, where(time <= small, count + 1, count)]

    few = while_loop(lambda s: (s[0] <= small).any(), arrive, [rate * 0, rate * 0])[1]
    big = rate.clamp_min(30.0)
    b = 0.931 + 2.53 * big.sqrt()
    a = -0.059 + 0.02483 * b
    inverse, edge = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    found, value = rate != rate, big.floor()
    for _ in range(24):
        u, v = uniform(rate.shape, rate) - 0.5, uniform(rate.shape, rate)
        us = 0.5 - u.abs()
        k = ((2 * a / us + b) * u + big + 0.43).floor()
        quick = (us >= 0.07) & (v <= edge)
        refused = (k < 0) | ((us < 0.013) & (v > us))
        slow = v.log() + inverse.log() - (a / (us * us) + b).log() <= -big + k * big.log() - (k.clamp_min(0.0) + 1).lgamma()
        ok = quick | (~refused & slow)
        value = where(ok & ~found, k, value)
        found = found | ok
    return where(rate < 30, few, value)


def binomial(count: Tensor, p: Tensor) -> Tensor:
    """The number of successes in ``count`` trials."""
    count, p = count.stop_gradient(), p.stop_gradient()
    most = int(count.amax().item()) if math.prod(count.shape) else 0

    def trial(i: Any, total: Any) -> Any:
        hit = (_native.rand(list(p.shape), dtype=p.dtype) < p) & (count > i)
        return total + hit.to(p.dtype)

    return fori_loop(0, most, trial, p * 0 + count * 0)


def log_i0(x: Tensor) -> Tensor:
    """The logarithm of the modified Bessel function of order 0."""
    near = where(x < 40, x, x * 0).i0().log()
    return where(x < 40, near, x + _far(x, (1 / 8, 9 / 128, 225 / 3072, 11025 / 98304)))


def log_i1(x: Tensor) -> Tensor:
    """The logarithm of the modified Bessel function of order 1."""
    near = where(x < 40, x, x * 0 + 1).i1().log()
    return where(x < 40, near, x + _far(x, (-3 / 8, -15 / 128, -315 / 3072, -14175 / 98304)))


def _far(x: Tensor, terms: Any) -> Tensor:
    x = x.clamp_min(1.0)
    total = 1 + sum(t / x**n for n, t in enumerate(terms, 1))
    return total.log() - 0.5 * (2 * math.pi * x).log()


def clamp_probs(p: Tensor) -> Tensor:
    """Probabilities away from 0 and 1, so that logarithms are finite."""
    eps = 2.220446049250313e-16 if str(p.dtype).endswith("float64") else 1.1920929e-07
    return p.clamp(eps, 1 - eps)


def probs_to_logits(p: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities."""
    q = clamp_probs(p)
    return q.log() - (-q).log1p() if is_binary else q.log()


def logits_to_probs(x: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits."""
    return x.sigmoid() if is_binary else x.softmax(-1)


def xlogy(x: Tensor, y: Tensor) -> Tensor:
    """``x log(y)``, 0 where ``x`` is 0."""
    is_zero = x == 0
    return where(is_zero, x * 0, x * where(is_zero, y * 0 + 1, y).log())
