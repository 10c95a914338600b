"""Random programs, compared with NumPy and with themselves in another face.

A program is a few ops on tensors of every element type: empty ones, ones without dimensions, NaN and infinities,
negative steps, several results, loops, random draws. Each op is compared with NumPy on the operands it had; then the whole
program runs lazily, under `jit`, under `vmap`, and its gradient is compared with finite differences and with `jit` of it and
`backward`.

    python differential.py --programs 100000 --seed 7        # --torch also compares gradients of single ops with PyTorch
"""

import argparse
import random
import sys
import time
import traceback
import warnings

import numpy as np

import talweg as tw
import talweg.array_api as xp

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
KINDS = ["bool"] + INTS + FLOATS + COMPLEX
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
GREATEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38, "float64": 1.7976e308}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
#: Errors in units in the last place: of one op, and of a whole program in another face.
ULPS, ULPS_FACE = 16.0, 512.0


def part(kind):
    """The float type that a type computes in."""
    return {"complex64": "float32", "complex128": "float64"}.get(kind, kind)


def name_of(t):
    return t.dtype.name


def array(t):
    """A tensor's elements: floats as f64, complex numbers as c128, others as they are."""
    kind = name_of(t)
    if kind in FLOATS:
        return t.astype("float64").numpy()
    return t.astype("complex128").numpy() if kind in COMPLEX else t.numpy()


def is_near_zero(t):
    """True if an element is about 0, where a square root has no slope that differences could see."""
    return bool((t.abs() < 1e-3).any())


class Fault(Exception):
    """A discrepancy."""


def check(what, t, want, scale=None, ulps=ULPS):
    """Fails unless a tensor is what NumPy says, to some units in the last place of `scale`."""
    got, kind = array(t), name_of(t)
    want = np.asarray(want)
    if got.shape != want.shape:
        raise Fault(f"{what}: shape {got.shape} instead of {want.shape}")
    if kind not in FLOATS + COMPLEX:
        if not np.array_equal(got, want.astype(got.dtype)):
            raise Fault(f"{what}: {got!r} instead of {want!r}")
        return
    size = np.abs(want) if scale is None else np.maximum(np.abs(want), scale)
    p = part(kind)
    for g, w in ((got.real, want.real), (got.imag, want.imag)) if np.iscomplexobj(got) else ((got, want),):
        with np.errstate(all="ignore"):
            room = ulps * (EPSILON[p] * np.where(np.isfinite(size), size, 0.0) + LEAST[p])
            fine = (np.abs(g - w) <= room) | (g == w) | (np.isnan(g) & np.isnan(w))
            # What the type cannot hold is infinite; a sum on the way there may be as well.
            fine |= (size > GREATEST[p] / 4) & ~np.isfinite(g)
            # A part of an infinite or undefined complex number is as it comes.
            fine |= np.iscomplexobj(got) & ~np.isfinite(want)
        if not fine.all():
            at = np.argmin(fine)
            raise Fault(f"{what}: {g.ravel()[at]!r} instead of {w.ravel()[at]!r} ({kind}, element {at} of {want.shape})")


class Step:
    """An op in a program: which values it takes, what it is in both libraries."""

    def __init__(self, name, inputs, ours, theirs, *, smooth=False, scale=None, dynamic=False, ulps=ULPS):
        self.name, self.inputs, self.ours, self.theirs = name, inputs, ours, theirs
        self.smooth, self.scale, self.dynamic, self.ulps = smooth, scale, dynamic, ulps


