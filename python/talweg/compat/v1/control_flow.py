"""Order, branches and loops inside the graph, with TensorFlow's forms."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Callable

from ... import _native
from .dtypes import INT32, INT64
from . import nest
from .arrays import identity, no_op
from .errors import invalid, wrong_shape, wrong_type
from .graph import Block, Operation, Tensor, control_dependencies, convert_to_tensor, get_default_graph, make
from .infer import constant_value
from .shapes import TensorShape


def group(*inputs: Any, name: str | None = None) -> Operation:
    """An operation that runs all of ``inputs``."""
    flat = [x for x in nest.flatten(list(inputs)) if x is not None]
    with get_default_graph().control_dependencies(flat):
        return no_op(name or "group_deps")


def tuple_(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """The tensors, each of which is there only after all have been computed."""
    waits = [t for t in tensors if t is not None] + list(control_inputs or [])
    with control_dependencies(waits):
        return [None if t is None else identity(t) for t in tensors]


def with_dependencies(dependencies: Any, output_tensor: Any, name: str | None = None) -> Tensor:
    """A tensor that is computed after operations."""
    with control_dependencies(dependencies):
        return identity(output_tensor, name)


# Functions in the graph.


class _Leaf:
    """How a value of the program becomes a tensor of the graph and back: tensors, and TensorArrays."""

    @staticmethod
    def flow(x: Any) -> Any:
        if hasattr(x, "_flow"):
            return x._flow
        return x if x is None or isinstance(x, Operation) else convert_to_tensor(x)

    @staticmethod
    def like(x: Any, flow: Any) -> Any:
        return x._with(flow) if hasattr(x, "_flow") else flow


def param(dtype: Any, shape: Any, name: str = "param") -> Tensor:
    """An argument of a function in the graph."""
    return make("Param", [], lambda *_: None, name, dtype, shape, is_stateful=True)


def traced(f: Callable[..., Any], params: list[tuple[Any, Any]], rebuild: Callable[[list[Tensor]], Any]) -> tuple[Block, Any]:
    """The operations of ``f`` as a block, and what it returned."""
    with get_default_graph().block() as block:
        block.params = [param(d, s) for d, s in params]
        result = f(*rebuild(block.params))
        block.outputs = [_Leaf.flow(v) for v in nest.flatten(result)]
    return block, result


def controlled(kind: str, inputs: list[Tensor], blocks: list[Block], lower: Any, outputs: Any, name: str | None) -> list[Tensor]:
    """An operation with bodies: what they capture are inputs, what they assign it assigns."""
    captured = [t for b in blocks for t in b.captures() if t not in inputs]
    every = list(dict.fromkeys([*inputs, *captured]))
    writes = tuple(dict.fromkeys(v for b in blocks for v in b.writes()))
    with control_dependencies([c for b in blocks for c in b.control_captures()]):
        made = make(kind, every, lambda ctx, *_: lower(ctx), name, outputs=outputs, bodies=tuple(blocks), writes=writes)
    return made


def _block_writes(blocks: list[Block]) -> list[Any]:
    return list(dict.fromkeys(v for b in blocks for v in b.writes()))


# Branches.


def cond(
    pred: Any,
    true_fn: Any = None,
    false_fn: Any = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Any = None,
    fn2: Any = None,
) -> Any:
    """``true_fn()`` or ``false_fn()``, by the truth of a scalar in the run."""
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    if not callable(true_fn) or not callable(false_fn):
        raise wrong_type("cond: true_fn and false_fn are functions without arguments")
    if isinstance(pred, bool):
        return true_fn() if pred else false_fn()
    pred = convert_to_tensor(pred, "bool")
    blocks, results = [], []
    for f in (true_fn, false_fn):
        block, result = traced(f, [], lambda _: [])
        blocks.append(block)
        results.append(result)
    a, b = (block.outputs for block in blocks)
    if len(a) != len(b):
        raise invalid(f"cond: true_fn returns {len(a)} values and false_fn {len(b)}")
    outputs = []
    for x, y in zip(a, b):
        if isinstance(x, Tensor) != isinstance(y, Tensor):
            raise invalid("cond: one branch returns a tensor where the other returns an operation")
        if not isinstance(x, Tensor):
            continue
        if x.dtype != y.dtype:
            raise wrong_type(f"cond: true_fn returns {x.dtype.name} and false_fn {y.dtype.name}")
        outputs.append((x.dtype, _either(x.shape, y.shape)))
    wanted = [i for i, x in enumerate(a) if isinstance(x, Tensor)]
    written = _block_writes(blocks)

    def lower(ctx: Any) -> list[Any]:
        old = [ctx.state.get(v) for v in written]

        def branch(block: Block) -> Callable[..., Any]:
            def run() -> list[Any]:
                values, inner = ctx.call(block, [])
                return [values[i] for i in wanted] + [inner.read(v) for v in written] + [_native.tensor(0)]

            return run

        made = _native.cond(ctx.value(pred), branch(blocks[0]), branch(blocks[1]))
        for v, value in zip(written, made[len(wanted) :]):
            ctx.write(v, value)
        del old
        return made[: len(wanted)]

    made = controlled("If", [pred], blocks, lower, outputs, name or "cond")
    leaves = iter(made)
    op = made[0].op if made else get_default_graph().get_operations()[-1]
    flat = [_Leaf.like(v, next(leaves)) if isinstance(x, Tensor) else op for x, v in zip(a, nest.flatten(results[0]))]
    packed = nest.pack_sequence_as(results[0], flat) if nest.is_nested(results[0]) else flat[0] if flat else None
    if isinstance(packed, (list, tuple)) and len(packed) == 1 and not strict:
        return packed[0]
    return packed


def _either(a: TensorShape, b: TensorShape) -> TensorShape:
    """What is true of both shapes."""
    if a.ndims is None or b.ndims is None or a.ndims != b.ndims:
        return TensorShape(None)
    return TensorShape([x if x == y else None for x, y in zip(a.sizes, b.sizes)])


def case(pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str | None = None) -> Any:
    """The function of the first predicate that holds, or ``default``."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    if not pairs:
        raise invalid("case: there is no pair")
    if default is None:
        default = pairs[-1][1]
        pairs = pairs[:-1]
    made = default
    for pred, f in reversed(pairs):
        made = (lambda pred, f, rest: lambda: cond(pred, f, rest, strict, name))(pred, f, made)
    return made()


