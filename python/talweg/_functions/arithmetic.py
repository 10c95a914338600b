"""Elementwise functions that PyTorch has beyond the op table, or with more settings."""

import builtins
from typing import Any, NamedTuple

from .. import _native, _ops
from .._checked import type_error, value_error
from .arguments import floating, is_complex, is_floating, is_number, like, pair, tensor
from .dtypes import alike, kind
from .register import public
from .._native import Tensor


_ONE = 1


def _kind_of(number: Any) -> int:
    """The kind of a number, as `dtypes.kind` counts them."""
    kinds = (builtins.bool, int, float, builtins.complex)
    return next((i for i, k in enumerate(kinds) if isinstance(number, k)), 1)


def _scaled(other: Any, alpha: Any, beside: Any = None) -> Any:
    """``alpha * other``; a number that no operand's kind of numbers has is refused."""
    if is_number(alpha) and alpha == 1:
        return other
    kinds = [kind(x.dtype) if isinstance(x, Tensor) else _kind_of(x) for x in (beside, other) if x is not None]
    if is_number(alpha) and _kind_of(alpha) > max(max(kinds), 1):
        raise type_error(f"alpha is {alpha}, but the tensors are not {'complex' if _kind_of(alpha) == 3 else 'floats'}")
    if max(kinds) == 0 and isinstance(other, Tensor):
        return other if alpha else other & False
    return other * alpha if is_number(other) else tensor(other) * like(alpha, tensor(other))


@public
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input + alpha * other``.

    >>> tw.add(tw.tensor([1.0, 2.0]), tw.tensor([3.0, 4.0]), alpha=10).tolist()
    [31.0, 42.0]
    """
    return _ops.add(input, other if alpha is _ONE else _scaled(other, alpha, input))


@public(names=["subtract"])
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input - alpha * other``.

    >>> tw.sub(tw.tensor([31.0, 42.0]), tw.tensor([3.0, 4.0]), alpha=10).tolist()
    [1.0, 2.0]
    """
    return _ops.sub(input, other if alpha is _ONE else _scaled(other, alpha, input))


