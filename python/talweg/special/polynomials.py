"""Orthogonal polynomials by their recurrences, of degrees that may differ from element to element."""

from collections.abc import Callable
from typing import Any

from .. import _native, _ops
from .._checked import tensor_first
from .._functions.arguments import pair
from .._native import Tensor

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]  # fmt: skip


def _evaluated(input: Any, n: Any, first: Callable[[Tensor], Tensor], step: Callable[..., Tensor]) -> Tensor:
    """The polynomial of degree n from that of degree 1 and ``step(x, k, degree k, degree k - 1)``; 0 below degree 0."""
    from .._graph import while_loop

    x, n = pair(input, n)
    dtype = _native.promote(x.dtype, n.dtype)
    dtype = dtype if "float" in dtype.name else "float32"
    x, degree = x.astype(dtype), _ops.trunc(n.astype(dtype))
    one = (x * 0.0 + 1.0) + degree * 0.0
    line = first(x) + degree * 0.0
    found = _ops.where(degree == 0, one, _ops.where(degree == 1, line, 0.0).astype(dtype))
    most = _ops.max(degree) if degree.numel() else _native.zeros((), dtype=dtype)

    def body(state: Any) -> Any:
        k, now, before, found = state
        after = step(x, k, now, before)
        return k + 1.0, after, now, _ops.where(degree == k + 1.0, after, found)

    start = (_native.ones((), dtype=dtype), line, one, found)
    return while_loop(lambda s: s[0] < most, body, start)[3]


def _chebyshev(x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return 2.0 * x * now - before


def chebyshev_polynomial_t(input: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the first kind.

    >>> tw.special.chebyshev_polynomial_t(tw.tensor([0.5]), 2).tolist()
    [-0.5]
    """
    return _evaluated(input, n, lambda x: x, _chebyshev)


def chebyshev_polynomial_u(input: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the second kind.

    >>> tw.special.chebyshev_polynomial_u(tw.tensor([0.5]), 2).tolist()
    [0.0]
    """
    return _evaluated(input, n, lambda x: 2.0 * x, _chebyshev)


def chebyshev_polynomial_v(input: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the third kind.

    >>> tw.special.chebyshev_polynomial_v(tw.tensor([0.5]), 2).tolist()
    [-1.0]
    """
    return _evaluated(input, n, lambda x: 2.0 * x - 1.0, _chebyshev)


def chebyshev_polynomial_w(input: Any, n: Any) -> Tensor:
    """The Chebyshev polynomial of the fourth kind.

    >>> tw.special.chebyshev_polynomial_w(tw.tensor([0.5]), 2).tolist()
    [1.0]
    """
    return _evaluated(input, n, lambda x: 2.0 * x + 1.0, _chebyshev)


def hermite_polynomial_h(input: Any, n: Any) -> Tensor:
    """The physicist's Hermite polynomial.

    >>> tw.special.hermite_polynomial_h(tw.tensor([1.0]), 2).tolist()
    [2.0]
    """
    return _evaluated(input, n, lambda x: 2.0 * x, lambda x, k, now, before: 2.0 * (x * now - k * before))


def hermite_polynomial_he(input: Any, n: Any) -> Tensor:
    """The probabilist's Hermite polynomial.

    >>> tw.special.hermite_polynomial_he(tw.tensor([2.0]), 2).tolist()
    [3.0]
    """
    return _evaluated(input, n, lambda x: x, lambda x, k, now, before: x * now - k * before)


def laguerre_polynomial_l(input: Any, n: Any) -> Tensor:
    """The Laguerre polynomial.

    >>> tw.special.laguerre_polynomial_l(tw.tensor([2.0]), 2).tolist()
    [-1.0]
    """

    def step(x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
        return ((2.0 * k + 1.0 - x) * now - k * before) / (k + 1.0)

    return _evaluated(input, n, lambda x: 1.0 - x, step)


def legendre_polynomial_p(input: Any, n: Any) -> Tensor:
    """The Legendre polynomial.

    >>> tw.special.legendre_polynomial_p(tw.tensor([0.5]), 2).tolist()
    [-0.125]
    """

    def step(x: Tensor, k: Tensor, now: Tensor, before: Tensor) -> Tensor:
        return ((2.0 * k + 1.0) * x * now - k * before) / (k + 1.0)

    return _evaluated(input, n, lambda x: x, step)


def shifted_chebyshev_polynomial_t(input: Any, n: Any) -> Tensor:
    """``chebyshev_polynomial_t`` of 2x - 1.

    >>> tw.special.shifted_chebyshev_polynomial_t(tw.tensor([0.75]), 2).tolist()
    [-0.5]
    """
    return chebyshev_polynomial_t(2.0 * input - 1.0, n)


def shifted_chebyshev_polynomial_u(input: Any, n: Any) -> Tensor:
    """``chebyshev_polynomial_u`` of 2x - 1.

    >>> tw.special.shifted_chebyshev_polynomial_u(tw.tensor([0.75]), 2).tolist()
    [0.0]
    """
    return chebyshev_polynomial_u(2.0 * input - 1.0, n)


def shifted_chebyshev_polynomial_v(input: Any, n: Any) -> Tensor:
    """``chebyshev_polynomial_v`` of 2x - 1.

    >>> tw.special.shifted_chebyshev_polynomial_v(tw.tensor([0.75]), 2).tolist()
    [-1.0]
    """
    return chebyshev_polynomial_v(2.0 * input - 1.0, n)


def shifted_chebyshev_polynomial_w(input: Any, n: Any) -> Tensor:
    """``chebyshev_polynomial_w`` of 2x - 1.

    >>> tw.special.shifted_chebyshev_polynomial_w(tw.tensor([0.75]), 2).tolist()
    [1.0]
    """
    return chebyshev_polynomial_w(2.0 * input - 1.0, n)


globals().update({name: tensor_first(globals()[name]) for name in __all__})
