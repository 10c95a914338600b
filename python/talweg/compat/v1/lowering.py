"""From operations to Talweg tensors, for the sizes of one run.

Variables are threaded through as values: an operation that assigns one changes what those that run after it read.
An operation that does not depend on an assignment reads the value from before the run.
"""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from ... import _native
from ...errors import Error
from .errors import FailedPreconditionError, located, unimplemented
from .graph import Block, Operation, Tensor
from .infer import NeedValue

_SIZES = ("Shape", "Size", "Rank")


def ancestors(goals: Iterable[Any], fed: Any = (), block: Block | None = None) -> list[Operation]:
    """The operations that tensors and operations need, in an order in which they can run."""
    found: set[Operation] = set()
    stack = [g.op if isinstance(g, Tensor) else g for g in goals if not (isinstance(g, Tensor) and g in fed)]
    while stack:
        op = stack.pop()
        if op in found or (block is not None and not block.encloses(op.block)):
            continue
        found.add(op)
        stack.extend(t.op for t in op.inputs if t not in fed)
        stack.extend(op.control_inputs)
    return in_order(found)


def in_order(ops: set[Operation]) -> list[Operation]:
    """Operations that follow no assignment come first; otherwise in the order in which they were made."""
    ordered = sorted(ops, key=lambda op: op.id)
    late: set[Operation] = set()
    for op in ordered:
        waits = [t.op for t in op.inputs if not t.is_ref] + op.control_inputs
        if op.writes or any(w in late for w in waits):
            late.add(op)
    return sorted(ordered, key=lambda op: (op in late, op.id))


class Build:
    """What lowering one run collects."""

    def __init__(self, session: Any, fed: dict[Tensor, Any], by_value: dict[Tensor, np.ndarray]):
        self.session, self.fed, self.by_value = session, fed, by_value
        self.reads: dict[Any, None] = {}
        self.effects: list[tuple[Any, list[Any]]] = []
        self.random_ops: list[Operation] = []
        self.keys: Any = None


class Context:
    """Values of tensors and variables at a point of the lowering."""

    is_probe = False

    def __init__(self, build: Build, parent: Context | None = None):
        self.build, self.parent = build, parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.env: dict[Tensor, Any] = {}
        self.state: dict[Any, Any] = {} if parent is None else dict(parent.state)
        self.trip: Any = None if parent is None else parent.trip
        self.is_loop = parent is not None and parent.is_loop

    def value(self, t: Tensor) -> Any:
        """The Talweg tensor of a graph tensor."""
        if t in self.build.fed and t not in self.env:
            return self.build.fed[t]
        if t.is_ref:
            return self.read(t.op.attributes["variable"])
        c: Context | None = self
        while c is not None:
            if t in c.env:
                return c.env[t]
            c = c.parent
        raise located_error(f"{t.name} has no value here: it is made inside a branch or loop and used outside", t.op)

    def read(self, variable: Any) -> Any:
        """The value of a variable at this point."""
        if variable in self.state:
            return self.state[variable]
        store = self.build.session._storage.get(variable)
        if store is None or variable not in self.build.session._initialized:
            raise FailedPreconditionError(located(uninitialized([variable])))
        self.build.reads[variable] = None
        return store

    def write(self, variable: Any, value: Any) -> Any:
        """Assigns a variable for what follows."""
        self.state[variable] = value.to(variable.dtype.native)
        return self.state[variable]

    def host(self, t: Tensor) -> np.ndarray:
        """The value of a tensor as NumPy's array, for sizes and axes."""
        if t.op.type == "Const":
            return t.op.attributes["value"]
        if t in self.build.by_value:
            return self.build.by_value[t]
        leaves = _leaves(t, self.build)
        if any(op.type == "Param" for op in leaves):
            e = "depends on a loop variable, but a size, an axis or a bound must be the same in each iteration"
            raise located_error(f"{t.name} {e}", t.op)
        if leaves:
            raise NeedValue(t)
        return self.value(t).numpy()

    def key(self, op: Operation) -> Any:
        """The key of a random operation for this run, and this iteration of a loop."""
        key = self.build.keys[self.build.random_ops.index(op)]
        return key if self.trip is None else key + _native.tensor([0, 1]) * self.trip

    def effect(self, f: Any, values: list[Any], what: str) -> None:
        """``f`` of the values as arrays, on the host after the run."""
        if self.depth:
            raise unimplemented(f"{what} inside of a branch, a loop or a gradient: return the tensor and use it outside")
        self.build.effects.append((f, values))

    def run(self, ops: Iterable[Operation]) -> None:
        """Lowers operations in order."""
        for op in ops:
            if op.type in ("VariableV2", "Param") or op.is_host:
                continue
            if op.outputs and all(t in self.build.fed for t in op.outputs):
                continue
            try:
                made = op.lower(self, *[self.value(t) for t in op.inputs])
            except (FailedPreconditionError, NeedValue):
                raise
            except Error as e:
                raise _at(e, op) from None
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            self.env.update(zip(op.outputs, made))

    def call(self, block: Block, args: list[Any], trip: Any = None) -> tuple[list[Any], Context]:
        """Lowers a body for given arguments: its outputs, and the context with the variables it assigned."""
        inner = Context(self.build, self)
        if trip is not None:
            inner.trip = trip if self.trip is None else self.trip * 1000003 + trip
        inner.env.update(zip(block.params, args))
        inner.run(ancestors(block.outputs, (), block))
        return [inner.value(t) if isinstance(t, Tensor) else None for t in block.outputs], inner


