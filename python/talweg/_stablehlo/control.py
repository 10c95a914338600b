"""Rows of control flow: loops and branches. JAX's `scan` arrives as a `while` with a counter, and becomes a scan again."""

# mypy: ignore-errors
import numpy as np

import talweg as tw
from .nodes import Block
from .table import ROWS, converted, dtype_of, is_known, prepared, row, tensor

# Operators of which an index is computed.
_ARITHMETIC = {"add", "subtract", "multiply", "negate", "compare", "select", "convert", "maximum", "minimum", "clamp"}


def _tensors(values, types):
    """Values as tensors of their types: what is carried or returned by a graph."""
    return tuple(converted(tensor(v), dtype_of(t.dtype)) for v, t in zip(values, types))


@row("while", known=True)
def while_(node, *inits, run, env):
    test, body = node.blocks
    loop = node.attrs.get("loop")
    if loop is not None:
        return loop.run(node, inits, run, env)
    carried = [j for j, (p, r) in enumerate(zip(body.params, body.results)) if p != r]
    if not carried:
        carried = list(range(len(inits)))
    for j, init in enumerate(inits):
        if j not in carried:
            env[test.params[j]] = env[body.params[j]] = init

    def bound(block, state):
        for j, value in zip(carried, state):
            env[block.params[j]] = value

    def goes_on(state):
        bound(test, state)
        return tensor(run(test)[0])

    def step(state):
        bound(body, state)
        made = run(body)
        return _tensors([made[j] for j in carried], [node.types[j] for j in carried])

    start = _tensors([inits[j] for j in carried], [node.types[j] for j in carried])
    ends = dict(zip(carried, tw.while_loop(goes_on, step, start)))
    return tuple(ends.get(j, init) for j, init in enumerate(inits))


class _Scan:
    """A loop of a known number of trips: rows that it reads and writes at its counter are a scan's."""

    def __init__(self, counter, first, trips):
        self.counter, self.first, self.trips = counter, first, trips
        # Slices that the body reads: (node, source, whether from the end), and writes: (result, update, from the end).
        self.reads, self.writes = [], []
        self.fixed, self.carried, self.block, self.is_counted = [], [], None, True

    def run(self, node, inits, run, env):
        body = node.blocks[1]
        for j in self.fixed:
            env[body.params[j]] = inits[j]
        rows = []
        for _, source, back in self.reads:
            x = tensor(env[source])
            rows.append(tw.flip(x, [0]) if back else x)
        if self.is_counted:
            count = np.arange(self.first, self.first + self.trips)
            rows.append(tw.tensor(count, dtype=dtype_of(node.types[self.counter].dtype)))
        carried = [node.types[j] for j in self.carried]

        def step(state, row):
            row = list(row or ())
            if self.is_counted:
                env[body.params[self.counter]] = row.pop()
            for (read, *_), x in zip(self.reads, row):
                env[read.outputs[0]] = x.unsqueeze(0)
            for j, value in zip(self.carried, state):
                env[body.params[j]] = value
            run(self.block)
            made = _tensors([env[body.results[j]] for j in self.carried], carried)
            written = [converted(tensor(env[update]), dtype_of(node.types[j].dtype)).squeeze(0) for j, update, _ in self.writes]
            return made, tuple(written)

        start = _tensors([inits[j] for j in self.carried], carried)
        last, stacked = tw.scan(step, start, tuple(rows) or None, length=self.trips)
        ends = dict(zip(self.carried, last))
        for (j, _, back), y in zip(self.writes, stacked):
            ends[j] = tw.flip(y, [0]) if back else y
        ends[self.counter] = np.asarray(self.first + self.trips).astype(node.types[self.counter].dtype)
        return tuple(ends.get(j, init) for j, init in enumerate(inits))


