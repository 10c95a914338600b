"""``tf.gradients``, and clipping of gradients."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

from . import nest
from .errors import wrong_type
from .graph import Tensor, convert_to_tensor, get_default_graph, make
from .lowering import gradients as lowered
from .lowering import is_connected


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: Any = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = None,
) -> list[Any]:
    """Derivatives of the sum of ``ys`` with respect to each of ``xs``; ``None`` where it does not depend on one.

    >>> import talweg.compat.v1 as tf
    >>> x = tf.constant(3.0)
    >>> float(tf.Session().run(tf.gradients(x * x, x)[0]))
    6.0
    """
    tops = [convert_to_tensor(y) for y in nest.flatten(ys)]
    wrt = [convert_to_tensor(x) for x in nest.flatten(xs)]
    seeds = [None] * len(tops) if grad_ys is None else nest.flatten(grad_ys)
    seeds = [None if s is None else convert_to_tensor(s, y.dtype) for s, y in zip(seeds, tops)]
    stops = [convert_to_tensor(s) for s in nest.flatten(stop_gradients if stop_gradients is not None else [])]
    for t in tops:
        if not (t.dtype.is_floating or t.dtype.is_complex):
            raise wrong_type(f"gradients: {t.name} is {t.dtype.name}; only floats have gradients")
    reached = [x for x in dict.fromkeys(wrt) if x.dtype.is_floating and is_connected(x, tops, stops)]
    if not reached:
        return _unconnected([None] * len(wrt), wrt, unconnected_gradients)
    given = [s for s in seeds if s is not None]

    def lower(ctx: Any, *values: Any) -> list[Any]:
        rest = iter(values[len(tops) + len(reached) :])
        return lowered(ctx, tops, reached, [None if s is None else next(rest) for s in seeds], stops)

    with get_default_graph().name_scope(name):
        kinds = [(x.dtype, x.shape) for x in reached]
        made = make("Gradients", [*tops, *reached, *given], lower, "grad", outputs=kinds)
    of = dict(zip(reached, made))
    return _unconnected([of.get(x) for x in wrt], wrt, unconnected_gradients)


def _unconnected(found: list[Any], xs: list[Tensor], how: Any) -> list[Any]:
    from .constants import zeros_like

    if getattr(how, "value", how) == "zero":
        return [zeros_like(x) if g is None else g for g, x in zip(found, xs)]
    return found


class UnconnectedGradients:
    """What ``gradients`` returns for what ``ys`` do not depend on."""

    NONE, ZERO = "none", "zero"


def hessians(ys: Any, xs: Any, name: str = "hessians", **_: Any) -> list[Any]:
    """The matrix of second derivatives for each vector of ``xs``."""
    from .control_flow import map_fn

    out = []
    for x in [convert_to_tensor(x) for x in nest.flatten(xs)]:
        x.shape.assert_has_rank(1)
        from .arrays import shape
        from .constants import eye

        slope = gradients(ys, x)[0]
        rows = eye(shape(x)[0], dtype=x.dtype)
        out.append(map_fn(lambda row: gradients(slope, x, grad_ys=row)[0], rows, dtype=x.dtype))
    return out


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """The norm of all tensors together."""
    from .maths import add_n, reduce_sum, sqrt, square

    return sqrt(add_n([reduce_sum(square(t)) for t in t_list if t is not None]), name or "global_norm")


def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> tuple[list[Any], Tensor]:
    """Tensors scaled together to at most a norm, and the norm before."""
    from .maths import minimum

    norm = global_norm(t_list) if use_norm is None else use_norm
    limit = convert_to_tensor(clip_norm, norm.dtype)
    scale = limit * minimum(1.0 / norm, convert_to_tensor(1.0, norm.dtype) / limit)
    return [None if t is None else t * scale for t in t_list], norm


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """A tensor scaled to at most a norm."""
    from .arrays import where
    from .constants import ones_like
    from .maths import maximum, reduce_sum, sqrt

    t = convert_to_tensor(t)
    total = reduce_sum(t * t, axes, True)
    is_zero = total <= 0.0
    norm = where(is_zero, total, sqrt(where(is_zero, ones_like(total), total)))
    limit = convert_to_tensor(clip_norm, t.dtype)
    return (t * limit) / maximum(norm, limit)


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """A tensor scaled to at most an average norm for each element."""
    from .arrays import size
    from .maths import cast

    t = convert_to_tensor(t)
    return clip_by_norm(t, convert_to_tensor(clip_norm, t.dtype) * cast(size(t), t.dtype))
