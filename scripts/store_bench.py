"""Medians of the store's and the collectives' speed beside iperf3 and memcpy, measured in turns.

    cargo build --release -p talweg-dist --example bench
    python3 scripts/store_bench.py target/release/examples/bench --rounds 5

Each round runs the references, then every part of the benchmark over sockets and through shared memory, so that
whatever else the machine does meets all of them alike. Prints a table with the goals; `--before CMD` puts a command
before each run, such as `taskset -c 0,1`.
"""

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys

PARTS = ("reference", "store", "null", "reduce")
LINE = re.compile(r"^(?P<what>.*\S)\s+(?P<value>[\d.]+) (?P<unit>GB/s|µs|ms)$")


def run(binary, part, link, before):
    """The figures of one part, by name."""
    env = dict(os.environ)
    env.pop("TALWEG_LINK", None)
    if link == "TCP":
        env["TALWEG_LINK"] = "socket"
    command = shlex.split(before) + [binary, part]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    out = {}
    for line in done.stdout.splitlines():
        found = LINE.match(line.rstrip())
        if found:
            out[found["what"].strip()] = (float(found["value"]), found["unit"])
    return out


def goals(iperf):
    """What each figure has to reach: a bound, and whether less is better."""
    return {
        ("store: push 64 MiB and add, acknowledged", "TCP"): (0.8 * iperf, False),
        ("store: pull 64 MiB", "TCP"): (0.8 * iperf, False),
        ("store: push 4 bytes, acknowledged", "TCP"): (30, True),
        ("store: pull 4 bytes", "TCP"): (30, True),
        ("null step, 16 shards, scalars", "TCP"): (0.6, True),
        ("null step, 16 shards, 100 MB dense", "TCP"): (100, True),
        ("null step, 16 shards, 32 rows of 1 GB", "TCP"): (1, True),
        ("all-reduce over TCP, 2 ranks, 64 MiB", "TCP"): (0.4 * iperf, False),
        ("all-reduce over shared memory, 2 ranks, 64 MiB", "memory"): (8, False),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the example `bench`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", default="", help="a command to put before each run")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    o = parser.parse_args()
    figures = {}
    for number in range(o.rounds):
        for part in o.parts:
            for link in ("TCP", "memory") if part != "reference" else ("TCP",):
                for what, (value, unit) in run(o.binary, part, link, o.before).items():
                    figures.setdefault((what, link, unit), []).append(value)
        print(f"round {number + 1} of {o.rounds}", file=sys.stderr)
    medians = {key[:2]: statistics.median(values) for key, values in figures.items()}
    bounds = goals(medians.get(("iperf3 over loopback", "TCP"), float("nan")))
    print("| what | link | median | least to greatest | goal |")
    print("|---|---|---:|---:|---|")
    for (what, link, unit), values in figures.items():
        bound, is_less = bounds.get((what, link), (None, None))
        goal = ""
        if bound is not None:
            met = medians[what, link] <= bound if is_less else medians[what, link] >= bound
            goal = f"{'≤' if is_less else '≥'} {bound:.3g} {unit}{'' if met else ' (missed)'}"
        print(f"| {what} | {link} | {medians[what, link]:.3g} {unit} | {min(values):.3g} to {max(values):.3g} | {goal} |")


if __name__ == "__main__":
    main()
