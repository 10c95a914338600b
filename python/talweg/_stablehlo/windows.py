"""Rows of reductions: of whole axes, and of windows."""

# mypy: ignore-errors
import math

import numpy as np

import talweg as tw
from ..nn import functional as F
from .indices import kind_of
from .table import dtype_of, greatest, is_float, is_known, least, need, one, padded, prepared, row, sizes_of, tensor

_IDENTITY = {
    "add": lambda d: 0,
    "or": lambda d: 0,
    "multiply": lambda d: 1,
    "and": lambda d: -1,
    "maximum": least,
    "minimum": greatest,
}


def _kind(block, dtype):
    """The operator of a reduction; of booleans, one of integers."""
    kind = kind_of(block)
    if dtype == tw.bool:
        return {"add": "maximum", "or": "maximum", "multiply": "minimum", "and": "minimum"}.get(kind, kind)
    return None if kind in ("and", "or") else kind


def _reduced(kind, x, axes):
    """A reduction over axes, which are removed."""
    if not axes:
        return x
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if 0 in x.shape:
        number = _IDENTITY[kind](x.dtype)
        return tw.full(shape, number, dtype=x.dtype)
    name = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}[kind]
    return one(name, [x], axes=list(axes)).reshape(shape).to(x.dtype)


def _joined(kind, y, init):
    """With the initial value, unless that changes nothing."""
    if is_known(init) and init.item() == _IDENTITY[kind](y.dtype):
        return y
    init = tensor(init)
    if y.dtype == tw.bool:
        return y | init if kind == "maximum" else y & init
    return {"add": tw.add, "multiply": tw.mul, "maximum": tw.maximum, "minimum": tw.minimum}[kind](y, init)


@row("reduce", known=True)
def reduce(node, *args, run):
    axes, block = [int(d) for d in node.attrs["dimensions"]], node.blocks[0]
    half = len(args) // 2
    xs, inits = list(map(tensor, args[:half])), args[half:]
    if half == 1 and (kind := _kind(block, xs[0].dtype)) is not None:
        return _joined(kind, _reduced(kind, xs[0], axes), inits[0])
    if (way := node.attrs.get("arg")) is not None and xs[0].shape[axes[0]]:
        at = one(way, [xs[0]], axis=axes[0])
        shape = tuple(n for i, n in enumerate(xs[0].shape) if i not in axes)
        return one("gather", [xs[0], at], axis=axes[0]).reshape(shape), at.reshape(shape).to(xs[1].dtype)
    rest = [i for i in range(xs[0].ndim) if i not in axes]
    shape = tuple(xs[0].shape[i] for i in rest)
    rows = [x.permute(axes + rest).reshape((-1, *shape)) for x in xs]
    return _folded(block, rows, inits, shape, run)


def _folded(block, rows, inits, shape, run):
    """A body of numbers applied to one row after the other."""
    carry = tuple(tensor(i).expand(*shape) for i in inits)
    if not rows[0].shape[0]:
        return carry

    def step(carry, row):
        return tuple(tensor(v).expand(*shape) for v in run(block, [*carry, *row])), None

    return tuple(tw.scan(step, carry, tuple(rows))[0])


@prepared("reduce")
def reduce_arg(node, run, sources):
    """Recognizes the body of argmax and argmin, by trying it on numbers."""
    block, axes = node.blocks[0], node.attrs["dimensions"]
    if len(block.params) != 4 or len(axes) != 1:
        return
    places = sources.get(node.inputs[1])
    if places is None or places.name != "iota" or places.attrs["iota_dimension"] != axes[0]:
        return
    number, index = dtype_of(block.types[0].dtype), dtype_of(block.types[1].dtype)
    if number == tw.bool or not index.name.startswith(("int", "uint")):
        return
    init = sources.get(node.inputs[2])
    if init is None or init.name != "constant":
        return
    values = [0, 1, 2] + ([math.nan, math.inf] if is_float(number) else [])
    grid = [(a, b, i, j) for a in values for b in values for i, j in ((0, 1), (1, 0))]
    a, b, i, j = (tw.tensor(list(c), dtype=d) for c, d in zip(zip(*grid), (number, number, index, index)))
    got = [tensor(v).expand(len(grid)).tolist() for v in run(block, [a, i, b, j])]
    for way, end, best in (("argmax", least, lambda p, q: p > q), ("argmin", greatest, lambda p, q: p < q)):
        want = [_better(p, m, q, n, best) for p, q, m, n in grid]
        if [repr((float(v), int(k))) for v, k in zip(*got)] == want and init.attrs["value"].item() == end(number):
            node.attrs["arg"] = way


