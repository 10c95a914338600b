#!/usr/bin/env python3
"""Fault campaign: real jobs, real processes, random SIGKILL, SIGSTOP and network partitions.

    cargo build --release -p talweg --bins --example digits
    python3 scripts/campaign.py target/release --faults 200
    python3 scripts/campaign.py target/release --faults 6 --each 3 --steps 1500      # a short one

Jobs run one after another until so many faults have been dealt: under all-reduce, and with a
replicated parameter store (bsp). As root each job gets machines of its own, network namespaces
on one bridge, and partitions are among the faults; otherwise, or with --no-network, processes are
killed and stopped only. Every job must end well within its limit, all its workers with the same
weights; with the store, with the weights of an undisturbed run, bit for bit; under all-reduce with
a loss near the undisturbed one's. The first job that does not ends the campaign with what it said.
"""
import argparse
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HOSTS = 3
PREFIX = f"tw{os.getpid() % 10000}"
# A process is given up after so many seconds of silence; partitions last longer than that.
SILENCE = 1.5


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Network:
    """Namespaces as machines, on one bridge in a namespace of its own."""

    def __init__(self):
        self.cut = set()
        try:
            ip("netns", "add", f"{PREFIX}hub")
            ip("-n", f"{PREFIX}hub", "link", "add", "bridge", "type", "bridge")
            ip("-n", f"{PREFIX}hub", "link", "set", "bridge", "up")
            for i in range(HOSTS):
                ns, inside, outside = f"{PREFIX}n{i}", f"{PREFIX}a{i}", f"{PREFIX}b{i}"
                ip("netns", "add", ns)
                ip("link", "add", inside, "type", "veth", "peer", "name", outside)
                ip("link", "set", inside, "netns", ns)
                ip("link", "set", outside, "netns", f"{PREFIX}hub")
                ip("-n", f"{PREFIX}hub", "link", "set", outside, "master", "bridge", "up")
                ip("-n", ns, "addr", "add", f"{self.address(i)}/24", "dev", inside)
                ip("-n", ns, "link", "set", "lo", "up")
                ip("-n", ns, "link", "set", inside, "up")
        except OSError:
            self.down()
            raise
        # In the place of ssh: runs the command in the namespace with that address.
        self.folder = tempfile.TemporaryDirectory()
        self.ssh = os.path.join(self.folder.name, "ssh")
        names = "".join(f"  {self.address(i)}) ns={PREFIX}n{i} ;;\n" for i in range(HOSTS))
        with open(self.ssh, "w") as f:
            f.write(f'#!/bin/sh\ncase "$1" in\n{names}esac\nshift\nexec ip netns exec "$ns" sh -c "$*"\n')
        os.chmod(self.ssh, 0o755)
        self.hosts = os.path.join(self.folder.name, "hosts")

    @staticmethod
    def address(i):
        return f"10.78.0.{i + 1}"

    def args(self, workers):
        """Workers on machines 1 and 2; the launcher is on machine 0, which is never cut off."""
        with open(self.hosts, "w") as f:
            f.writelines(f"{self.address(i)} slots={(workers + HOSTS - 2) // (HOSTS - 1)}\n" for i in range(1, HOSTS))
        return ["--hosts", self.hosts, "--ssh", self.ssh]

    def command(self, words):
        return ["ip", "netns", "exec", f"{PREFIX}n0", *words]

    def partition(self, i):
        ip("-n", f"{PREFIX}hub", "link", "set", f"{PREFIX}b{i}", "nomaster")
        self.cut.add(i)

    def heal(self):
        for i in sorted(self.cut):
            ip("-n", f"{PREFIX}hub", "link", "set", f"{PREFIX}b{i}", "master", "bridge")
        self.cut.clear()

    @staticmethod
    def down():
        for name in [f"{PREFIX}n{i}" for i in range(HOSTS)] + [f"{PREFIX}hub"]:
            ip("netns", "del", name, check=False)


