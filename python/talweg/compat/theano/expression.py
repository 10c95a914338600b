"""Expressions: what a symbolic variable is to compute once its inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import _native, _transforms
from ..._checked import type_error, value_error
from ..._native import Tensor


class _Values(dict["Expression", Any]):
    """What is known of expressions; ``fixed`` are those that were given, not computed."""

    def __init__(self, given: Mapping[Expression, Any]) -> None:
        super().__init__(given)
        self.fixed = set(given)



class Expression:
    """A value that is computed from others; an input or a shared variable is one without a rule."""

    def __init__(self, rule: Callable[..., Any] | None = None, args: Sequence[Any] = (), name: str | None = None) -> None:
        self._rule, self._args, self.name = rule, tuple(args), name

    def value(self, known: _Values) -> Any:
        """The tensor, given those of inputs; what is computed is remembered."""
        if self not in known:
            if self._rule is None:
                raise value_error(f"theano: the input {self.name or '?'} has no value: list it among the inputs of function, or in givens")
            known[self] = self._rule(*(a.value(known) if isinstance(a, Expression) else a for a in self._args))
        return known[self]

    def eval(self, inputs: Mapping[Expression, Any] | None = None) -> Any:
        """The value as an array, given those of its inputs."""
        given = dict(inputs or {})
        return function(list(given), self)(*given.values())

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return self.name or "<expression>"

    def __bool__(self) -> bool:
        raise type_error("theano: an expression has no value before a function runs: use T.switch instead of Python's if")

    def __iter__(self) -> Any:
        raise type_error("theano: an expression cannot be iterated over: index it, or compute it with a function first")

    def __getitem__(self, key: Any) -> Expression:
        keys = key if isinstance(key, tuple) else (key,)
        parts = [p for k in keys for p in ((k.start, k.stop, k.step) if isinstance(k, slice) else (k,))]

        def rule(t: Any, *values: Any) -> Any:
            rest = iter(values)
            found = tuple(slice(next(rest), next(rest), next(rest)) if isinstance(k, slice) else next(rest) for k in keys)
            return t[found if isinstance(key, tuple) else found[0]]

        return Expression(rule, (self, *parts))

    @property
    def T(self) -> Expression:
        return Expression(lambda t: t.permute(tuple(reversed(range(t.ndim)))), (self,))

    @property
    def shape(self) -> Expression:
        return Expression(lambda t: tuple(t.shape), (self,))

    def dimshuffle(self, *pattern: Any) -> Expression:
        """Axes in another order; ``'x'`` is a new one."""
        order = tuple(pattern[0]) if len(pattern) == 1 and isinstance(pattern[0], (tuple, list)) else pattern

        def rule(t: Tensor) -> Tensor:
            moved = t.permute(tuple(p for p in order if p != "x"))
            return moved.reshape(tuple(1 if p == "x" else t.shape[p] for p in order))

        return Expression(rule, (self,))

    def astype(self, dtype: Any) -> Expression:
        return Expression(lambda t: t.astype(dtype), (self,))


def apply(rule: Callable[..., Any], *args: Any) -> Expression:
    """The expression of a rule for tensors; numbers and arrays among its arguments stay as they are."""
    return Expression(rule, args)


def _operator(rule: Callable[[Any, Any], Any], reflected: bool) -> Callable[[Expression, Any], Expression]:
    def method(self: Expression, other: Any) -> Expression:
        other = _native.tensor(other) if isinstance(other, np.ndarray) else other
        return apply(rule, other, self) if reflected else apply(rule, self, other)

    return method


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
for _name, _rule in _OPERATORS.items():
    setattr(Expression, f"__{_name}__", _operator(_rule, False))
    setattr(Expression, f"__r{_name}__", _operator(_rule, True))
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b}
_COMPARED |= {"gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
for _name, _rule in _COMPARED.items():
    setattr(Expression, f"__{_name}__", _operator(_rule, False))
setattr(Expression, "__neg__", lambda self: apply(lambda a: -a, self))
setattr(Expression, "__abs__", lambda self: apply(lambda a: a.abs(), self))


class Input(Expression):
    """An argument of functions, with an element type and a number of dimensions."""

    def __init__(self, dtype: str, ndim: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.dtype, self.ndim = dtype, ndim

    def given(self, value: Any) -> Any:
        """A value given to a function, in the declared type. An integer is part of the program, so that it can
        bound slices: the function is compiled for each."""
        if self.ndim == 0 and self.dtype.startswith("int"):
            return int(value)
        t = _native.tensor(np.asarray(value))
        if t.ndim != self.ndim:
            raise value_error(f"theano: {self!r} has {self.ndim} dimensions, but the value has {t.ndim}")
        return t.astype(self.dtype)


class Shared(Expression):
    """A variable that functions read and update."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        super().__init__(name=name)
        self.variable = Tensor(np.asarray(value), variable=True, trainable=False)

    def value(self, known: _Values) -> Any:
        if self not in known:
            known[self] = self.variable + 0
        return known[self]

    def get_value(self, borrow: bool = False) -> Any:
        """A copy of the value, as an array."""
        return np.array(self.variable.detach())

    def set_value(self, value: Any, borrow: bool = False) -> None:
        """Gives it another value of the same shape."""
        self.variable.assign(_native.tensor(np.asarray(value)).astype(self.variable.dtype))

    @property
    def dtype(self) -> str:
        return str(self.variable.dtype).split(".")[-1]


