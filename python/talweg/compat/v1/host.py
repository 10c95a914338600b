"""What runs in Python around a run of the device: ``py_func``, ``Print``, assertions."""

# mypy: ignore-errors
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .dtypes import as_dtype
from .errors import InvalidArgumentError, located
from .graph import Operation, Tensor, convert_to_tensor, make


def py_func(func: Any, inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """A function of Python on NumPy arrays. It runs before the operations that take its results; no gradient flows.

    Inside branches and loops it raises.
    """
    inputs = [convert_to_tensor(x) for x in inp]
    is_list = isinstance(Tout, (list, tuple))
    kinds = [as_dtype(t) for t in (Tout if is_list else [Tout])]

    def lower(run: Any, *arrays: Any) -> list[Any]:
        made = func(*arrays)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        if len(made) != len(kinds):
            raise InvalidArgumentError(located(f"py_func: {len(made)} results for {len(kinds)} types"))
        out = []
        for value, kind in zip(made, kinds):
            array = np.asarray(value)
            if kind.native is not None and as_dtype(array.dtype) != kind:
                raise InvalidArgumentError(located(f"py_func: the function returned {array.dtype}, not {kind.name}"))
            out.append(array)
        return out

    made = make("PyFunc", inputs, lower, name, outputs=[(k, None) for k in kinds], is_host=True)
    return made if is_list else made[0]


numpy_function = py_func


def Print(input_: Any, data: Any, message: str | None = None, first_n: int | None = None, summarize: int | None = None, name: str | None = None) -> Tensor:
    """``input_``; a run that computes it prints ``data`` on the standard error stream."""
    x, parts = convert_to_tensor(input_), [convert_to_tensor(d) for d in data]
    many = 3 if summarize is None else summarize
    left = [first_n if first_n is not None and first_n >= 0 else float("inf")]

    def show(*arrays: Any) -> None:
        if left[0] <= 0:
            return
        left[0] -= 1
        shown = []
        for a in arrays:
            a = np.asarray(a)
            flat = a.reshape(-1)
            few = " ".join(str(v) for v in flat[:many]) + ("..." if flat.size > many else "")
            shown.append(f"[{few}]")
        print((message or "") + "".join(shown), file=sys.stderr)

    def lower(ctx: Any, v: Any, *values: Any) -> Any:
        ctx.effect(show, list(values), "Print")
        return v

    return make("Print", [x, *parts], lower, name, x.dtype, x.shape)


def print_(*inputs: Any, output_stream: Any = None, summarize: int = 3, sep: str = " ", end: str = "\n", name: str | None = None, **_: Any) -> Operation:
    """The operation that prints; tensors are shown by their values."""
    tensors = [x for x in inputs if isinstance(x, Tensor) or hasattr(x, "_as_tensor")]
    parts = [convert_to_tensor(t) for t in tensors]

    def show(*arrays: Any) -> None:
        left = iter(arrays)
        words = [str(next(left)) if x in tensors else str(x) for x in inputs]
        print(sep.join(words), end=end, file=output_stream or sys.stderr)

    def lower(ctx: Any, *values: Any) -> list[Any]:
        ctx.effect(show, list(values), "tf.print")
        return []

    return _operation("PrintV2", parts, lower, name)


def _operation(kind: str, inputs: list[Tensor], lower: Any, name: str | None) -> Operation:
    from .graph import _op_name, get_default_graph

    graph = get_default_graph()
    op = Operation(graph, kind, _op_name(graph, name or kind), inputs, lower)
    graph.add(op)
    return op


def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Operation:
    """The operation that raises ``InvalidArgumentError`` after a run in which the condition did not hold."""
    c, parts = convert_to_tensor(condition), [d if isinstance(d, str) else convert_to_tensor(d) for d in data]
    tensors = [p for p in parts if isinstance(p, Tensor) and p.dtype.native is not None]

    def check(holds: Any, *arrays: Any) -> None:
        if not np.all(holds):
            left = iter(arrays)
            shown = [str(next(left)) if p in tensors else _text(p) for p in parts]
            raise InvalidArgumentError(located(f"assertion failed: [{'] ['.join(shown)}]"))

    def lower(ctx: Any, holds: Any, *values: Any) -> list[Any]:
        ctx.effect(check, [holds, *values], "Assert")
        return []

    return _operation("Assert", [c, *tensors], lower, name)


def _text(p: Any) -> str:
    value = p.op.attributes.get("value") if isinstance(p, Tensor) else p
    value = value.item() if isinstance(value, np.ndarray) else value
    return value.decode() if isinstance(value, bytes) else str(value)


def _assertion(word: str, test: Any) -> Any:
    def call(x: Any, y: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None) -> Operation:
        from .maths import reduce_all, same_type

        x, y = same_type(word, x, y)
        text = message or f"{word}: {x.name} and {y.name}"
        return Assert(reduce_all(test(x, y)), data if data is not None else [text, x, y], summarize, name)

    call.__name__ = word
    call.__doc__ = f"The operation that raises where ``{word.removeprefix('assert_')}`` does not hold."
    return call


def _assertions() -> dict[str, Any]:
    from . import maths

    tests = dict(equal=maths.equal, less=maths.less, less_equal=maths.less_equal, greater=maths.greater)
    tests.update(greater_equal=maths.greater_equal)
    return {f"assert_{k}": _assertion(f"assert_{k}", f) for k, f in tests.items()}


globals().update(_assertions())


def _sign_assertion(word: str, other: str) -> Any:
    def call(x: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None) -> Operation:
        return globals()[other](x, 0 if convert_to_tensor(x).dtype.is_integer else 0.0, data, summarize, message, name)

    call.__name__ = word
    return call


assert_positive = _sign_assertion("assert_positive", "assert_greater")
assert_non_negative = _sign_assertion("assert_non_negative", "assert_greater_equal")
assert_negative = _sign_assertion("assert_negative", "assert_less")


def assert_rank(x: Any, rank: int, *_: Any, **__: Any) -> Operation:
    """Raises at once if the static rank is another."""
    from .arrays import no_op

    convert_to_tensor(x).shape.assert_has_rank(rank)
    return no_op("assert_rank")


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """``tensor``; a run in which it has NaN or infinity raises ``InvalidArgumentError``."""
    x = convert_to_tensor(tensor)

    def check(a: Any) -> None:
        if not np.isfinite(a).all():
            raise InvalidArgumentError(located(f"{message}: tensor had {'NaN' if np.isnan(a).any() else 'Inf'} values"))

    def lower(ctx: Any, v: Any) -> Any:
        ctx.effect(check, [v], "check_numerics")
        return v

    return make("CheckNumerics", [x], lower, name, x.dtype, x.shape)


def add_check_numerics_ops() -> Operation:
    """The operation that checks every float tensor of the graph."""
    from .control_flow import group
    from .graph import get_default_graph

    ops = [op for op in get_default_graph().get_operations() if op.block is None]
    return group(*[check_numerics(t, t.name) for op in ops for t in op.outputs if t.dtype.is_floating and not t.is_ref])


__all__ = [n for n, v in list(globals().items()) if not n.startswith("_") and getattr(v, "__module__", "") == __name__]