# Loops.


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """``loop_vars = body(*loop_vars)`` while ``cond(*loop_vars)`` holds. Gradients flow through it.

    Shapes of loop variables stay the same in each iteration of a run. ``parallel_iterations`` and ``swap_memory`` are
    accepted and change nothing: iterations run one after the other.
    """
    if not loop_vars:
        raise invalid("while_loop: there are no loop_vars")
    structure = list(loop_vars) if isinstance(loop_vars, (list, tuple)) and not hasattr(loop_vars, "_fields") else [loop_vars]
    leaves = nest.flatten(structure)
    init = [_Leaf.flow(v) for v in leaves]
    invariants = [None] * len(init) if shape_invariants is None else nest.flatten(_as_listed(shape_invariants))
    shapes = [t.shape if s is None else TensorShape(s) for t, s in zip(init, invariants)]
    limit = None if maximum_iterations is None else convert_to_tensor(maximum_iterations)

    def rebuild(params: list[Tensor]) -> Any:
        return nest.pack_sequence_as(structure, [_Leaf.like(v, p) for v, p in zip(leaves, params)])

    types = [(t.dtype, s) for t, s in zip(init, shapes)]
    test, _ = traced(lambda *a: convert_to_tensor(cond(*a), "bool"), types, rebuild)
    step, result = traced(lambda *a: _listed(body(*a)), types, rebuild)
    if len(step.outputs) != len(init):
        raise invalid(f"while_loop: the body returns {len(step.outputs)} values for {len(init)} loop variables")
    for i, (t, out) in enumerate(zip(init, step.outputs)):
        _check_carried(i, shapes[i], t, out, shape_invariants is not None)
    lower = _while_lowering(init, test, step, limit)
    inputs = init + ([] if limit is None else [limit])
    made = controlled("While", inputs, [test, step], lower, [(t.dtype, s) for t, s in zip(init, shapes)], name or "while")
    packed = rebuild(made)
    return packed if len(packed) > 1 or return_same_structure else packed[0]


