"""Tensors of given or regular values: ``tf.zeros``, ``tf.range``, ``tf.eye`` and their kin."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ... import _native
from .arrays import _sizes, ints
from .dtypes import as_dtype, float32, int32, int64
from .graph import Tensor, convert_to_tensor, make
from .infer import constant_value, shape_value

_range = range


def _filled(kind: str, f: Callable[..., Any]) -> Callable[..., Tensor]:
    def call(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
        target, want = ints(shape), as_dtype(dtype)
        return make(kind, [target], lambda ctx, _: f(_sizes(ctx, target), dtype=want.native), name, want, shape_value(target))

    call.__name__ = kind.lower()
    call.__doc__ = f"A tensor of {kind.lower()}."
    return call


zeros, ones = _filled("Zeros", _native.zeros), _filled("Ones", _native.ones)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of one value."""
    target, v = ints(dims), convert_to_tensor(value)
    return make("Fill", [target, v], lambda ctx, _, x: x.broadcast_to(_sizes(ctx, target)), name, v.dtype, shape_value(target))


def _like(kind: str, number: int) -> Callable[..., Tensor]:
    def call(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
        x = convert_to_tensor(tensor)
        want = x.dtype if dtype is None else as_dtype(dtype)
        return make(kind, [x], lambda ctx, v: _native.full(list(v.shape), number, dtype=want.native), name, want, x.shape)

    call.__name__ = {0: "zeros_like", 1: "ones_like"}[number]
    call.__doc__ = f"A tensor of {number}s of the same shape."
    return call


zeros_like, ones_like = _like("ZerosLike", 0), _like("OnesLike", 1)


def eye(num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None) -> Tensor:
    """The identity matrix, or a batch of them."""
    n, m, want = ints(num_rows), ints(num_rows if num_columns is None else num_columns), as_dtype(dtype)
    batch = [] if batch_shape is None else list(batch_shape)

    def lower(ctx: Any, _: Any, __: Any) -> Any:
        made = _native.eye(int(ctx.host(n)), int(ctx.host(m)), dtype=want.native)
        return made.broadcast_to([*batch, *made.shape])

    return make("Eye", [n, m], lower, name, want)


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range") -> Tensor:
    """Numbers from ``start`` up to but not including ``limit``. The bounds may be tensors that a run settles."""
    start, limit = (0, start) if limit is None else (start, limit)
    parts = [convert_to_tensor(v) for v in (start, limit, delta)]
    wide = next((p.dtype for p in parts if p.dtype.is_floating), None) or next((p.dtype for p in parts if p.dtype == int64), int32)
    want = as_dtype(dtype) if dtype is not None else wide
    known = [constant_value(p) if p.dtype.is_integer else None for p in parts]
    size_ = None
    if all(k is not None and k.item() is not None for k in known):
        a, b, d = (k.item() for k in known)
        size_ = max(0, -((a - b) // d))

    def lower(ctx: Any, *_: Any) -> Any:
        a, b, d = (ctx.host(p).item() for p in parts)
        return _native.tensor(np.arange(a, b, d).astype(want.as_numpy_dtype))

    return make("Range", parts, lower, name, want, [size_])


def linspace(start: Any, stop: Any, num: int, name: str | None = None) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, both included."""
    a = convert_to_tensor(start)
    b = convert_to_tensor(stop, a.dtype)

    def lower(ctx: Any, x: Any, y: Any) -> Any:
        steps = _native.tensor(np.arange(num) / max(num - 1, 1), dtype=a.dtype.native)
        return x + (y - x) * steps

    return make("LinSpace", [a, b], lower, name, a.dtype, [num])


lin_space = linspace


def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Coordinates of a grid."""
    ts = [convert_to_tensor(a) for a in args]
    n = len(ts)

    def at(i: int, *ds: Any) -> Any:
        order = list(_range(n))
        if indexing == "xy" and n > 1:
            order[0], order[1] = 1, 0
        return order[i]

    sizes = [None] * n
    for i, t in enumerate(ts):
        sizes[at(i)] = t.shape.num_elements()

    def lower(ctx: Any, *vs: Any) -> list[Any]:
        full = [0] * n
        for i, v in enumerate(vs):
            full[at(i)] = v.shape[0]
        return [v.reshape([-1 if k == at(i) else 1 for k in _range(n)]).broadcast_to(full) for i, v in enumerate(vs)]

    return make("Meshgrid", ts, lower, name, outputs=[(t.dtype, sizes) for t in ts])


__all__ = [n for n, v in list(globals().items()) if not n.startswith("_") and getattr(v, "__module__", "") == __name__]
