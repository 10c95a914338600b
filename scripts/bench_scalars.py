"""Elementwise ops beside PyTorch in one run, one thread: elements a nanosecond.

    OMP_NUM_THREADS=1 TALWEG_THREADS=1 python scripts/bench_scalars.py [f32|f64] [op…]
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TALWEG_THREADS", "1")

import numpy as np
import torch

import talweg as tw

N = 1 << 17
UNARY = {
    "sinh": (-5, 5), "cosh": (-5, 5), "asin": (-1, 1), "acos": (-1, 1), "atan": (-5, 5), "asinh": (-50, 50),
    "acosh": (1, 50), "atanh": (-1, 1), "log10": (0, 100), "lgamma": (-5, 20), "digamma": (0, 20),
    "erfinv": (-1, 1), "erfcx": (-2, 20), "i0": (-20, 20), "i1": (-20, 20),
}
BINARY = ["atan2", "hypot", "fmod", "remainder", "floor_divide", "fmax", "fmin", "copysign"]


def torch_op(name):
    return getattr(torch.special, name, None) if name in ("erfcx", "i1") else getattr(torch, name)


def talweg_op(name):
    return getattr(tw, name)


def best(f):
    f()
    times = []
    end = time.perf_counter() + 0.4
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    dtype = sys.argv[1] if len(sys.argv) > 1 else "f32"
    only = sys.argv[2:]
    kind = np.float32 if dtype == "f32" else np.float64
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    print(f"| op ({dtype}) | Talweg, elements/ns | PyTorch | ratio |\n|---|---:|---:|---:|")
    for name in [*UNARY, "polygamma", *BINARY]:
        if only and name not in only:
            continue
        low, high = UNARY.get(name, (-10, 10) if name != "polygamma" else (0.1, 20))
        a, b = rng.uniform(low, high, N).astype(kind), rng.uniform(0.1, 10, N).astype(kind)
        ta, tb = torch.from_numpy(a), torch.from_numpy(b)
        wa, wb = tw.tensor(a), tw.tensor(b)
        if name == "polygamma":
            ours = tw.jit(lambda x: tw.polygamma(2, x))
            theirs = lambda: torch.polygamma(2, ta)
            args = (wa,)
        elif name in BINARY:
            ours = tw.jit(lambda x, y: talweg_op(name)(x, y))
            theirs = lambda: torch_op(name)(ta, tb)
            args = (wa, wb)
        else:
            ours = tw.jit(lambda x: talweg_op(name)(x))
            theirs = lambda: torch_op(name)(ta)
            args = (wa,)
        mine, other = best(lambda: ours(*args)), best(theirs)
        print(f"| `{name}` | {N / mine / 1e9:.2f} | {N / other / 1e9:.2f} | {other / mine:.1f} |", flush=True)


if __name__ == "__main__":
    main()
