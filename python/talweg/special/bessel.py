"""Bessel and Airy functions, in double precision inside.

Integer orders: Bessel's integral by the midpoint rule, which converges exponentially for periodic functions (Trefethen
and Weideman 2014), and Hankel's expansion for large arguments (DLMF 10.17, 10.40).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from .. import _native, _ops
from .._checked import tensor_first
from .._functions.arguments import is_floating
from .._native import Tensor

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "i0e", "i1e", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "spherical_bessel_j0",
]  # fmt: skip

_NODES = 96
_ANGLES = [(j + 0.5) * math.pi / _NODES for j in range(_NODES)]
_EULER = 0.57721566490153286
_LARGE = 25.0


def _wide(f: Callable[[Tensor], Tensor]) -> Callable[[Any], Tensor]:
    """The function computed in double precision; the result has the input's type, that of integers float32."""

    def call(input: Any) -> Tensor:
        dtype = input.dtype if is_floating(input) else "float32"
        return f(input.astype("float64")).astype(dtype)

    call.__name__ = call.__qualname__ = f.__name__
    call.__doc__ = f.__doc__
    return tensor_first(call)


def _integral(x: Tensor, value: Callable[[Tensor], Tensor], weights: list[float]) -> Tensor:
    """The sum of ``value(x at each node)`` times weights."""
    w = _native.tensor(weights, dtype="float64")
    return (value(x.unsqueeze(-1)) * w).sum(-1)


def _series(x: Tensor, coefficients: list[float]) -> Tensor:
    """A polynomial by Horner's rule."""
    y = _native.full((), coefficients[-1], dtype="float64") + x * 0.0
    for c in reversed(coefficients[:-1]):
        y = y * x + c
    return y