def _as_listed(x: Any) -> Any:
    return [x] if isinstance(x, TensorShape) else x


def _listed(x: Any) -> Any:
    return list(x) if isinstance(x, (list, tuple)) and not hasattr(x, "_fields") else [x]


def _check_carried(i: int, shape: TensorShape, t: Tensor, out: Any, is_given: bool) -> None:
    if not isinstance(out, Tensor) or out.dtype != t.dtype:
        kind = out.dtype.name if isinstance(out, Tensor) else type(out).__name__
        raise wrong_type(f"while_loop: loop variable {i} is {t.dtype.name}, but the body returns {kind}")
    if t.op.type != "TensorArray" and not shape.is_compatible_with(out.shape):
        e = "sizes that change from iteration to iteration are not supported: use a TensorArray or pad to the largest"
        raise wrong_shape(f"while_loop: loop variable {i} has shape {shape}, but the body returns {out.shape}; {e}")
    del is_given


def _while_lowering(init: list[Tensor], test: Block, step: Block, limit: Any) -> Any:
    written = _block_writes([test, step])

    def lower(ctx: Any) -> list[Any]:
        values = [ctx.value(t) for t in init]
        n = len(values)
        most = None if limit is None else ctx.value(limit).to(INT64)
        if any(isinstance(v, Pending) for v in values):
            # The first write says what the elements are like.
            tried, _ = ctx.call(step, values, _native.tensor(0))
            values = [_native.zeros(list(t.shape), dtype=t.dtype) if isinstance(v, Pending) else v for v, t in zip(values, tried)]
        state = [_native.tensor(0), *values, *[ctx.read(v) for v in written]]

        def inside(s: list[Any]) -> Any:
            inner = type(ctx)(ctx.build, ctx)
            inner.is_loop = True
            inner.state.update(zip(written, s[n + 1 :]))
            return inner

        def go_on(s: list[Any]) -> Any:
            holds = inside(s).call(test, s[1 : n + 1], s[0])[0][0]
            return holds if most is None else holds & (s[0] < most)

        def advance(s: list[Any]) -> list[Any]:
            made, inner = inside(s).call(step, s[1 : n + 1], s[0])
            for old, new in zip(s[1:], made):
                if tuple(old.shape) != tuple(new.shape):
                    raise wrong_shape(f"while_loop: a loop variable changes its shape from {tuple(old.shape)} to {tuple(new.shape)}")
            return [s[0] + 1, *made, *[inner.read(v) for v in written]]

        last = _native.while_loop(go_on, advance, state)
        for v, value in zip(written, last[n + 1 :]):
            ctx.write(v, value)
        return last[1 : n + 1]

    return lower


