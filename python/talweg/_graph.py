"""Define, then run: variables, sessions, control flow."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from . import _native
from ._checked import check
from ._native import Tensor, Update
from .errors import GradientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self


class Parameter(Tensor):
    """A tensor that a module trains: a module registers it when it is assigned to an attribute.

    >>> p = tw.nn.Parameter(tw.zeros(2))
    >>> p.requires_grad, isinstance(p, tw.nn.Parameter)
    (True, True)
    """

    def __new__(cls, data=None, requires_grad=True, *, name=""):
        data = _native.zeros(0) if data is None else data
        if requires_grad:
            return Tensor.__new__(cls, data, variable=True, trainable=True, name=name)
        return Tensor.__new__(cls, data, variable=True, trainable=False, name=name)

    @property
    def grad(self):
        """The gradient that ``backward`` has collected. An optimizer's step uses it up: reading it then is an error."""
        found = _grad.__get__(self)
        if found is None and self.__dict__.get("_is_used_up"):
            e = "the gradient was used up by optimizer.step(): read it before the step, or call zero_grad() after it"
            raise GradientError(_native.located(e))
        return found

    @grad.setter
    def grad(self, value):
        self.__dict__.pop("_is_used_up", None)
        _grad.__set__(self, value)

    def _attributes(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("_is_replaced", "_is_used_up")}

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __copy__(self):
        made = Tensor.__new__(type(self), _of=self)
        made.__dict__.update(self._attributes())
        return made

    def __deepcopy__(self, memo):
        made = type(self)(self.detach(), self.requires_grad)
        made.__dict__.update(copy.deepcopy(self._attributes(), memo))
        return made

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self.detach(), self.requires_grad, self._attributes())


_grad = Tensor.grad


def has_grad(tensor):
    """True if a gradient was collected and not used up."""
    return _grad.__get__(tensor) is not None


def _rebuild(cls, data, requires_grad, attributes):
    """A parameter from its pickle."""
    made = cls(data, requires_grad)
    made.__dict__.update(attributes)
    return made


class _VariableType(type):
    def __instancecheck__(cls, x):
        return isinstance(x, Tensor) and x.is_variable


class Variable(metaclass=_VariableType):
    """A tensor that changes by assignment.

    ``Variable(initial)`` is a trained ``nn.Parameter``; ``trainable=False`` makes a counter or a running mean.

    >>> w = tw.Variable([1.0, 2.0])
    >>> w = w.assign(w * 2)
    >>> w.tolist()
    [2.0, 4.0]
    """

    def __new__(cls, initial_value, trainable=True, name="", dtype=None):
        kind = Parameter if trainable else Tensor
        return Tensor.__new__(kind, initial_value, dtype=dtype, variable=True, trainable=trainable, name=name)


def _flatten(fetches, out):
    if isinstance(fetches, dict):
        return {k: _flatten(v, out) for k, v in fetches.items()}
    if isinstance(fetches, (list, tuple)):
        return type(fetches)(_flatten(v, out) for v in fetches)
    out.append(fetches)
    return len(out) - 1


def _fill(form, values):
    if isinstance(form, dict):
        return {k: _fill(v, values) for k, v in form.items()}
    if isinstance(form, (list, tuple)):
        return type(form)(_fill(v, values) for v in form)
    return values[form]


class Session:
    """Runs graphs: ``run(fetches, feed_dict)`` computes tensors and carries out updates.

    All reads of variables see the values from before the run. Each combination of fetches and feeds
    is compiled once.

    >>> x = tw.placeholder("float32", [2])
    >>> tw.Session().run(x.sum(), {x: [1.0, 2.0]}).item()
    3.0
    """

    def __init__(self) -> None:
        self._native = _native.Session()

    def run(self, fetches: Any, feed_dict: Mapping[Tensor, Any] | None = None) -> Any:
        """The values of ``fetches``, in their form; an update gives ``None``."""
        flat = []
        form = _flatten(fetches, flat)
        return _fill(form, self._native.run(flat, dict(feed_dict or {})))

    def close(self) -> None:
        """Forgets what was compiled."""
        self._native = _native.Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()


def cond(pred: Tensor, then: Any, otherwise: Callable[..., Any], *operands: Any) -> Any:
    """``then(*operands)`` where the scalar ``pred`` holds, else ``otherwise(*operands)``.

    >>> x = tw.tensor(-2.0)
    >>> tw.cond(x > 0, lambda x: x, lambda x: -x, x).item()
    2.0
    """
    return _native.cond(pred, then, otherwise, *operands)


def while_loop(test: Callable[..., Any], body: Callable[..., Any], init: Any, max_trips: int = 0) -> Any:
    """Repeats ``value = body(value)`` while ``test(value)`` holds.

    Gradients flow through it: they save the value of each trip and compute the body again on the way back. More than
    ``max_trips`` trips are an error; 0 is no bound.

    >>> tw.while_loop(lambda i: i < 10, lambda i: i * 2, tw.tensor(1)).item()
    16
    """
    return _native.while_loop(test, body, init, max_trips=max_trips)


def scan(f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` along the first axis of ``xs``: the last carry and all results.

    >>> last, all = tw.scan(lambda c, x: (c + x, c + x), tw.tensor(0), tw.arange(4))
    >>> last.item(), all.tolist()
    (6, [0, 1, 3, 6])
    """
    return _native.scan(f, init, xs, length=length, reverse=reverse)


def fori_loop(lower: int, upper: int, body: Callable[..., Any], init: Any) -> Any:
    """``value = body(i, value)`` for ``i`` from ``lower`` up to but not including ``upper``.

    >>> tw.fori_loop(0, 3, lambda i, x: x + i, tw.tensor(0)).item()
    3
    """

    def step(carry, _row):
        i, value = carry
        return (i + 1, body(i, value)), None

    (_, value), _ = _native.scan(step, (_native.tensor(lower), init), None, length=max(upper - lower, 0))
    return value


__all__ = ["Variable", "Session", "Update", "cond", "while_loop", "scan", "fori_loop"]

check(globals(), ["cond", "fori_loop", "scan", "while_loop"])
