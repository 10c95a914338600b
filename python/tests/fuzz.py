"""Calls everything with anything, for a while: nothing but ordinary exceptions may come of it. Run by test_robust.py in a
process of its own: `python fuzz.py SEED SECONDS FILE`; the file names the call under way, should the process die of it."""

import inspect
import os
import random
import signal
import sys
import threading
import time

# A job in the background ignores Ctrl-C, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np

import talweg as tw
from talweg import nn

# These write files, change how Python treats signals, or may rightly run for ever.
EXCLUDED = {"save", "load", "while_loop", "fashion_mnist", "set_package", "fori_loop", "scan", "backward"}
SIZES = [0, 1, 2, 3, 5]
HUGE = [2**40, 2**62, -(2**63), 10**30]
SECONDS_MAX = 1.0
KINDS = ["float32", "float64", "int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool", "float16", "bfloat16", "complex64", "complex128"]


class Odd:
    """Claims to be many things."""

    __array_interface__ = {"shape": (2**40,), "typestr": "<f4", "data": (0, False), "version": 3}

    def __index__(self):
        raise RuntimeError("no index")

    def __iter__(self):
        return iter([1, "two", None])

    def __len__(self):
        return 2**40


def tensor(draw):
    shape = [draw.choice(SIZES) for _ in range(draw.choice([0, 1, 1, 2, 2, 2, 3, 4]))]
    kind = draw.choice(KINDS[:3] if draw.random() < 0.7 else KINDS)
    t = (tw.randn(shape) * 3).astype(kind) if draw.random() < 0.8 else tw.zeros(shape).astype(kind)
    if kind.startswith("f") and draw.random() < 0.1:
        t = t / 0.0
    return t


def anything(draw, depth=0):
    """A tensor, most of the time, or whatever else."""
    roll = draw.random()
    if roll < 0.45:
        return tensor(draw)
    choices = [
        lambda: draw.choice([-2, -1, 0, 1, 2, 3, 4]),
        lambda: draw.choice([-2, -1, 0, 1, 2, 3, 4]),
        lambda: draw.choice(HUGE),
        lambda: draw.choice([0.0, -1.5, 0.5, float("nan"), float("inf"), 1e300]),
        lambda: draw.choice([True, False, None]),
        lambda: draw.choice(["mean", "sum", "none", "constant", "ij->ji", "float32", "", "é" * 50, "same", "L"]),
        lambda: [anything(draw, depth + 1) for _ in range(draw.choice(SIZES))] if depth < 2 else 1,
        lambda: tuple(draw.choice([0, 1, 2, 3, -1]) for _ in range(draw.choice(SIZES))),
        lambda: np.ones([draw.choice(SIZES) for _ in range(draw.choice([0, 1, 2]))], draw.choice(["f4", "i8", "c8", "U3", "O"])),
        lambda: draw.choice([Odd(), object(), Odd, lambda *a: a, b"bytes", {1: 2}, slice(None), ...]),
        lambda: draw.choice([tw.float32, tw.bool, nn.Linear(2, 2), tw.placeholder("float32", [2])]),
    ]
    return draw.choice(choices)()


def targets():
    """Every function and class, and every method of tensors, by name."""
    out = {}
    for prefix, where in [
        ("tw", tw),
        ("tw.linalg", tw.linalg),
        ("tw.fft", tw.fft),
        ("tw.random", tw.random),
        ("tw.nn", nn),
        ("tw.nn.functional", nn.functional),
        ("tw.nn.init", nn.init),
        ("tw.optim", tw.optim),
        ("tw.metrics", tw.metrics),
        ("tw.utils.data", tw.utils.data),
        ("tw._native", tw._native),
    ]:
        for name in dir(where):
            value = getattr(where, name)
            if not name.startswith("__") and name not in EXCLUDED and callable(value) and name != "Checkpoints" and name != "Records":
                out[f"{prefix}.{name}"] = value
    for name in dir(tw.Tensor):
        if name not in EXCLUDED and not name.startswith(("__init", "__new", "__class", "__sub", "__get", "__set", "__del")):
            out[f"Tensor.{name}"] = getattr(tw.Tensor, name)
    out["Tensor.__getitem__"] = tw.Tensor.__getitem__
    out["Tensor.__setitem__"] = tw.Tensor.__setitem__
    return out


def look(value, depth=0):
    """Makes lazy results come true."""
    if isinstance(value, tw.Tensor):
        if not value.is_symbolic and value.size < 10**6:
            repr(value)
            value.numpy()
    elif isinstance(value, (list, tuple)) and depth < 3 and len(value) < 100:
        for v in value:
            look(v, depth + 1)
    elif isinstance(value, nn.Module):
        repr(value)
        look(value(tw.ones(2, 2)))


class Call:
    """The call under way; one that takes long is ended by Ctrl-C, as a person would."""

    def __init__(self):
        self.since = None
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            time.sleep(0.2)
            if self.since is not None and time.monotonic() - self.since > SECONDS_MAX:
                os.kill(os.getpid(), signal.SIGINT)


def one(name, f, draw, log):
    """Calls a function with anything; true if it went well."""
    try:
        count = len(inspect.signature(f).parameters) if draw.random() < 0.8 else draw.choice(SIZES)
    except (TypeError, ValueError):
        count = draw.choice([1, 2, 3])
    args = []
    try:
        args = [anything(draw) for _ in range(min(count, 8))]
        if name.startswith("Tensor.") and args and draw.random() < 0.9:
            args[0] = tensor(draw)
        log.seek(0)
        log.truncate()
        log.write(f"{name} {[describe(a) for a in args]}\n")
        log.flush()
        look(f(*args))
        return True
    except tw.InternalError as e:
        print("a mistake of ours:", name, [describe(a) for a in args], e)
        os._exit(3)
    except Exception:
        return False


def main(seed, seconds, path):
    draw = random.Random(seed)
    tw.manual_seed(seed)
    everything = targets()
    names = sorted(everything)
    end = time.monotonic() + seconds
    calls = good = 0
    call = Call()
    with open(path, "w") as log:
        while time.monotonic() < end:
            try:
                name = draw.choice(names)
                calls += 1
                call.since = time.monotonic()
                good += one(name, everything[name], draw, log)
            except KeyboardInterrupt:
                pass
            finally:
                call.since = None
    print(f"{calls} calls, {good} of them fine")


def describe(a):
    return f"{a.dtype.name}{a.shape}" if isinstance(a, tw.Tensor) else repr(a)[:80]


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