class Job:
    """A job under `talweg launch`, its lines and its processes."""

    last = None

    def __init__(self, folder, network, servers, steps, workers=2):
        args = ["--workers", str(workers), "--servers", str(servers), "--max-restarts", "1000", "--progress", "0",
                "--heartbeat-timeout", str(SILENCE)]
        words = [f"{folder}/talweg", "launch", *args]
        words += (network.args(workers) if network else []) + [f"{folder}/examples/digits"]
        env = dict(os.environ, STEPS=str(steps), PAUSE_MS="3", TALWEG_THREADS="1", TALWEG_TIMEOUT="60")
        self.workers, self.lines, self.ids, self.waiting = workers, [], {}, queue.Queue()
        self.process = subprocess.Popen(network.command(words) if network else words, env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        Job.last = self
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.waiting.put(line.rstrip("\n"))
        self.waiting.put(None)

    def next(self, deadline):
        """The next line, None at the end; what it says of processes is remembered."""
        try:
            line = self.waiting.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return ""
        if line is not None:
            self.lines.append(line)
            if found := re.match(r"\[launch\] (\w+ \d+) is process (\d+)", line):
                self.ids[found[1]] = int(found[2])
            if found := re.match(r"\[launch\] (\w+ \d+) ended with", line):
                self.ids.pop(found[1], None)
        return line

    def fail(self, why):
        self.process.send_signal(signal.SIGKILL)
        raise SystemExit("\n".join([*self.lines, f"campaign: {why}"]))

    def finish(self, limit):
        deadline = time.monotonic() + limit
        while (line := self.next(deadline)) is not None:
            if line == "" and time.monotonic() >= deadline:
                self.fail(f"the job did not end within {limit} s")
        if self.process.wait() != 0:
            self.fail("the job failed")
        weights = [m[1] for line in self.lines if (m := re.search(r"weights (\w+)", line))]
        losses = [float(m[1]) for line in self.lines if (m := re.search(r"step \d+, loss ([\d.]+)", line))]
        if not weights or len(set(weights)) != 1:
            self.fail(f"the workers' weights differ: {weights}")
        return weights[0], sum(losses) / len(losses)


def disturb(job, faults, rng, network, kinds):
    """Deals so many faults, waiting for the job to recover from each; answers how many it dealt."""
    dealt, servers = 0, any(name.startswith("server") for name in job.ids)
    while dealt < faults and job.process.poll() is None:
        kind = rng.choice(kinds)
        names = sorted(job.ids)
        if not names:
            break
        victim = rng.choice(names)
        if kind == "partition":
            host = rng.randrange(1, HOSTS)
            network.partition(host)
            settle(job, SILENCE + 1.0)
            network.heal()
        else:
            try:
                os.kill(job.ids[victim], signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            except ProcessLookupError:
                pass
        dealt += 1
        # Two copies survive one loss at a time: the next fault waits until copies are whole again.
        settle(job, rng.uniform(0.3, 0.6) + (SILENCE + 0.7 if kind == "stop" else 0.0) + (0.5 if servers else 0.0))
    return dealt


def settle(job, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and job.next(deadline) is not None:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the talweg program is: target/release")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--each", type=int, default=8, help="faults of one job")
    parser.add_argument("--steps", type=int, default=5_000, help="steps of one job")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds one job may take after its last fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-network", action="store_true")
    o = parser.parse_args()
    rng, network, began = random.Random(o.seed), None, time.monotonic()
    if os.geteuid() == 0 and not o.no_network:
        try:
            network = Network()
        except OSError as e:
            print(f"campaign: no network namespaces, so no partitions: {e}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        campaign(o, rng, network, began)
    finally:
        # Its processes end with it.
        if Job.last and Job.last.process.poll() is None:
            Job.last.process.kill()
        if network:
            network.down()


def campaign(o, rng, network, began):
    ways = {"all-reduce": 0, "store": 3}
    calm = {way: Job(o.folder, network, servers, o.steps).finish(o.limit) for way, servers in ways.items()}
    counts, jobs = {}, 0
    while sum(counts.values()) < o.faults:
        way = list(ways)[jobs % 2]
        # A partition takes every copy that lies behind it, more than a store of two copies survives.
        kinds = ["kill", "stop"] + (["partition"] if network and way == "all-reduce" else [])
        job = Job(o.folder, network, ways[way], o.steps)
        deadline = time.monotonic() + o.limit
        while (line := job.next(deadline)) is not None and "epoch 1:" not in line:
            if time.monotonic() >= deadline:
                job.fail("the job did not begin")
        dealt = disturb(job, min(o.each, o.faults - sum(counts.values())), rng, network, kinds)
        weights, loss = job.finish(o.limit)
        if way == "store" and weights != calm[way][0]:
            job.fail(f"weights {weights}, but {calm[way][0]} undisturbed")
        if loss > calm[way][1] + 0.25:
            job.fail(f"loss {loss:.3f}, but {calm[way][1]:.3f} undisturbed")
        counts[way] = counts.get(way, 0) + dealt
        jobs += 1
        print(f"{time.monotonic() - began:7.1f} s  job {jobs}: {way}, {dealt} faults, loss {loss:.4f}", flush=True)
        if dealt == 0:
            job.fail("the job was over before anything happened: give it more --steps")
    print(f"campaign: {sum(counts.values())} faults in {jobs} jobs, all of which ended as they should")


main()
