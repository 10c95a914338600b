"""What layers share: checks of their settings, and parameters on a device in a type."""

import operator
from collections.abc import Callable
from typing import Any

from ... import _native
from ..._checked import type_error, value_error
from ..module import Module
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


def shown(**settings):
    """Settings as ``repr`` shows them."""
    return ", ".join(f"{k}={v!r}" for k, v in settings.items())


class Function(Module):
    """A function with its settings: ``locals()`` of the constructor. Tensors among them are buffers."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        settings = {k: v for k, v in settings.items() if k not in ("self", "__class__")}
        self.__dict__["_settings"] = tuple(settings)
        for k, v in settings.items():
            self.register_buffer(k, v) if k in ("weight", "pos_weight") else self.__dict__.__setitem__(k, v)

    def _of(self, f: Callable[..., Any], *tensors: Any) -> Any:
        return f(*tensors, **{k: getattr(self, k) for k in self._settings})

    def extra_repr(self) -> str:
        values = {k: self.__dict__[k] for k in self._settings}
        if values.get("inplace") is False:
            del values["inplace"]
        return f"{values['lambd']}" if "lambd" in values else shown(**values)
