#!/usr/bin/env python3
"""Kills ranks of jobs on meshes, at random times, and compares what the jobs end with.

    cargo build --release -p talweg --bins --example mesh
    python3 scripts/kill_ranks.py target/release --kills 50 --seed 1
    python3 scripts/kill_ranks.py target/release --kills 50 --program scripts/kill_ranks_job.py

Each job is the example `mesh`, or a program in Python, under one of the strategies below, with checkpoints. While it runs, one or more of its
ranks are killed (SIGKILL), each after a random time, at random places: in the start, in a step, in an exchange, while a
checkpoint is written. The other ranks must end within a few seconds and say why, the job must start again by itself,
and the weights at the end must be those of an undisturbed run, bit for bit.
"""
import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

STRATEGIES = [
    ("data=2", "data"),
    ("data=2", "data,zero=2"),
    ("data=2", "fsdp"),
    ("tensor=2", "megatron"),
    ("tensor=2", "megatron,sequence=true"),
    ("pipe=2", "data,microbatches=4"),
    ("pipe=2", "data,microbatches=4,schedule=zb-h1"),
    ("context=2", "data"),
    ("data=2,tensor=2", "megatron,zero=1"),
    ("data=2,pipe=2", "data,microbatches=2"),
    ("data=2,context=2", "fsdp"),
]
LIMIT_S = 120
REASON = re.compile(r"is gone|was lost|is lost|lost|closed|another rank|hung up")


class Job:
    """A job under one strategy; what it says is read as it comes."""

    def __init__(self, args, strategy, folder):
        mesh, plan = strategy
        times = {"STEPS": str(args.steps), "PAUSE_MS": str(args.pause_ms)}
        env = dict(os.environ, TALWEG_THREADS="1", CHECKPOINTS=folder, **times)
        command = [f"{args.binaries}/talweg", "launch", "--mesh", mesh, "--plan", plan, "--max-restarts", "20",
                   "--max-job-restarts", "20", "--progress", "0", args.program or f"{args.binaries}/examples/mesh"]
        self.child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.ranks = {}  # Rank: its process, and when that was started.
        self.ends, self.said, self.weights = [], [], []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        # Ranks end with the launcher, also if nobody says anything any more.
        self.limit = threading.Timer(LIMIT_S, self.child.kill)
        self.limit.daemon = True
        self.limit.start()

    def read(self):
        for line in self.child.stdout:
            now = time.monotonic()
            self.said.append((now, line))
            if m := re.match(r"\[launch\] worker (\d+) is process (\d+)", line):
                self.ranks[int(m[1])] = (int(m[2]), now)
            elif m := re.search(r"weights (\w{16})", line):
                self.weights.append(m[1])

    def text(self):
        return "".join(line for _, line in self.said[-40:])

    def wait(self, what, is_there):
        end = time.monotonic() + LIMIT_S
        while not is_there():
            if time.monotonic() > end or (self.child.poll() is not None and not self.reader.is_alive()):
                sys.exit(f"{what} did not come:\n{self.text()}")
            time.sleep(0.002)

    def end(self, ranks):
        code = self.child.wait()
        self.reader.join()
        self.limit.cancel()
        if code or len(set(self.weights)) != 1 or len(self.weights) < ranks:
            sys.exit(f"exit {code}, weights {self.weights}:\n{self.text()}")
        return self.weights[0]


def size(mesh):
    """Ranks of a mesh."""
    n = 1
    for axis in mesh.split(","):
        n *= int(axis.split("=")[1])
    return n


def killed(job, ranks, rng, span_s):
    """Kills a rank after a random time; seconds until all others have ended, and whether one said why."""
    job.wait("the ranks", lambda: len(job.ranks) == ranks)
    time.sleep(rng.uniform(0.0, span_s))
    if job.child.poll() is not None or job.weights:
        return None
    victim, before = rng.randrange(ranks), dict(job.ranks)
    try:
        os.kill(before[victim][0], signal.SIGKILL)
    except ProcessLookupError:
        return None
    start, first = time.monotonic(), len(job.said)
    others = [before[r][0] for r in range(ranks) if r != victim]
    job.wait(f"the end of the ranks beside {victim}", lambda: not any(is_alive(p) for p in others))
    took = time.monotonic() - start
    job.wait("a new start", lambda: job.weights or all(job.ranks[r][1] > start for r in range(ranks)))
    why = any(REASON.search(line) for _, line in job.said[first:])
    return took, why or bool(job.weights)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("binaries")
    args.add_argument("--kills", type=int, default=50)
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--steps", type=int, default=40)
    args.add_argument("--pause-ms", type=int, default=20)
    args.add_argument("--program", help="a Python program; the example `mesh` without it")
    args.add_argument("--without", default="", help="leave out strategies whose mesh has this axis")
    args = args.parse_args()
    rng, done, took, silent, jobs, whole = random.Random(args.seed), 0, [], 0, 0, {}
    strategies = [s for s in STRATEGIES if not args.without or args.without not in s[0]]
    while done < args.kills:
        strategy = strategies[jobs % len(strategies)]
        ranks = size(strategy[0])
        jobs += 1
        if strategy not in whole:
            with tempfile.TemporaryDirectory() as folder:
                start = time.monotonic()
                job = Job(args, strategy, folder)
                whole[strategy] = job.end(ranks), time.monotonic() - start
        expected, span = whole[strategy]
        with tempfile.TemporaryDirectory() as folder:
            job = Job(args, strategy, folder)
            kills = [k for _ in range(rng.randint(1, 3)) if (k := killed(job, ranks, rng, span)) is not None]
            got = job.end(ranks)
        if got != expected:
            sys.exit(f"{strategy}: weights {got} instead of {expected}:\n{job.text()}")
        done += len(kills)
        took += [t for t, _ in kills]
        silent += sum(not why for _, why in kills)
        print(f"{strategy[0]:20} {strategy[1]:38} {len(kills)} kills, others ended after "
              f"{', '.join(f'{t:.2f}' for t, _ in kills) or '-'} s", flush=True)
    print(f"{done} kills in {jobs} jobs: all ended with the weights of an undisturbed run; others ended after "
          f"{statistics.median(took):.2f} s (median), {max(took):.2f} s (worst); without a reason: {silent}")


if __name__ == "__main__":
    main()