def _better(p, m, q, n, best):
    """The pair that argmax or argmin keeps: NaN first, then the better number, then the lower index."""
    ranks = [(v != v, v if v == v else 0) for v in (p, q)]
    if ranks[0] == ranks[1]:
        first = m < n
    else:
        first = ranks[0][0] or (not ranks[1][0] and best(p, q))
    return repr((float(p), m) if first else (float(q), n))


# ---- windows


class _Windows:
    """Where windows lie: their sizes, steps, dilations and the border around the tensor."""

    def __init__(self, attrs, rank):
        def each(name, default):
            return [int(v) for v in attrs[name]] if attrs.get(name) is not None else [default] * rank

        self.sizes = each("window_dimensions", 1)
        self.strides, self.dilations = each("window_strides", 1), each("window_dilations", 1)
        self.base = each("base_dilations", 1)
        padding = attrs.get("padding")
        self.padding = np.asarray(padding).reshape(rank, 2).tolist() if padding is not None else [[0, 0]] * rank

    def bordered(self, x, value):
        return padded(x, value, [p[0] for p in self.padding], [p[1] for p in self.padding], [d - 1 for d in self.base])

    def of(self, x):
        """The windows of a tensor with its border: their positions, then one axis of their elements."""
        rank, count = x.ndim, 1
        for axis, (n, stride, dilation) in enumerate(zip(self.sizes, self.strides, self.dilations)):
            reach = (n - 1) * dilation + 1
            x = one("unfold", [x], axis=axis, size=reach, step=stride)
            if dilation > 1:
                x = x[..., ::dilation]
            count *= n
        return x.reshape((*x.shape[:rank], count))

    def places(self, shape):
        return [
            max(0, (n - (k - 1) * d - 1) // s + 1 if n >= (k - 1) * d + 1 else 0)
            for n, k, s, d in zip(shape, self.sizes, self.strides, self.dilations)
        ]

    def is_plain(self):
        return all(d == 1 for d in self.base)


@row("reduce_window", known=True)
def reduce_window(node, *args, run):
    return _windowed(node.blocks[0], args, node.attrs, run)


@row("custom_call stablehlo.dynamic_reduce_window", known=True)
def dynamic_reduce_window(node, *args, run):
    """With windows whose sizes depend on those of the inputs."""
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")
    args, settings = args[: -len(names)], args[-len(names) :]
    return _windowed(node.blocks[0], args, {n: sizes_of(s) for n, s in zip(names, settings)}, run)


def _windowed(block, args, settings, run):
    half = len(args) // 2
    xs, inits = list(map(tensor, args[:half])), args[half:]
    w = _Windows(settings, xs[0].ndim)
    kind = _kind(block, xs[0].dtype) if half == 1 else None
    if kind is not None:
        x = xs[0]
        if w.is_plain():
            for way in (_cumulative, _pooled):
                if (y := way(kind, x, w)) is not None:
                    return _joined(kind, y, inits[0])
        number = np.asarray(_IDENTITY[kind](x.dtype))
        x = w.bordered(x, number)
        places = w.places(x.shape)
        if 0 in places:
            return tw.full(tuple(places), 0, dtype=x.dtype)
        return _joined(kind, _reduced(kind, w.of(x), [x.ndim]), inits[0])
    xs = [w.bordered(x, i) for x, i in zip(xs, inits)]
    places = tuple(w.places(xs[0].shape))
    rows = [w.of(x).moveaxis(-1, 0) for x in xs]
    return _folded(block, rows, inits, places, run)


def _cumulative(kind, x, w):
    """Windows that reach from each element to one end."""
    wide = [i for i, n in enumerate(w.sizes) if n > 1]
    if len(wide) != 1 or any(s != 1 for s in w.strides) or any(d != 1 for d in w.dilations):
        return None
    (axis,) = wide
    n = x.shape[axis]
    if w.sizes[axis] != n or any(p != [0, 0] for i, p in enumerate(w.padding) if i != axis):
        return None
    if w.padding[axis] not in ([n - 1, 0], [0, n - 1]) or x.dtype == tw.bool:
        return None
    back = w.padding[axis] == [0, n - 1]
    if kind == "add":
        return one("cumsum", [x], axis=axis, reverse=back).to(x.dtype)
    x = tw.flip(x, [axis]) if back else x
    y = one({"multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}[kind], [x], axis=axis).to(x.dtype)
    return tw.flip(y, [axis]) if back else y


def _pooled(kind, x, w):
    """Pooling of images: windows along one to three axes."""
    wide = [i for i in range(x.ndim) if w.sizes[i] > 1 or w.strides[i] > 1 or w.padding[i] != [0, 0]]
    if kind not in ("add", "maximum", "minimum") or not 1 <= len(wide) <= 3 or not is_float(x.dtype) or 0 in x.shape:
        return None
    if any(p < 0 for i in wide for p in w.padding[i]) or (kind == "add" and any(w.dilations[i] != 1 for i in wide)):
        return None
    rest = [i for i in range(x.ndim) if i not in wide]
    x = w.bordered(x, np.asarray(float(_IDENTITY[kind](x.dtype))))
    if 0 in w.places(x.shape):
        return None
    image = x.permute(rest + wide)
    shape = tuple(image.shape[: len(rest)])
    image = image.reshape((1, math.prod(shape), *image.shape[len(rest) :]))
    sizes, strides = [w.sizes[i] for i in wide], [w.strides[i] for i in wide]
    n = len(wide)
    if kind == "add":
        y = getattr(F, f"avg_pool{n}d")(image, sizes, strides) * float(math.prod(sizes))
    else:
        pool = getattr(F, f"max_pool{n}d")
        dilations = [w.dilations[i] for i in wide]
        y = pool(image, sizes, strides, 0, dilations) if kind == "maximum" else -pool(-image, sizes, strides, 0, dilations)
    y = y.reshape((*shape, *y.shape[2:]))
    order = rest + wide
    return y.permute([order.index(i) for i in range(x.ndim)])


@row("select_and_scatter", known=True)
def select_and_scatter(node, x, source, init, run):
    """The source added where each window has its first maximum or minimum: the gradient of a pool."""
    x, source = tensor(x), tensor(source)
    chooses = node.blocks[0].nodes
    is_choice = len(chooses) == 1 and chooses[0].name == "compare" and chooses[0].inputs == node.blocks[0].params
    way = chooses[0].attrs["comparison_direction"] if is_choice else ""
    need(way in ("GE", "LE", "GT", "LT"), "select_and_scatter by another comparison than of the elements")
    need(kind_of(node.blocks[1]) == "add", "select_and_scatter that does not add")
    w = _Windows(node.attrs, x.ndim)
    end = least(x.dtype) if way[0] == "G" else greatest(x.dtype)
    edged = w.bordered(x, np.asarray(end))
    flat = tw.arange(math.prod(x.shape), dtype=tw.int64).reshape(tuple(x.shape))
    # A place of the border is behind the last element.
    places = w.of(w.bordered(flat, np.asarray(math.prod(x.shape))))
    windows = w.of(edged)
    if way in ("GT", "LT"):
        windows, places = tw.flip(windows, [-1]), tw.flip(places, [-1])
    at = one("argmax" if way[0] == "G" else "argmin", [windows], axis=x.ndim)
    at = one("gather", [places, at], axis=x.ndim).reshape(-1)
    y = tw.zeros((math.prod(x.shape) + 1,), dtype=source.dtype)
    y = one("index_add", [y, at, source.reshape(-1)], axis=0)[:-1].reshape(tuple(x.shape))
    return y if is_known(init) and init.item() == 0 else y + tensor(init)


@row("map", known=True)
def map_(node, *args, run):
    return tensor(run(node.blocks[0], list(map(tensor, args)))[0]).expand(*args[0].shape)
