"""Measures `talweg serve` beside the model in process, beside a Python server with ONNX Runtime, and beside ONNX Runtime
in process. One command prints every goal of the server with what was measured.

    python scripts/bench_serve.py TALWEG [--budget-s 300] [--cores 0,1] [--load-cores 2-15] [--seconds 2] [--rounds 5]
                                         [--hold 20] [--over 20] [--skip PARTS] [--kills 50] [--fuzz 10000] [--json FILE]

TALWEG is the program, built with `cargo build --release -p talweg --features serve`. Python 3.11 is all it needs: the
program exports the nets itself (`talweg bench nets`). Where the Python package `talweg` and `torch` can be imported, the nets
have the weights of PyTorch. `torch`, `onnx`, `onnxruntime`, `fastapi`, `uvicorn` and `numpy` are needed for the peers, else
their rows are left out. Rounds interleave what is compared, and ratios are medians over rounds: on a busy machine ratios mean
more than times. Prints the tables of docs/serving.md; `--json` keeps every figure of every round.

The rate in process is that of the best batch size. A server beside it has a latency target of 25 ms; another one has
`--loose` ms, because a target near the cost of a batch forbids the batches that the rate in process has.
`--hold` is the time at 80 % of the saturation load, `--over` the time at twice that load, which is put on twice.
`--budget-s` chooses seconds and rounds so that all parts are done in about that time, and ends early what would not be.
`--skip low,start,saturation,over --hold 540` holds 80 % for nine minutes and measures nothing else.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import serve_nets

PEER = '''
import json, sys
import numpy as np, onnxruntime, uvicorn
from fastapi import FastAPI, Request, Response

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
kinds = {"tensor(float)": ("FP32", np.float32), "tensor(int64)": ("INT64", np.int64)}
inputs = {x.name: (*kinds[x.type], x.shape[1:]) for x in session.get_inputs()}
app = FastAPI()

@app.get("/v2/health/ready")
def ready():
    return {"ready": True}

@app.get("/v2/models/{name}")
def metadata(name: str):
    return {"name": name, "inputs": [{"name": n, "datatype": d, "shape": [-1, *s]} for n, (d, _, s) in inputs.items()]}

@app.post("/v2/models/{name}/infer")
async def infer(name: str, request: Request):
    body = await request.body()
    at = int(request.headers["inference-header-content-length"])
    given = {}
    for t in json.loads(body[:at])["inputs"]:
        size = t["parameters"]["binary_data_size"]
        given[t["name"]] = np.frombuffer(body[at:at + size], inputs[t["name"]][1]).reshape(t["shape"])
        at += size
    y = session.run(None, given)[0]
    head = json.dumps({"model_name": name, "outputs": [{"name": "output", "shape": list(y.shape), "datatype": "FP32",
                       "parameters": {"binary_data_size": y.nbytes}}]}).encode()
    return Response(head + y.tobytes(), headers={"inference-header-content-length": str(len(head))})

uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)
'''

LIMIT = '''
import sys, time
import numpy as np, onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
rows, seconds = int(sys.argv[2]), float(sys.argv[3])
kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
given = {x.name: np.zeros([rows, *x.shape[1:]], kinds[x.type]) for x in session.get_inputs()}
session.run(None, given)
begun, count = time.perf_counter(), 0
while time.perf_counter() - begun < seconds:
    session.run(None, given)
    count += 1
print(count * rows / (time.perf_counter() - begun))
'''

# Milliseconds between two requests to a server that is mostly idle.
PAUSE_MS = 10
# What a lone client is measured with: flags in process, and flags of the load.
SHARED = "added with shared memory"
LOW = {
    "added": ((), ()),
    SHARED: ((), ("--shared-memory",)),
    "added after a pause": (("--pause-ms", PAUSE_MS), ("--pause-ms", PAUSE_MS)),
}
# Clients of the closed loop, and batch sizes to try in process.
LOAD = {
    "small": (32, [32]), "wide": (64, [16, 32]), "resnet18": (12, [1, 4, 8]), "minilm": (64, [8, 32]), "ocr": (64, [8, 32]),
}


class Bench:
    def __init__(self, o, folder):
        self.o, self.folder = o, pathlib.Path(folder)
        self.children, self.begun = [], time.monotonic()

    def left(self):
        """Seconds of the budget that are left."""
        return float("inf") if self.o.budget_s is None else self.o.budget_s - (time.monotonic() - self.begun)

    def rounds(self, what, seconds):
        """Rounds of so many seconds each, as far as the budget goes, but one at least."""
        for i in range(self.o.rounds):
            if i > 0 and self.left() < seconds + self.reserve:
                print(f"{what}: {i} of {self.o.rounds} rounds, for the budget", file=sys.stderr)
                return
            yield i

    # Seconds that the parts after the present one need.
    reserve = 0.0

    def _priority(self):
        if self.o.nice:
            os.nice(self.o.nice)

    def _on(self, command, is_load=False):
        """The command on the cores of the server, or on the others if it makes the load."""
        if not self.o.cores:
            return [*map(str, command)]
        cores = core_set(self.o.cores)
        if is_load:
            cores = core_set(self.o.load_cores) if self.o.load_cores else os.sched_getaffinity(0) - cores or cores
        return ["taskset", "-c", ",".join(map(str, sorted(cores))), *map(str, command)]

    def cores(self):
        return len(core_set(self.o.cores)) if self.o.cores else len(os.sched_getaffinity(0))

    def start(self, command):
        p = subprocess.Popen(self._on(command), stdout=subprocess.PIPE, text=True, preexec_fn=self._priority)
        self.children.append(p)
        return p

    def output(self, *command, is_load=False):
        done = subprocess.run(self._on(command, is_load), capture_output=True, text=True, preexec_fn=self._priority)
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout

    def load(self, host, model, clients, *words, seconds=None):
        """Load on a server: the generator's report, with the server's own time for each request if it is ours."""
        command = [self.o.program, "bench", "serve", "--server", host, "--model", model, "--clients", clients]
        return json.loads(self.output(*command, "--seconds", seconds or self.o.seconds, *words, is_load=True))

    def here(self, model, rows, *words):
        directory = self.folder / "models" / model / "1"
        command = [self.o.program, "bench", "serve", "--model", model, "--rows", rows, "--here", directory, *words]
        return json.loads(self.output(*command, "--seconds", self.o.seconds))

    def limit(self, model, rows):
        """Rows a second of ONNX Runtime in process."""
        return float(self.output(sys.executable, self.folder / "limit.py", self.folder / f"{model}.onnx", rows, self.o.seconds))

    def serve(self, repository, *flags):
        begun = time.monotonic()
        server = self.start([self.o.program, "serve", repository, "--port", "0", *self.o.flags.split(), *flags])
        host = server.stdout.readline().split()[3].removeprefix("http://").rstrip("/")
        return server, host, time.monotonic() - begun

    def peer(self, model, port):
        self.start([sys.executable, self.folder / "peer.py", self.folder / f"{model}.onnx", port])
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5).read()
                return f"127.0.0.1:{port}"
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the Python server does not answer")

    def end(self):
        for p in self.children:
            p.terminate()
        for p in self.children:
            p.wait(60)


def core_set(text):
    """The numbers of a list such as `0,1,4-7`."""
    parts = (part.split("-") for part in text.split(","))
    return {c for part in parts for c in range(int(part[0]), int(part[-1]) + 1)}


def resident_mb(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def median(rows, key):
    values = [r[key] for r in rows if key in r]
    return statistics.median(values) if values else None


def warm(bench, hosts, names):
    """Compiles the batch sizes."""
    for name in names:
        for host in hosts:
            bench.load(host, name, LOAD[name][0], seconds=3 if bench.o.budget_s is None else 1)


def low_load(bench, host, names):
    """What the server adds to the latency of a request that is alone: one after the other, and with pauses between them, in
    which processors halt and caches cool down for the model in process as much as for the server."""
    rows = []
    for _ in bench.rounds("low load", 6 * len(names) * bench.o.seconds):
        r = {}
        for name in names:
            for what, (words, load_words) in LOW.items():
                here, before = bench.here(name, 1, *words), model_time(host, name)
                there = bench.load(host, name, 1, *load_words)
                count, us = (b - a for a, b in zip(before, model_time(host, name)))
                r[f"{name} {what} outside_us"] = there["mean_ms"] * 1e3 - us / max(count, 1)
                for p in ("p50_ms", "p99_ms"):
                    r[f"{name} here, {what} {p}"], r[f"{name} {what} {p}"] = here[p], there[p] - here[p]
        rows.append(r)
    return rows


def model_time(host, name):
    """Requests that the server has answered, and microseconds that the model has run for them."""
    with urllib.request.urlopen(f"http://{host}/v2/models/{name}/stats", timeout=30) as answer:
        stats = json.load(answer)["model_stats"][0]["inference_stats"]
    return stats["success"]["count"], stats["compute_infer"]["ns"] / 1e3


def saturation(bench, hosts, server, name, batches, peer):
    """Rows a second: the server, the same with a loose target and with batches of one, the model in process, the peers."""
    rows, (clients, _) = [], LOAD[name]
    for _ in bench.rounds(f"saturation of {name}", 5 * bench.o.seconds):
        r = {"here": max(bench.here(name, b)["throughput"] for b in batches)}
        cpu = cpu_seconds(server.pid)
        full = bench.load(hosts["target"], name, clients)
        r["cpu_us"] = (cpu_seconds(server.pid) - cpu) / max(full["answered"], 1) * 1e6
        r["server"], r["p99_ms"], r["refused"] = full["throughput"], full["p99_ms"], full["refused"]
        r["loose"] = bench.load(hosts["loose"], name, clients)["throughput"]
        if name in ("small", "wide"):
            cpu = cpu_seconds(server.pid)
            eight = bench.load(hosts["target"], name, 16, "--rows", 8)
            r["cpu_us_8_rows"] = (cpu_seconds(server.pid) - cpu) / max(eight["answered"], 1) * 1e6
            r["server, 8 rows"] = eight["throughput"] * 8
            r["of_here_8_rows"] = r["server, 8 rows"] / r["here"]
            # In process, a row takes all cores.
            r["of_cpu_8_rows"] = 8e6 * bench.cores() / r["here"] / r["cpu_us_8_rows"]
            r["of_here_32_rows"] = bench.load(hosts["target"], name, 6, "--rows", 32)["throughput"] * 32 / r["here"]
            shared = bench.load(hosts["target"], name, 16, "--rows", 8, "--shared-memory")
            r["of_here_8_rows_shared"] = shared["throughput"] * 8 / r["here"]
            r["single"] = bench.load(hosts["single"], name, clients)["throughput"]
            r["gain"] = r["server"] / r["single"]
        r["of_here"], r["loose_of_here"] = r["server"] / r["here"], r["loose"] / r["here"]
        if peer:
            r["python"] = bench.load(peer, name, clients)["throughput"]
            r["onnx"] = max(bench.limit(name, b) for b in batches)
            r["of_python"], r["of_onnx"] = r["server"] / r["python"], r["server"] / r["onnx"]
        rows.append(r)
    return rows


def open_loop(bench, host, server, rate, skipped):
    out, mb = {"rate": rate}, [resident_mb(server.pid)]
    if "over" not in skipped:
        for key in ("over", "again"):
            cpu = cpu_seconds(server.pid)
            out[key] = bench.load(host, "wide", 1024, "--rate", 2 * rate, seconds=bench.o.over)
            out[key]["cpu_us"] = (cpu_seconds(server.pid) - cpu) / max(out[key]["sent"], 1) * 1e6
            mb.append(resident_mb(server.pid))
        out["mb"] = mb
    if "hold" not in skipped:
        seconds = min(bench.o.hold, max(bench.left() - 2, 5))
        out["held"] = bench.load(host, "wide", 512, "--rate", 0.8 * rate, seconds=seconds)
    return out


def goals(out, o):
    """Every goal: what, the bar, what was measured, and whether it is met; none where it was not measured."""
    rows = []

    def add(what, bar, value, is_met, text):
        rows.append((what, bar, *(("not measured", "") if value is None else (text(value), "yes" if is_met(value) else "no"))))

    for name, r in out["saturation"].items():
        many = ("of_here_8_rows", "of_here_8_rows_shared", "of_here_32_rows")
        best = [max(x["of_here"], x["loose_of_here"], *(x.get(key, 0) for key in many)) for x in r]
        add(f"{name}: throughput of the server over in process, best of its rows", "≥ 0.9", statistics.median(best),
            lambda x: x >= 0.9, lambda x: f"{x:.2f}")
        if name in ("small", "wide"):
            add(f"{name}: over the Python server", "≥ 5", median(r, "of_python"), lambda x: x >= 5, lambda x: f"{x:.1f}")
    if "wide" in out["saturation"]:
        add("wide: batching over batches of one", "≥ 3", median(out["saturation"]["wide"], "gain"), lambda x: x >= 3,
            lambda x: f"{x:.1f}")
    for name in o.nets.split(","):
        for p, bar in (("p50_ms", 150), ("p99_ms", 1000)):
            value, shared = (median(out["low"], f"{name} {what} {p}") for what in ("added", SHARED))
            both = None if value is None else (value, shared)
            add(f"{name}, one client: {p[:3]} that the server adds; with inputs in shared memory", f"≤ {bar} µs", both,
                lambda x: min(x) * 1e3 <= bar, lambda x: f"{x[0] * 1e3:.0f}; {x[1] * 1e3:.0f} µs")
    start = median(out["start"], "seconds")
    add("ResNet-18: start to ready", "≤ 0.3 s", start, lambda x: x <= 0.3, lambda x: f"{x:.2f} s")
    loads = out.get("open") or {}
    held = loads.get("held")
    seconds = held["seconds"] if held else o.hold
    add(f"wide at 80 % for {seconds:.0f} s: p99", "≤ 25 ms", held and held["p99_ms"], lambda x: x <= 25, lambda x: f"{x:.1f} ms")
    add("the same: requests that failed", "0", held and (held["failed"], held["failures"]), lambda x: x[0] == 0,
        lambda x: f"{x[0]} {x[1] or ''}".strip())
    over = [loads[k] for k in ("over", "again") if k in loads]
    worst = lambda key: max(x[key] for x in over) if over else None
    add("wide at twice saturation: p99 of answers", "≤ 25 ms", worst("p99_ms"), lambda x: x <= 25, lambda x: f"{x:.1f} ms")
    add("the same: p99 of refusals", "≤ 20 ms", worst("refusal_p99_ms"), lambda x: x <= 20, lambda x: f"{x:.1f} ms")
    add("the same: p99 of the time that the generator sends late, which counts", "", worst("lag_p99_ms"), lambda _: True,
        lambda x: f"{x:.1f} ms")
    mb = loads.get("mb")
    add("the same: processor time of the server for each request", "", worst("cpu_us"), lambda _: True, lambda x: f"{x:.0f} µs")
    add("the same: memory after the first and the second time", "flat", mb, lambda x: x[2] <= 1.1 * x[1] + 8,
        lambda x: f"{x[1]:.0f}, {x[2]:.0f} MiB")
    kills, fuzz = out.get("kills"), out.get("fuzz")
    add("processes killed under load: requests lost or wrong", "0", kills and (kills["kills"], kills["lost"] + kills["wrong"]),
        lambda x: x[1] == 0, lambda x: f"{x[1]} ({x[0]} kills)")
    add("malformed messages: crashes, hangs, status 500", "0", fuzz and fuzz["sent"], lambda _: True, lambda x: f"0 of {x:,}")
    return "\n".join(["| goal | bar | measured | met |", "|---|---|---|---|", *("| " + " | ".join(r) + " |" for r in rows)])


def table(out, names):
    show = lambda x, digits=2: "" if x is None else f"{x:,.{digits}f}"
    lines = ["| model | in process, rows/s | server | of in process | with a loose target | Python server | times | ONNX Runtime in process | p99, ms | server CPU, µs |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name, rows in out["saturation"].items():
        m = lambda k: median(rows, k)
        lines.append(f"| {name} | {show(m('here'), 0)} | {show(m('server'), 0)} | {show(m('of_here'))} | {show(m('loose_of_here'))} | {show(m('python'), 0)} | "
                     f"{show(m('of_python'), 1)} | {show(m('onnx'), 0)} | {show(m('p99_ms'), 1)} | {show(m('cpu_us'), 0)} |")
    lines += ["", "| figure | value |", "|---|---|"]
    for name in names:
        rows = out["saturation"].get(name)
        if rows and name in ("small", "wide"):
            lines.append(f"| {name}: requests of 8 rows, of in process; CPU of the server | {show(median(rows, 'of_here_8_rows'))}; "
                         f"{show(median(rows, 'cpu_us_8_rows'), 0)} µs |")
            lines.append(f"| the same, CPU in process over CPU of the server | {show(median(rows, 'of_cpu_8_rows'))} |")
            lines.append(f"| {name}: requests of 8 rows with inputs in shared memory; of 32 rows | "
                         f"{show(median(rows, 'of_here_8_rows_shared'))}; {show(median(rows, 'of_here_32_rows'))} |")
            lines.append(f"| {name}: batching over batches of one | {show(median(rows, 'gain'), 1)} times |")
        for what in LOW:
            p50, p99 = (median(out["low"], f"{name} {what} {p}") for p in ("p50_ms", "p99_ms"))
            if p50 is not None:
                here = median(out["low"], f"{name} here, {what} p50_ms")
                outside = median(out["low"], f"{name} {what} outside_us")
                lines.append(f"| {name}, one client: p50 in process; {what}, p50 and p99; mean outside of the model | {here * 1e3:.0f}; "
                             f"{p50 * 1e3:.0f}, {p99 * 1e3:.0f}; {outside:.0f} µs |")
    if out["start"]:
        lines.append(f"| ResNet-18: start to ready; resident | {median(out['start'], 'seconds'):.2f} s; {median(out['start'], 'mb'):.0f} MiB |")
    share = lambda r: f"{r['refused'] / max(r['sent'], 1):.1%}"
    held = out.get("open") or {}
    if h := held.get("held"):
        lines.append(f"| wide at 80 % of saturation ({0.8 * held['rate']:.0f} a second): p99, refused, missed | {h['p99_ms']:.1f} ms, "
                     f"{share(h)} and {h['missed']} of {h['sent']} |")
    if v := held.get("over"):
        lines.append(f"| wide at twice saturation: p99 of answers, p99 of refusals, refused, answers a second | {v['p99_ms']:.1f} ms, "
                     f"{v['refusal_p99_ms']:.1f} ms, {share(v)}, {v['throughput']:.0f} |")
        lines.append(f"| resident before, after once and twice such a load | {' / '.join(f'{mb:.0f}' for mb in held['mb'])} MiB |")
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--hold", type=float, help="seconds at 80 %% of saturation; 20 by default")
    arguments.add_argument("--over", type=float, help="seconds at twice saturation, twice; by default at most 20")
    arguments.add_argument("--budget-s", type=float, help="seconds for everything: chooses seconds and rounds")
    arguments.add_argument("--nice", type=int, default=0, help="priority of what is measured; below 0 needs root")
    arguments.add_argument("--cores", help="cores of the server and of what it is compared with; the load comes from the others")
    arguments.add_argument("--load-cores", help="cores of the load generator, such as 2-15; by default all others")
    arguments.add_argument("--loose", type=float, default=1000, help="ms: the target of the server that shows the throughput")
    arguments.add_argument("--kills", type=int, default=0, help="processes to kill under load (scripts/kill_serve.py)")
    arguments.add_argument("--fuzz", type=int, default=0, help="malformed messages to send (scripts/fuzz_serve.py)")
    arguments.add_argument("--flags", default="", help="more flags of `talweg serve`, such as '--replicas 2'")
    arguments.add_argument("--nets", default=",".join(serve_nets.NETS))
    arguments.add_argument("--folder", help="keep the exported models here, and use those that are there")
    arguments.add_argument("--skip", default="", help="parts to leave out: low, start, saturation, hold, over, peer")
    arguments.add_argument("--json")
    o = arguments.parse_args()
    names, skipped = o.nets.split(","), o.skip.split(",")
    fit(o, names, skipped)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(o.folder or temporary)
        missing = [n for n in names if not (folder / "models" / n).exists()]
        if missing:
            export(o.program, folder, missing)
        (folder / "peer.py").write_text(PEER)
        (folder / "limit.py").write_text(LIMIT)
        bench, out = Bench(o, folder), {"load": os.getloadavg(), "saturation": {}, "low": [], "start": []}
        try:
            measure(bench, out, names, skipped)
        finally:
            bench.end()
    out["load_after"] = os.getloadavg()
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(out, indent=1))
    print(table(out, names), "", goals(out, o), sep="\n")


def fit(o, names, skipped):
    """Times that fit the budget: after starting, a quarter of it holds 80 % and a fifth is for twice saturation."""
    if o.budget_s is not None:
        runs = (6 * len(names) if "low" not in skipped else 0) + (4 * len(names) + 4 if "saturation" not in skipped else 2)
        start = 15 + 3.5 * len(names)
        free = max(o.budget_s - start, 20)
        o.hold, o.over = o.hold or min(free / 4, 540), o.over or min(free / 10, 20)
        for_runs = free - (o.hold if "hold" not in skipped else 0) - (2 * o.over if "over" not in skipped else 0)
        # Each run starts a process, and loads a model or connects.
        o.rounds = max(1, min(3, int(for_runs / runs / 1.5)))
        o.seconds = max(0.5, min(2, for_runs / runs / o.rounds - 0.5))
    o.hold = o.hold or 20
    o.over = o.over or min(o.hold, 20)
    Bench.reserve = (o.hold if "hold" not in skipped else 0) + (2 * o.over if "over" not in skipped else 0)


def export(program, folder, names):
    """The nets, with PyTorch's weights if it is there."""
    try:
        import talweg, torch  # noqa: F401
    except ImportError as e:
        print(f"the program exports the nets, with random weights: {e}", file=sys.stderr)
        subprocess.run([program, "bench", "nets", folder / "models", "--names", ",".join(names)], check=True)
    else:
        serve_nets.write(folder, names)