@prepared("while")
def loop_of(node, run, sources):
    """Recognizes a loop that counts to a constant."""
    test, body = node.blocks
    end = sources.get(test.results[0])
    if end is None or end.name != "compare" or end.attrs["comparison_direction"] != "LT" or end.inputs[0] not in test.params:
        return
    k = test.params.index(end.inputs[0])
    first, limit = (_number(sources.get(i)) for i in (node.inputs[k], end.inputs[1]))
    if limit is None and end.inputs[1] in test.params:
        # A bound that is carried along.
        j = test.params.index(end.inputs[1])
        limit = _number(sources.get(node.inputs[j])) if body.results[j] == body.params[j] else None
    step = sources.get(body.results[k])
    if first is None or limit is None or step is None or step.name != "add" or limit <= first:
        return
    if body.params[k] not in step.inputs or not any(_number(sources.get(i)) == 1 for i in step.inputs):
        return
    loop = _Scan(k, first, limit - first)
    inside = set(body.params) | {o for n in body.nodes for o in n.outputs}
    loop.fixed = [j for j, (p, r) in enumerate(zip(body.params, body.results)) if p == r]
    fixed = {body.params[j]: node.inputs[j] for j in loop.fixed}
    used = _uses(body)
    skipped = {step.outputs[0]}
    for n in body.nodes:
        if n.name not in ("dynamic_slice", "dynamic_update_slice") or not n.types[0].shape:
            continue
        is_read = n.name == "dynamic_slice"
        whole = _shape(n.inputs[0], node, body, sources, fixed) if is_read else n.types[0].shape
        part = n.types[0].shape if is_read else _shape(n.inputs[1], node, body, sources, fixed)
        if whole is None or part is None or whole[0] != loop.trips or part != (1, *whole[1:]) or first != 0:
            continue
        back = _direction(n.inputs[1 if is_read else 2], body.params[k], loop.trips, sources)
        if back is None:
            continue
        if is_read and (n.inputs[0] in fixed or n.inputs[0] not in inside):
            loop.reads.append((n, fixed.get(n.inputs[0], n.inputs[0]), back))
            skipped.add(n.outputs[0])
        elif not is_read and n.inputs[0] in body.params and n.outputs[0] in body.results:
            j = body.params.index(n.inputs[0])
            alone = used.get(n.inputs[0]) == 1 and n.outputs[0] not in used and body.results.count(n.outputs[0]) == 1
            if alone and body.results[j] == n.outputs[0] and n.inputs[1] not in body.params:
                loop.writes.append((j, n.inputs[1], back))
                skipped.add(n.outputs[0])
    written = [j for j, *_ in loop.writes]
    loop.carried = [j for j in range(len(body.params)) if j not in (k, *loop.fixed, *written)]
    loop.block = Block(body.params, body.types)
    loop.block.nodes = [n for n in body.nodes if not n.outputs or n.outputs[0] not in skipped]
    loop.is_counted = body.params[k] in _uses(loop.block) or body.params[k] in [body.results[j] for j in loop.carried]
    loop.block.results = [body.results[j] for j in loop.carried]
    if step.outputs[0] in _uses(loop.block) or step.outputs[0] in loop.block.results:
        loop.block.nodes = [n for n in body.nodes if not n.outputs or n.outputs[0] not in skipped - {step.outputs[0]}]
        loop.is_counted = True
    node.attrs["loop"] = loop


def _number(source):
    """The value of a constant integer."""
    if source is None or source.name != "constant" or source.attrs["value"].ndim or source.attrs["value"].dtype.kind not in "iu":
        return None
    return int(source.attrs["value"])


def _uses(block):
    """How often each value is read by nodes, also by those inside of others."""
    count = {}
    for n in block.nodes:
        for i in n.inputs:
            count[i] = count.get(i, 0) + 1
        for b in n.blocks:
            for i, c in _uses(b).items():
                count[i] = count.get(i, 0) + c
            for i in b.results:
                count[i] = count.get(i, 0) + 1
    return count


def _shape(value, node, body, sources, fixed):
    if value in body.params:
        return body.types[body.params.index(value)].shape
    source = sources.get(value)
    return None if source is None else source.types[source.outputs.index(value)].shape


def _direction(index, counter, trips, sources):
    """Whether an index runs from the end to the start as the counter goes up, or `None` if it does something else."""
    at = _along(index, counter, trips, sources)
    if at is None or at.shape != (trips,):
        return None
    if (at == np.arange(trips)).all():
        return False
    return True if (at == np.arange(trips)[::-1]).all() else None


def _along(value, counter, trips, sources):
    """The values of an index at all trips."""
    if value == counter:
        return np.arange(trips, dtype=np.int64)
    source = sources.get(value)
    if source is None:
        return None
    if source.name == "constant" and source.attrs["value"].ndim == 0:
        return source.attrs["value"]
    if source.name in ("reshape", "broadcast_in_dim") and source.shape == ():
        return _along(source.inputs[0], counter, trips, sources)
    if source.name not in _ARITHMETIC:
        return None
    args = [_along(i, counter, trips, sources) for i in source.inputs]
    if any(a is None for a in args):
        return None
    made = ROWS[source.name](source, *args)
    return made if is_known(made) else None


# ---- branches


def _chosen(pred, then, otherwise, types, run):
    def branch(block):
        return lambda: _tensors(run(block), types) if isinstance(block, Block) else block()

    return tw.cond(pred, branch(then), branch(otherwise))


@row("if", known=True)
def if_(node, pred, run, env):
    then, otherwise = node.blocks
    if is_known(pred):
        return tuple(run(then if pred.item() else otherwise))
    return _chosen(pred, then, otherwise, node.types, run)


@row("case", known=True)
def case(node, index, run, env):
    blocks, last = node.blocks, len(node.blocks) - 1
    if is_known(index):
        i = int(index)
        return tuple(run(blocks[i if 0 <= i <= last else last]))

    def choose(i):
        if i == last:
            return _tensors(run(blocks[last]), node.types)
        return _chosen(index == i, blocks[i], lambda: choose(i + 1), node.types, run)

    return choose(0)
