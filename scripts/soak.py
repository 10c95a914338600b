#!/usr/bin/env python3
"""Soak: jobs that train for minutes, whose memory must stay flat.

    cargo build --release -p talweg --bins --example digits
    python3 scripts/soak.py target/release --minutes 10

One job reduces among its workers, one has a replicated parameter store; both run side by side, and
nothing happens to them. The memory of each of their processes is looked at every second: its own
(RssAnon), whose mean must not grow by more than 1 % and a quarter of a MiB from the second quarter
of the time to the last. What links share (RssShmem) grows to 2 MiB a link as bytes go around their
rings, and no further.
"""
import argparse
import os
import re
import statistics
import subprocess
import threading
import time

WAYS = {"all-reduce": ["--workers", "2"], "store": ["--workers", "2", "--servers", "2", "--consistency", "ssp:3"]}


class Job:
    def __init__(self, folder, name, args):
        words = [f"{folder}/talweg", "launch", *args, "--progress", "5", f"{folder}/examples/digits"]
        env = dict(os.environ, STEPS="100000000", TALWEG_THREADS="1", PAUSE_MS="1")
        self.process = subprocess.Popen(words, env=env, text=True, stdout=subprocess.PIPE)
        self.name, self.ids, self.step = name, {"launcher": self.process.pid}, 0
        self.memory, self.shared = {}, {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if found := re.match(r"\[launch\] (\w+ \d+) is process (\d+)", line):
                self.ids[found[1]] = int(found[2])
            if found := re.match(r"\[launch\] step (\d+)", line):
                self.step = int(found[1])

    def look(self):
        for name, pid in list(self.ids.items()):
            with open(f"/proc/{pid}/status") as f:
                sizes = dict(re.findall(r"(RssAnon|RssShmem):\s+(\d+) kB", f.read()))
            self.memory.setdefault(name, []).append(int(sizes["RssAnon"]) / 1024)
            self.shared[name] = int(sizes["RssShmem"]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the talweg program is: target/release")
    parser.add_argument("--minutes", type=float, default=10.0)
    o = parser.parse_args()
    jobs = [Job(o.folder, name, args) for name, args in WAYS.items()]
    try:
        end = time.monotonic() + 60 * o.minutes
        while time.monotonic() < end:
            time.sleep(1)
            for job in jobs:
                if job.process.poll() is not None:
                    raise SystemExit(f"soak: the job with {job.name} ended early")
                job.look()
    finally:
        for job in jobs:
            job.process.kill()
    growing = []
    for job in jobs:
        print(f"{job.name}: {job.step} steps")
        for name, mib in job.memory.items():
            quarter = len(mib) // 4
            early, late = statistics.mean(mib[quarter:2 * quarter]), statistics.mean(mib[3 * quarter:])
            print(f"  {name:10} {early:7.2f} MiB in the second quarter, {late:7.2f} in the last, {max(mib):7.2f} at most,"
                  f" {job.shared[name]:6.2f} shared")
            if late > 1.01 * early + 0.25:
                growing.append(f"{name} of {job.name}")
    if growing:
        raise SystemExit(f"soak: memory grows: {', '.join(growing)}")
    print(f"soak: memory was flat over {o.minutes:g} minutes")


main()