def scanned(f: Callable[..., Any], init: Any, xs: list[Tensor], reverse: bool = False, name: str = "scan") -> tuple[Any, Any]:
    """``carry, ys = f(carry, rows)`` along the first axis of ``xs``: the last carry and the stacked ``ys``."""
    start = [convert_to_tensor(v) for v in nest.flatten(init)]
    n = len(start)
    rows = [(x.dtype, x.shape[1:]) for x in xs]
    forms: list[Any] = []

    def step(*params: Tensor) -> Any:
        carry, ys = f(nest.pack_sequence_as(init, params[:n]) if nest.is_nested(init) else params[0] if n else None, list(params[n:]))
        forms.append(ys)
        return [*nest.flatten(carry)[:n], *nest.flatten(ys)]

    types = [(t.dtype, t.shape) for t in start] + rows
    block, _ = traced(step, types, lambda p: p)
    for i, (t, out) in enumerate(zip(start, block.outputs)):
        _check_carried(i, t.shape, t, out, False)
    length = next((x.shape.as_list()[0] for x in xs if x.shape.ndims), None)
    outputs = [(t.dtype, t.shape) for t in start]
    outputs += [(t.dtype, TensorShape([length]).concatenate(t.shape)) for t in block.outputs[n:]]
    written = _block_writes([block])

    def lower(ctx: Any) -> list[Any]:
        values = [ctx.value(t) for t in xs]
        many = values[0].shape[0]
        trips = _native.arange(many)

        def each(carry: list[Any], row: list[Any]) -> Any:
            inner = type(ctx)(ctx.build, ctx)
            inner.is_loop = True
            inner.state.update(zip(written, carry[n:]))
            made, after = inner.call(block, [*carry[:n], *row[1:]], row[0])
            return [*made[:n], *[after.read(v) for v in written], *([_native.tensor(0)] if not n else [])], made[n:] or [_native.tensor(0)]

        carry = [ctx.value(t) for t in start] + [ctx.read(v) for v in written] + ([_native.tensor(0)] if not n else [])
        last, ys = _native.scan(each, carry, [trips, *values], reverse=reverse)
        for v, value in zip(written, last[n:]):
            ctx.write(v, value)
        return [*last[:n], *(ys if len(block.outputs) > n else [])]

    made = controlled("Scan", [*start, *xs], [block], lower, outputs, name)
    carry = nest.pack_sequence_as(init, made[:n]) if nest.is_nested(init) else made[0] if n else None
    ys = nest.pack_sequence_as(forms[0], made[n:]) if nest.is_nested(forms[0]) else made[n] if len(made) > n else None
    return carry, ys


def map_fn(
    fn: Any, elems: Any, dtype: Any = None, parallel_iterations: Any = None, back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, name: str | None = None
) -> Any:
    """``fn`` of each row, stacked."""
    flat = [convert_to_tensor(e) for e in nest.flatten(elems)]

    def step(_: Any, row: list[Tensor]) -> Any:
        made = fn(nest.pack_sequence_as(elems, row) if nest.is_nested(elems) else row[0])
        return [], nest.map_structure(convert_to_tensor, made)

    return scanned(step, [], flat, name=name or "map")[1]


def _folded(fn: Any, elems: Any, initializer: Any, reverse: bool, keep: bool, name: str) -> Any:
    flat = [convert_to_tensor(e) for e in nest.flatten(elems)]

    def of(row: list[Tensor]) -> Any:
        return nest.pack_sequence_as(elems, row) if nest.is_nested(elems) else row[0]

    if initializer is None:
        at = -1 if reverse else 0
        initializer = of([t[at] for t in flat])
        rest = [t[:-1] if reverse else t[1:] for t in flat]
    else:
        rest = flat
        initializer = nest.map_structure(convert_to_tensor, initializer)

    def step(carry: Any, row: list[Tensor]) -> Any:
        made = nest.map_structure(convert_to_tensor, fn(carry, of(row)))
        return made, made if keep else []

    last, ys = scanned(step, initializer, rest, reverse, name)
    if not keep:
        return last
    if rest is flat:
        return ys
    from .arrays import concat, expand_dims

    def joined(first: Tensor, more: Tensor) -> Tensor:
        first = expand_dims(first, 0)
        return concat([more, first] if reverse else [first, more], 0)

    return nest.map_structure(joined, initializer, ys)


def scan(fn: Any, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False, name: str | None = None) -> Any:
    """All values of ``a = fn(a, row)`` along the first axis."""
    return _folded(fn, elems, initializer, reverse, True, name or "scan")


def foldl(fn: Any, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False, name: str | None = None) -> Any:
    """The last value of ``a = fn(a, row)`` along the first axis."""
    return _folded(fn, elems, initializer, False, False, name or "foldl")


def foldr(fn: Any, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False, name: str | None = None) -> Any:
    """The last value of ``a = fn(a, row)`` from the last row to the first."""
    return _folded(fn, elems, initializer, True, False, name or "foldr")


# TensorArray.


class Pending:
    """A TensorArray's value before its first write: the shape of the elements is unknown."""

    def __init__(self, size: int, dtype: Any):
        self.size, self.dtype, self.shape = size, dtype, ()


