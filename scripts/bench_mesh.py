#!/usr/bin/env python3
"""Steps of a small GPT on a mesh of two one-thread ranks beside one process with two threads: time and memory.

    cargo build --release -p talweg --bins
    python3 scripts/bench_mesh.py target/release/talweg --rounds 3

Runs alternate, so that what else the machine does meets both. Time is the median step; the ratio is that of medians over
all rounds. Memory is the peak of the resident set of the fullest rank above its size before the model was made, beside
what `talweg plan` predicts for it. Not counted are pages of files, memory that is shared between processes, and what the
same step with next to no numbers takes: code, rings and graphs are no part of the prediction.
"""
import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

SIZES = {"small": (4, 256, 8, 1000, 128, 8), "large": (4, 512, 8, 8000, 128, 8), "tiny": (2, 32, 4, 23, 16, 8)}
# The same step with next to no numbers.
NOTHING = (16, 4, 16, 16, 8)
STRATEGIES = [
    ("data=2", "data"),
    ("data=2", "data,zero=1"),
    ("data=2", "data,zero=2"),
    ("data=2", "fsdp"),
    ("tensor=2", "megatron"),
    ("pipe=2", "data,microbatches=8"),
    ("pipe=2", "data,microbatches=8,schedule=zb-h1"),
    ("context=2", "data"),
]


def resident(what):
    """Megabytes of this process that are its own."""
    with open("/proc/self/status") as f:
        text = f.read()
    of = lambda what: int(re.search(rf"{what}:\s+(\d+)", text)[1]) * 1024 / 1e6
    return of(what) - of("RssFile") - of("RssShmem")


def job():
    """The program of each rank."""
    import talweg as tw
    from talweg import nn

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/examples"))
    import mesh

    layers, *sizes = SIZES[os.environ["SIZE"]]
    if "BENCH_NOTHING" in os.environ:
        sizes = NOTHING
    mesh.WIDTH, mesh.HEADS, mesh.WORDS, mesh.LENGTH, mesh.BATCH = sizes
    (tw.ones(64, 64) @ tw.ones(64, 64)).sum().item()
    before = resident("VmRSS")
    tw.manual_seed(0)
    model = mesh.Gpt()
    model.blocks = nn.ModuleList(mesh.Block(mesh.Feed) for _ in range(layers))
    optimizer = tw.optim.Adam(model.parameters(), lr=1e-3)

    @tw.jit
    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = mesh.batch("gpt")
    times = []
    for _ in range(int(os.environ["STEPS"])):
        start = time.perf_counter()
        step(x, y).item()
        times.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(times[2:])
    print(f"measured {median:.3f} ms {resident('VmHWM') - before:.2f} MB", flush=True)


def run(args, words, threads, **more):
    """Median step and greatest peak of a run."""
    env = dict(os.environ, BENCH_JOB="1", SIZE=args.size, STEPS=str(args.steps), TALWEG_THREADS=str(threads), **more)
    done = subprocess.run([*words, __file__], env=env, capture_output=True, text=True, timeout=300)
    found = re.findall(r"measured ([\d.]+) ms ([\d.]+) MB", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{words}:\n{done.stdout}{done.stderr}")
    return max(float(t) for t, _ in found), max(float(m) for _, m in found)


def planned(args, mesh, plan, **more):
    """Megabytes of the fullest rank and of its state, as `talweg plan` predicts them."""
    words = [args.talweg, "plan", "--mesh", mesh, "--plan", plan, "--cluster", "h100", "--top", "100", __file__]
    env = dict(os.environ, BENCH_JOB="1", SIZE=args.size, STEPS="1", TALWEG_THREADS="1", **more)
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    zero = re.search(r"zero=(\d)", plan)
    stage = 3 if plan == "fsdp" else int(zero[1]) if zero else 0
    rows = [line.split(None, 6) for line in done.stdout.splitlines() if "--mesh" in line]
    fits = [r for r in rows if (f"zero={stage}" in r[6] if stage else "zero" not in r[6]) and "recompute" not in r[6]]
    if "pipe" in mesh:
        schedule = (re.search(r"schedule=([\w-]+)", plan) or [0, "1f1b"])[1]
        fits = [r for r in fits if "schedule" not in r[6] or schedule in r[6]]
    return (float(fits[0][1]), float(fits[0][2])) if fits else (float("nan"), float("nan"))


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("talweg")
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--steps", type=int, default=12)
    args.add_argument("--size", default="small", choices=SIZES)
    args.add_argument("--only", default="", help="strategies whose mesh and plan contain this")
    args.add_argument("--without", default="", help="leave out strategies whose mesh contains this")
    args = args.parse_args()
    print("mesh       plan                                ms/step    alone    ratio  MB/rank  planned    state")
    for mesh, plan in STRATEGIES:
        if args.only not in f"{mesh} {plan}" or args.without and args.without in mesh:
            continue
        launch = [args.talweg, "launch", "--progress", "0", "--mesh", mesh, "--plan", plan]
        rounds = [(run(args, launch, 1), run(args, [sys.executable], 2)) for _ in range(args.rounds)]
        ours, alone = (statistics.median(r[i][0] for r in rounds) for i in (0, 1))
        bare = dict(BENCH_NOTHING="1")
        least = planned(args, mesh, plan, **bare)[0]
        # Without a prediction it is all counted as overhead, which is little.
        overhead = run(args, launch, 1, **bare)[1] - (0.0 if math.isnan(least) else least)
        peak = max(r[0][1] for r in rounds) - overhead
        bytes_, state = planned(args, mesh, plan)
        print(f"{mesh:10} {plan:34} {ours:8.2f} {alone:8.2f} {ours / alone:8.3f} {peak:8.1f} {bytes_:8.1f} {state:8.1f}", flush=True)


if "BENCH_JOB" in os.environ:
    job()
else:
    main()