def grad(cost: Expression, wrt: Any) -> Any:
    """The gradients of a scalar expression with respect to others: inputs, shared variables or what is between."""
    listed = list(wrt) if isinstance(wrt, (list, tuple)) else [wrt]

    class Gradients(Expression):
        def value(self, known: _Values) -> Any:
            if self not in known:
                at = [w.value(known) for w in listed]
                leaves = {k: v for k, v in known.items() if isinstance(k, Shared) or k in known.fixed}

                def cost_of(*values: Tensor) -> Tensor:
                    return cost.value(_Values({**leaves, **dict(zip(listed, values))}))

                known[self] = _transforms.grad(cost_of, argnums=tuple(range(len(at))))(*at)
            return known[self]

    together = Gradients()
    parts = [Expression(lambda all_, k=k: all_[k], (together,)) for k in range(len(listed))]
    return parts if isinstance(wrt, (list, tuple)) else parts[0]


def _pairs(updates: Any) -> list[tuple[Shared, Any]]:
    pairs = list(updates.items() if hasattr(updates, "items") else updates or ())
    for shared, _ in pairs:
        if not isinstance(shared, Shared):
            raise type_error(f"theano: updates are pairs of a shared variable and an expression, not of {type(shared).__name__}")
    return pairs


def function(
    inputs: Sequence[Input] = (),
    outputs: Any = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """A compiled function of arrays: computes ``outputs`` with the values of shared variables before the call, then
    makes the ``updates``. ``givens`` are expressions that take the place of others.

    >>> import talweg.compat.theano as theano
    >>> import talweg.compat.theano.tensor as T
    >>> x, total = T.dvector("x"), theano.shared(0.0)
    >>> add = theano.function([x], total, updates=[(total, total + x.sum())])
    >>> float(add([1.0, 2.0])), float(add([3.0])), float(total.get_value())
    (0.0, 3.0, 6.0)
    """
    unknown = set(options) - {"allow_input_downcast", "mode", "on_unused_input", "profile"}
    if unknown:
        raise type_error(f"function: there is no argument {sorted(unknown)[0]!r}; there are inputs, outputs, updates, givens, name")
    pairs, replaced = _pairs(updates), list(givens.items() if hasattr(givens, "items") else givens or ())
    wanted = [] if outputs is None else list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    def run(*values: Tensor) -> list[Tensor]:
        known = _Values(dict(zip(inputs, values)))
        for old, new in replaced:
            known[old] = new.value(known) if isinstance(new, Expression) else _native.tensor(np.asarray(new))
            known.fixed.add(old)
        out = [w.value(known) for w in wanted]
        after = [new.value(known) if isinstance(new, Expression) else _native.tensor(new) for _, new in pairs]
        for (shared, _), t in zip(pairs, after):
            shared.variable.assign(t.astype(shared.variable.dtype))
        return out

    compiled = _transforms.jit(run)

    def call(*values: Any) -> Any:
        if len(values) != len(inputs):
            raise type_error(f"{name or 'function'}: expected {len(inputs)} values, not {len(values)}")
        found = [np.asarray(t) for t in compiled(*(i.given(v) for i, v in zip(inputs, values)))]
        return None if outputs is None else found if isinstance(outputs, (list, tuple)) else found[0]

    return call
