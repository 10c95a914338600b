"""Theano's names: symbolic expressions, shared variables, compiled functions with updates.

    import talweg.compat.theano as theano
    import talweg.compat.theano.tensor as T

>>> import talweg.compat.theano as theano
>>> import talweg.compat.theano.tensor as T
>>> w = theano.shared(2.0, name="w")
>>> step = theano.function([], w**2, updates=[(w, w - 0.25 * T.grad(w**2, w))])
>>> float(step()), float(w.get_value())
(4.0, 1.0)
"""

from __future__ import annotations

from typing import Any

from . import tensor
from .expression import Shared, function, grad

__all__ = ["config", "function", "grad", "shared", "tensor"]


class config:
    """Settings: only ``floatX``, the element type that programs ask for."""

    floatX = "float64"


def shared(value: Any, name: str | None = None, borrow: bool = False) -> Shared:
    """A variable that functions read and update. ``borrow`` changes nothing: the value is copied."""
    return Shared(value, name)
