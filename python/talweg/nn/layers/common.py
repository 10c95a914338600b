"""What layers share: checks of their settings, and parameters on a device in a type."""

import inspect
import operator
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

from ... import _native
from ..._checked import type_error, value_error
from .. import init
from ..module import Module
from ..parameter import Parameter

SIZE_MAX = 2**48
_REQUIRED = object()  # a setting without a default


def size(layer, name, value, least=0):
    """A size, checked."""
    try:
        n = operator.index(value)
    except TypeError:
        raise type_error(f"{type(layer).__name__}: {name} is an integer, not {type(value).__name__}") from None
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


_STARTS: dict[str, Callable[[Any, float], Any]] = {
    "uniform": lambda p, bound: init.uniform_(p, -bound, bound),
    "normal": lambda p, _: init.normal_(p),
    "zeros": lambda p, _: init.zeros_(p),
    "ones": lambda p, _: init.ones_(p),
}


class Described(Module):
    """A layer whose parameters, with their shapes and initial distributions, are a row that Rust's layer reads too
    (``_native.LAYERS``). Defaults of its constructor are those of the row, which a test compares."""

    _row: ClassVar[str] = ""
    _starts: dict[str, tuple[str, float]]

    def _describe(self, **settings: Any) -> list[tuple[str, list[int] | None, tuple[str, float], bool]]:
        """The row with these settings: name, shape (None: left out), initial distribution, whether it is a buffer."""
        rows = _native.layer_parameters(self._row, settings)
        self.__dict__["_starts"] = {name: start for name, shape, start, is_buffer in rows if shape is not None and not is_buffer}
        return rows

    def _make_parameters(self, **settings: Any) -> None:
        """Adds the parameters and buffers that these settings ask for, and gives them their initial values."""
        for name, shape, (_, value), is_buffer in self._describe(**settings):
            if is_buffer:
                self.register_buffer(name, None if shape is None else _native.full(shape, value))
            elif "." not in name:
                self.register_parameter(name, None if shape is None else parameter(*shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values again."""
        for name, (kind, bound) in self.__dict__.get("_starts", {}).items():
            value = operator.attrgetter(name)(self)
            if value is not None:
                _STARTS[kind](value, bound)


@dataclass_transform()
class Function(Module):
    """A function as a layer. A subclass lists its settings with types and defaults, in the order of its constructor,
    which follows from them. Tensors among them are buffers.

    >>> class Scaled(Function, of=tw.mul):
    ...     other: float = 2.0
    ...
    ...     def forward(self, input):
    ...         return self._of(input)
    >>> Scaled(other=3.0)(tw.ones(1)).tolist()
    [3.0]
    """

    _function: ClassVar[Callable[..., Any]]
    _fields: ClassVar[dict[str, tuple[Any, Any]]] = {}  # types and defaults

    def __init_subclass__(cls, of: Any = _REQUIRED) -> None:
        super().__init_subclass__()
        if of is _REQUIRED:  # a program's own subclass
            return
        own = {n: (t, vars(cls).get(n, _REQUIRED)) for n, t in inspect.get_annotations(cls).items()}
        for name in own.keys() & vars(cls).keys():  # they would hide buffers of these names
            delattr(cls, name)
        cls._fields = {**cls._fields, **own}
        if of is None:  # what several layers share
            return
        cls._function = staticmethod(of)
        settings = [f"{n}: fields[{n!r}][0]{'' if d is _REQUIRED else f' = fields[{n!r}][1]'}" for n, (_, d) in cls._fields.items()]
        code = f"def __init__({', '.join(['self', *settings])}) -> None:\n    self._set(locals())"
        made: dict[str, Any] = {}
        exec(compile(code, __file__, "exec"), {"fields": cls._fields, "__name__": cls.__module__}, made)
        made["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = made["__init__"]  # type: ignore[method-assign]

    def _set(self, settings: dict[str, Any]) -> None:
        super().__init__()
        settings.pop("self")
        self.__dict__["_settings"] = tuple(settings)
        for k, v in settings.items():
            self.register_buffer(k, v) if k in ("weight", "pos_weight") else self.__dict__.__setitem__(k, v)

    def _of(self, *tensors: Any) -> Any:
        return self._function(*tensors, **{k: getattr(self, k) for k in self._settings})

    def extra_repr(self) -> str:
        values = {k: self.__dict__[k] for k in self._settings}
        if values.get("inplace") is False:
            del values["inplace"]
        return f"{values['lambd']}" if "lambd" in values else shown(**values)
