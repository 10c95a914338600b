"""Convolutions beside PyTorch's in one run: forward and both gradients, taking turns.

    cargo build --release -p talweg-cpu --example kernels
    python scripts/bench_conv.py target/release/examples/kernels [FILTER ...]

Times the convolutions of the example `kernels` whose names contain a filter (all of them without one), then the
same ones in PyTorch, `--rounds` times over, and prints a table of the least times of both. PyTorch's input is
contiguous, its gradients are those of `torch.nn.grad`. `--threads` is for both.
"""

import argparse
import os
import re
import subprocess
import time

import torch

NAME = re.compile(r"(conv (\d+)x(\d+)->(\d+) (\d+)x\d+ k(\d+)/(\d+) g(\d+))(| dx| dw) +([\d.]+) ms")


def ours(args):
    """Name without what is computed, the sizes, what is computed, milliseconds."""
    env = dict(os.environ, TALWEG_THREADS=str(args.threads))
    out = subprocess.run([args.kernels, *args.filters], check=True, env=env, capture_output=True, text=True).stdout
    for line in out.splitlines():
        if m := NAME.match(line):
            yield m[1], tuple(int(m[i]) for i in range(2, 9)), m[9].strip() or "y", float(m[10])


def least(f):
    """Milliseconds of the fastest of many calls, within about half a second."""
    f()
    best, start, runs = float("inf"), time.perf_counter(), 0
    while runs < 5 or time.perf_counter() - start < 0.6:
        t = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - t)
        runs += 1
    return best * 1e3


def theirs(sizes, what):
    """The same in PyTorch."""
    batch, channels, outputs, size, k, stride, groups = sizes
    x = torch.rand(batch, channels, size, size)
    w = torch.rand(outputs, channels // groups, k, k)
    options = dict(stride=stride, padding=k // 2, groups=groups)
    dy = torch.ones_like(torch.nn.functional.conv2d(x, w, **options))
    return least({
        "y": lambda: torch.nn.functional.conv2d(x, w, **options),
        "dx": lambda: torch.nn.grad.conv2d_input(x.shape, w, dy, **options),
        "dw": lambda: torch.nn.grad.conv2d_weight(x, w.shape, dy, **options),
    }[what])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernels", help="the example, built")
    p.add_argument("filters", nargs="*", help="parts of names; all convolutions without")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=2)
    args = p.parse_args()
    args.filters = args.filters or ["conv "]
    torch.set_num_threads(args.threads)
    times = {}
    with torch.inference_mode():
        for _ in range(args.rounds):
            mine = list(ours(args))
            for name, sizes, what, ms in mine:
                row = times.setdefault((name, what), [ms, float("inf")])
                row[0], row[1] = min(row[0], ms), min(row[1], theirs(sizes, what))
    print(f"PyTorch {torch.__version__}, {args.threads} threads\n")
    print("| convolution | of | PyTorch, ms | Talweg, ms | ratio |\n|---|---|---:|---:|---:|")
    for (name, what), (mine, torch_ms) in times.items():
        print(f"| {name.removeprefix('conv ')} | {what} | {torch_ms:.3f} | {mine:.3f} | {torch_ms / mine:.2f} |")


if __name__ == "__main__":
    main()
