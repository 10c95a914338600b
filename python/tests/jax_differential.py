"""Random programs of JAX, compared with what `from_jax` makes of them.

A program is a few functions of `jax.numpy` and `jax.lax` on random shapes: windows, convolutions, indices, loops. Its
values and gradients are compared with JAX's. A failure prints the seed and the program.

    python jax_differential.py --programs 1000 --seed 7
"""

import argparse
import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import talweg as tw  # noqa: E402
from talweg._stablehlo.table import tensor  # noqa: E402

UNARY = [jnp.sin, jnp.tanh, jnp.square, jnp.negative, jnp.arctan, jax.nn.sigmoid, jax.nn.softplus, jax.nn.gelu, lax.erf, jnp.expm1]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.arctan2, jnp.logaddexp]
BITS = [jnp.add, jnp.subtract, jnp.multiply, jnp.bitwise_and, jnp.bitwise_or, jnp.bitwise_xor, jnp.maximum, jnp.floor_divide, jnp.remainder]


class Maker:
    """Steps for random programs: each is a text, and a function of the values so far."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def number(self, lo, hi):
        """An integer, with both ends."""
        return int(self.rng.integers(lo, hi + 1))

    def axis(self, shape):
        return self.number(0, len(shape) - 1)

    def unary(self, i, x):
        f = self.pick(UNARY)
        return f.__name__, lambda v: f(v[i])

    def binary(self, i, x, j, y):
        f = self.pick(BINARY)
        return f"{f.__name__} {j}", lambda v: f(v[i], v[j])

    def reduction(self, i, x):
        axes = tuple(a for a in range(x.ndim) if self.number(0, 1))
        f = self.pick([jnp.sum, jnp.mean, jnp.max, jnp.min, jnp.prod, jnp.var, jax.nn.logsumexp])
        keep = bool(self.number(0, 1))
        return f"{f.__name__} {axes} {keep}", lambda v: f(v[i], axis=axes or None, keepdims=keep)

    def reshape(self, i, x):
        shape = list(x.shape)
        self.rng.shuffle(shape)
        at = self.number(0, len(shape))
        shape.insert(at, 1)
        if len(shape) > 2:
            shape = [*shape[:-2], shape[-2] * shape[-1]]
        return f"reshape {shape}", lambda v: v[i].reshape(shape)

    def transpose(self, i, x):
        order = list(map(int, self.rng.permutation(x.ndim)))
        return f"transpose {order}", lambda v: v[i].transpose(order)

    def slices(self, i, x):
        at = []
        for n in x.shape:
            lo, hi = sorted((self.number(0, n), self.number(0, n)))
            step = self.pick([1, 1, 2, -1, -2])
            at.append(slice(lo, hi, step) if step > 0 else slice(hi - 1 if hi else 0, lo - 1 if lo else None, step))
        return f"slice {at}", lambda v: v[i][tuple(at)]

    def pad(self, i, x):
        widths = []
        for n in x.shape:
            interior = self.number(0, 2)
            lo = self.number(-min(1, n), 2)
            widths.append((lo, self.number(-min(1, max(n - 1, 0)), 2), interior))
        return f"pad {widths}", lambda v: lax.pad(v[i], jnp.asarray(0.25, v[i].dtype), widths)

    def concatenate(self, i, x):
        a = self.axis(x.shape)
        return f"concatenate {a}", lambda v: jnp.concatenate([v[i], jnp.flip(v[i], a), v[i] * 2], a)

    def product(self, i, x):
        a, b = self.axis(x.shape), self.axis(x.shape)
        return f"tensordot {a} {b}", lambda v: jnp.tanh(jnp.tensordot(v[i], jnp.swapaxes(v[i], a, b), ((a,), (b,))))

    def cumulative(self, i, x):
        f, a, back = self.pick([lax.cumsum, lax.cummax, lax.cummin]), self.axis(x.shape), bool(self.number(0, 1))
        return f"{f.__name__} {a} {back}", lambda v: f(v[i], a, reverse=back)

    def window(self, i, x):
        sizes = [self.number(1, min(3, n)) for n in x.shape]
        strides = [self.number(1, 2) for _ in x.shape]
        padding = self.pick(["SAME", "VALID", [(self.number(0, 1), self.number(0, 1)) for _ in x.shape]])
        f, init = self.pick([(lax.max, -jnp.inf), (lax.add, 0.0), (lax.min, jnp.inf)])
        return f"reduce_window {f.__name__} {sizes} {strides} {padding}", lambda v: lax.reduce_window(v[i], init, f, sizes, strides, padding)

    def convolution(self, i, x):
        n = self.number(1, 3)
        groups = self.pick([1, 1, 2])
        spatial = [self.number(3, 6) for _ in range(n)]
        kernel = [self.number(1, 3) for _ in range(n)]
        image, weight = (2, 2 * groups, *spatial), (2 * groups, 2, *kernel)
        letters = "DHW"[-n:]
        orders = ["".join(map(str, self.rng.permutation(list(form + letters)))) for form in ("NC", "OI", "NC")]
        by = dict(
            window_strides=[self.number(1, 2) for _ in range(n)], padding=[(self.number(-1, 2), self.number(0, 2)) for _ in range(n)],
            lhs_dilation=[self.number(1, 2) for _ in range(n)], rhs_dilation=[self.number(1, 2) for _ in range(n)],
            feature_group_count=groups,
        )  # fmt: skip
        shapes = [tuple(dict(zip(form + letters, s))[c] for c in o) for form, s, o in zip(("NC", "OI"), (image, weight), orders)]

        def f(v):
            flat = v[i].reshape(-1)
            a, b = (jnp.resize(flat, s) for s in shapes)
            return jnp.tanh(lax.conv_general_dilated(a, b, dimension_numbers=tuple(orders), **by))

        return f"convolution {shapes} {orders} {by}", f

    def take(self, i, x, ids):
        a = self.axis(x.shape)
        return f"take {a}", lambda v: jnp.take(v[i], v[ids], a, mode="clip")

    def write(self, i, x, ids):
        # JAX's gradients of other ways are not right where an index repeats.
        way, mode, a = "add", self.pick(["drop", "clip"]), self.axis(x.shape)

        def f(v):
            at = (slice(None),) * a + (v[ids],)
            return getattr(v[i].at[at], way)(jnp.sin(jnp.take(v[i], v[ids] * 0, a)) + 3, mode=mode)

        return f"at {way} {mode} {a}", f

    def dynamic(self, i, x, ids):
        sizes = [self.number(1, n) for n in x.shape]

        def f(v):
            starts = [v[ids].reshape(-1)[k % v[ids].size] for k in range(x.ndim)]
            part = lax.dynamic_slice(v[i], starts, sizes)
            return lax.dynamic_update_slice(v[i], jnp.cos(part), starts[::-1])

        return f"dynamic slices {sizes}", f

    def order(self, i, x):
        a = self.axis(x.shape)
        return self.pick([
            (f"sort {a}", lambda v: jnp.sort(v[i], a)),
            (f"sort down {a}", lambda v: jnp.sort(v[i], a, descending=True)),
            (f"argsort {a}", lambda v: jnp.argsort(v[i], a)),
            (f"argmax {a}", lambda v: jnp.argmax(v[i], a)),
            ("top_k", lambda v: lax.top_k(v[i], min(2, x.shape[-1]))[0]),
            (f"sort by sine {a}", lambda v: lax.sort((jnp.sin(v[i]), v[i]), a, num_keys=1)[1]),
        ])  # fmt: skip

    def loop(self, i, x):
        kind, back = self.number(0, 2), bool(self.number(0, 1))
        if kind == 0:
            return f"scan {back}", lambda v: lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), jnp.zeros_like(v[i][0]) + 0.1, v[i], reverse=back)[1]
        if kind == 1:
            return "fori_loop", lambda v: lax.fori_loop(0, 3, lambda k, c: jnp.sin(c) + k, v[i])
        return "cond", lambda v: lax.cond(v[i].sum() > 0, jnp.sin, jnp.cos, v[i])

    def choose(self, i, x):
        return "where", lambda v: jnp.where(v[i] > 0.1, v[i] * 2, jnp.sin(v[i]))

    def step(self, shapes):
        floats = [i for i, s in enumerate(shapes) if s.dtype == jnp.float32 and 0 not in s.shape]
        ids = [i for i, s in enumerate(shapes) if s.dtype == jnp.int32 and 0 not in s.shape]
        if self.number(0, 9) == 0:
            i, j, f = self.pick(ids), self.pick(ids), self.pick(BITS)
            return f"{i}: {f.__name__} {j}", lambda v: f(v[i], v[j])
        kinds = "unary binary reduction reshape transpose slices pad concatenate product cumulative window convolution".split()
        kinds += "take write dynamic order loop choose".split()
        i, kind = self.pick(floats), self.pick(kinds)
        x = shapes[i]
        more = ()
        if kind == "binary":
            j = self.pick(floats)
            more = (j, shapes[j])
        elif kind in ("take", "write", "dynamic"):
            more = (self.pick(ids),)
        text, f = getattr(self, kind)(i, x, *more)
        return f"{i}: {text}", f


def program(seed):
    """A function, its arguments, and its text."""
    rng = np.random.default_rng(seed)
    maker = Maker(rng)
    args = [rng.normal(size=[maker.number(1, 4) for _ in range(maker.number(1, 3))]).astype("float32") for _ in range(2)]
    args.append(rng.integers(-2, 6, [maker.number(1, 3)]).astype("int32"))
    steps, texts = [], []

    def f(*args):
        values = list(args)
        for step in steps:
            values.append(step(values))
        return tuple(values[len(args) :])

    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    wanted = maker.number(1, 5)
    for _ in range(100):
        if len(steps) == wanted:
            break
        try:
            text, step = maker.step(shapes)
            made = jax.eval_shape(lambda *v: step(v), *shapes)
        except (TypeError, ValueError, ZeroDivisionError, IndexError):
            continue
        if made.ndim > 5 or made.size > 2000:
            continue
        steps.append(step)
        texts.append(f"{len(shapes)} = {text}")
        shapes.append(made)
    return f, args, [f"{i}: {a.dtype}{list(a.shape)}" for i, a in enumerate(args)] + texts


def differs(got, want, tolerance):
    want = np.asarray(want)
    got = np.asarray(got.tolist()).reshape(want.shape)
    if want.dtype.kind != "f":
        return not (got == want).all()
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
    return not np.allclose(got, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def check(seed, gradient=True):
    """What is wrong with a program, or nothing."""
    f, args, text = program(seed)
    floats = [i for i, a in enumerate(args) if a.dtype == np.float32]

    def loss(values, rest):
        whole = [values.get(str(i), a) for i, a in enumerate(rest)]
        made = f(*whole)
        return sum((jnp.sin(m + 0.3) * jnp.cos(jnp.arange(m.size).reshape(m.shape))).sum() for m in made if m.dtype == jnp.float32), made

    try:
        slopes, want = jax.jit(jax.grad(loss, has_aux=True))({str(i): args[i] for i in floats}, args)
    except (NotImplementedError, TypeError):
        # JAX has no gradient of it, or no float depends on one.
        gradient, want = False, jax.jit(f)(*args)
    try:
        ours = tw.from_jax(f, *args)
        inputs = [tensor(a).requires_grad_(gradient and i in floats) for i, a in enumerate(args)]
        made = ours(*inputs)
        for k, (g, w) in enumerate(zip(made, want)):
            if g.shape != w.shape or g.dtype.name != w.dtype.name or differs(g.detach(), w, 1e-4):
                return text, f"value {k + len(args)} differs:\n{g}\n{w}"
        if not gradient:
            return None
        terms = [(tw.sin(m + 0.3) * tw.cos(tw.arange(m.numel(), dtype=tw.float32).reshape(tuple(m.shape)))).sum() for m in made if m.dtype == tw.float32]
        total = sum(terms)
        if total.requires_grad:
            total.backward()
        for i in floats:
            g = inputs[i].grad if inputs[i].grad is not None else tw.zeros_like(inputs[i])
            if differs(g, slopes[str(i)], 2e-3):
                return text, f"gradient of {i} differs:\n{g}\n{slopes[str(i)]}"
    except Exception as e:
        return text, f"{type(e).__name__}: {e}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, wrong = time.time(), 0
    for seed in range(given.seed, given.seed + given.programs):
        found = check(seed)
        if found:
            wrong += 1
            print(f"seed {seed}:", *found[0], found[1], sep="\n  ", flush=True)
    print(f"{given.programs} programs, {wrong} differ, {time.time() - start:.0f} s")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