# Elementwise functions: ours, NumPy's, for which types, smooth inside, and where their argument may lie.
REAL = FLOATS
ANY = FLOATS + COMPLEX
UNARY = {
    "neg": (lambda x: -x, np.negative, INTS + ANY, True, None),
    "abs": (tw.abs, np.abs, INTS + ANY, False, None),
    "sign": (tw.sign, np.sign, INTS + REAL, False, None),
    "square": (tw.square, np.square, INTS + ANY, True, None),
    "exp": (tw.exp, np.exp, ANY, True, (-3, 3)),
    "expm1": (tw.expm1, np.expm1, REAL, True, (-3, 3)),
    "log": (tw.log, np.log, ANY, True, (0.1, 4)),
    "log1p": (tw.log1p, np.log1p, REAL, True, (-0.5, 4)),
    "log2": (tw.log2, np.log2, REAL, True, (0.1, 4)),
    "sqrt": (tw.sqrt, np.sqrt, ANY, True, (0.1, 4)),
    "sin": (tw.sin, np.sin, ANY, True, (-6, 6)),
    "cos": (tw.cos, np.cos, ANY, True, (-6, 6)),
    "tan": (tw.tan, np.tan, REAL, True, (-1, 1)),
    "tanh": (tw.tanh, np.tanh, ANY, True, (-3, 3)),
    "sinh": (tw.sinh, np.sinh, ANY, True, (-3, 3)),
    "cosh": (tw.cosh, np.cosh, ANY, True, (-3, 3)),
    "asin": (tw.asin, np.arcsin, REAL, True, (-0.9, 0.9)),
    "acos": (tw.acos, np.arccos, REAL, True, (-0.9, 0.9)),
    "atan": (tw.atan, np.arctan, REAL, True, (-3, 3)),
    "asinh": (tw.asinh, np.arcsinh, REAL, True, (-3, 3)),
    "acosh": (tw.acosh, np.arccosh, REAL, True, (1.1, 4)),
    "atanh": (tw.atanh, np.arctanh, REAL, True, (-0.9, 0.9)),
    "reciprocal": (tw.reciprocal, np.reciprocal, FLOATS, True, (0.2, 4)),
    "floor": (tw.floor, np.floor, REAL, False, None),
    "ceil": (tw.ceil, np.ceil, REAL, False, None),
    "trunc": (tw.trunc, np.trunc, REAL, False, None),
    "round": (tw.round, np.round, REAL, False, None),
    "isnan": (tw.isnan, np.isnan, ANY, False, None),
    "isinf": (tw.isinf, np.isinf, ANY, False, None),
    "isfinite": (tw.isfinite, np.isfinite, ANY, False, None),
    "logical_not": (tw.logical_not, np.logical_not, KINDS, False, None),
    "invert": (lambda x: ~x, np.invert, ["bool"] + INTS, False, None),
    "conj": (tw.conj, np.conj, COMPLEX, True, None),
    "real": (tw.real, np.real, COMPLEX, True, None),
    "imag": (tw.imag, np.imag, COMPLEX, True, None),
    "nan_to_num": (lambda x: tw.nan_to_num(x, 1.0, 2.0, -2.0), lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0), REAL, False, None),
}
BINARY = {
    "add": (lambda a, b: a + b, np.add, KINDS, True),
    "subtract": (lambda a, b: a - b, np.subtract, INTS + ANY, True),
    "multiply": (lambda a, b: a * b, np.multiply, KINDS, True),
    "divide": (lambda a, b: a / b, np.divide, ANY, True),
    "floor_divide": (lambda a, b: a // b, None, INTS + REAL, False),
    "remainder": (lambda a, b: a % b, None, INTS + REAL, False),
    "maximum": (tw.maximum, np.maximum, INTS + REAL, False),
    "minimum": (tw.minimum, np.minimum, INTS + REAL, False),
    "fmax": (tw.Tensor.fmax, np.fmax, INTS + REAL, False),
    "fmin": (tw.Tensor.fmin, np.fmin, INTS + REAL, False),
    "atan2": (tw.atan2, np.arctan2, REAL, True),
    "hypot": (tw.hypot, np.hypot, REAL, True),
    "logaddexp": (tw.logaddexp, np.logaddexp, REAL, True),
    "copysign": (tw.copysign, np.copysign, REAL, False),
    "equal": (lambda a, b: a == b, np.equal, KINDS, False),
    "not_equal": (lambda a, b: a != b, np.not_equal, KINDS, False),
    "less": (lambda a, b: a < b, np.less, INTS + REAL, False),
    "greater_equal": (lambda a, b: a >= b, np.greater_equal, INTS + REAL, False),
    "and": (lambda a, b: a & b, np.bitwise_and, ["bool"] + INTS, False),
    "or": (lambda a, b: a | b, np.bitwise_or, ["bool"] + INTS, False),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor, ["bool"] + INTS, False),
    "logical_and": (tw.logical_and, np.logical_and, KINDS, False),
}
REDUCE = {
    "sum": (lambda x, axis, keepdims: x.sum(axis, keepdims=keepdims), np.sum, KINDS, True),
    "prod": (lambda x, axis, keepdims: x.prod(axis, keepdims=keepdims), np.prod, INTS + ANY, True),
    "mean": (lambda x, axis, keepdims: x.mean(axis, keepdims=keepdims), np.mean, ANY, True),
    "var": (lambda x, axis, keepdims: xp.var(x, axis=axis, keepdims=keepdims), np.var, REAL, True),
    "std": (lambda x, axis, keepdims: xp.std(x, axis=axis, keepdims=keepdims), np.std, REAL, True),
    "max": (lambda x, axis, keepdims: xp.max(x, axis=axis, keepdims=keepdims), np.max, INTS + REAL, False),
    "min": (lambda x, axis, keepdims: xp.min(x, axis=axis, keepdims=keepdims), np.min, INTS + REAL, False),
    "any": (lambda x, axis, keepdims: x.any(axis, keepdims=keepdims), np.any, KINDS, False),
    "all": (lambda x, axis, keepdims: x.all(axis, keepdims=keepdims), np.all, KINDS, False),
    "count_nonzero": (lambda x, axis, keepdims: tw.count_nonzero(x, axis=axis, keepdims=keepdims), np.count_nonzero, KINDS, False),
}


def ulps_of(kind):
    """Elementwise functions in f64 take the parts of complex numbers apart."""
    return 8 * ULPS if kind in COMPLEX else ULPS


