"""Shapes, slices, joins: ``tf.reshape``, ``tf.concat``, ``tf.gather`` and their kin."""

# mypy: ignore-errors
from __future__ import annotations

import builtins
from typing import Any

import numpy as np

import talweg as tw

from ... import _native
from .dtypes import INT64, as_dtype, float32, int32, int64
from .dtypes import bool as bool_
from .errors import invalid, wrong_shape, wrong_type
from .graph import Tensor, constant, convert_to_tensor, get_default_graph, make
from .infer import constant_value, shape_value
from .maths import same_type
from .shapes import TensorShape, broadcast, merge_sizes, product

_T = _native.Tensor
_range = range


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A value that each run is fed. ``None`` in the shape is a size that the fed value settles.

    >>> import talweg.compat.v1 as tf
    >>> str(tf.placeholder(tf.float32, [None, 784]).shape)
    '(?, 784)'
    """
    want = as_dtype(dtype)
    return make("Placeholder", [], _unfed, name, want, TensorShape(shape), is_stateful=True, is_host=want.native is None)


def _unfed(*_: Any) -> Any:
    raise invalid("a placeholder was not fed")


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """``input``, unless the run is fed another value."""
    x = convert_to_tensor(input)
    x.shape.merge_with(shape)
    return make("PlaceholderWithDefault", [x], lambda ctx, v: v, name, x.dtype, TensorShape(shape))


def identity(input: Any, name: str | None = None) -> Tensor:
    """The same value; of a variable, its value at this point of the run."""
    x = convert_to_tensor(input)
    if x.dtype.native is None:
        return make("Identity", [x], lambda ctx, v: v, name, x.dtype, x.shape, is_host=True)
    return make("Identity", [x], lambda ctx, v: v, name, x.dtype, x.shape)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, through which no gradient flows."""
    x = convert_to_tensor(input)
    return make("StopGradient", [x], lambda ctx, v: v.stop_gradient(), name, x.dtype, x.shape)


