"""Random tensors: new numbers in each run, the same for the same seeds in each session."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Callable

from ... import _native
from .arrays import _sizes, ints
from .dtypes import FLOAT32, INT64, as_dtype, float32
from .errors import wrong_type
from .graph import Tensor, convert_to_tensor, get_default_graph, make
from .infer import shape_value

_T = _native.Tensor


def set_random_seed(seed: int) -> None:
    """The seed of the default graph: operations made afterwards draw the same numbers in each session."""
    get_default_graph().seed = seed


def drawn(kind: str, inputs: list[Tensor], f: Callable[..., Any], seed: Any, dtype: Any, shape: Any, name: str | None) -> Tensor:
    """An operation that draws: ``f(ctx, key, *values)``."""
    held: list[Any] = []
    t = make(kind, inputs, lambda ctx, *vs: f(ctx, ctx.key(held[0]), *vs), name, dtype, shape, is_stateful=True)
    held.append(t.op)
    graph = t.graph
    t.op.attributes.update(is_random=True, seed=seed, graph_seed=graph.seed, number=t.op.id)
    return t


def _normal(key: Any, sizes: list[int], kind: Any) -> Any:
    if kind.name == "float64":
        return _T.random_normal_of(key, sizes, kind.native)
    return _T.random_normal(key, sizes).to(kind.native)


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, seed: Any = None, name: str | None = None
) -> Tensor:
    """Normally distributed numbers."""
    target, kind = ints(shape), as_dtype(dtype)
    m, s = convert_to_tensor(mean, kind), convert_to_tensor(stddev, kind)
    f = lambda ctx, key, _, m, s: _normal(key, _sizes(ctx, target), kind) * s + m  # noqa: E731
    return drawn("RandomNormal", [target, m, s], f, seed, kind, shape_value(target), name or "random_normal")


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, seed: Any = None, name: str | None = None
) -> Tensor:
    """Normally distributed numbers within two standard deviations of the mean."""
    target, kind = ints(shape), as_dtype(dtype)
    m, s = convert_to_tensor(mean, kind), convert_to_tensor(stddev, kind)

    def f(ctx: Any, key: Any, _: Any, m: Any, s: Any) -> Any:
        return _T.random_truncated_normal(key, _sizes(ctx, target), -2.0, 2.0).to(kind.native) * s + m

    return drawn("TruncatedNormal", [target, m, s], f, seed, kind, shape_value(target), name or "truncated_normal")


def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32, seed: Any = None, name: str | None = None
) -> Tensor:
    """Evenly distributed numbers in ``[minval, maxval)``; integers need a ``maxval``."""
    target, kind = ints(shape), as_dtype(dtype)
    if maxval is None:
        if kind.is_integer:
            raise wrong_type("random_uniform: integers need a maxval")
        maxval = 1
    lo, hi = (v if isinstance(v, Tensor) else convert_to_tensor(v, kind) for v in (minval, maxval))

    def f(ctx: Any, key: Any, _: Any, a: Any, b: Any) -> Any:
        sizes = _sizes(ctx, target)
        if kind.is_integer:
            bits = _T.random_bits(key, sizes).to(INT64)
            return (a.to(INT64) + bits % (b.to(INT64) - a.to(INT64))).to(kind.native)
        u = _T.random_uniform(key, sizes, 0.0, 1.0).to(kind.native)
        return u * (b - a) + a

    return drawn("RandomUniform", [target, lo, hi], f, seed, kind, shape_value(target), name or "random_uniform")


def random_shuffle(value: Any, seed: Any = None, name: str | None = None) -> Tensor:
    """The rows in a random order."""
    x = convert_to_tensor(value)

    def f(ctx: Any, key: Any, v: Any) -> Any:
        order = _T.random_uniform(key, [v.shape[0]], 0.0, 1.0).argsort(0)
        return v.index_select(0, order.to(INT64))

    return drawn("RandomShuffle", [x], f, seed, x.dtype, x.shape, name)


def multinomial(logits: Any, num_samples: int, seed: Any = None, name: str | None = None, output_dtype: Any = None) -> Tensor:
    """Classes drawn with probabilities ``softmax(logits)``, ``num_samples`` for each row."""
    x = convert_to_tensor(logits)
    kind = as_dtype(output_dtype or "int64")

    def f(ctx: Any, key: Any, v: Any) -> Any:
        u = _T.random_uniform(key, [v.shape[0], num_samples, v.shape[1]], 1e-20, 1.0)
        gumbel = -(-(u.log())).log()
        return (v.unsqueeze(1).to(FLOAT32) + gumbel).argmax(2).to(kind.native)

    rows = x.shape.with_rank(2).as_list()[0]
    return drawn("Multinomial", [x], f, seed, kind, [rows, num_samples], name)


def random_gamma(*_: Any, **__: Any) -> Tensor:
    """Not there in graphs: draw with NumPy and feed the numbers."""
    from .errors import unimplemented

    raise unimplemented("random_gamma in a graph: feed numbers of numpy.random.gamma, or use talweg.distributions.Gamma")


random_poisson = random_gamma


def categorical(logits: Any, num_samples: int, dtype: Any = None, seed: Any = None, name: str | None = None) -> Tensor:
    """``multinomial`` under its later name."""
    return multinomial(logits, num_samples, seed, name, dtype)


def random_crop(value: Any, size: Any, seed: Any = None, name: str | None = None) -> Tensor:
    """A piece of a given size at a random place."""
    x = convert_to_tensor(value)
    want = [int(s) for s in size]

    def f(ctx: Any, key: Any, v: Any) -> Any:
        u = _T.random_uniform(key, [v.ndim], 0.0, 1.0)
        for a, n in enumerate(want):
            n = v.shape[a] if n < 0 else n
            start = (u[a] * (v.shape[a] - n + 1)).floor().to(INT64)
            v = v.index_select(a, start + _native.arange(n))
        return v

    return drawn("RandomCrop", [x], f, seed, x.dtype, want, name)


__all__ = [
    "set_random_seed",
    "random_normal",
    "truncated_normal",
    "random_uniform",
    "random_shuffle",
    "multinomial",
    "random_gamma",
    "random_poisson",
    "random_crop",
]
