#!/usr/bin/env python3
"""Fault campaign: real jobs, real processes, random SIGKILL, SIGSTOP and network partitions.

    cargo build --release -p talweg --bins --example digits
    python3 scripts/campaign.py target/release --faults 200
    python3 scripts/campaign.py target/release --faults 100 --each 100 --kinds kill --ways store --steps 15000
    python3 scripts/campaign.py target/release --faults 4 --each 2 --steps 500       # a short one, as in CI

Jobs run one after another until so many faults have been dealt: under all-reduce, and with a
replicated parameter store (bsp). As root each job gets machines of its own, network namespaces
on one bridge, and partitions are among the faults; otherwise, or with --no-network, processes are
killed and stopped only. The launcher's machine is never cut off, and each of the others holds one
server at most: two copies survive the loss of one. So the next fault waits until every partition
has its copies again, but for nothing else: it may well hit a process that has just begun, or one
that is about to end. Every job must end well within its limit, all its workers with the same
weights; with the store, with the weights of an undisturbed run, bit for bit; under all-reduce with
a loss near the undisturbed one's. The first job that does not ends the campaign with what it said
and where the processes that are left stand.
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

HOSTS = 4
SERVERS = 3
WORKERS = 2
PREFIX = f"tw{os.getpid() % 10000}"


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

    def args(self):
        """A worker on each machine while there are any, a server on each; the launcher is on machine 0."""
        with open(self.hosts, "w") as f:
            f.writelines(f"{self.address(i)} slots=1\n" for i in range(1, HOSTS))
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

    def __init__(self, o, network, servers):
        args = ["--workers", str(WORKERS), "--servers", str(servers), "--max-restarts", "1000", "--progress", "0",
                "--heartbeat-timeout", str(o.silence)]
        words = [f"{o.folder}/talweg", "launch", *args]
        words += (network.args() if network else []) + [f"{o.folder}/examples/digits"]
        env = dict(os.environ, STEPS=str(o.steps), PAUSE_MS="3", TALWEG_THREADS="1", TALWEG_TIMEOUT="60")
        self.servers, self.lines, self.ids, self.waiting = servers, [], {}, queue.Queue()
        self.began, self.times = time.monotonic(), []
        # Whether the store would survive the loss of a server now.
        self.is_whole = servers == 0
        self.process = subprocess.Popen(network.command(words) if network else words, env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        Job.last = self
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.waiting.put(line.rstrip("\n"))
        self.waiting.put(None)

    def next(self, deadline):
        """The next line, "" if none comes by then, None at the end; what it says is remembered."""
        try:
            line = self.waiting.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return ""
        if line is None:
            self.waiting.put(None)
            return None
        self.lines.append(line)
        self.times.append(time.monotonic() - self.began)
        if found := re.match(r"\[launch\] (\w+ \d+) is process (\d+)", line):
            self.ids[found[1]] = int(found[2])
        if found := re.match(r"\[launch\] (\w+ \d+) ended with", line):
            self.ids.pop(found[1], None)
        if re.search(r"servers hold the store|its backups take over", line):
            self.is_whole = False
        elif re.search(r"every partition has its 2 copies", line):
            self.is_whole = True
        return line

    def say(self, text):
        """Notes what was done to the job among what it says."""
        self.lines.append(f"[campaign] {text}")
        self.times.append(time.monotonic() - self.began)

    def until(self, done, seconds):
        """Reads until `done()` or the end of the job; False if neither comes in so many seconds."""
        deadline = time.monotonic() + seconds
        while not done():
            line = self.next(deadline)
            if line is None:
                return True
            if line == "" and time.monotonic() >= deadline:
                return False
        return True

    def pause(self, seconds):
        self.until(lambda: False, seconds)

    def fail(self, why):
        ids = ",".join(str(i) for i in [self.process.pid, *self.ids.values()])
        left = subprocess.run(["ps", "-o", "pid,stat,wchan:24,args", "-p", ids], capture_output=True, text=True).stdout
        self.process.send_signal(signal.SIGKILL)
        print(self.text())
        raise SystemExit(f"{left}\ncampaign: {why}")

    def text(self):
        return "\n".join(f"{t:7.2f} s  {line}" for t, line in zip(self.times, self.lines))

    def finish(self, limit):
        if not self.until(lambda: False, limit):
            self.fail(f"the job did not end within {limit} s")
        if self.process.wait() != 0:
            self.fail("the job failed")
        weights = [m[1] for line in self.lines if (m := re.search(r"weights (\w+)", line))]
        losses = [float(m[1]) for line in self.lines if (m := re.search(r"step \d+, loss ([\d.]+)", line))]
        if not weights or len(set(weights)) != 1:
            self.fail(f"the workers' weights differ: {weights}")
        return weights[0], sum(losses) / len(losses)


def disturb(o, job, faults, rng, network, kinds):
    """Deals so many faults; answers how many of each kind it dealt."""
    dealt = {}
    while sum(dealt.values()) < faults and job.process.poll() is None:
        if not job.until(lambda: job.is_whole, o.limit):
            job.fail("the store did not become whole again")
        kind = rng.choice(kinds)
        names = sorted(job.ids)
        if not names or job.process.poll() is not None:
            break
        victim = rng.choice(names)
        if kind == "partition":
            host = rng.randrange(1, HOSTS if job.servers else WORKERS + 1)
            cut(job, network, host, o.silence + rng.uniform(0.5, 1.5))
        else:
            strike(job, victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP, o.limit)
        dealt[kind] = dealt.get(kind, 0) + 1
        job.pause(rng.uniform(0.0, 0.6))
    return dealt


def strike(job, victim, how, limit):
    """Kills or stops a process; returns when its launcher has noticed."""
    number = job.ids[victim]
    job.say(f"{victim}, process {number}, gets {how.name}")
    try:
        os.kill(number, how)
    except ProcessLookupError:
        return
    # A process that ends at this very moment is not replaced, and the job soon over.
    if not job.until(lambda: job.ids.get(victim) != number, limit):
        job.fail(f"{victim}, process {number}, was not missed")


def cut(job, network, host, seconds):
    """Cuts a machine off for longer than its processes may be silent."""
    before = len(job.lines)
    job.say(f"machine {host} is cut off")
    network.partition(host)
    job.pause(seconds)
    network.heal()
    job.say(f"machine {host} is back")
    # What was lost is sent again some seconds later; until then it may still be missed.
    job.until(lambda: any("says nothing any more" in line for line in job.lines[before:]), 4.0)
    job.pause(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the talweg program is: target/release")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--each", type=int, default=8, help="faults of one job")
    parser.add_argument("--steps", type=int, default=5_000, help="steps of one job")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds one job may take after its last fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--silence", type=float, default=1.5,
                        help="seconds of silence after which a process is given up; partitions last longer")
    parser.add_argument("--kinds", default="kill,stop,partition", help="faults to choose from")
    parser.add_argument("--ways", default="all-reduce,store", help="jobs to run in turn")
    parser.add_argument("--no-network", action="store_true", help="no machines of their own, no partitions")
    parser.add_argument("--log", help="a file for what every job said")
    o = parser.parse_args()
    rng, network, began = random.Random(o.seed), None, time.monotonic()
    if os.geteuid() != 0:
        print("campaign: not root, so no network namespaces and no partitions: processes are killed and stopped only")
    elif not o.no_network:
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
    ways = {way: SERVERS if way == "store" else 0 for way in o.ways.split(",")}
    kinds = [k for k in o.kinds.split(",") if network or k != "partition"]
    calm = {way: Job(o, network, servers).finish(o.limit) for way, servers in ways.items()}
    counts, jobs = {}, 0
    while (done := sum(counts.values())) < o.faults:
        way = list(ways)[jobs % len(ways)]
        job = Job(o, network, ways[way])
        if not job.until(lambda: any("epoch 1:" in line for line in job.lines), o.limit):
            job.fail("the job did not begin")
        dealt = disturb(o, job, min(o.each, o.faults - done), rng, network, kinds)
        weights, loss = job.finish(o.limit)
        if way == "store" and weights != calm[way][0]:
            job.fail(f"weights {weights}, but {calm[way][0]} undisturbed")
        if loss > calm[way][1] + 0.25:
            job.fail(f"loss {loss:.3f}, but {calm[way][1]:.3f} undisturbed")
        if o.log:
            with open(o.log, "a") as f:
                f.write(f"job {jobs + 1}: {way}\n{job.text()}\n")
        for kind, n in dealt.items():
            counts[way, kind] = counts.get((way, kind), 0) + n
        jobs += 1
        print(f"{time.monotonic() - began:7.1f} s  job {jobs}: {way}, {job.times[-1]:.1f} s, {dealt}, loss {loss:.4f}", flush=True)
        if not dealt:
            job.fail("the job was over before anything happened: give it more --steps")
    for (way, kind), n in sorted(counts.items()):
        print(f"{n:5} × {kind} under {way}")
    print(f"campaign: {done} faults in {jobs} jobs, all of which ended as they should")


if __name__ == "__main__":
    main()