class TensorArray:
    """Tensors of one shape by index, for loops; each write returns a new array. The size must be known at the start.

    >>> import talweg.compat.v1 as tf
    >>> squares = tf.TensorArray(tf.float32, size=3)
    >>> _, squares = tf.while_loop(
    ...     lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, tf.to_float(i * i))), [tf.constant(0), squares])
    >>> tf.Session().run(squares.stack()).tolist()
    [0.0, 1.0, 4.0]
    """

    def __init__(self, dtype: Any, size: Any = None, dynamic_size: Any = None, clear_after_read: Any = None, tensor_array_name: Any = None, handle: Any = None, flow: Any = None, infer_shape: bool = True, element_shape: Any = None, colocate_with_first_write_call: bool = True, name: str | None = None):
        if size is None:
            raise invalid("TensorArray: give its size; it does not grow")
        from .arrays import ints

        self.dtype, count = dtype, ints(size)
        known = constant_value(count)
        shape = TensorShape([None if known is None else known.item()])
        self._elements = TensorShape(element_shape)

        def lower(ctx: Any, _: Any) -> Any:
            from .dtypes import as_dtype

            return Pending(int(ctx.host(count)), as_dtype(dtype).native)

        self._flow = make("TensorArray", [count], lower, name, dtype, shape.concatenate(self._elements))

    flow = handle = property(lambda self: self._flow)

    def _with(self, flow: Tensor) -> TensorArray:
        made = object.__new__(TensorArray)
        made.dtype, made._flow, made._elements = self.dtype, flow, self._elements
        return made

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """With another tensor at an index."""
        i, v = convert_to_tensor(index), convert_to_tensor(value, self.dtype)
        self._elements = self._elements.merge_with(v.shape)

        def lower(ctx: Any, a: Any, at: Any, x: Any) -> Any:
            if isinstance(a, Pending):
                a = _native.zeros([a.size, *x.shape], dtype=x.dtype)
            return a.index_copy(0, at.to(INT64).reshape(1), x.unsqueeze(0))

        shape = TensorShape(self._flow.shape[:1]).concatenate(self._elements)
        return self._with(make("TensorArrayWrite", [self._flow, i, v], lower, name, self.dtype, shape))

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The tensor at an index."""
        i = convert_to_tensor(index)

        def lower(ctx: Any, a: Any, at: Any) -> Any:
            if isinstance(a, Pending):
                raise invalid("TensorArray: nothing was written yet")
            return a.index_select(0, at.to(INT64).reshape(1)).squeeze(0)

        return make("TensorArrayRead", [self._flow, i], lower, name, self.dtype, self._elements)

    def stack(self, name: str | None = None) -> Tensor:
        """All of them along a new first axis."""
        shape = TensorShape(self._flow.shape[:1]).concatenate(self._elements)
        return make("TensorArrayStack", [self._flow], lambda ctx, a: a, name, self.dtype, shape)

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Those at indices, along a new first axis."""
        from .arrays import gather

        return gather(self.stack(), indices, name=name)

    def concat(self, name: str | None = None) -> Tensor:
        """All of them joined along their first axis."""
        t = self.stack()
        return make("TensorArrayConcat", [t], lambda ctx, a: a.reshape([-1, *a.shape[2:]]), name)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """An array of the rows of a tensor."""
        v = convert_to_tensor(value, self.dtype)
        made = self._with(identity(v, name))
        made._elements = self._elements.merge_with(v.shape[1:])
        return made

    def size(self, name: str | None = None) -> Tensor:
        """How many there are."""
        lower = lambda ctx, a: _native.tensor(a.size if isinstance(a, Pending) else a.shape[0], dtype=INT32)  # noqa: E731
        return make("TensorArraySize", [self._flow], lower, name, "int32", [])

    def identity(self) -> TensorArray:
        """Itself."""
        return self

    def close(self, name: str | None = None) -> Operation:
        """Nothing: memory is freed with its last reference."""
        return no_op(name)


