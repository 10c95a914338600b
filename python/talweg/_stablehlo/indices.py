"""Rows of indexing: gather, scatter, slices at computed indices, sort."""

# mypy: ignore-errors
import math

import numpy as np

import talweg as tw
from .table import Unsupported, apply, dtype_of, is_known, need, one, prepared, row, sliced, splat, tensor


def _index(x):
    return x if x.dtype == tw.int64 else x.to(tw.int64)


# ---- slices at computed indices


def _starts(starts, shape, sizes):
    """Where a slice begins along each axis, held in range: numbers that are known, or tensors."""
    held = []
    for start, n, size in zip(starts, shape, sizes):
        if size == n:
            held.append(0)
        elif is_known(start):
            held.append(int(min(max(int(start), 0), n - size)))
        else:
            held.append(tw.clamp(_index(start), 0, n - size))
    return held


@row(known=True)
def dynamic_slice(node, x, *starts):
    sizes = [int(n) for n in node.attrs["slice_sizes"]]
    held = _starts(starts, x.shape, sizes)
    known = [s if isinstance(s, int) else 0 for s in held]
    ends = [s + n if isinstance(h, int) else m for s, n, m, h in zip(known, sizes, x.shape, held)]
    x = sliced(x, known, ends, [1] * len(sizes))
    for axis, start in enumerate(held):
        if not isinstance(start, int):
            x = one("take", [tensor(x), start.reshape(1) + _places(sizes[axis])], axis=axis)
    return x


def _places(n):
    return tw.arange(n, dtype=tw.int64)


@row(known=True)
def dynamic_update_slice(node, x, update, *starts):
    if any(n == 0 for n in update.shape):
        return x
    return _updated(tensor(x), tensor(update), _starts(starts, x.shape, update.shape), 0)


def _updated(x, update, starts, axis):
    while axis < x.ndim and update.shape[axis] == x.shape[axis]:
        axis += 1
    if axis == x.ndim:
        return update
    start, size = starts[axis], update.shape[axis]
    if isinstance(start, int):
        inner = _updated(x.narrow(axis, start, size), update, starts, axis + 1)
        parts = [x.narrow(axis, 0, start), inner, x.narrow(axis, start + size, x.shape[axis] - start - size)]
        return tw.cat([p for p in parts if p.shape[axis]], axis)
    at = start.reshape(1) + _places(size)
    if any(n != m for n, m in zip(update.shape[axis + 1 :], x.shape[axis + 1 :])):
        update = _updated(one("take", [x, at], axis=axis), update, starts, axis + 1)
    return one("index_copy", [x, at, update], axis=axis)


# ---- gather and scatter


class _Places:
    """The elements that windows at some indices cover, as rows of a tensor whose first axes are flattened.

    `axes` are the operand's axes that a window spans, in order; `batch` the shape of the indices without their vectors.
    """

    def __init__(self, shape, indices, vector, to_axes, sizes, dropped, batching):
        vector_axis = vector
        if vector_axis == indices.ndim:
            indices = indices.reshape((*indices.shape, 1))
        order = [i for i in range(indices.ndim) if i != vector_axis] + [vector_axis]
        indices = indices.transpose(order) if is_known(indices) else indices.permute(order)
        self.batch = list(indices.shape[:-1])
        self.shape, self.sizes = list(shape), list(sizes)
        self.starts = {a: np.asarray(indices[..., i]) if is_known(indices) else indices[..., i] for i, a in enumerate(to_axes)}
        self.batching = dict(batching)
        self.axes = [a for a in range(len(shape)) if a not in dropped and a not in self.batching]
        # Trailing axes that every window spans whole stay as they are.
        self.split = len(shape)
        while self.split and self.is_whole(self.split - 1):
            self.split -= 1
        self.lead = [a for a in self.axes if a < self.split]

    def is_whole(self, axis):
        return axis in self.axes and axis not in self.starts and self.sizes[axis] == self.shape[axis]

    @property
    def rows(self):
        return math.prod(self.shape[: self.split])

    @property
    def trail(self):
        return self.shape[self.split :]

    def clamped(self):
        for a, start in self.starts.items():
            most = self.shape[a] - self.sizes[a]
            if is_known(start):
                self.starts[a] = np.asarray(np.minimum(np.maximum(start.astype(np.int64), 0), most))
            else:
                self.starts[a] = tw.clamp(_wide(start), 0, most)

    def inside(self):
        """Whether each window is inside; `None` if all are known to be."""
        held = None
        for a, start in self.starts.items():
            most = self.shape[a] - self.sizes[a]
            if is_known(start):
                fits = (start.astype(np.int64) >= 0) & (start.astype(np.int64) <= most)
                if fits.all():
                    continue
                fits = tensor(fits)
            else:
                wide = _wide(start)
                fits = (wide >= 0) & (wide <= most)
            held = fits if held is None else held & fits
        return held

    def flat(self):
        """The row of each element: shape [batch, window axes before the split]."""
        form = self.batch + [self.sizes[a] for a in self.lead]
        total, step = 0, 1
        for a in reversed(range(self.split)):
            at = 0
            if a in self.starts:
                start = self.starts[a]
                start = start.astype(np.int64) if is_known(start) else _wide(start)
                at = start.reshape(tuple(self.batch + [1] * len(self.lead)))
            if a in self.batching:
                at = self._along(form, self.batching[a], self.shape[a])
            elif a in self.lead and self.sizes[a] > 1:
                at = _sum(at, self._along(form, len(self.batch) + self.lead.index(a), self.sizes[a]))
            if not isinstance(at, int):
                total = _sum(total, np.asarray(at * step) if is_known(at) else at * step)
            step *= self.shape[a]
        if isinstance(total, int):
            total = np.full((), total, np.int64)
        return tensor(np.broadcast_to(total, form).copy()) if is_known(total) else total.expand(*form)

    @staticmethod
    def _along(form, axis, n):
        return np.arange(n, dtype=np.int64).reshape([n if i == axis else 1 for i in range(len(form))])


