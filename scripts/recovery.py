#!/usr/bin/env python3
"""How long a job stands still when one of its processes is killed.

    cargo build --release -p talweg --bins --example digits
    python3 scripts/recovery.py target/release --kills 10

Each kill is a job of its own of the example `digits`, whose workers say every step. A process is killed (SIGKILL) in the
middle, and the clock runs until every surviving worker has done a step that it had not begun before; if a worker was
killed, also from the start of its replacement, which the launcher says, until that one has done a step. With the store
the weights at the end must be those of an undisturbed run, bit for bit: nothing acknowledged was lost, nothing counted
twice.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

STEPS = 600
PAUSE_MS = 3
KILL_AT = 150
LIMIT_S = 60


class Job:
    """A job whose lines come with the time at which they were read."""

    def __init__(self, binaries, args):
        env = dict(os.environ, STEPS=str(STEPS), PAUSE_MS=str(PAUSE_MS), TELL="1", TALWEG_THREADS="1")
        command = [f"{binaries}/talweg", "launch", *args, f"{binaries}/examples/digits"]
        self.child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes, self.steps, self.started, self.weights, self.said = {}, {}, {}, set(), []
        self.ended = 0
        # Its processes end with the launcher, also if nobody says anything any more.
        self.limit = threading.Timer(LIMIT_S, self.child.kill)
        self.limit.daemon = True
        self.limit.start()

    def line(self):
        """Reads a line; answers the worker that has done a step, and when, or nothing."""
        line, now = self.child.stdout.readline(), time.monotonic()
        if not line:
            sys.exit(f"the job ended too early, or was ended after {LIMIT_S} s:\n" + "".join(self.said[-30:]))
        self.said.append(line)
        if m := re.match(r"\[launch\] (\w+ \d+) is process (\d+)", line):
            self.processes[m[1]], self.started[m[1]] = int(m[2]), now
        elif m := re.match(r"\[(worker \d+)\] did step (\d+)", line):
            self.steps[m[1]] = int(m[2])
            return m[1], now
        elif m := re.match(r"\[worker \d+\] weights (\w+)", line):
            self.weights.add(m[1])
            self.ended += 1
        return None, now

    def end(self, workers):
        """Reads on to the end; the weights on which all workers agree."""
        while self.ended < workers:
            self.line()
        self.child.stdout.read()
        self.limit.cancel()
        if self.child.wait() or len(self.weights) != 1:
            sys.exit(f"exit {self.child.returncode}, weights {self.weights}:\n" + "".join(self.said[-30:]))
        return self.weights.pop()


def kill(binaries, args, workers, victim):
    """Seconds until the survivors go on, and until a replaced worker does, counted from its start; the weights."""
    job = Job(binaries, args)
    while len(job.steps) < workers or min(job.steps.values()) < KILL_AT:
        job.line()
    survivors = {f"worker {i}" for i in range(workers)} - {victim}
    os.kill(job.processes[victim], signal.SIGKILL)
    killed, before = time.monotonic(), dict(job.steps)
    waiting, back = set(survivors), None
    # A step that was done may not have been read yet, and one may have been under way: the one after that counts.
    while waiting or (victim not in survivors and victim.startswith("worker") and back is None):
        who, now = job.line()
        if who is None or job.steps[who] <= before[who] + 2:
            continue
        if who in waiting:
            waiting.remove(who)
            on = now - killed
        if who == victim and back is None:
            back = now - job.started[victim]
    return on, back, job.end(workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", help="the folder of talweg, with examples/ below it")
    parser.add_argument("--kills", type=int, default=10, help="of each kind")
    options = parser.parse_args()
    reduce, store = ["--workers", "4"], ["--workers", "2", "--servers", "3"]
    kinds = [
        ("all-reduce, 4 workers", reduce, 4, "worker {}", False),
        ("store, 2 workers and 3 servers", store, 2, "worker {}", True),
        ("store, 2 workers and 3 servers", store, 2, "server {}", True),
    ]
    whole = Job(options.binaries, store).end(2)
    print("| job | killed | the others' next step, s | replacement's first step after its start, s |")
    print("|---|---|---:|---:|")
    for name, args, workers, victim, is_exact in kinds:
        times = []
        for i in range(options.kills):
            on, back, weights = kill(options.binaries, args, workers, victim.format(i % (3 if "server" in victim else workers)))
            if is_exact and weights != whole:
                sys.exit(f"{name}, {victim}: weights {weights}, undisturbed {whole}")
            times.append((on, back))

        def spread(values):
            return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

        backs = [back for _, back in times if back is not None]
        print(f"| {name} | {victim[:6]} | {spread([on for on, _ in times])} | {spread(backs) if backs else ''} |", flush=True)


if __name__ == "__main__":
    main()