def greatest(x):
    """The greatest magnitude of the finite elements."""
    return np.max(np.where(np.isfinite(x), np.abs(x), 0.0), initial=0.0)


class Maker:
    """Makes programs. Every third is smooth, so that it has a gradient to compare."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.smooth = self.draw.random() < 0.35

    def shape(self):
        d = self.draw
        rank = d.choice([0, 1, 1, 2, 2, 2, 3, 4])
        return tuple(d.choice([0, 1, 2, 3, 4, 5] if d.random() < 0.15 else [1, 2, 3, 4, 5]) for _ in range(rank))

    def values(self, kind, shape, odd):
        """Elements of a type; some of them extreme, if `odd`."""
        r = self.rng
        if kind == "bool":
            return r.random(shape) < 0.5
        if kind in INTS:
            info = np.iinfo(kind)
            x = r.integers(max(-9, info.min), 10, shape).astype(kind)
            if odd:
                x = np.where(r.random(shape) < 0.2, r.choice(np.array([info.min, info.max], kind), shape), x)
            return x.astype(kind)
        x = r.normal(0, 1.5, shape) + (1j * r.normal(0, 1.5, shape) if kind in COMPLEX else 0)
        if odd:
            x = np.where(r.random(shape) < 0.15, r.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 600.0, 1e-4], shape), x)
        return np.asarray(x)

    def tensor(self, kind, shape=None, odd=False):
        """A tensor, perhaps a view with a negative step of a larger one."""
        shape = self.shape() if shape is None else shape
        if shape and self.draw.random() < 0.2:
            axis = self.draw.randrange(len(shape))
            wide = tuple(2 * n if a == axis else n for a, n in enumerate(shape))
            index = tuple(slice(None, None, -2) if a == axis else slice(None) for a in range(len(shape)))
            return tw.tensor(self.values(kind, wide, odd)).astype(kind)[index]
        return tw.tensor(self.values(kind, shape, odd)).astype(kind)

    def like(self, t, odd):
        """Another operand of the same type that broadcasts with it."""
        shape = t.shape if self.draw.random() < 0.6 else tuple(1 if self.draw.random() < 0.4 else n for n in t.shape)
        if self.draw.random() < 0.2:
            shape = shape[self.draw.randrange(len(shape) + 1) :]
        return self.tensor(name_of(t), tuple(shape), odd)

    # Every kind of step takes the number of a value and what it is now, and a list to add operands to; None if it does not fit.

    def unary(self, at, t, more):
        name, (ours, theirs, kinds, smooth, domain) = self.draw.choice(sorted(UNARY.items()))
        if name_of(t) not in kinds:
            return None
        if domain is None:
            return Step(name, [at], ours, theirs, smooth=smooth, ulps=ulps_of(name_of(t)))
        if name_of(t) in COMPLEX:
            # On a branch cut the sign of zero decides, which a division by a promoted number may lose.
            if name in ("log", "sqrt") and bool((t.imag == 0).any()):
                return None
            low, high = max(domain[0], -2), min(domain[1], 2)
            return Step(f"{name} of a small number", [at], lambda x: ours(x / (x.abs() + 1.0) * high), lambda x: theirs(x / (np.abs(x) + 1.0) * high), smooth=smooth and low < 0, scale=lambda x: np.ones(np.shape(x)), ulps=64 * ULPS)
        low, high = domain
        # Brought into its domain by a bounded function, which both have.
        middle, half = (low + high) / 2, (high - low) / 2
        inside = lambda x: x / (1.0 + abs(x)) * half + middle
        if name_of(t) in ("float16", "bfloat16"):
            is_inside = bool(((t > low) & (t < high)).all())
            return Step(name, [at], ours, theirs, smooth=smooth and is_inside)
        return Step(name, [at], lambda x: ours(inside(x)), lambda x: theirs(inside(x)), smooth=smooth, ulps=64 * ULPS, scale=lambda x: np.full(np.shape(x), np.abs(theirs(np.array([low + 1e-3, high - 1e-3]))).max()))

    def binary(self, at, t, more):
        name, (ours, theirs, kinds, smooth) = self.draw.choice(sorted(BINARY.items()))
        kind = name_of(t)
        if kind not in kinds:
            return None
        other = self.like(t, not smooth)
        scale = None
        if name in ("floor_divide", "remainder"):
            # By zero there is no number; integers say 0 then.
            other = tw.where(other == 0, tw.ones_like(other), other)
            theirs = np.floor_divide if name == "floor_divide" else np.remainder
            if kind in INTS and kind.startswith("i"):
                other = tw.where(other == -1, tw.ones_like(other), other)
            if kind in FLOATS:
                t_finite = bool(tw.isfinite(t).all()) and bool(tw.isfinite(other).all())
                if not t_finite:
                    return None
        if name in ("add", "subtract", "logaddexp"):
            scale = lambda a, b: np.abs(a) + np.abs(b)
        if name in ("multiply", "divide") and kind in COMPLEX:
            scale = lambda a, b: np.abs(theirs(np.abs(a), np.abs(b)))
        more.append(other)
        if self.draw.random() < 0.3 and kind not in ("float16", "bfloat16") and name in ("add", "subtract", "multiply", "maximum", "equal", "less"):
            # The same value on both sides.
            more.pop()
            return Step(name, [at, at], ours, theirs, smooth=smooth, scale=scale)
        return Step(name, [at, -1], ours, theirs, smooth=smooth, scale=scale, ulps=ulps_of(kind))

    def reduce(self, at, t, more):
        name, (ours, theirs, kinds, smooth) = self.draw.choice(sorted(REDUCE.items()))
        kind = name_of(t)
        if kind not in kinds or name == "sum" and kind == "bool":
            return None
        axis = None if self.draw.random() < 0.3 or t.ndim == 0 else self.draw.randrange(-t.ndim, t.ndim)
        keep = self.draw.random() < 0.5
        count = t.size if axis is None else t.shape[axis]
        if count == 0 and name in ("mean", "var", "std", "max", "min"):
            return None
        size = greatest
        scale = None
        if kind in FLOATS + COMPLEX and name in ("sum", "mean"):
            scale = lambda x: np.full(np.shape(theirs(x, axis=axis, keepdims=keep)), size(x) * max(count, 1))
        if name in ("var", "std"):
            scale = lambda x: np.full(np.shape(theirs(x, axis=axis, keepdims=keep)), size(x) ** (2 if name == "var" else 1) * 8)
        ulps = ULPS * (max(count, 1) if name == "prod" else 1) * (8 if kind in COMPLEX else 1)
        smooth = smooth and not (name == "std" and is_near_zero(ours(t, axis, keep)))
        return Step(f"{name} axis={axis}", [at], lambda x: ours(x, axis, keep), lambda x: theirs(x, axis=axis, keepdims=keep), smooth=smooth, scale=scale, ulps=ulps)

    def move(self, at, t, more):
        """Ops that move elements: exact in every type."""
        d, kind, shape = self.draw, name_of(t), t.shape
        one = lambda name, ours, theirs, **k: Step(name, [at], ours, theirs, smooth=True, **k)
        if not shape:
            return one("expand_dims", lambda x: xp.expand_dims(x, axis=0), lambda x: x[None])
        axis = d.randrange(t.ndim)
        n = shape[axis]
        choice = d.choice(["flip", "roll", "permute", "reshape", "slice", "ends", "index", "tile", "repeat", "pad", "concat", "stack", "take", "along", "where", "triangle", "squeeze", "diff", "broadcast"])
        if choice == "flip":
            return one(f"flip {axis}", lambda x: xp.flip(x, axis=axis), lambda x: np.flip(x, axis))
        if choice == "roll":
            by = d.randrange(-3, 4)
            return one("roll", lambda x: xp.roll(x, by, axis=axis), lambda x: np.roll(x, by, axis))
        if choice == "permute":
            order = list(range(t.ndim))
            d.shuffle(order)
            return one("permute", lambda x: xp.permute_dims(x, order), lambda x: np.transpose(x, order))
        if choice == "reshape":
            return one("reshape", lambda x: x.reshape((-1,) if x.size else (0,)), lambda x: x.reshape(-1))
        if choice == "slice":
            step = d.choice([-3, -2, -1, 1, 2, 3])
            index = tuple(slice(None, None, step) if a == axis else slice(d.choice([None, 0, 1]), d.choice([None, -1])) for a in range(t.ndim))
            return one(f"slice {index}", lambda x: x[index], lambda x: x[index])
        if choice == "ends":
            return one("new axis", lambda x: x[..., None, :], lambda x: x[..., None, :])
        if choice == "index":
            if n == 0:
                return None
            at_n = d.randrange(-n, n)
            index = (slice(None),) * axis + (at_n,)
            return one("index", lambda x: x[index], lambda x: x[index])
        if choice == "tile":
            return one("tile", lambda x: tw.tile(x, (2,) * t.ndim), lambda x: np.tile(x, (2,) * t.ndim)) if t.size < 200 else None
        if choice == "repeat":
            return one("repeat", lambda x: xp.repeat(x, 2, axis=axis), lambda x: np.repeat(x, 2, axis))
        if choice == "pad":
            low, high = d.choice([0, 1, 2]), d.choice([0, 1])
            widths = [0, 0] * (t.ndim - 1 - axis) + [low, high]
            around = [(low, high) if a == axis else (0, 0) for a in range(t.ndim)]
            return one("pad", lambda x: tw.nn.functional.pad(x, widths), lambda x: np.pad(x, around))
        if choice in ("concat", "stack"):
            more.append(self.tensor(kind, shape))
            f, g = (tw.concat, np.concatenate) if choice == "concat" else (tw.stack, np.stack)
            return Step(choice, [at, -1], lambda a, b: f([a, b, a], axis=axis), lambda a, b: g([a, b, a], axis=axis), smooth=True)
        if choice == "take":
            if n == 0:
                return None
            places = np.array([d.randrange(-n, n) for _ in range(d.choice([0, 1, 4]))], "int64")
            return one("take", lambda x: xp.take(x, tw.tensor(places), axis=axis), lambda x: np.take(x, places, axis))
        if choice == "along":
            if n == 0:
                return None
            places = self.rng.integers(0, n, tuple(d.choice([0, 1, 3]) if a == axis else s for a, s in enumerate(shape)))
            return one("take_along_axis", lambda x: tw.take_along_axis(x, tw.tensor(places), axis=axis), lambda x: np.take_along_axis(x, places, axis))
        if choice == "where":
            mask = self.rng.random(shape) < 0.5
            more.append(self.like(t, False))
            return Step("where", [at, -1], lambda a, b: tw.where(tw.tensor(mask), a, b), lambda a, b: np.where(mask, a, b), smooth=True)
        if choice == "triangle":
            if t.ndim < 2:
                return None
            k = d.randrange(-2, 3)
            return one("tril", lambda x: tw.tril(x, k=k), lambda x: np.tril(x, k))
        if choice == "squeeze":
            return one("expand_dims", lambda x: xp.expand_dims(x, axis=axis), lambda x: np.expand_dims(x, axis))
        if choice == "diff":
            if kind in ("bool", "float16", "bfloat16"):
                return None
            return one("diff", lambda x: xp.diff(x, axis=axis), lambda x: np.diff(x, axis=axis), scale=lambda x: np.full(np.diff(x, axis=axis).shape, greatest(x)) if kind in FLOATS + COMPLEX else 0)
        wide = (2,) + tuple(shape)
        return one("broadcast_to", lambda x: tw.broadcast_to(x, wide), lambda x: np.broadcast_to(x, wide))

    def several(self, at, t, more):
        """Ops with several results."""
        d = self.draw
        if t.ndim == 0:
            return None
        axis = d.randrange(t.ndim)
        n = t.shape[axis]
        choice = d.choice(["unstack", "split", "chunk", "iterate", "sort", "max", "meshgrid"])
        if choice == "unstack":
            return Step("unstack", [at], lambda x: list(xp.unstack(x, axis=axis)), lambda x: list(np.moveaxis(x, axis, 0)), smooth=True)
        if choice == "iterate":
            return Step("iterate", [at], lambda x: list(x), lambda x: list(x), smooth=True)
        if choice == "split":
            size = d.choice([1, 2, 3])
            cuts = list(range(size, n, size))
            return Step("split", [at], lambda x: list(tw.split(x, size, axis)), lambda x: np.split(x, cuts, axis), smooth=True) if n else None
        if choice == "chunk":
            size = -(-n // 2)
            return Step("chunk", [at], lambda x: list(x.chunk(2, axis)), lambda x: np.split(x, list(range(size, n, size)), axis), smooth=True) if n else None
        if choice == "sort":
            if name_of(t) in COMPLEX + ["bool"]:
                return None
            return Step("sort", [at], lambda x: [xp.sort(x, axis=axis), xp.argsort(x, axis=axis)], lambda x: [np.sort(x, axis), np.argsort(x, axis, kind="stable")])
        if choice == "max":
            if name_of(t) not in INTS + FLOATS or n == 0:
                return None
            return Step("max and argmax", [at], lambda x: [xp.max(x, axis=axis), tw.argmax(x, axis=axis)], lambda x: [np.max(x, axis), np.argmax(x, axis)])
        if t.ndim != 1:
            return None
        return Step("meshgrid", [at], lambda x: list(xp.meshgrid(x, x)), lambda x: list(np.meshgrid(x, x)), smooth=True)

    def product(self, at, t, more):
        """Matrix products and running sums."""
        d, kind = self.draw, name_of(t)
        if t.ndim == 0 or kind == "bool":
            return None
        if d.random() < 0.4:
            axis, name = d.randrange(t.ndim), d.choice(["cumsum", "cumprod"])
            f, g = (tw.Tensor.cumsum, np.cumsum) if name == "cumsum" else (tw.Tensor.cumprod, np.cumprod)
            wide = {"u": "uint64", "i": "int64"}.get(kind[0], None) if kind in INTS else None
            scale = (lambda x: g(np.abs(x), axis=axis)) if kind in FLOATS + COMPLEX else None
            return Step(name, [at], lambda x: f(x, axis), lambda x: g(x, axis=axis, dtype=wide), smooth=True, scale=scale, ulps=ULPS * (t.shape[axis] + 1) * (8 if kind in COMPLEX else 1))
        k = t.shape[-1]
        other = self.tensor(kind, (k, d.choice([0, 1, 3, 4])) if t.ndim > 1 else (k,))
        more.append(other)
        scale = (lambda a, b: np.abs(a) @ np.abs(b)) if kind in FLOATS + COMPLEX else None
        return Step("matmul", [at, -1], lambda a, b: a @ b, lambda a, b: a @ b, smooth=True, scale=scale, ulps=8 * ULPS)

    def loop(self, at, t, more):
        """A loop against the same written out."""
        d, kind = self.draw, name_of(t)
        if kind not in ("float32", "float64", "complex64", "complex128") or t.ndim == 0 or t.shape[0] == 0:
            return None
        n, way = t.shape[0], d.choice(["scan", "fori_loop", "while_loop", "cond"])
        by = d.choice([0.5, -0.25])
        turn = lambda c, x: c * by + x
        zero = lambda x: x[0] * 0.0
        size = lambda x: np.full(x.shape[1:], greatest(x) * 4)

        def rows(x):
            c = zero(x)
            out = []
            for r in x:
                c = turn(c, r)
                out.append(c)
            return [c, np.stack(out)]

        if way == "scan":
            def ours(x):
                last, all_rows = tw.scan(lambda c, r: (turn(c, r), turn(c, r)), zero(x), x)
                return [last, all_rows]

            return Step("scan", [at], ours, rows, smooth=True, scale=lambda x: np.max(size(x), initial=0.0), ulps=64 * ULPS)
        if way == "cond":
            return Step("cond", [at], lambda x: tw.cond((x.abs() >= 0).all(), lambda x: turn(x, x), lambda x: x, x), lambda x: turn(x, x) if not np.isnan(np.abs(x)).any() else x, ulps=64 * ULPS)
        if way == "fori_loop":
            ours = lambda x: tw.fori_loop(0, n, lambda i, c: turn(c, x[0]), zero(x))
        else:
            ours = lambda x: tw.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, turn(s[1], x[0])), (tw.tensor(0), zero(x)), max_trips=n)[1]

        def theirs(x):
            c = zero(x)
            for _ in range(n):
                c = turn(c, x[0])
            return c

        return Step(way, [at], ours, theirs, smooth=True, scale=size, ulps=64 * ULPS)

    def masked(self, at, t, more):
        mask = self.rng.random(t.shape) < self.draw.choice([0.0, 0.5])
        return Step("mask", [at], lambda x: x[tw.tensor(mask)], lambda x: x[mask], dynamic=True)

    def program(self):
        """Inputs and steps; each step was compared with NumPy as it was added."""
        kind = self.draw.choice(FLOATS + COMPLEX if self.smooth else KINDS)
        odd = not self.smooth and self.draw.random() < 0.4
        inputs = [self.tensor(kind, odd=odd)]
        program, values = Program(inputs), list(inputs)
        ways = [self.unary, self.unary, self.binary, self.binary, self.reduce, self.move, self.move, self.several, self.product, self.loop, self.masked]
        wanted = self.draw.randint(2, 8)
        for _ in range(8 * wanted):
            if len(program.steps) == wanted:
                break
            at = self.draw.randrange(len(values))
            more = []
            step = self.draw.choice(ways)(at, values[at], more)
            if step is None or values[at].size > 2000 or self.smooth and not (step.smooth and name_of(values[at]) in FLOATS + COMPLEX):
                continue
            program.add(step, more, values)
        return program


class Program:
    """Steps over inputs. Every value has a number: inputs and results as they come."""

    def __init__(self, inputs):
        self.inputs, self.steps, self.places = list(inputs), [], []

    def add(self, step, more, values):
        """Runs a step on the values so far, compares it with NumPy, and keeps it."""
        numbers = []
        for t in more:
            self.places.append(len(self.inputs))
            self.inputs.append(t)
        for i in step.inputs:
            numbers.append(("input", len(self.inputs) + i) if i < 0 else ("value", i))
        step.numbers = numbers
        operands = [self.inputs[k] if kind == "input" else values[k] for kind, k in numbers]
        results = listed(step.ours(*operands))
        arrays = [array(t) for t in operands]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = listed(step.theirs(*arrays))
            scale = None if step.scale is None else step.scale(*arrays)
        if len(results) != len(wanted):
            raise Fault(f"{self.text()}{step.name}: {len(results)} results instead of {len(wanted)}")
        for k, (t, w) in enumerate(zip(results, wanted)):
            what = f"{self.text()}{step.name} result {k} of {[describe(t) for t in operands]}"
            check(what, t, w, scale if np.ndim(scale) == 0 or np.shape(scale) == np.shape(w) else np.max(scale, initial=0.0), step.ulps)
        self.steps.append(step)
        values.extend(results)

    def text(self):
        return " ".join(s.name for s in self.steps) + (" then " if self.steps else "")

    def is_tame(self, x, own):
        """Whether every float on the way from `x` is a number, not at the end of a domain."""
        values = [x]
        for step in self.steps:
            operands = [own[k] if kind == "input" else values[k] for kind, k in step.numbers]
            values.extend(listed(step.ours(*operands)))
        return all(np.isfinite(array(v)).all() for v in values if name_of(v) in ("float64", "complex128"))

    def run(self, *inputs, first=1):
        """The last results, on other inputs; operands of later steps may be left to be the program's own."""
        own = list(inputs) + self.inputs[len(inputs) :]
        values = list(own[:first])
        for step in self.steps:
            operands = [own[k] if kind == "input" else values[k] for kind, k in step.numbers]
            values.extend(listed(step.ours(*operands)))
        return values[-3:]

    # Faces.

    def is_static(self):
        return not any(s.dynamic for s in self.steps)

    def faces(self, draw):
        if not self.steps:
            return
        lazy = self.run(*self.inputs)
        eager = []
        values = [self.inputs[0]]
        for step in self.steps:
            operands = [self.inputs[k] if kind == "input" else values[k] for kind, k in step.numbers]
            results = listed(step.ours(*operands))
            for t in results:
                t.numpy() if name_of(t) != "bfloat16" else t.astype("float32").numpy()
            values.extend(results)
        eager = values[-3:]
        self.same("lazy", lazy, eager)
        if not self.is_static():
            return
        self.same("jit", tw.jit(lambda *x: self.run(*x))(*self.inputs), eager)
        other = xp.flip(self.inputs[0]) if self.inputs[0].ndim else self.inputs[0]
        batch = [tw.stack([self.inputs[0], other], axis=0)]
        got = tw.vmap(lambda x: self.run(x))(*batch)
        want = [self.run(self.inputs[0]), self.run(other)]
        self.same("vmap", [g[0] for g in got], want[0])
        self.same("vmap", [g[1] for g in got], want[1])

    def same(self, what, got, want):
        for g, w in zip(got, want):
            a = array(w)
            if name_of(g) != name_of(w):
                raise Fault(f"{self.text()} {what}: {name_of(g)} instead of {name_of(w)}")
            finite = np.where(np.isfinite(a), np.abs(a), 0.0) if a.dtype.kind in "fc" else None
            check(f"{self.text()} {what}", g, a, None if finite is None else np.max(finite, initial=0.0), ULPS_FACE)

    def gradient(self, draw):
        """Gradients in f64 against finite differences, `jit` of them and `backward`."""
        kind = name_of(self.inputs[0])
        if kind not in FLOATS + COMPLEX or not all(s.smooth for s in self.steps) or not self.is_static():
            return False
        wide = "complex128" if kind in COMPLEX else "float64"
        x = self.inputs[0].astype(wide)
        if not np.isfinite(array(x)).all() or x.size == 0:
            return False
        widest = dict.fromkeys(FLOATS, "float64") | dict.fromkeys(COMPLEX, "complex128")
        own = [t.astype(widest[name_of(t)]) if name_of(t) in widest else t for t in self.inputs]

        def loss(x):
            total = tw.zeros((), dtype="float64")
            program = Program(own)
            program.steps = self.steps
            for k, y in enumerate(program.run(x, first=1)):
                if name_of(y) in ("float64", "complex128"):
                    parts = [y] if name_of(y) == "float64" else [y.real, y.imag]
                    for p in parts:
                        total = total + (p * tw.cos(tw.arange(p.size, dtype="float64").reshape(p.shape) + k)).sum()
            return total

        direction = np.cos(np.arange(x.size) * 1.3 + 0.4).reshape(x.shape)
        direction = direction + (1j * np.sin(np.arange(x.size) * 0.7 + 0.2).reshape(x.shape) if kind in COMPLEX else 0)
        step = tw.tensor(direction).astype(wide)
        at = lambda h: float(loss(x + step * h))
        with np.errstate(all="ignore"):
            slopes = [(at(h) - at(-h)) / (2 * h) for h in (1e-5, 2e-5)]
        size = abs(at(0.0))
        if not np.isfinite(slopes).all() or abs(slopes[0] - slopes[1]) > 1e-5 * (abs(slopes[0]) + size + 1):
            return False
        # A slope beyond a domain is NaN even where nothing depends on the value, as in PyTorch.
        if not self.is_tame(x, own):
            return False
        g = tw.grad(loss)(x)
        a = array(g)
        slope = float(np.sum(a.real * direction.real + (a.imag * direction.imag if kind in COMPLEX else 0)))
        if not abs(slope - slopes[0]) <= 1e-4 * (abs(slopes[0]) + size + 1):
            raise Fault(f"{self.text()} grad: slope {slope} instead of {slopes[0]} ({wide})")
        self.same("jit of grad", [tw.jit(tw.grad(loss))(x)], [g])
        leaf = tw.tensor(array(x)).astype(wide).requires_grad_()
        try:
            loss(leaf).backward()
        except tw.GradientError:
            # Nothing that is left depends on it.
            if np.any(a):
                raise
            return True
        if leaf.grad is not None:
            self.same("backward", [leaf.grad], [g])
        elif np.any(a):
            raise Fault(f"{self.text()} backward: no gradient")
        return True