def _sum(a, b):
    if isinstance(a, int):
        return b if a == 0 else a + b
    if is_known(a) != is_known(b):
        a, b = tensor(a), tensor(b)
    return np.asarray(a + b) if is_known(a) else a + b


def _wide(x):
    # Indices of 64 bits without a sign are below 2^63 in any array that fits into memory.
    return _index(x)


@row("gather", "dynamic_gather", known=True)
def gather(node, x, indices, *sizes):
    d = node.attrs["dimension_numbers"]
    sizes = [int(n) for n in (sizes[0].reshape(-1) if sizes else node.attrs["slice_sizes"])]
    if is_known(x):
        x = tensor(x)
    offset, collapsed = list(d["offset_dims"]), list(d["collapsed_slice_dims"])
    # Positions among the axes of the indices without their vectors.
    vector = d["index_vector_dim"]
    batching = [(a, b - (b > vector)) for a, b in zip(d["operand_batching_dims"], d["start_indices_batching_dims"])]
    p = _Places(x.shape, indices, vector, d["start_index_map"], sizes, collapsed, batching)
    p.clamped()
    rank = len(p.batch) + len(p.axes)
    outer = [i for i in range(rank) if i not in offset]
    if (y := _taken(x, p)) is None:
        rows = x.reshape((p.rows, *p.trail))
        y = one("take", [rows, p.flat()], axis=0)
        y = y.reshape((*p.batch, *(sizes[a] for a in p.axes)))
    order = [0] * rank
    for i, to in enumerate(outer + offset):
        order[to] = i
    return y.permute(order) if order != sorted(order) else y


def _taken(x, p):
    """Whole slices along one axis: shape [batch, window axes], or `None`."""
    if len(p.starts) != 1 or p.batching:
        return None
    ((axis, at),) = p.starts.items()
    if p.sizes[axis] != 1 or any(p.sizes[a] != p.shape[a] for a in range(len(p.shape)) if a != axis):
        return None
    if is_known(at) and at.size == 1:
        y = x.narrow(axis, int(at.reshape(-1)[0]), 1)
        return y.reshape((*p.batch, *(p.sizes[a] for a in p.axes)))
    y = one("take", [x, tensor(at).reshape(-1)], axis=axis).moveaxis(axis, 0)
    return y.reshape((*p.batch, *(p.sizes[a] for a in p.axes)))


def kind_of(block, names=("add", "multiply", "maximum", "minimum", "and", "or")):
    """The operator that a body of two numbers consists of, or `None`."""
    nodes = block.nodes
    if len(nodes) == 1 and nodes[0].name in names and nodes[0].outputs == block.results:
        if sorted(nodes[0].inputs) == sorted(block.params):
            return nodes[0].name
    return None


