#!/usr/bin/env python3
"""Fault campaign: real jobs, real processes, random faults.

    cargo build --release -p talweg --bins --example digits
    pip install .
    python3 scripts/campaign.py target/release --faults 500
    python3 scripts/campaign.py target/release --faults 100 --each 100 --kinds kill --ways store --programs digits --steps 15000
    python3 scripts/campaign.py target/release --faults 4 --each 2 --programs digits --steps 500     # a short one, as in CI

Jobs run one after another until so many faults have been dealt. A job is a program, Rust's `digits` or a recipe of
`campaign_job.py`, under all-reduce or with a replicated parameter store (bsp). The faults:

| kind | what happens | what must follow |
|---|---|---|
| kill | SIGKILL of a worker or server | it is replaced |
| stop | SIGSTOP of a worker or server | it is missed, struck and replaced |
| hang | a worker's own code hangs, its heartbeats go on (recipes only) | it is named, struck and replaced; after its training it is named and struck, and the job ends with status 1 |
| partition | a machine is cut off for longer than the heartbeat timeout | what runs there is replaced |
| pause | SIGSTOP of the launcher for longer than any timeout | the job goes on |
| interrupt | SIGTERM of the launcher | status 143, a checkpoint of one agreed step; launched again, the run goes on |
| crash | SIGKILL of everything | launched again, the run goes on from its checkpoint |
| full | the disk of the checkpoints is full for a while | whoever saves fails and says why; with room again, the run goes on |
| torn | SIGKILL of everything, one log of the store loses its end | the store is refused by name, or whole |

As root each job gets machines of its own, network namespaces on one bridge; otherwise, or with --no-network, there are no
partitions. Each machine holds one server at most: two copies survive the loss of one. So the next fault waits until
every partition has its copies again, but for nothing else.

Every job must end well within its limit, with status 0, a result of every rank, and its last checkpoint on disk. With the
store, and wherever no share of the data was lost, results are the undisturbed run's, bit for bit: weights, buffers, learning
rate, best score, reason to stop. Under all-reduce with lost workers all ranks agree, and the loss is near. The first job that does
not ends the campaign with what it said and where the processes that are left stand.
"""
import argparse
import json
import os
import queue
import random
import re
import shutil
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
HERE = os.path.dirname(os.path.abspath(__file__))
RECIPES = ["plain", "onecycle", "cosine", "plateau", "patience", "batchnorm", "dropout", "uneven"]
# Faults after which the result is exact even under all-reduce, unless fewer workers went on meanwhile.
EXACT = {"pause", "interrupt", "crash", "full"}
# How long the launcher is stopped: longer than the deadline of any single message.
PAUSE_S = 11.0
# The longest time without progress that is no hang.
STALL_MAX_S = 30.0


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


