#!/usr/bin/env python3
"""What `talweg plan` predicts beside what runs measure: time of a step and memory of the fullest rank.

    cargo build --release -p talweg --bins --example mesh
    python3 scripts/bench_plan.py target/release --out plan.csv

Every run is a mesh of processes on this machine, each with its share of the cores, over each kind of link: shared memory,
and sockets. The machine is measured once for each kind of link. Prints the errors, how many pairs of plans are ordered
right, and how far the plan that the prediction prefers is from the fastest. Needs nothing but Python.
"""
import argparse
import csv
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# layers, width, heads, words, length, batch
SIZES = {"tiny": "2,128,4,500,64,16", "small": "4,256,8,1000,128,8", "wide": "2,512,8,4000,128,8"}
LINKS = {"memory": {"TALWEG_LINK": "memory"}, "socket": {"TALWEG_LINK": "socket"}}
# Ranks stand for N.
STRATEGIES = [
    ("data=N", "data"),
    ("data=N", "data,zero=1"),
    ("data=N", "data,zero=2"),
    ("data=N", "fsdp"),
    ("tensor=N", "megatron"),
    ("pipe=N", "data,microbatches=8,schedule=1f1b"),
    ("context=N", "data"),
]


def run(words, env, timeout=600):
    done = subprocess.run(words, env=dict(os.environ, **env), capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def measured(args, mesh, plan, env):
    """Median of the rounds of the median step in milliseconds, and the greatest peak in megabytes."""
    words = [args.talweg, "launch", "--progress", "0", "--mesh", mesh, "--plan", plan, args.program]
    steps, peaks = [], []
    for _ in range(args.rounds):
        found = re.findall(r"median step ([\d.]+) ms, peak of memory ([\d.]+) MB", run(words, env))
        steps.append(max(float(t) for t, _ in found))
        peaks.append(max(float(m) for _, m in found))
    return statistics.median(steps), max(peaks)


def predicted(args, mesh, plan, cluster, env):
    """Milliseconds and megabytes of exactly this plan."""
    words = [args.talweg, "plan", "--mesh", mesh, "--plan", plan, "--cluster", cluster, "--top", "100", args.program]
    rows = [line.split(None, 6) for line in run(words, env).splitlines() if "--mesh" in line]
    zero = 3 if plan.startswith("fsdp") else int((re.search(r"zero=(\d)", plan) or [0, 0])[1])
    fits = [r for r in rows if (f"zero={zero}" in r[6] if zero else "zero" not in r[6]) and "recompute" not in r[6]]
    if not fits:
        sys.exit(f"{mesh} {plan}: no such plan among\n" + "\n".join(r[6] for r in rows))
    return float(fits[0][0]), float(fits[0][1])


def report(rows):
    def errors(what):
        return [r[f"predicted_{what}"] / r[f"measured_{what}"] - 1 for r in rows]

    for what in ("ms", "mb"):
        e = [abs(x) for x in errors(what)]
        print(f"{what}: {len(e)} runs, mean error {100 * statistics.mean(e):.1f} %, worst {100 * max(e):.1f} %")
    right = pairs = 0
    worst = 0.0
    for _, group in itertools.groupby(rows, key=lambda r: (r["link"], r["size"])):
        group = list(group)
        for a, b in itertools.combinations(group, 2):
            # Plans that differ by less than the noise have no order.
            if abs(a["measured_ms"] / b["measured_ms"] - 1) > 0.03:
                pairs += 1
                right += (a["measured_ms"] < b["measured_ms"]) == (a["predicted_ms"] < b["predicted_ms"])
        chosen = min(group, key=lambda r: r["predicted_ms"])
        worst = max(worst, chosen["measured_ms"] / min(r["measured_ms"] for r in group) - 1)
    print(f"pairs ordered right: {right} of {pairs}; the chosen plan is at most {100 * worst:.1f} % from the fastest")


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("folder", help="where talweg and examples/mesh are")
    args.add_argument("--ranks", type=int, default=2)
    args.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--steps", type=int, default=14)
    args.add_argument("--sizes", default=",".join(SIZES))
    args.add_argument("--links", default=",".join(LINKS))
    args.add_argument("--only", default="", help="strategies whose mesh and plan contain this")
    args.add_argument("--out", help="a CSV file")
    args = args.parse_args()
    args.talweg, args.program = (str(Path(args.folder) / p) for p in ("talweg", "examples/mesh"))
    threads = str(max(args.cores // args.ranks, 1))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for link in args.links.split(","):
            cluster = f"{folder}/{link}.toml"
            alone = dict(LINKS[link], GPT=SIZES["tiny"], STEPS="1", TALWEG_THREADS=str(args.cores))
            run([args.talweg, "plan", "--mesh", "1", "--save-cluster", cluster, args.program], alone)
            print(Path(cluster).read_text(), flush=True)
            for size in args.sizes.split(","):
                env = dict(LINKS[link], GPT=SIZES[size], STEPS=str(args.steps), MEASURE="1", TALWEG_THREADS=threads)
                for mesh, plan in STRATEGIES:
                    mesh = mesh.replace("N", str(args.ranks))
                    if args.only not in f"{mesh} {plan}":
                        continue
                    ms, mb = measured(args, mesh, plan, env)
                    guess_ms, guess_mb = predicted(args, mesh, plan, cluster, dict(env, STEPS="1"))
                    row = dict(cores=args.cores, link=link, size=size, mesh=mesh, plan=plan, predicted_ms=guess_ms)
                    row.update(measured_ms=ms, predicted_mb=guess_mb, measured_mb=mb)
                    rows.append(row)
                    error = 100 * (guess_ms / ms - 1)
                    print(f"{link:7} {size:6} {mesh:10} {plan:34} {guess_ms:9.2f} {ms:9.2f} ms {error:+6.1f} % "
                          f"{guess_mb:7.1f} {mb:7.1f} MB {100 * (guess_mb / mb - 1):+6.1f} %", flush=True)
    if args.out:
        with open(args.out, "w", newline="") as f:
            writer = csv.DictWriter(f, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    report(rows)


main()