def shape(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The shape of a tensor in a run, as a tensor."""
    x, want = convert_to_tensor(input), as_dtype(out_type)
    rank = [None] if x.shape.ndims is None else [x.shape.ndims]
    return make("Shape", [x], lambda ctx, v: _native.tensor(np.array(v.shape, np.int64), dtype=want.native), name, want, rank)


def shape_n(input: Any, out_type: Any = int32) -> list[Tensor]:
    """The shapes of several tensors."""
    return [shape(x, out_type=out_type) for x in input]


def size(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The number of elements in a run, as a tensor."""
    x, want = convert_to_tensor(input), as_dtype(out_type)
    return make("Size", [x], lambda ctx, v: _native.tensor(int(np.prod(v.shape)), dtype=want.native), name, want, [])


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions in a run, as a tensor."""
    x = convert_to_tensor(input)
    return make("Rank", [x], lambda ctx, v: _native.tensor(v.ndim, dtype=int32.native), name, int32, [])


def ints(x: Any, dtype: Any = int32) -> Tensor:
    """A shape argument as a tensor: a list of numbers and scalars, a shape or a tensor."""
    if isinstance(x, TensorShape):
        x = x.as_list()
    if isinstance(x, (list, tuple)):
        x = [v if isinstance(v, Tensor) else int(v) for v in x]
        return convert_to_tensor(x, dtype, "shape") if x else constant(np.zeros(0, np.int32), name="shape")
    return convert_to_tensor(x) if isinstance(x, Tensor) or hasattr(x, "_as_tensor") else convert_to_tensor(x, dtype, "shape")


def _sizes(ctx: Any, t: Tensor) -> list[int]:
    return [int(d) for d in ctx.host(t).reshape(-1)]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements in another shape; one size may be -1. The shape may be a tensor, ``tf.shape(y)`` for example."""
    x, target = convert_to_tensor(tensor), ints(shape)
    static, known = shape_value(target), constant_value(target)
    total = x.shape.num_elements()
    if known is not None and static.ndims is not None:
        sizes = static.as_list()
        open_ = [i for i, v in enumerate(known.reshape(-1)) if v is None or v < 0]
        rest = product([d for d in sizes if d is not None]) or 0
        if total is not None and not open_ and total != rest:
            raise wrong_shape(f"reshape: {total} elements of shape {x.shape} do not fit {static}")
        if total is not None and len(open_) == 1 and rest:
            if total % rest:
                raise wrong_shape(f"reshape: {total} elements of shape {x.shape} do not fit {static}")
            sizes[open_[0]] = total // rest
        static = TensorShape(sizes)

    def lower(ctx: Any, v: Any, _: Any) -> Any:
        return v.reshape(_sizes(ctx, target))

    return make("Reshape", [x, target], lower, name, x.dtype, static)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """A dimension of size 1 more."""
    x = convert_to_tensor(input)
    axis = int(axis if axis is not None else dim)
    sizes = None
    if x.shape.ndims is not None:
        sizes = x.shape.as_list()
        sizes.insert(axis + len(sizes) + 1 if axis < 0 else axis, 1)
    return make("ExpandDims", [x], lambda ctx, v: v.unsqueeze(axis), name, x.dtype, TensorShape(sizes))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Without dimensions of size 1: all of them, or those of ``axis``."""
    x = convert_to_tensor(input)
    axis = axis if axis is not None else squeeze_dims
    axes = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
    sizes = None
    if x.shape.ndims is not None and (axes is not None or x.shape.is_fully_defined()):
        gone = [i for i, d in enumerate(x.shape.sizes) if d == 1] if axes is None else [a % len(x.shape) for a in axes]
        for a in gone:
            merge_sizes(x.shape.sizes[a], 1)
        sizes = [d for i, d in enumerate(x.shape.sizes) if i not in gone]

    def lower(ctx: Any, v: Any) -> Any:
        gone = [i for i, d in enumerate(v.shape) if d == 1] if axes is None else [a % v.ndim for a in axes]
        if any(v.shape[a] != 1 for a in gone):
            raise wrong_shape(f"squeeze: axes {axes} of shape {tuple(v.shape)} are not of size 1")
        return v.reshape([d for i, d in enumerate(v.shape) if i not in gone])

    return make("Squeeze", [x], lower, name, x.dtype, TensorShape(sizes))


def transpose(a: Any, perm: Any = None, name: str | None = None, conjugate: bool = False) -> Tensor:
    """The dimensions in another order, reversed if none is given."""
    x = convert_to_tensor(a)
    if isinstance(perm, Tensor):
        known = constant_value(perm)
        if known is None or None in list(known):
            raise invalid("transpose: perm must be known when the graph is built")
        perm = known.tolist()
    order = None if perm is None else [int(p) for p in perm]
    sizes = None
    if x.shape.ndims is not None:
        places = order if order is not None else list(_range(len(x.shape)))[::-1]
        if sorted(p % len(x.shape) for p in places) != list(_range(len(x.shape))):
            raise wrong_shape(f"transpose: {order} is no order of the dimensions of {x.shape}")
        sizes = [x.shape.sizes[p] for p in places]

    def lower(ctx: Any, v: Any) -> Any:
        v = v.conj() if conjugate else v
        return v.permute(order if order is not None else list(_range(v.ndim))[::-1])

    return make("Transpose", [x], lower, name, x.dtype, TensorShape(sizes))


def matrix_transpose(a: Any, name: str | None = None) -> Tensor:
    """The last two dimensions exchanged."""
    return make("MatrixTranspose", [convert_to_tensor(a)], lambda ctx, v: v.mT, name)


# Joins.


def _all_of(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    listed = list(values)
    kind = next((v.dtype for v in listed if isinstance(v, Tensor) or hasattr(v, "_as_tensor")), None)
    made = [convert_to_tensor(v, kind) for v in listed]
    for t in made[1:]:
        same_type("concat", made[0], t)
    return made


def concat(values: Any, axis: Any, name: str | None = "concat") -> Tensor:
    """Tensors joined along an axis."""
    if isinstance(values, int) and not isinstance(axis, int):
        raise invalid("concat(values, axis): the axis comes second since TensorFlow 1.0")
    ts, a = _all_of(values), int(axis)
    if len(ts) == 1:
        return identity(ts[0], name)
    sizes: Any = None
    if all(t.shape.ndims is not None for t in ts):
        n = ts[0].shape.ndims
        if not n:
            raise wrong_shape("concat: scalars have no axis: use tf.stack")
        a = a % n
        rest = TensorShape([None] * n)
        for t in ts:
            try:
                rest = rest.merge_with([None if i == a else d for i, d in enumerate(t.shape.as_list())])
            except ValueError:
                raise wrong_shape(f"concat along {axis}: {', '.join(str(t.shape) for t in ts)} do not fit") from None
        along = [t.shape.sizes[a] for t in ts]
        sizes = rest.as_list()
        sizes[a] = None if None in along else sum(along)
    t = make("ConcatV2", ts, lambda ctx, *vs: tw.concat(list(vs), a), name, ts[0].dtype, TensorShape(sizes))
    t.op.attributes["axis"] = a
    return t


def stack(values: Any, axis: int = 0, name: str | None = "stack") -> Tensor:
    """Tensors of one shape along a new dimension."""
    ts = _all_of(values)
    shape = ts[0].shape
    for t in ts[1:]:
        try:
            shape = shape.merge_with(t.shape)
        except ValueError:
            raise wrong_shape(f"stack: {', '.join(str(t.shape) for t in ts)} differ") from None
    sizes = None
    if shape.ndims is not None:
        sizes = shape.as_list()
        sizes.insert(axis + len(sizes) + 1 if axis < 0 else axis, len(ts))
    return make("Pack", ts, lambda ctx, *vs: tw.stack(list(vs), axis), name, ts[0].dtype, TensorShape(sizes))


pack = stack


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = "unstack") -> list[Tensor]:
    """The slices along an axis whose size is known, or ``num``."""
    x = convert_to_tensor(value)
    known = None if x.shape.ndims is None else x.shape.sizes[axis]
    count = num if num is not None else known
    if count is None:
        raise wrong_shape(f"unstack: the size of axis {axis} of {x.shape} is unknown: give num")
    merge_sizes(count, known)
    rest = None if x.shape.ndims is None else [d for i, d in enumerate(x.shape.sizes) if i != axis % len(x.shape)]

    def lower(ctx: Any, v: Any) -> list[Any]:
        merge_sizes(v.shape[axis], count)
        return [v.narrow(axis % v.ndim, i, 1).squeeze(axis % v.ndim) for i in _range(count)]

    return make("Unpack", [x], lower, name, outputs=[(x.dtype, rest)] * count)


unpack = unstack


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: Any = None, name: str | None = "split") -> list[Tensor]:
    """Pieces along an axis: a number of equal ones, or of given sizes."""
    x = convert_to_tensor(value)
    if isinstance(num_or_size_splits, int):
        count: int = num_or_size_splits
        whole = None if x.shape.ndims is None else x.shape.sizes[axis]
        if whole is not None and whole % count:
            raise wrong_shape(f"split: axis {axis} of {x.shape} cannot be cut into {count} equal pieces")
        parts: list[Any] = [None if whole is None else whole // count] * count
    else:
        parts = [None if int(s) < 0 else int(s) for s in num_or_size_splits]
        count = len(parts)
        whole = None if x.shape.ndims is None else x.shape.sizes[axis]
        if whole is not None and parts.count(None) == 1:
            parts[parts.index(None)] = whole - sum(p or 0 for p in parts)
        if whole is not None and sum(p or 0 for p in parts) != whole:
            raise wrong_shape(f"split: sizes {list(num_or_size_splits)} along axis {axis} of {x.shape}")

    def lower(ctx: Any, v: Any) -> list[Any]:
        a, given, start, out = axis % v.ndim, parts, 0, []
        if isinstance(num_or_size_splits, int):
            if v.shape[a] % count:
                raise wrong_shape(f"split: {v.shape[a]} elements cannot be cut into {count} equal pieces")
            given = [v.shape[a] // count] * count
        for p in given:
            p = v.shape[a] - sum(q or 0 for q in given) if p is None else p
            out.append(v.narrow(a, start, p))
            start += p
        return out

    def sized(p: Any) -> Any:
        return None if x.shape.ndims is None else [p if i == axis % len(x.shape) else d for i, d in enumerate(x.shape.sizes)]

    return make("Split", [x], lower, name, outputs=[(x.dtype, sized(p)) for p in parts])


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeated along each dimension."""
    x, times = convert_to_tensor(input), ints(multiples)
    known, sizes = constant_value(times), None
    if x.shape.ndims is not None:
        if known is not None and known.size != len(x.shape):
            raise wrong_shape(f"tile: {known.size} multiples for shape {x.shape}")
        n = [None] * len(x.shape) if known is None else known.tolist()
        sizes = [None if d is None or m is None else d * m for d, m in zip(x.shape.sizes, n)]
    return make("Tile", [x, times], lambda ctx, v, _: v.tile(_sizes(ctx, times)), name, x.dtype, TensorShape(sizes))


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Expanded to a shape."""
    x, target = convert_to_tensor(input), ints(shape)
    want = shape_value(target)
    if want.is_fully_defined() and x.shape.is_fully_defined():
        broadcast(x.shape, want)
    return make("BroadcastTo", [x, target], lambda ctx, v, _: v.broadcast_to(_sizes(ctx, target)), name, x.dtype, want)


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0) -> Tensor:
    """More elements before and after each dimension: constant, reflected or symmetric."""
    x, widths = convert_to_tensor(tensor), ints_matrix(paddings)
    known, sizes = constant_value(widths), None
    if x.shape.ndims is not None:
        sizes = [None] * len(x.shape)
        if known is not None and known.ndim == 2:
            sizes = [None if d is None or None in w else d + sum(w) for d, w in zip(x.shape.sizes, known.tolist())]

    def lower(ctx: Any, v: Any, _: Any) -> Any:
        rows = [[int(n) for n in row] for row in ctx.host(widths)]
        if mode.upper() == "CONSTANT":
            flat = [n for row in reversed(rows) for n in row]
            return v.pad(flat, "constant", constant_values)
        for a, (before, after) in enumerate(rows):
            n, skip = v.shape[a], 0 if mode.upper() == "SYMMETRIC" else 1
            places = [*_range(before - 1 + skip, skip - 1, -1), *_range(n), *_range(n - 1 - skip, n - 1 - skip - after, -1)]
            v = v.index_select(a, _native.tensor(np.array(places, np.int64)))
        return v

    return make("Pad", [x, widths], lower, name, x.dtype, TensorShape(sizes))


def ints_matrix(x: Any) -> Tensor:
    """Paddings as a tensor."""
    return x if isinstance(x, Tensor) else convert_to_tensor(x, int32)


# Slices.


def _getitem(self: Tensor, key: Any) -> Tensor:
    keys = list(key) if isinstance(key, tuple) else [key]
    inputs: list[Tensor] = [self]
    if isinstance(key, Tensor) and key.dtype.is_bool:
        return boolean_mask(self, key)

    def part(v: Any) -> Any:
        if isinstance(v, slice):
            return slice(part(v.start), part(v.stop), part(v.step))
        if isinstance(v, Tensor) or hasattr(v, "_as_tensor"):
            inputs.append(convert_to_tensor(v))
            return inputs[-1]
        return v if v is None or v is Ellipsis else int(v)

    parts = [part(k) for k in keys]

    def lower(ctx: Any, v: Any, *_: Any) -> Any:
        return _sliced(ctx, v, parts)

    t = make("StridedSlice", inputs, lower, "strided_slice", None if len(inputs) == 1 else self.dtype)
    if len(inputs) == 1:
        t.op.attributes["static_key"] = tuple(parts)
    return t


def _sliced(ctx: Any, v: Any, parts: list[Any]) -> Any:
    """Slices with numbers; a scalar tensor as an index that changes in a loop is gathered."""
    taken = len([p for p in parts if p is not None and p is not Ellipsis])
    out, axis = [], 0
    for p in parts:
        if isinstance(p, slice):
            bounds = [int(ctx.host(b)) if isinstance(b, Tensor) else b for b in (p.start, p.stop, p.step)]
            out.append(slice(*bounds))
        elif isinstance(p, Tensor):
            index = _native.tensor(0) if ctx.is_probe else ctx.value(p)
            index = tw.where(index < 0, index + v.shape[axis], index)
            v = v.index_select(axis, index.to(INT64).reshape(1))
            out.append(0)
        else:
            out.append(p)
        axis += v.ndim - taken if p is Ellipsis else 0 if p is None else 1
    return v[tuple(out)]


setattr(Tensor, "__getitem__", _getitem)


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """``size`` elements from ``begin`` on along each dimension; -1 is the rest."""
    x, first, count = convert_to_tensor(input_), ints(begin), ints(size)
    known, start, sizes = constant_value(count), constant_value(first), None
    if x.shape.ndims is not None:
        n = [None] * len(x.shape) if known is None else known.tolist()
        b = [None] * len(x.shape) if start is None else start.tolist()
        rest = [None if d is None or s is None else d - s for d, s in zip(x.shape.sizes, b)]
        sizes = [r if c == -1 else c for c, r in zip(n, rest)]

    def lower(ctx: Any, v: Any, at: Any, _: Any) -> Any:
        n = _sizes(ctx, count)
        if ctx.is_loop and ctx.depth:
            for a, c in enumerate(n):  # the place may change in a loop
                c = v.shape[a] if c < 0 else c
                if c != v.shape[a]:
                    v = v.index_select(a, at.to(INT64).reshape(-1)[a : a + 1] + _native.arange(c))
            return v
        for a, (b, c) in enumerate(zip(_sizes(ctx, first), n)):
            v = v.narrow(a, b, v.shape[a] - b if c < 0 else c)
        return v

    return make("Slice", [x, first, count], lower, name, x.dtype, TensorShape(sizes))


def gather(params: Any, indices: Any, validate_indices: Any = None, name: str | None = None, axis: int = 0) -> Tensor:
    """Slices of ``params`` along an axis, which is replaced by the dimensions of ``indices``."""
    x, i = convert_to_tensor(params), convert_to_tensor(indices)
    if not i.dtype.is_integer:
        raise wrong_type(f"gather: the indices are {i.dtype.name}, not integers")
    sizes = None
    if x.shape.ndims is not None and i.shape.ndims is not None:
        a = axis % len(x.shape)
        sizes = [*x.shape.sizes[:a], *i.shape.sizes, *x.shape.sizes[a + 1 :]]
    return make("GatherV2", [x, i], lambda ctx, v, j: _taken(v, j, axis), name, x.dtype, TensorShape(sizes))


def _taken(v: Any, index: Any, axis: int) -> Any:
    a = axis % v.ndim
    rows = v.index_select(a, index.reshape(-1).to(INT64))
    return rows.reshape([*v.shape[:a], *index.shape, *v.shape[a + 1 :]])


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """``params[b, indices[b, i]]``."""
    x, i = convert_to_tensor(params), convert_to_tensor(indices)

    def lower(ctx: Any, v: Any, j: Any) -> Any:
        n = j.ndim
        places = j.to(INT64).reshape([*j.shape, *[1] * (v.ndim - n)]).broadcast_to([*j.shape, *v.shape[n:]])
        return v.gather(n - 1, places)

    return make("BatchGather", [x, i], lower, name)


def gather_nd(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Elements or slices at indices given by the last dimension of ``indices``."""
    x, i = convert_to_tensor(params), convert_to_tensor(indices)
    sizes = None
    if x.shape.ndims is not None and i.shape.ndims is not None and i.shape.sizes[-1] is not None:
        sizes = [*i.shape.sizes[:-1], *x.shape.sizes[i.shape.sizes[-1] :]]

    def lower(ctx: Any, v: Any, j: Any) -> Any:
        n = j.shape[-1]
        flat = v.reshape([int(np.prod(v.shape[:n])), *v.shape[n:]])
        return _taken(flat, _flat_places(j, v.shape[:n]), 0)

    return make("GatherNd", [x, i], lower, name, x.dtype, TensorShape(sizes))


def _flat_places(index: Any, sizes: Any) -> Any:
    """The place in the flattened leading dimensions for each row of an index."""
    place = None
    for k, d in enumerate(sizes):
        column = index.to(INT64).narrow(index.ndim - 1, k, 1).squeeze(index.ndim - 1)
        place = column if place is None else place * d + column
    return place


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Zeros with ``updates`` added at indices."""
    i, u, target = convert_to_tensor(indices), convert_to_tensor(updates), ints(shape)

    def lower(ctx: Any, j: Any, v: Any, _: Any) -> Any:
        sizes, n = _sizes(ctx, target), j.shape[-1]
        rows = v.reshape([int(np.prod(j.shape[:-1])), *sizes[n:]])
        zeros = _native.zeros([int(np.prod(sizes[:n])), *sizes[n:]], dtype=v.dtype)
        return zeros.index_add(0, _flat_places(j, sizes[:n]).reshape(-1), rows).reshape(sizes)

    return make("ScatterNd", [i, u, target], lower, name, u.dtype, shape_value(target))


def one_hot(
    indices: Any, depth: Any, on_value: Any = 1, off_value: Any = 0, axis: Any = None, dtype: Any = None, name: str | None = None
) -> Tensor:
    """A dimension of size ``depth`` more, with ``on_value`` at the index."""
    i, n = convert_to_tensor(indices), ints(depth)
    kind = as_dtype(dtype) if dtype is not None else on_value.dtype if isinstance(on_value, Tensor) else float32
    a = -1 if axis is None else axis
    sizes = None
    if i.shape.ndims is not None:
        known = constant_value(n)
        sizes = i.shape.as_list()
        sizes.insert(len(sizes) if a == -1 else a, None if known is None else known.item())

    def lower(ctx: Any, v: Any, _: Any) -> Any:
        at = a % (v.ndim + 1)
        classes = _native.arange(int(ctx.host(n))).reshape([-1] + [1] * (v.ndim - at))
        hit = v.to(INT64).unsqueeze(at) == classes
        if (on_value, off_value) == (1, 0):
            return hit.to(kind.native)
        on, off = (_native.tensor(x, dtype=kind.native) for x in (on_value, off_value))
        return tw.where(hit, on, off)

    return make("OneHot", [i, n], lower, name, kind, TensorShape(sizes))


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """``x`` where the condition holds, else ``y``; with the condition alone the indices where it holds, as rows."""
    c = convert_to_tensor(condition)
    if x is None and y is None:
        rank_ = c.shape.ndims
        return make("Where", [c], lambda run, v: np.argwhere(v), name, int64, [None, rank_], is_host=True)
    if not c.dtype.is_bool:
        raise wrong_type(f"where: the condition is {c.dtype.name}, not bool")
    x, y = same_type("where", x, y)
    shape = x.shape.merge_with(y.shape)

    def lower(ctx: Any, v: Any, a: Any, b: Any) -> Any:
        if v.ndim == 1 and a.ndim > 1:
            v = v.reshape([-1] + [1] * (a.ndim - 1))
        return tw.where(v, a, b)

    return make("Select", [c, x, y], lower, name, x.dtype, shape)


def boolean_mask(tensor: Any, mask: Any, name: str | None = "boolean_mask", axis: int = 0) -> Tensor:
    """The slices where ``mask`` holds. How many there are is settled in the run."""
    x, m = convert_to_tensor(tensor), convert_to_tensor(mask)
    if m.shape.ndims is None:
        raise wrong_shape("boolean_mask: the rank of the mask must be known")
    n = m.shape.ndims
    rest = None if x.shape.ndims is None else x.shape.as_list()[axis + n :]
    before = None if x.shape.ndims is None else x.shape.as_list()[:axis]
    if x.shape.ndims is not None:
        TensorShape(x.shape.as_list()[axis : axis + n]).merge_with(m.shape)
    flat = reshape(m, [-1])
    places = reshape(where(flat), [-1])
    joined = make(
        "MergeDims",
        [x],
        lambda ctx, v: v.reshape([*v.shape[:axis], int(np.prod(v.shape[axis : axis + n])), *v.shape[axis + n :]]),
        None,
        x.dtype,
        TensorShape(None if rest is None or before is None else [*before, None, *rest]),
    )
    return gather(joined, places, axis=axis, name=name)


def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Any:
    """The different values in the order of their first occurrence, and the index of each element's value."""
    import collections

    t, kind = convert_to_tensor(x), as_dtype(out_idx)

    def lower(run: Any, v: Any) -> Any:
        values, first, inverse = np.unique(v, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return [values[order], place[inverse].astype(kind.as_numpy_dtype)]

    y, idx = make("Unique", [t], lower, name, outputs=[(t.dtype, [None]), (kind, t.shape)], is_host=True)
    return collections.namedtuple("Unique", ["y", "idx"])(y, idx)


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: str | None = None) -> Tensor:
    """True for the first ``lengths`` elements of a last dimension of size ``maxlen``."""
    from .maths import reduce_max

    t, kind = convert_to_tensor(lengths), as_dtype(dtype)
    n = reduce_max(t) if maxlen is None else ints(maxlen)
    known = constant_value(n)
    sizes = None if t.shape.ndims is None else [*t.shape.sizes, None if known is None else known.item()]

    def lower(ctx: Any, v: Any, _: Any) -> Any:
        return (_native.arange(int(ctx.host(n))) < v.to(INT64).unsqueeze(-1)).to(kind.native)

    return make("SequenceMask", [t, n], lower, name, kind, TensorShape(sizes))


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """The order reversed along axes."""
    x = convert_to_tensor(tensor)
    axes = [int(a) for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
    return make("ReverseV2", [x], lambda ctx, v: v.flip(axes), name, x.dtype, x.shape)


def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None, seq_dim: Any = None, batch_dim: Any = None
) -> Tensor:
    """The first ``seq_lengths[b]`` elements along an axis in reverse order, for each member of a batch."""
    x, n = convert_to_tensor(input), convert_to_tensor(seq_lengths)
    s = seq_axis if seq_axis is not None else seq_dim
    b = (batch_axis if batch_axis is not None else batch_dim) or 0

    def lower(ctx: Any, v: Any, length: Any) -> Any:
        place = _native.arange(v.shape[s]).reshape([-1 if i == s else 1 for i in _range(v.ndim)])
        length = length.to(INT64).reshape([-1 if i == b else 1 for i in _range(v.ndim)])
        index = tw.where(place < length, length - 1 - place, place)
        return v.gather(s, index.broadcast_to(list(v.shape)))

    return make("ReverseSequence", [x, n], lower, name, x.dtype, x.shape)


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A matrix with a diagonal."""
    x = convert_to_tensor(diagonal)
    n = x.shape.num_elements()
    return make("Diag", [x], lambda ctx, v: v.diag_embed(), name, x.dtype, [n, n])


def matrix_diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Matrices with given diagonals."""
    return make("MatrixDiag", [convert_to_tensor(diagonal)], lambda ctx, v: v.diag_embed(), name)


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """The diagonal of matrices."""
    return make("DiagPart", [convert_to_tensor(input)], lambda ctx, v: v.diagonal(0, -2, -1), name)


matrix_diag_part = diag_part


def matrix_band_part(input: Any, num_lower: int, num_upper: int, name: str | None = None) -> Tensor:
    """Matrices without what lies outside of a band."""
    x = convert_to_tensor(input)

    def lower(ctx: Any, v: Any) -> Any:
        i = _native.arange(v.shape[-2]).reshape([-1, 1])
        j = _native.arange(v.shape[-1])
        keep = (i - j <= num_lower if num_lower >= 0 else i == i) & (j - i <= num_upper if num_upper >= 0 else j == j)
        return tw.where(keep, v, v * 0)

    return make("MatrixBandPart", [x], lower, name, x.dtype, x.shape)


def space_to_depth(input: Any, block_size: int, name: str | None = None) -> Tensor:
    """Blocks of NHWC images as channels."""

    def lower(ctx: Any, v: Any) -> Any:
        n, h, w, c = v.shape
        b = block_size
        return v.reshape([n, h // b, b, w // b, b, c]).permute([0, 1, 3, 2, 4, 5]).reshape([n, h // b, w // b, b * b * c])

    return make("SpaceToDepth", [convert_to_tensor(input)], lower, name)


def depth_to_space(input: Any, block_size: int, name: str | None = None) -> Tensor:
    """Channels of NHWC images as blocks."""

    def lower(ctx: Any, v: Any) -> Any:
        n, h, w, c = v.shape
        b = block_size
        return v.reshape([n, h, w, b, b, c // (b * b)]).permute([0, 1, 3, 2, 4, 5]).reshape([n, h * b, w * b, c // (b * b)])

    return make("DepthToSpace", [convert_to_tensor(input)], lower, name)


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """``x``, whose shape in a run must be ``shape``."""
    x, want = convert_to_tensor(x), TensorShape(shape)

    def lower(ctx: Any, v: Any) -> Any:
        want.merge_with(tuple(v.shape))
        return v

    return make("EnsureShape", [x], lower, name, x.dtype, x.shape.merge_with(want))


def is_numeric_tensor(x: Any) -> builtins.bool:
    """True for a tensor of numbers."""
    return isinstance(x, Tensor) and x.dtype.native is not None and not x.dtype.is_bool


def no_op(name: str | None = None) -> Any:
    """An operation that does nothing."""
    from .graph import Operation, _op_name

    graph = get_default_graph()
    op = Operation(graph, "NoOp", _op_name(graph, name or "NoOp"), [], lambda ctx: [])
    graph.add(op)
    return op


__all__ = [n for n, v in list(globals().items()) if not n.startswith("_") and getattr(v, "__module__", "") == __name__]