@row("scatter", known=True)
def scatter(node, x, indices, *updates, run):
    need(len(updates) == 1, "a scatter of several operands")
    d, block = node.attrs["scatter_dimension_numbers"], node.blocks[0]
    x, update = tensor(x), tensor(updates[0])
    if 0 in update.shape:
        return x
    window = list(d["update_window_dims"])
    vector = d["index_vector_dim"]
    batching = [(a, b - (b > vector)) for a, b in zip(d["input_batching_dims"], d["scatter_indices_batching_dims"])]
    inserted = list(d["inserted_window_dims"])
    spans = [a for a in range(x.ndim) if a not in inserted and a not in dict(batching)]
    sizes = [1] * x.ndim
    for a, w in zip(spans, window):
        sizes[a] = update.shape[w]
    p = _Places(x.shape, indices, vector, d["scattered_dims_to_operand_dims"], sizes, inserted, batching)
    outer = [i for i in range(update.ndim) if i not in window]
    update = update.permute(outer + window)
    inside, flat = p.inside(), p.flat()
    flat = flat.reshape(-1)
    rows = x.reshape((p.rows, *p.trail))
    update = update.reshape((flat.shape[0], *p.trail))
    if inside is not None:
        # What is outside goes to a row more, which is dropped.
        lead = [p.sizes[a] for a in p.lead]
        inside = inside.reshape((*p.batch, *[1] * len(lead))).expand(*p.batch, *lead).reshape(-1)
        flat = tw.where(inside, flat, splat(p.rows, (), tw.int64))
        rows = tw.cat([rows, tw.zeros((1, *p.trail), dtype=rows.dtype)], 0)
    y = _written(node, block, rows, flat, update, run)
    return (y.narrow(0, 0, p.rows) if inside is not None else y).reshape(tuple(x.shape))


def _written(node, block, rows, flat, update, run):
    kind = kind_of(block)
    if rows.dtype == tw.bool and kind is not None:
        kind = {"add": "or", "multiply": "and"}.get(kind, kind)
        kind = {"or": "maximum", "and": "minimum"}.get(kind, kind)
        y = _written_by(kind, rows.to(tw.uint8), flat, update.to(tw.uint8))
        return y.to(tw.bool)
    if block.results == [block.params[1]]:
        return one("index_copy", [rows, flat, update], axis=0)
    if kind in ("add", "multiply", "maximum", "minimum"):
        return _written_by(kind, rows, flat, update)
    # Any other function of the element and the update, each once.
    need(node.attrs.get("unique_indices"), "a scatter with its own function at indices that may repeat")
    made = tensor(run(block, [one("take", [rows, flat], axis=0), update])[0])
    return one("index_copy", [rows, flat, made.expand(*update.shape)], axis=0)


def _written_by(kind, rows, flat, update):
    if kind == "add":
        return one("index_add", [rows, flat, update], axis=0)
    at = flat.reshape((-1, *[1] * (update.ndim - 1))).expand(*update.shape)
    word = {"multiply": "prod", "maximum": "max", "minimum": "min"}[kind]
    return one("scatter_reduce", [rows, at, update], axis=0, reduce=word, include_self=True)


# ---- sort


@row("sort")
def sort(node, *args, run=None):
    axis = node.attrs["dimension"] % max(args[0].ndim, 1)
    if args[0].ndim == 0:
        return args
    keys = node.attrs["keys"]
    if len(args) == 1:
        return (one("sort", args, axis=axis, descending=keys[0][1]),)
    order = None
    # By the last key first: the sort is stable.
    for i, descending in reversed(keys):
        key = args[i] if order is None else one("gather", [args[i], order], axis=axis)
        step = apply("sort", [key], axis=axis, descending=descending)[1]
        order = step if order is None else one("gather", [order, step], axis=axis)
    return tuple(one("gather", [a, order], axis=axis) for a in args)


@prepared("sort")
def sort_keys(node, run):
    """The operands that a comparator orders by, first ones first, and whether each descends; found by trying it."""
    block = node.blocks[0]
    dtypes = [dtype_of(t.dtype) for t in block.types[::2]]
    same = [(splat(0, (), d), splat(0, (), d)) for d in dtypes]
    up = [(splat(0, (), d), splat(1, (), d)) for d in dtypes]
    down = [(b, a) for a, b in up]

    def says(pairs):
        return tensor(run(block, [v for pair in pairs for v in pair])[0]).item()

    need(not says(same), "a sort by a comparator that is no order")
    found = {}
    for i in range(len(dtypes)):
        ways = [says([*same[:i], way[i], *same[i + 1 :]]) for way in (up, down)]
        need(ways != [True, True], "a sort by a comparator that is no order")
        if any(ways):
            found[i] = ways[1]
    before = {i: (down if descends else up)[i] for i, descends in found.items()}
    after = {i: (up if descends else down)[i] for i, descends in found.items()}
    keys = []
    while found:
        # The first key is the one that decides against all others.
        for i in found:
            if says([before[i] if j == i else after[j] if j in found else s for j, s in enumerate(same)]):
                keys.append((i, found.pop(i)))
                break
        else:
            raise Unsupported("a sort by a comparator that is no order of its operands")
    node.attrs["keys"] = keys


@row("chlo.top_k", "custom_call stablehlo.dynamic_top_k", known=True)
def top_k(node, x, *k):
    k = int(k[0]) if k else int(node.attrs["k"])
    values, at = apply("top_k", [tensor(x)], axis=x.ndim - 1, k=k, largest=True)
    return values, at.to(dtype_of(node.types[1].dtype))