def _hankel(order: float, count: int) -> list[float]:
    """The coefficients of Hankel's expansion."""
    a = [1.0]
    for k in range(1, count):
        a.append(a[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return a


def _phases(x: Tensor, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """The amplitudes of cosine and sine in Hankel's expansion, and the phase."""
    a, square = _hankel(order, 20), 1.0 / (x * x)
    p = _series(square, [(-1) ** (k // 2) * a[k] for k in range(0, 20, 2)])
    q = _series(square, [(-1) ** (k // 2) * a[k] for k in range(1, 20, 2)]) / x
    size = _ops.sqrt(2.0 / (math.pi * x))
    return p * size, q * size, x - (order / 2.0 + 0.25) * math.pi


def _split(x: Tensor, bound: float, small: Callable[[Tensor], Tensor], large: Callable[[Tensor], Tensor]) -> Tensor:
    """One function up to a bound and another above it, neither of which sees the other's arguments."""
    is_small = x <= bound
    return _ops.where(is_small, small(_ops.where(is_small, x, bound)), large(_ops.where(is_small, bound, x)))


def _sines() -> Tensor:
    return _native.tensor([math.sin(t) for t in _ANGLES], dtype="float64")


def _j(x: Tensor, order: int) -> Tensor:
    """The Bessel function of the first kind, of arguments that are not negative."""
    wave = (lambda t: _ops.cos(t * _sines())) if order == 0 else (lambda t: _ops.sin(t * _sines()))
    weights = [(1.0 if order == 0 else math.sin(t)) / _NODES for t in _ANGLES]

    def large(x: Tensor) -> Tensor:
        p, q, phase = _phases(x, order)
        return p * _ops.cos(phase) - q * _ops.sin(phase)

    return _split(x, _LARGE, lambda x: _integral(x, wave, weights), large)


@_wide
def bessel_j0(input: Tensor) -> Tensor:
    """The Bessel function of the first kind and order 0.

    >>> tw.special.bessel_j0(tw.tensor([0.0, 1.0])).tolist()
    [1.0, 0.7651977]
    """
    return _j(_ops.abs(input), 0)


@_wide
def bessel_j1(input: Tensor) -> Tensor:
    """The Bessel function of the first kind and order 1.

    >>> tw.special.bessel_j1(tw.tensor([0.0, 1.0])).tolist()
    [0.0, 0.44005057]
    """
    return _j(_ops.where(input < 0, -input, input), 1) * _ops.where(input < 0, -1.0, 1.0)


@functools.cache
def _neumann() -> tuple[list[float], list[float]]:
    """The sums of Neumann's expansions over even and odd orders (Abramowitz and Stegun 9.1.88, 9.1.89), as weights of
    the nodes."""
    even = [sum((-1) ** k * math.cos(2 * k * t) / k for k in range(1, 41)) / _NODES for t in _ANGLES]
    terms = [((-1) ** k * (2 * k + 1) / (k * (k + 1)), 2 * k + 1) for k in range(1, 41)]
    return even, [sum(c * math.sin(m * t) for c, m in terms) / _NODES for t in _ANGLES]


def _y(x: Tensor, order: int) -> Tensor:
    """The Bessel function of the second kind, of positive arguments."""

    def small(x: Tensor) -> Tensor:
        logarithm = _ops.log(x / 2.0) + _EULER
        if order == 0:
            rest = _integral(x, lambda t: _ops.cos(t * _sines()), _neumann()[0])
            return (2.0 * logarithm * _j(x, 0) - 4.0 * rest) / math.pi
        rest = _integral(x, lambda t: _ops.sin(t * _sines()), _neumann()[1])
        return (2.0 * (logarithm - 1.0) * _j(x, 1) - 2.0 / x * _j(x, 0) - 2.0 * rest) / math.pi

    def large(x: Tensor) -> Tensor:
        p, q, phase = _phases(x, order)
        return p * _ops.sin(phase) + q * _ops.cos(phase)

    return _split(x, _LARGE, small, large)


def _right(x: Tensor, f: Callable[[Tensor], Tensor], at_zero: float) -> Tensor:
    """A function of positive arguments, its limit at zero, NaN below."""
    inside = _ops.where(x > 0, x, 1.0)
    return _ops.where(x > 0, f(inside), _ops.where(x == 0, at_zero, math.nan))


@_wide
def bessel_y0(input: Tensor) -> Tensor:
    """The Bessel function of the second kind and order 0.

    >>> tw.special.bessel_y0(tw.tensor([1.0])).tolist()
    [0.08825697]
    """
    return _right(input, lambda x: _y(x, 0), -math.inf)


@_wide
def bessel_y1(input: Tensor) -> Tensor:
    """The Bessel function of the second kind and order 1.

    >>> tw.special.bessel_y1(tw.tensor([1.0])).tolist()
    [-0.7812128]
    """
    return _right(input, lambda x: _y(x, 1), -math.inf)


def _ie(x: Tensor, order: int) -> Tensor:
    """The modified Bessel function of the first kind times exp(-x), of arguments that are not negative."""
    falls = _native.tensor([math.cos(t) - 1.0 for t in _ANGLES], dtype="float64")
    weights = [math.cos(order * t) / _NODES for t in _ANGLES]

    def large(x: Tensor) -> Tensor:
        a = [(-1) ** k * c for k, c in enumerate(_hankel(order, 16))]
        return _series(1.0 / x, a) / _ops.sqrt(2.0 * math.pi * x)

    return _split(x, 50.0, lambda x: _integral(x, lambda t: _ops.exp(t * falls), weights), large)


@_wide
def i0e(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 0, times exp(-|x|).

    >>> tw.special.i0e(tw.tensor([0.0, 1.0])).tolist()
    [1.0, 0.4657596]
    """
    return _ie(_ops.abs(input), 0)


@_wide
def i1e(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 1, times exp(-|x|).

    >>> tw.special.i1e(tw.tensor([0.0, 1.0])).tolist()
    [0.0, 0.20791042]
    """
    return _ie(_ops.where(input < 0, -input, input), 1) * _ops.where(input < 0, -1.0, 1.0)


@_wide
def modified_bessel_i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 0.

    >>> tw.special.modified_bessel_i0(tw.tensor([0.0, 1.0])).tolist()
    [1.0, 1.266066]
    """
    return _ops.i0(input)


@_wide
def modified_bessel_i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 1.

    >>> tw.special.modified_bessel_i1(tw.tensor([0.0, 1.0])).tolist()
    [0.0, 0.5651591]
    """
    return _ops.i1(input)


def _ke(x: Tensor, order: float) -> Tensor:
    """The modified Bessel function of the second kind times exp(x), of arguments from 1 on."""
    step = 0.125
    places = [j * step for j in range(40)]
    rises = _native.tensor([1.0 - math.cosh(t) for t in places], dtype="float64")
    weights = [step * math.cosh(order * t) * (0.5 if t == 0 else 1.0) for t in places]
    return _integral(x, lambda t: _ops.exp(t * rises), weights)


def _k_small(x: Tensor, order: int) -> Tensor:
    """The same without the factor, of arguments up to 1 (DLMF 10.31)."""
    square, logarithm = x * x / 4.0, _ops.log(x / 2.0)
    plain = [1.0 / (math.factorial(k) * math.factorial(k + order)) for k in range(12)]
    harmonic = [sum(1.0 / j for j in range(1, k + 1)) for k in range(14)]
    if order == 0:
        rest = _series(square, [c * (harmonic[k] - _EULER) for k, c in enumerate(plain)])
        return rest - logarithm * _series(square, plain)
    rest = _series(square, [c * (harmonic[k] + harmonic[k + 1] - 2 * _EULER) for k, c in enumerate(plain)])
    return 1.0 / x + x / 2.0 * (logarithm * _series(square, plain) - rest / 2.0)


def _k(x: Tensor, order: int, scaled: bool) -> Tensor:
    def small(x: Tensor) -> Tensor:
        return _k_small(x, order) * (_ops.exp(x) if scaled else 1.0)

    def large(x: Tensor) -> Tensor:
        return _ke(x, order) * (1.0 if scaled else _ops.exp(-x))

    return _right(x, lambda x: _split(x, 1.0, small, large), math.inf)


@_wide
def modified_bessel_k0(input: Tensor) -> Tensor:
    """The modified Bessel function of the second kind and order 0.

    >>> tw.special.modified_bessel_k0(tw.tensor([1.0])).tolist()
    [0.42102444]
    """
    return _k(input, 0, False)


@_wide
def modified_bessel_k1(input: Tensor) -> Tensor:
    """The modified Bessel function of the second kind and order 1.

    >>> tw.special.modified_bessel_k1(tw.tensor([1.0])).tolist()
    [0.6019073]
    """
    return _k(input, 1, False)


@_wide
def scaled_modified_bessel_k0(input: Tensor) -> Tensor:
    """``modified_bessel_k0`` times exp(x).

    >>> tw.special.scaled_modified_bessel_k0(tw.tensor([1.0])).tolist()
    [1.1444631]
    """
    return _k(input, 0, True)


@_wide
def scaled_modified_bessel_k1(input: Tensor) -> Tensor:
    """``modified_bessel_k1`` times exp(x).

    >>> tw.special.scaled_modified_bessel_k1(tw.tensor([1.0])).tolist()
    [1.6361535]
    """
    return _k(input, 1, True)


@_wide
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """sin(x) / x.

    >>> tw.special.spherical_bessel_j0(tw.tensor([0.0])).tolist()
    [1.0]
    """
    return _ops.sinc(input / math.pi)


def _airy_inner(x: Tensor) -> Tensor:
    """The power series (DLMF 9.4.1)."""
    cube = x * x * x
    f, g = [1.0], [1.0]
    for k in range(1, 60):
        f.append(f[-1] / ((3 * k - 1) * 3 * k))
        g.append(g[-1] / (3 * k * (3 * k + 1)))
    return 0.35502805388781724 * _series(cube, f) - 0.25881940379280680 * x * _series(cube, g)


def _airy_left(x: Tensor) -> Tensor:
    """The oscillating expansion of -x (DLMF 9.7.9)."""
    u = [1.0]
    for k in range(1, 20):
        u.append(u[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    zeta = x * _ops.sqrt(x) * (2.0 / 3.0)
    square = 1.0 / (zeta * zeta)
    p = _series(square, [(-1) ** (k // 2) * u[k] for k in range(0, 20, 2)])
    q = _series(square, [(-1) ** (k // 2) * u[k] for k in range(1, 20, 2)]) / zeta
    phase = zeta - math.pi / 4.0
    return (_ops.cos(phase) * p + _ops.sin(phase) * q) / (math.sqrt(math.pi) * _ops.sqrt(_ops.sqrt(x)))


def _airy_right(x: Tensor) -> Tensor:
    """By the modified Bessel function of order 1/3 (DLMF 9.6.2)."""
    zeta = x * _ops.sqrt(x) * (2.0 / 3.0)
    return _ops.sqrt(x / 3.0) / math.pi * _ops.exp(-zeta) * _ke(zeta, 1.0 / 3.0)


@_wide
def airy_ai(input: Tensor) -> Tensor:
    """The Airy function Ai.

    >>> tw.special.airy_ai(tw.tensor([0.0, 1.0])).tolist()
    [0.35502806, 0.13529242]
    """
    middle = _split(_ops.clamp_min(input, -8.0), 1.5, _airy_inner, _airy_right)
    return _ops.where(input < -8.0, _airy_left(_ops.clamp_min(-input, 8.0)), middle)