def draws(draw):
    """Random numbers: a seed says them all, in every face, iteration and example."""
    n, k = draw.choice([2, 3, 5]), draw.choice([2, 7])
    kind = draw.choice(FLOATS)
    ways = {
        "rand": lambda: tw.rand(k, dtype=kind),
        "randn": lambda: tw.randn(k, dtype=kind),
        "randint": lambda: tw.random.permutation(40)[:k],
        "dropout": lambda: tw.nn.functional.dropout(tw.ones(40, dtype=kind), 0.5),
    }
    name = draw.choice(sorted(ways))
    f = ways[name]
    loops = {
        "scan": lambda: tw.scan(lambda c, _: (c, f()), tw.zeros(()), None, length=n)[1],
        "vmap": lambda: tw.vmap(lambda x: f(), randomness="different")(tw.zeros(n)),
        "vmap of scan": lambda: tw.vmap(lambda x: tw.scan(lambda c, _: (c, f()), x, None, length=2)[1], randomness="different")(tw.zeros(n)).reshape((2 * n, -1)),
        "scan of vmap": lambda: tw.scan(lambda c, _: (c, tw.vmap(lambda x: f(), randomness="different")(tw.zeros(2))), tw.zeros(()), None, length=n)[1].reshape((2 * n, -1)),
    }
    way = draw.choice(sorted(loops))
    seed = draw.randrange(2**32)

    def run(g):
        tw.manual_seed(seed)
        return array(g())

    one = run(loops[way])
    if not np.array_equal(one, run(loops[way])):
        raise Fault(f"{name} in {way}: the same seed draws other numbers")
    if not np.array_equal(one, run(tw.jit(loops[way]))):
        raise Fault(f"{name} in {way}: jit draws other numbers")
    if len({r.tobytes() for r in one}) < len(one) and (k > 2 or name == "dropout"):
        raise Fault(f"{name} in {way}: rows repeat: {one}")
    if name == "rand" and not ((one >= 0) & (one < 1)).all():
        raise Fault(f"rand in {kind} leaves [0, 1)")
    # What is linear in x has its mask as gradient, whatever the loop does with it.
    x = tw.ones(40, dtype="float32")

    def total(x):
        return tw.scan(lambda c, _: (c + tw.nn.functional.dropout(x, 0.5), None), x * 0.0, None, length=n)[0]

    tw.manual_seed(seed)
    y = total(x)
    tw.manual_seed(seed)
    g = tw.grad(lambda x: total(x).sum())(x)
    if not np.array_equal(array(y), array(g)):
        raise Fault("the gradient of dropout in a scan has other masks than the scan")


def listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def describe(t):
    return f"{name_of(t)}{t.shape}"


def against_torch(maker):
    """The gradient of one elementwise op against PyTorch's, at ordinary points and kinks alike."""
    import torch

    name, (ours, theirs, kinds, _, _) = maker.draw.choice(sorted(UNARY.items()))
    f = getattr(torch, {"neg": "neg", "conj": "conj"}.get(name, name), None)
    if "float64" not in kinds or f is None or name in ("isnan", "isinf", "isfinite", "logical_not", "nan_to_num"):
        return
    x = maker.rng.choice([-2.0, -1.0, -0.5, 0.0, 0.3, 0.7, 1.0, 2.5], (5,))
    t = torch.tensor(x, requires_grad=True)
    f(t).sum().backward()
    g = array(tw.grad(lambda x: ours(x).sum())(tw.tensor(x)))
    want = t.grad.numpy()
    if not np.allclose(g, want, rtol=1e-9, atol=1e-12, equal_nan=True):
        raise Fault(f"gradient of {name} at {x}: {g} instead of PyTorch's {want}")


def one(seed, torch=False):
    """One program in all its faces; raises Fault. Returns whether a gradient was checked."""
    maker = Maker(seed)
    if maker.draw.random() < 0.03:
        draws(maker.draw)
        return False
    if torch and maker.draw.random() < 0.1:
        against_torch(maker)
        return False
    program = maker.program()
    program.faces(maker.draw)
    return program.gradient(maker.draw)


def campaign(programs, first, torch=False, faults_max=20, report=None):
    """Runs programs; the faults found, each with its seed, and how many gradients were checked."""
    faults, gradients = [], 0
    for k in range(programs):
        try:
            gradients += bool(one(first + k, torch))
        except Fault as e:
            faults.append((first + k, str(e)))
        except Exception as e:
            faults.append((first + k, f"{type(e).__name__}: {e}\n{traceback.format_exc(limit=-3)}"))
        if report and faults and faults[-1][0] == first + k:
            report(faults[-1])
        if len(faults) >= faults_max:
            break
    return faults, gradients


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--programs", type=int, default=1000)
    p.add_argument("--seed", type=int, default=0, help="the programs are those of seed, seed + 1, …")
    p.add_argument("--torch", action="store_true", help="also compare gradients with PyTorch's")
    p.add_argument("--faults", type=int, default=20, help="stop after so many")
    args = p.parse_args()
    since = time.monotonic()
    faults, gradients = campaign(args.programs, args.seed, args.torch, args.faults, lambda f: print(f"seed {f[0]}: {f[1]}", flush=True))
    print(f"{args.programs} programs from seed {args.seed}, {gradients} gradients, {len(faults)} faults, {time.monotonic() - since:.0f} s")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
