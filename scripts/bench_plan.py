#!/usr/bin/env python3
"""What `talweg plan` predicts beside what runs measure: time of a step and memory of the fullest rank.

    cargo build --release -p talweg --bins --example mesh
    python3 scripts/bench_plan.py target/release --out plan.csv

Every run is a mesh of processes on this machine, each with its share of the cores, over each kind of link: shared memory,
and sockets. The machine is measured once for each kind of link. Prints the errors, how many pairs of plans are ordered
right, and how far the plan that the prediction prefers is from the fastest. Needs nothing but Python.

Memory is the peak of the resident set above its size before the model was made, less that of the same step with next to
no numbers: code, graphs and stacks are no part of the prediction. With --out, rows are added to those of the file, and
the errors are those of all of them; so it can be run in pieces.

--one-rank CLUSTER predicts programs of single ranks on the device at hand (TALWEG_DEVICE=cuda) instead, from regions that
were measured in a model of 4 layers, and runs them with exchanges that nobody answers. CLUSTER is a file as
crates/sim/clusters/h200.toml: its roofline is for regions that the small model does not have.
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
# The same steps with next to no numbers.
NOTHING = {2: "2,16,4,16,16,8", 4: "4,16,8,16,16,8"}
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


def read(path):
    """Rows of an earlier run."""
    if not path or not Path(path).exists():
        return []
    with open(path, newline="") as f:
        number = lambda k, v: float(v) if k.endswith(("_ms", "_mb")) else v
        return [{k: number(k, v) for k, v in row.items()} for row in csv.DictReader(f)]


# Layers, mesh, rows of the batch for the models that are predicted; those of 4 layers are measured before.
DEEP = [(8, "data=4", 32), (8, "data=2,tensor=2", 16), (8, "tensor=4", 8), (12, "data=8", 64), (12, "data=4,tensor=2", 32)]
SEEN = [(4, "data=4", 32), (4, "data=2,tensor=2", 16), (4, "tensor=4", 8)]


def one_rank(args):
    """Predicted and measured steps of one rank."""
    text = Path(args.one_rank).read_text()
    with tempfile.TemporaryDirectory() as folder:
        cluster, table, seen = Path(folder, "measured.toml"), Path(folder, "table.toml"), {}
        cluster.write_text(text.replace("[device]", "[device]\nmeasured = true", 1))

        def plans(layers, mesh, batch, cluster, *more):
            env = dict(GPT=f"{layers},1024,16,8000,256,{batch}", STEPS="1")
            plan = "megatron" if "tensor" in mesh else "data"
            words = ["plan", "--mesh", mesh, "--plan", plan, "--cluster", cluster, "--top", "100", *more]
            lines = run([args.talweg, *words, args.program], env).splitlines()
            return {line.split(None, 6)[6]: float(line.split()[0]) for line in lines if "--mesh" in line}

        for layers, mesh, batch in SEEN:
            saved = Path(folder, "saved.toml")
            plans(layers, mesh, batch, cluster, "--save-cluster", saved)
            for line in saved.read_text().split("[kernels]")[1].splitlines():
                if line:
                    seen.setdefault(line.rsplit(" = ", 1)[0], []).append(float(line.rsplit(" = ", 1)[1]))
        known = "".join(f"{what} = {statistics.median(all)}\n" for what, all in seen.items())
        table.write_text(f"{text}\n[kernels]\n{known}")
        errors = []
        for layers, mesh, batch in DEEP:
            real, guess = plans(layers, mesh, batch, cluster), plans(layers, mesh, batch, table)
            for plan in real:
                errors.append(guess[plan] / real[plan] - 1)
                print(f"{layers} layers {plan:48} {guess[plan]:9.3f} {real[plan]:9.3f} ms {100 * errors[-1]:+6.1f} %",
                      flush=True)
    absolute = [abs(e) for e in errors]
    print(f"{len(errors)} programs, mean error {100 * statistics.mean(absolute):.1f} %, worst {100 * max(absolute):.1f} %")


def report(rows):
    def errors(what):
        return [r[f"predicted_{what}"] / r[f"measured_{what}"] - 1 for r in rows]

    for what in ("ms", "mb"):
        e = [abs(x) for x in errors(what)]
        print(f"{what}: {len(e)} runs, mean error {100 * statistics.mean(e):.1f} %, worst {100 * max(e):.1f} %")
    right = pairs = 0
    worst = 0.0
    place = lambda r: (r["link"], r["size"])
    for _, group in itertools.groupby(sorted(rows, key=place), key=place):
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
    args.add_argument("--clusters", help="a folder that keeps what was measured of the machine")
    args.add_argument("--one-rank", metavar="CLUSTER", help="programs of single ranks on this device")
    args = args.parse_args()
    args.talweg, args.program = (str(Path(args.folder) / p) for p in ("talweg", "examples/mesh"))
    if args.one_rank:
        return one_rank(args)
    threads = str(max(args.cores // args.ranks, 1))
    rows, overheads = read(args.out), {}
    with tempfile.TemporaryDirectory() as folder:
        folder = args.clusters or folder
        for link in args.links.split(","):
            cluster = f"{folder}/{link}.toml"
            alone = dict(LINKS[link], GPT=SIZES["tiny"], STEPS="1", TALWEG_THREADS=str(args.cores))
            if not Path(cluster).exists():
                run([args.talweg, "plan", "--mesh", "1", "--save-cluster", cluster, args.program], alone)
            print(Path(cluster).read_text(), flush=True)
            for size in args.sizes.split(","):
                env = dict(LINKS[link], GPT=SIZES[size], STEPS=str(args.steps), MEASURE="1", TALWEG_THREADS=threads)
                for mesh, plan in STRATEGIES:
                    mesh = mesh.replace("N", str(args.ranks))
                    if args.only not in f"{mesh} {plan}":
                        continue
                    layers = int(SIZES[size].split(",")[0])
                    if (layers, mesh, plan) not in overheads:
                        bare = dict(env, GPT=NOTHING[layers])
                        least = predicted(args, mesh, plan, cluster, dict(bare, STEPS="1"))[1]
                        overheads[layers, mesh, plan] = measured(args, mesh, plan, bare)[1] - least
                    ms, mb = measured(args, mesh, plan, env)
                    mb -= overheads[layers, mesh, plan]
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