def uninitialized(variables: Iterable[Any]) -> str:
    """The message for variables without a value."""
    names = ", ".join(v.op.name for v in variables)
    return f"attempting to use uninitialized value {names}: run tf.global_variables_initializer() first"


def located_error(what: str, op: Operation) -> Error:
    """An error that names the line at which an operation was made."""
    from .errors import InvalidArgumentError

    return InvalidArgumentError(located(f"{what} (made at {op.site[0]}:{op.site[1]})"))


def _at(e: Error, op: Operation) -> Error:
    text = str(e)
    if "made at" in text:
        return e
    text = text.split(" (at ")[0]
    return type(e)(located(f"{op.name} ({op.type}): {text} (made at {op.site[0]}:{op.site[1]})"))


def _leaves(t: Tensor, build: Build) -> list[Operation]:
    """Operations that a value depends on and that only a run can compute. Shapes are known."""
    found, seen, stack = [], set(), [t]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.op.type in _SIZES:
            continue
        is_leaf = x in build.fed or x.is_ref or x.op.is_stateful or x.op.is_host or x.op.bodies or x.op.writes
        if is_leaf or x.op.type in ("Placeholder", "Param"):
            found.append(x.op)
        else:
            stack.extend(x.op.inputs)
    return found


# Gradients.


def between(xs: list[Tensor], ys: list[Tensor], stops: Any = ()) -> set[Operation]:
    """Operations on differentiable ways from ``xs`` to ``ys``."""
    after = set(xs)
    path: set[Operation] = set()
    order = sorted({op for op in ancestors(ys)}, key=lambda op: op.id)
    for op in order:
        if any(t in after for t in op.inputs):
            outs = [t for t in op.outputs if (t.dtype.is_floating or t.dtype.is_complex) and t not in stops]
            if outs and op.type not in ("StopGradient",):
                path.add(op)
                after.update(outs)
    return path


def is_connected(x: Tensor, ys: list[Tensor], stops: Any = ()) -> bool:
    """True if ``ys`` depend on ``x`` by differentiable operations."""
    path = between([x], ys, stops)
    return x in ys or any(y.op in path for y in ys)


def gradients(ctx: Context, ys: list[Tensor], xs: list[Tensor], seeds: list[Any], stops: list[Tensor]) -> list[Any]:
    """Gradients of ``Σ ⟨ys, seeds⟩`` with respect to ``xs``: the operations between are lowered again as a function."""
    path = between(xs, ys, stops)
    ops = sorted(path, key=lambda op: op.id)

    def f(args: list[Any]) -> Any:
        inner = Context(ctx.build, ctx)
        for x, arg in zip(xs, args):
            if x.is_ref:
                inner.state[x.op.attributes["variable"]] = arg
            inner.env[x] = arg
        for s in stops:
            if s not in inner.env:
                inner.env[s] = ctx.value(s).stop_gradient()
        kept = {t: inner.env[t] for t in inner.env}
        for op in ops:
            if op.writes and op.inputs and op.inputs[0].is_ref:
                raise unimplemented(f"the gradient through the assignment {op.name}: use the value that is assigned")
            inner.run([op])
            inner.env.update(kept)
        total = None
        for y, seed in zip(ys, seeds):
            value = inner.value(y)
            term = value.sum() if seed is None else (value * seed).sum()
            total = term if total is None else total + term.to(total.dtype)
        return total

    values = [ctx.value(x) for x in xs]
    _, grads = _native.value_and_grad(f, (values,), {}, [0], False)
    return list(grads[0])