class Disk:
    """A folder for one job's checkpoints and store; as root a file system of its own, so that it can be full."""

    SIZE_MB = 256  # six partitions of two copies, each with a log of 4 MiB at most

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="campaign-")
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.SIZE_MB}m", "tmpfs", self.folder]
        self.is_bounded = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        self.checkpoints, self.store = os.path.join(self.folder, "run"), os.path.join(self.folder, "store")

    def fill(self):
        with open(os.path.join(self.folder, "filler"), "wb") as f:
            try:
                for size in (1 << 20, 4096):
                    while True:
                        f.write(b"\0" * size)
                        f.flush()
            except OSError:
                pass

    def clear(self):
        os.remove(os.path.join(self.folder, "filler"))

    def newest(self):
        """The step of the newest checkpoint, 0 without one."""
        names = os.listdir(self.checkpoints) if os.path.isdir(self.checkpoints) else []
        return max([0, *(int(m[1]) for n in names if (m := re.fullmatch(r"step-(\d+)\.safetensors", n)))])

    def tear(self, rng):
        """Cuts a third off the end of one log of the store."""
        logs = [os.path.join(at, n) for at, _, names in os.walk(self.store) for n in names if n.startswith("part")]
        log = rng.choice(sorted(logs)) if logs else None
        if log:
            os.truncate(log, os.path.getsize(log) * 2 // 3)
        return log

    def remove(self):
        if self.is_bounded:
            subprocess.run(["umount", "-l", self.folder], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Job:
    """A job under `talweg launch`: its lives, their lines and processes."""

    last = None

    def __init__(self, o, network, program, servers, disk=None):
        self.o, self.network, self.program, self.servers, self.disk = o, network, program, servers, disk
        self.lines, self.times, self.began = [], [], time.monotonic()
        self.stall = 0.0
        Job.last = self
        self.launch()

    def launch(self):
        o, args = self.o, ["--workers", str(WORKERS), "--servers", str(self.servers), "--max-restarts", "1000"]
        args += ["--progress", "0", "--heartbeat-timeout", str(o.silence), "--hang-timeout", str(o.hang)]
        words = [f"{o.folder}/talweg", "launch", *args]
        words += self.network.args() if self.network else []
        env = dict(os.environ, STEPS=str(o.steps), PAUSE_MS="3", TELL="1", TALWEG_THREADS="1", TALWEG_TIMEOUT="60")
        if self.disk:
            env["CHECKPOINTS"] = self.disk.checkpoints
            if self.servers and self.disk.keeps_store:
                env["TALWEG_STORE_DIR"] = self.disk.store
        if self.program == "digits":
            words += [f"{o.folder}/examples/digits"]
        else:
            env["RECIPE"], env["STEPS"] = self.program, str(min(o.steps, o.recipe_steps))
            words += [o.python, os.path.join(HERE, "campaign_job.py")]
        self.steps, self.ids, self.waiting = int(env["STEPS"]), {}, queue.Queue()
        # Whether the store would survive the loss of a server now.
        self.is_whole = self.servers == 0
        self.first = len(self.lines)
        self.moved = time.monotonic()
        command = self.network.command(words) if self.network else words
        self.process = subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self.read, args=(self.process.stdout, self.waiting), daemon=True).start()

    @staticmethod
    def read(lines, waiting):
        for line in lines:
            waiting.put(line.rstrip("\n"))
        waiting.put(None)

    def next(self, deadline):
        """The next line, "" if none comes by then, None at the end; what it says is remembered."""
        try:
            line = self.waiting.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return ""
        if line is None:
            self.waiting.put(None)
            return None
        self.note(line)
        if found := re.match(r"\[launch\] (\w+ \d+) is process (\d+)", line):
            self.ids[found[1]] = int(found[2])
        if found := re.match(r"\[launch\] (\w+ \d+) ended with", line):
            self.ids.pop(found[1], None)
        if re.search(r"servers hold the store|its backups take over", line):
            self.is_whole = False
        elif re.search(r"every partition has its 2 copies", line):
            self.is_whole = True
        if "did step" in line or "result" in line:
            now = time.monotonic()
            self.stall, self.moved = max(self.stall, now - self.moved), now
        return line

    def step(self):
        """The furthest step that this life has told of."""
        return max([0, *(int(m[1]) for line in self.lines[self.first :] if (m := re.search(r"did step (\d+)", line)))])

    def note(self, line):
        self.lines.append(line)
        self.times.append(time.monotonic() - self.began)

    def say(self, text):
        """Notes what was done to the job among what it says."""
        self.note(f"[campaign] {text}")

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

    def end(self, what, limit=None):
        """Waits for the end of this life; its status."""
        limit = limit or self.o.limit
        if not self.until(lambda: False, limit):
            self.fail(f"{what}: the job did not end within {limit} s")
        return self.process.wait()

    def kill(self):
        """SIGKILL of everything at once."""
        for number in [self.process.pid, *self.ids.values()]:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.end("SIGKILL of everything", 30)

    def finish(self):
        """The results of all ranks, once the job has ended as it should."""
        status = self.end("the end")
        hung = {m[0] for line in self.lines[self.first :] if (m := re.search(r"worker \d+ .*hung after its training", line))}
        if status == 1 and not hung and not self.servers and any("[launch] failed: " in line for line in self.lines[self.first :]):
            # Under all-reduce the loss of everybody who knew the state ends the job, and it says so.
            again(self)
            status = self.end("the end")
        if status != (1 if hung else 0):
            self.fail(f"the job failed with status {status}")
        said = self.lines[self.first :]
        if self.program == "digits":
            weights = [m[1] for line in said if (m := re.search(r"weights (\w+)", line))]
            losses = [m[1] for line in said if (m := re.search(r"step \d+, loss (\S+)", line))]
            # Who is let in after the last step has seen no loss.
            losses = [None if loss == "NaN" else float(loss) for loss in losses]
            results = [{"weights": w, "loss": loss} for w, loss in zip(weights, losses)]
        else:
            results = [json.loads(m[1]) for line in said if (m := re.search(r"result (\{.*\})", line))]
            results = list({r["rank"]: r for r in results}.values())
        # Who is killed after the last checkpoint has done its part, and prints nothing; who hangs may have printed it.
        silent = sum("when it was done" in line for line in said) + len(hung)
        if (not results and not hung) or len(results) + silent < WORKERS:
            self.fail(f"status {status}, but {len(results)} of {WORKERS} ranks have a result")
        if len({r["weights"] for r in results}) > 1:
            self.fail(f"the workers' weights differ: {results}")
        if results and self.disk and self.disk.newest() != results[0].get("step", self.steps):
            self.fail(f"status {status}, but the newest checkpoint is of step {self.disk.newest()}")
        return results


# Faults: each is given the job and returns when it has been dealt; False if it could not be.


def strike(job, rng, how, of=""):
    """Signals a process; returns when its launcher has noticed."""
    names = sorted(n for n in job.ids if n.startswith(of))
    if not names:
        return False
    victim = rng.choice(names)
    number = job.ids[victim]
    job.say(f"{victim}, process {number}, gets {how.name}")
    try:
        os.kill(number, how)
    except ProcessLookupError:
        return True
    # A process that ends at this very moment is not replaced, and the job soon over.
    if not job.until(lambda: job.ids.get(victim) != number, job.o.limit):
        job.fail(f"{victim}, process {number}, was not missed")
    return True


def cut(job, rng):
    """Cuts a machine off for longer than its processes may be silent."""
    host = rng.randrange(1, HOSTS if job.servers else WORKERS + 1)
    before = len(job.lines)
    job.say(f"machine {host} is cut off")
    job.network.partition(host)
    job.pause(job.o.silence + rng.uniform(0.5, 1.5))
    job.network.heal()
    job.say(f"machine {host} is back")
    # What was lost is sent again some seconds later; until then it may still be missed.
    job.until(lambda: any("says nothing any more" in line for line in job.lines[before:]), 4.0)
    job.pause(0.5)


def stop_launcher(job, _rng):
    job.say(f"the launcher is stopped for {PAUSE_S} s")
    job.process.send_signal(signal.SIGSTOP)
    time.sleep(PAUSE_S)
    job.process.send_signal(signal.SIGCONT)
    job.moved = time.monotonic()


def interrupt(job, _rng):
    job.say("the launcher gets SIGTERM")
    job.process.send_signal(signal.SIGTERM)
    status = job.end("SIGTERM")
    if status == 0:
        return  # it was over by then
    if status not in (143, -signal.SIGTERM):
        job.fail(f"status {status} after SIGTERM, not 143")
    again(job)


def crash(job, _rng):
    job.say("everything is killed")
    job.kill()
    again(job)


def fill_disk(job, _rng):
    before = len(job.lines)
    job.say("the disk is full")
    job.disk.fill()
    # Whoever cannot save fails, and is started again until there is room.
    if not job.until(lambda: any("No space left" in line for line in job.lines[before:]), job.o.limit):
        job.fail("nobody said that the disk is full")
    job.disk.clear()
    job.say("there is room again")
    # A store that still waits for room would not say so a second time.
    cleared = len(job.lines)
    if not job.until(lambda: any("did step" in line or "result" in line for line in job.lines[cleared:]), job.o.limit):
        job.fail("there is room, but nothing moves")
    if job.process.poll() is None:
        return
    if job.process.wait() == 0 and not any("result" in line or "weights" in line for line in job.lines[job.first :]):
        job.fail("status 0, though nothing could be saved")
    if job.process.wait() != 0:
        again(job)


def tear(job, rng):
    job.kill()
    log = job.disk.tear(rng)
    job.say(f"everything is killed, {log} loses its end")
    again(job)
    job.until(lambda: job.is_whole, job.o.limit)
    job.pause(0.5)
    if job.process.poll() is None:
        return
    if job.process.wait() == 0:
        return  # Few steps were left; the result is compared as any other.
    if "store" not in "\n".join(job.lines[job.first :]):
        job.fail("a torn log was neither refused by name nor repaired")
    shutil.rmtree(job.disk.store, ignore_errors=True)
    again(job)


def again(job):
    job.say("launched again")
    job.launch()
    job.until(lambda: any("did step" in line for line in job.lines[job.first :]), job.o.limit)


FAULTS = {
    "kill": lambda job, rng: strike(job, rng, signal.SIGKILL),
    "stop": lambda job, rng: strike(job, rng, signal.SIGSTOP),
    "hang": lambda job, rng: strike(job, rng, signal.SIGUSR1, "worker"),
    "partition": cut,
    "pause": stop_launcher,
    "interrupt": interrupt,
    "crash": crash,
    "full": fill_disk,
    "torn": tear,
}


def possible(job, kinds):
    """The kinds of faults that this job can be dealt."""
    out = [k for k in kinds if k != "partition" or job.network]
    out = [k for k in out if k != "hang" or job.program != "digits"]
    out = [k for k in out if k != "full" or job.disk.is_bounded]
    return [k for k in out if k != "torn" or (job.servers and job.disk.keeps_store)]


def disturb(o, job, faults, rng, kinds):
    """Deals so many faults; answers how many of each kind it dealt."""
    dealt = {}
    while sum(dealt.values()) < faults and job.process.poll() is None:
        if not job.until(lambda: job.is_whole, o.limit):
            job.fail("the store did not become whole again")
        if job.process.poll() is not None:
            break
        kind = rng.choice(possible(job, kinds))
        if FAULTS[kind](job, rng) is not False:
            dealt[kind] = dealt.get(kind, 0) + 1
        job.pause(rng.uniform(0.0, 0.6))
    return dealt


def judge(job, results, dealt, calm):
    """Ends the campaign if the results are not what they must be."""
    went_on = [int(m[1]) for line in job.lines if (m := re.search(r": (\d+) workers reduce together", line))]
    is_exact = job.servers > 0 or (set(dealt) <= EXACT and min(went_on, default=WORKERS) == WORKERS)
    if is_exact and job.program == "digits" and results[0]["weights"] != calm[0]["weights"]:
        job.fail(f"weights {results[0]['weights']}, but {calm[0]['weights']} undisturbed")
    if is_exact and job.program != "digits":
        undisturbed = {r["rank"]: r for r in calm}
        for mine in results:
            its = undisturbed[mine["rank"]]
            # A checkpoint has the buffers of worker 0, with which all begin again.
            other = {"loss"} if mine["rank"] == 0 or job.first == 0 else {"loss", "buffers"}
            different = {k: (mine[k], its[k]) for k in its if k not in other and mine[k] != its[k]}
            if different:
                job.fail(f"not as undisturbed: {different}")
    losses = [[r["loss"] for r in rs if r["loss"] is not None] for rs in (results, calm)]
    if losses[0] and sum(losses[0]) / len(losses[0]) > sum(losses[1]) / len(losses[1]) + 0.25:
        job.fail(f"loss {losses[0]}, but {losses[1]} undisturbed")
    if job.stall > STALL_MAX_S:
        job.fail(f"nothing moved for {job.stall:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the talweg program is: target/release")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--each", type=int, default=8, help="faults of one job")
    parser.add_argument("--steps", type=int, default=5_000, help="steps of one job of Rust's program")
    parser.add_argument("--recipe-steps", type=int, default=1_500, help="steps of one job of a recipe")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds one job may take after its last fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--silence", type=float, default=1.5,
                        help="seconds of silence after which a process is given up; partitions last longer")
    parser.add_argument("--hang", type=float, default=4.0, help="seconds without progress after which a worker is struck")
    parser.add_argument("--kinds", default=",".join(FAULTS), help="faults to choose from")
    parser.add_argument("--ways", default="all-reduce,store", help="jobs to run in turn")
    parser.add_argument("--programs", default=",".join(["digits", *RECIPES]), help="programs to run in turn")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that imports talweg, for the recipes")
    parser.add_argument("--no-network", action="store_true", help="no machines of their own, no partitions")
    parser.add_argument("--log", help="a file for what every job said")
    o = parser.parse_args()
    network = None
    if os.geteuid() != 0:
        print("campaign: not root, so no network namespaces, no partitions and no full disks")
    elif not o.no_network:
        try:
            network = Network()
        except OSError as e:
            print(f"campaign: no network namespaces, so no partitions: {e}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        campaign(o, random.Random(o.seed), network)
    finally:
        # Its processes end with it.
        if Job.last and Job.last.process.poll() is None:
            Job.last.process.kill()
        if Job.last and Job.last.disk:
            Job.last.disk.remove()
        if network:
            network.down()


def campaign(o, rng, network):
    began, counts, jobs, calm, worst = time.monotonic(), {}, 0, {}, 0.0
    setups = [(program, way) for program in o.programs.split(",") for way in o.ways.split(",")]
    while (done := sum(counts.values())) < o.faults:
        program, way = setups[jobs % len(setups)]
        servers = SERVERS if way == "store" else 0
        if (program, way) not in calm:
            calm[program, way] = Job(o, network, program, servers).finish()
        disk = Disk()
        disk.keeps_store = rng.random() < 0.5
        job = Job(o, network, program, servers, disk)
        if not job.until(lambda: any("epoch 1:" in line for line in job.lines), o.limit):
            job.fail("the job did not begin")
        dealt = disturb(o, job, min(o.each, o.faults - done), rng, o.kinds.split(","))
        judge(job, job.finish(), dealt, calm[program, way])
        disk.remove()
        if o.log:
            with open(o.log, "a") as f:
                f.write(f"job {jobs + 1}: {program}, {way}\n{job.text()}\n")
        for kind, n in dealt.items():
            counts[way, kind] = counts.get((way, kind), 0) + n
        jobs, worst = jobs + 1, max(worst, job.stall)
        said = f"job {jobs}: {program}, {way}, {job.times[-1]:.1f} s, {dealt}, longest stall {job.stall:.1f} s"
        print(f"{time.monotonic() - began:7.1f} s  {said}", flush=True)
        if not dealt:
            job.fail("the job was over before anything happened: give it more steps")
    for (way, kind), n in sorted(counts.items()):
        print(f"{n:5} × {kind} under {way}")
    print(f"campaign: {done} faults in {jobs} jobs, all of which ended as they should; longest stall {worst:.1f} s")


if __name__ == "__main__":
    main()