@public
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``.

    >>> tw.rsub(tw.tensor([1.0, 2.0]), 10.0).tolist()
    [9.0, 8.0]
    """
    return like(other, input) - _scaled(input, alpha, other)


@public(names=["divide", "true_divide"])
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """The quotient, as it is or rounded: ``"trunc"`` toward zero, ``"floor"`` down.

    >>> tw.div(tw.tensor([-7.0, 7.0]), 2.0, rounding_mode="trunc").tolist()
    [-3.0, 3.0]
    """
    if rounding_mode is None:
        return _ops.div(input, other)
    if rounding_mode == "floor":
        return _ops.floor_divide(input, other)
    if rounding_mode != "trunc":
        raise value_error(f"div: rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
    a, b = pair(input, other)
    if is_floating(a) or is_floating(b):
        return _ops.trunc(_ops.div(a, b))
    down = _ops.floor_divide(input, other)
    # Down is toward zero but where the signs differ and something is left.
    return down + ((down < 0) & (down * b != a)).astype(down.dtype)


@public
def float_power(input: Any, exponent: Any) -> Tensor:
    """The power in double precision.

    >>> tw.float_power(tw.tensor([2, 3]), 2).tolist()
    [4.0, 9.0]
    """
    a, b = pair(input, exponent)
    kind = "complex128" if is_complex(a) or is_complex(b) else "float64"
    return a.astype(kind).pow(b.astype(kind))


@public
def heaviside(input: Any, values: Any) -> Tensor:
    """0 below zero, 1 above, ``values`` at zero.

    >>> tw.heaviside(tw.tensor([-1.5, 0.0, 2.0]), tw.tensor([0.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    values = tensor(values)
    if input.dtype != values.dtype:
        raise type_error(f"heaviside: input is {input.dtype.name} and values are {values.dtype.name}")
    step = (input > 0).astype(input.dtype)
    return _ops.where(input == 0, values, _ops.where(input.isnan(), input, step) if is_floating(input) else step)


@public
def gcd(input: Any, other: Any) -> Tensor:
    """The greatest common divisor.

    >>> tw.gcd(tw.tensor([12, 18]), tw.tensor([8, 27])).tolist()
    [4, 9]
    """
    from .._graph import while_loop

    a, b = pair(input, other)
    dtype = _native.promote(a.dtype, b.dtype)
    if "int" not in dtype.name:
        raise type_error(f"gcd: expected integers, not {dtype.name}")
    a, b = _ops.abs(a.astype("int64")), _ops.abs(b.astype("int64"))
    a, b = a + b * 0, b + a * 0

    def step(state: Any) -> Any:
        a, b = state
        left = b != 0
        return _ops.where(left, b, a), _ops.where(left, _ops.rem(a, _ops.where(left, b, 1)), 0)

    a, _ = while_loop(lambda s: (s[1] != 0).any(), step, (a, b))
    return a.astype(dtype)


@public
def lcm(input: Any, other: Any) -> Tensor:
    """The least common multiple.

    >>> tw.lcm(tw.tensor([4, 6]), tw.tensor([6, 21])).tolist()
    [12, 42]
    """
    a, b = pair(input, other)
    divisor = gcd(a, b)
    product = _ops.abs(_ops.floor_divide(a, _ops.where(divisor == 0, 1, divisor).astype(divisor.dtype)) * b)
    return product.astype(divisor.dtype)


class FrexpResult(NamedTuple):
    """What ``frexp`` returns."""

    mantissa: Tensor
    exponent: Tensor


@public
def frexp(input: Any) -> FrexpResult:
    """Mantissa, from 0.5 up to 1 in magnitude, and exponent of two of each float.

    >>> m, e = tw.frexp(tw.tensor([8.0, 0.3]))
    >>> m.tolist(), e.tolist()
    ([0.5, 0.6], [4, -1])
    """
    if not is_floating(input):
        raise type_error(f"frexp: expected floats, not {input.dtype.name}")
    size = input.detach().abs()
    plain = (size > 0) & size.isfinite()
    size = _ops.where(plain, size, 1.0)
    e = _ops.floor(_ops.log2(size)) + 1.0
    # Scaled in two steps, neither of which overflows; the logarithm may be one too great or too small.
    half = _ops.floor(e * 0.5)
    scaled = size * _ops.exp2(-half) * _ops.exp2(half - e)
    e = e + (scaled >= 1.0).astype(e.dtype) - (scaled < 0.5).astype(e.dtype)
    half = _ops.floor(e * 0.5)
    mantissa = input * _ops.exp2(-half) * _ops.exp2(half - e)
    exponent = _ops.where(plain, e, 0.0).astype("int32")
    return FrexpResult(_ops.where(plain, mantissa, input), exponent)


@public
def ldexp(input: Any, other: Any) -> Tensor:
    """``input * 2 ** other``.

    >>> tw.ldexp(tw.tensor([1.0, 3.0]), tw.tensor([2, -1])).tolist()
    [4.0, 1.5]
    """
    return input * (2.0 ** tensor(other))


@public
def isposinf(input: Any) -> Tensor:
    """True for positive infinity.

    >>> tw.isposinf(tw.tensor([tw.inf, -tw.inf, 1.0])).tolist()
    [True, False, False]
    """
    return _native.zeros(input.shape, dtype="bool") if not is_floating(input) else input == float("inf")


@public
def isneginf(input: Any) -> Tensor:
    """True for negative infinity.

    >>> tw.isneginf(tw.tensor([tw.inf, -tw.inf, 1.0])).tolist()
    [False, True, False]
    """
    return _native.zeros(input.shape, dtype="bool") if not is_floating(input) else input == float("-inf")


@public
def isreal(input: Any) -> Tensor:
    """True for numbers without an imaginary part.

    >>> tw.isreal(tw.tensor([1.0 + 0.0j, 1.0j])).tolist()
    [True, False]
    """
    return input.imag == 0 if is_complex(input) else _native.ones(input.shape, dtype="bool")


@public
def sgn(input: Any) -> Tensor:
    """The sign; of complex numbers the number of the same angle and magnitude 1.

    >>> tw.sgn(tw.tensor([3.0 + 4.0j, 0.0j])).tolist()
    [(0.6+0.8j), 0j]
    """
    return _ops.sign(input)


@public
def logit(input: Any, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, of ``x`` moved into ``[eps, 1 - eps]`` where that is given.

    >>> tw.logit(tw.tensor([0.5, 1.0]), eps=0.25).tolist()
    [0.0, 1.0986123]
    """
    x = floating(input)
    return _ops.logit(x) if eps is None else _ops.logit(_ops.where(x < eps, eps, _ops.where(x > 1.0 - eps, 1.0 - eps, x)))


@public(method=False)
def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers of these magnitudes and angles.

    >>> tw.polar(tw.tensor([2.0]), tw.tensor([0.0])).tolist()
    [(2+0j)]
    """
    abs, angle = tensor(abs), tensor(angle)
    return _ops.complex(abs * _ops.cos(angle), abs * _ops.sin(angle))


@public
def conj_physical(input: Any) -> Tensor:
    """The complex conjugates.

    >>> tw.conj_physical(tw.tensor([1.0j])).tolist()
    [-1j]
    """
    return _ops.conj(input) if is_complex(input) else input


@public
def resolve_conj(input: Any) -> Tensor:
    """The tensor itself: conjugation is never deferred in its memory.

    >>> tw.resolve_conj(tw.tensor([1.0j])).tolist()
    [1j]
    """
    return input


@public
def resolve_neg(input: Any) -> Tensor:
    """The tensor itself: negation is never deferred in its memory.

    >>> tw.resolve_neg(tw.tensor([1.0])).tolist()
    [1.0]
    """
    return input


@public
def fill(input: Any, value: Any) -> Tensor:
    """A tensor of this shape and type in which every element has a value.

    >>> tw.fill(tw.zeros(2), 3.0).tolist()
    [3.0, 3.0]
    """
    value = tensor(value)
    if value.ndim:
        raise value_error(f"fill: value must have no dimensions, not {value.ndim}")
    never = _native.zeros((), dtype="bool")  # the gradient of the input is zero
    return _ops.where(never, input, value.astype(input.dtype))


@public(method=False)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """True for elements that are among others.

    >>> tw.isin(tw.tensor([1, 2, 3]), tw.tensor([2, 3])).tolist()
    [False, True, True]
    """
    del assume_unique  # changes nothing of the result
    elements, others = pair(elements, test_elements)
    shape = elements.shape
    others, _ = _ops.sort(others.reshape(-1), 0)
    if others.numel() == 0:
        found = _native.zeros(shape, dtype="bool")
    else:
        dtype = _native.promote(elements.dtype, others.dtype)
        flat, others = elements.astype(dtype).reshape(-1), others.astype(dtype)
        place = _ops.searchsorted(others, flat).clamp(0, others.shape[0] - 1)
        found = (_ops.take(others, place, 0) == flat).reshape(shape)
    return ~found if invert else found


# As methods these take tensors only: no wrapper between the program and the op.
Tensor.add, Tensor.sub, Tensor.div = add, sub, div


def _rdiv(x: Tensor, other: Any) -> Tensor:
    return other / x


Tensor.__rdiv__ = _rdiv


@public
def conj(input: Any) -> Tensor:
    """The complex conjugates: a view. Real numbers are the tensor itself.

    >>> tw.conj(tw.tensor([1.0j])).tolist()
    [-1j]
    """
    return input._conj()


def _transposed_conjugate(x: Tensor) -> Tensor:
    if x.ndim == 1 or x.ndim > 2:
        raise value_error(f"H: expected a matrix, not {x.ndim} dimensions; mH is for batches of matrices")
    return x.conj().mT if x.ndim else x.conj()


Tensor.mH = property(lambda x: x.mT.conj(), doc="The last two dimensions exchanged, and complex numbers conjugated: a view.")
Tensor.H = property(_transposed_conjugate, doc="A matrix transposed and conjugated: a view.")


@public
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``.

    >>> tw.addcmul(tw.ones(1), tw.tensor([2.0]), tw.tensor([3.0]), value=2).tolist()
    [13.0]
    """
    x, a, b = alike(input, tensor1, tensor2)
    return _ops.addcmul(x, a, b, int(value) if kind(x.dtype) < 2 else value)


@public
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``.

    >>> tw.addcdiv(tw.ones(1), tw.tensor([6.0]), tw.tensor([3.0]), value=2).tolist()
    [5.0]
    """
    return _ops.addcdiv(*alike(input, tensor1, tensor2), value)


@public
def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """``input + weight * (end - input)``.

    >>> tw.lerp(tw.tensor([1.0, 2.0]), tw.tensor([10.0, 10.0]), 0.5).tolist()
    [5.5, 6.0]
    """
    return _ops.lerp(*(alike(input, end, weight) if isinstance(weight, Tensor) else (*alike(input, end), weight)))


@public(method=False)
def pow(input: Any, exponent: Any) -> Tensor:
    """The power; either may be a number.

    >>> tw.pow(2, tw.tensor([1.0, 3.0])).tolist()
    [2.0, 8.0]
    """
    if is_number(input):
        return input**exponent
    return _ops.pow(input, exponent)


@public
def xlogy(input: Any, other: Any) -> Tensor:
    """``input * log(other)``, 0 where the input is 0.

    >>> tw.xlogy(tw.tensor([0.0]), tw.tensor([0.0])).tolist()
    [0.0]
    """
    return _ops.xlogy(*pair(input, other))


@public
def clamp_min(input: Any, min: Any) -> Tensor:
    """Elements below ``min`` become that.

    >>> tw.clamp_min(tw.tensor([1, 3]), 2).tolist()
    [2, 3]
    """
    return _ops.clamp_min(input, min)


@public
def clamp_max(input: Any, max: Any) -> Tensor:
    """Elements above ``max`` become that.

    >>> tw.clamp_max(tw.tensor([1, 3]), 2).tolist()
    [1, 2]
    """
    return _ops.clamp_max(input, max)


@public(method=False)
def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers of these parts.

    >>> tw.complex(tw.tensor([1.0]), tw.tensor([2.0])).tolist()
    [(1+2j)]
    """
    return _ops.complex(tensor(real), tensor(imag))


@public
def fix(input: Any) -> Tensor:
    """Rounded toward zero: ``trunc``.

    >>> tw.fix(tw.tensor([-1.5, 1.5])).tolist()
    [-1.0, 1.0]
    """
    return _ops.trunc(input)
