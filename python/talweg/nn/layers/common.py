"""What layers share: checks of their settings, and parameters on a device in a type."""

import operator

from ... import _native
from ..._checked import type_error, value_error
from ..parameter import Parameter

SIZE_MAX = 2**48


def size(layer, name, value, least=0):
    """A size, checked."""
    try:
        n = operator.index(value)
    except TypeError:
        raise type_error(f"{type(layer).__name__}: {name} is a whole number, not {type(value).__name__}") from None
    if not least <= n <= SIZE_MAX:
        raise value_error(f"{type(layer).__name__}: {name} must be a size, not {value}")
    return n


def window(layer, name, value, rank, least=0):
    """A size for each dimension."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise value_error(f"{type(layer).__name__}: {name} has {len(values)} sizes, not {rank}")
    return tuple(size(layer, name, v, least) for v in values)


def probability(layer, p):
    """A probability, checked."""
    if not isinstance(p, (int, float)):
        raise type_error(f"{type(layer).__name__}: p is a number, not {type(p).__name__}")
    if not 0.0 <= p <= 1.0:
        raise value_error(f"{type(layer).__name__}: p must lie between 0 and 1, not {p}")
    return p


def parameter(*shape):
    """A parameter that ``reset_parameters`` will fill."""
    return Parameter(_native.zeros(*shape) if shape else _native.zeros(()))


def placed(layer, device, dtype):
    """Moves a new layer to where it was asked for."""
    if device is not None or dtype is not None:
        layer.to(device=device, dtype=dtype)


def bound(name, signature, layer, args, kwargs):
    """The arguments of a constructor by name."""
    try:
        return signature.bind(layer, *args, **kwargs)
    except TypeError as e:
        raise type_error(f"{name}: {e}; it takes {[p for p in signature.parameters if p != 'self']}") from None


def shown(**settings):
    """Settings as ``repr`` shows them."""
    return ", ".join(f"{k}={v!r}" for k, v in settings.items())