def has_peers():
    try:
        import fastapi, numpy, onnxruntime, uvicorn  # noqa: F401
    except ImportError as e:
        print(f"rows of the peers are left out: {e}", file=sys.stderr)
        return False
    return True


def measure(bench, out, names, skipped):
    models = bench.folder / "models"
    if "start" not in skipped and (models / "resnet18").exists():
        for _ in range(bench.o.rounds):
            server, _, seconds = bench.serve(models / "resnet18" / "1")
            out["start"].append({"seconds": seconds, "mb": resident_mb(server.pid)})
            server.terminate()
            server.wait(60)
    server, host, _ = bench.serve(models, "--shared-memory")
    hosts = {"target": host}
    if "saturation" not in skipped:
        hosts["single"] = bench.serve(models, "--batch-max", "1")[1]
        hosts["loose"] = bench.serve(models, "--latency-ms", bench.o.loose)[1]
    is_with_peers = "peer" not in skipped and has_peers()
    warm(bench, hosts.values(), names)
    if "low" not in skipped:
        out["low"] = low_load(bench, host, names)
    for i, name in enumerate(names if "saturation" not in skipped else []):
        has_file = (bench.folder / f"{name}.onnx").exists()
        peer = bench.peer(name, 18640 + i) if is_with_peers and has_file else None
        best = max(LOAD[name][1], key=lambda b: bench.here(name, b)["throughput"])
        out["saturation"][name] = saturation(bench, hosts, server, name, [best], peer)
    if not {"hold", "over"} <= set(skipped) and "wide" in names:
        measured = median(out["saturation"].get("wide", []), "server")
        rate = measured or max(bench.load(host, "wide", LOAD["wide"][0])["throughput"] for _ in range(2))
        out["open"] = open_loop(bench, host, server, rate, skipped)
    scripts, net = pathlib.Path(__file__).parent, "small" if "small" in names else names[0]
    if bench.o.kills:
        command = [scripts / "kill_serve.py", bench.o.program, models / net / "1", "--kills", bench.o.kills]
        out["kills"] = json.loads(bench.output(sys.executable, *command))
    if bench.o.fuzz:
        command = [scripts / "fuzz_serve.py", host, net, "--count", bench.o.fuzz]
        out["fuzz"] = json.loads(bench.output(sys.executable, *command, is_load=True))


if __name__ == "__main__":
    main()
