"""Measures `talweg serve` beside the model in process, beside a Python server with ONNX Runtime, and beside ONNX Runtime
in process.

    python scripts/bench_serve.py TALWEG [--seconds 2] [--rounds 5] [--hold 20] [--nice -10] [--json FILE]

TALWEG is the program, built with `cargo build --release -p talweg --features serve`. The Python package exports the
models (`serve_nets.py`); it must be importable. `torch`, `onnx`, `onnxruntime`, `fastapi` and `uvicorn` are needed for
the peers, else they are left out. Rounds interleave what is compared, and ratios are medians over rounds: on a busy
machine ratios mean more than times. Prints the table of docs/serving.md; `--json` keeps every figure of every round.
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

# Clients of the closed loop, and batch sizes to try in process.
LOAD = {
    "small": (32, [32]), "wide": (64, [16, 32]), "resnet18": (12, [1, 4, 8]), "minilm": (64, [8, 32]), "ocr": (64, [8, 32]),
}


class Bench:
    def __init__(self, o, folder):
        self.o, self.folder = o, pathlib.Path(folder)
        self.children, self.environment = [], {**os.environ, "PYTHONUNBUFFERED": "1"}

    def _priority(self):
        if self.o.nice:
            os.nice(self.o.nice)

    def start(self, command):
        p = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, preexec_fn=self._priority)
        self.children.append(p)
        return p

    def output(self, *command):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, preexec_fn=self._priority)
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout

    def load(self, host, model, clients, *words, seconds=None):
        """Load on a server: the generator's report, with the server's own time for each request if it is ours."""
        command = [self.o.program, "bench", "serve", "--server", host, "--model", model, "--clients", clients]
        return json.loads(self.output(*command, "--seconds", seconds or self.o.seconds, *words))

    def here(self, model, rows):
        directory = self.folder / "models" / model / "1"
        command = [self.o.program, "bench", "serve", "--model", model, "--rows", rows, "--here", directory]
        return json.loads(self.output(*command, "--seconds", self.o.seconds))

    def limit(self, model, rows):
        """Rows a second of ONNX Runtime in process."""
        return float(self.output(sys.executable, self.folder / "limit.py", self.folder / f"{model}.onnx", rows, self.o.seconds))

    def serve(self, repository, *flags):
        begun = time.monotonic()
        server = self.start([self.o.program, "serve", repository, "--port", "0", *flags])
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
            bench.load(host, name, LOAD[name][0], seconds=3)


def low_load(bench, host, names):
    """What the server adds to the latency of a request that is alone."""
    rows = []
    for _ in range(bench.o.rounds):
        r = {}
        for name in names:
            here, there = bench.here(name, 1), bench.load(host, name, 1)
            for p in ("p50_ms", "p99_ms"):
                r[f"{name} {p}"], r[f"{name} here {p}"] = there[p], here[p]
                r[f"{name} added {p}"] = there[p] - here[p]
        rows.append(r)
    return rows


def saturation(bench, host, single, server, name, batches, peer):
    """Rows a second: the server, the same with batches of one, the model in process, the peers."""
    rows, (clients, _) = [], LOAD[name]
    for _ in range(bench.o.rounds):
        r = {"here": max(bench.here(name, b)["throughput"] for b in batches)}
        cpu = cpu_seconds(server.pid)
        full = bench.load(host, name, clients)
        r["cpu_us"] = (cpu_seconds(server.pid) - cpu) / max(full["answered"], 1) * 1e6
        r["server"], r["p99_ms"] = full["throughput"], full["p99_ms"]
        if name in ("small", "wide"):
            r["server, 8 rows"] = bench.load(host, name, 16, "--rows", 8)["throughput"] * 8
            r["of_here_8_rows"] = r["server, 8 rows"] / r["here"]
            r["single"] = bench.load(single, name, clients)["throughput"]
            r["gain"] = r["server"] / r["single"]
        r["of_here"] = r["server"] / r["here"]
        if peer:
            r["python"] = bench.load(peer, name, clients)["throughput"]
            r["onnx"] = max(bench.limit(name, b) for b in batches)
            r["of_python"], r["of_onnx"] = r["server"] / r["python"], r["server"] / r["onnx"]
        rows.append(r)
    return rows


def open_loop(bench, host, server, rate):
    before = resident_mb(server.pid)
    held = bench.load(host, "wide", 512, "--rate", 0.8 * rate, seconds=bench.o.hold)
    over = bench.load(host, "wide", 1024, "--rate", 2 * rate, seconds=bench.o.hold)
    middle = resident_mb(server.pid)
    bench.load(host, "wide", 1024, "--rate", 2 * rate, seconds=bench.o.hold)
    return {"held": held, "over": over, "mb": [before, middle, resident_mb(server.pid)], "rate": rate}


def table(out):
    show = lambda x, digits=2: "" if x is None else f"{x:,.{digits}f}"
    lines = ["| model | in process, rows/s | server | of in process | Python server | times | ONNX Runtime in process | p99, ms | server CPU, µs |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name, rows in out["saturation"].items():
        m = lambda k: median(rows, k)
        lines.append(f"| {name} | {show(m('here'), 0)} | {show(m('server'), 0)} | {show(m('of_here'))} | {show(m('python'), 0)} | "
                     f"{show(m('of_python'), 1)} | {show(m('onnx'), 0)} | {show(m('p99_ms'), 1)} | {show(m('cpu_us'), 0)} |")
    lines += ["", "| figure | value |", "|---|---|"]
    for name in ("small", "wide"):
        rows = out["saturation"].get(name)
        if rows:
            lines.append(f"| {name}: requests of 8 rows, of in process | {show(median(rows, 'of_here_8_rows'))} |")
            lines.append(f"| {name}: batching over batches of one | {show(median(rows, 'gain'), 1)} times |")
        for p in ("p50_ms", "p99_ms"):
            added = median(out["low"], f"{name} added {p}")
            if added is not None:
                lines.append(f"| {name}, one client: {p[:3]} of the server less in process | {added * 1e3:.0f} µs |")
    lines.append(f"| ResNet-18: start to ready; resident | {median(out['start'], 'seconds'):.2f} s; {median(out['start'], 'mb'):.0f} MiB |")
    if held := out.get("open"):
        h, v = held["held"], held["over"]
        lines.append(f"| wide at 80 % of saturation ({0.8 * held['rate']:.0f} a second): p99, refused, missed | {h['p99_ms']:.1f} ms, "
                     f"{h['refused']} and {h['missed']} of {h['sent']} |")
        lines.append(f"| wide at twice saturation: p99 of answers, p99 of refusals, answers a second | {v['p99_ms']:.1f} ms, "
                     f"{v['refusal_p99_ms']:.1f} ms, {v['throughput']:.0f} |")
        lines.append(f"| resident before, after once and twice such a load | {' / '.join(f'{mb:.0f}' for mb in held['mb'])} MiB |")
    return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--hold", type=float, default=20, help="seconds at 80 %% and at twice saturation")
    arguments.add_argument("--nice", type=int, default=0, help="priority of what is measured; below 0 needs root")
    arguments.add_argument("--nets", default=",".join(serve_nets.NETS))
    arguments.add_argument("--folder", help="keep the exported models here, and use those that are there")
    arguments.add_argument("--skip", default="", help="parts to leave out: low, start, open, peer")
    arguments.add_argument("--json")
    o = arguments.parse_args()
    names, skipped = o.nets.split(","), o.skip.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(o.folder or temporary)
        missing = [n for n in names if not (folder / "models" / n).exists()]
        if missing:
            serve_nets.write(folder, missing)
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
    print(table(out))


def has_peers():
    try:
        import fastapi, onnxruntime, uvicorn  # noqa: F401
    except ImportError as e:
        print(f"peers are left out: {e}")
        return False
    return True


def measure(bench, out, names, skipped):
    models = bench.folder / "models"
    if "start" not in skipped:
        for _ in range(bench.o.rounds):
            server, _, seconds = bench.serve(models / "resnet18" / "1")
            out["start"].append({"seconds": seconds, "mb": resident_mb(server.pid)})
            server.terminate()
            server.wait(60)
    server, host, _ = bench.serve(models)
    _, single, _ = bench.serve(models, "--batch-max", "1")
    is_with_peers = "peer" not in skipped and has_peers()
    warm(bench, [host, single], names)
    if "low" not in skipped:
        out["low"] = low_load(bench, host, [n for n in ("small", "wide") if n in names])
    for i, name in enumerate(names):
        has_file = (bench.folder / f"{name}.onnx").exists()
        peer = bench.peer(name, 18640 + i) if is_with_peers and has_file else None
        best = max(LOAD[name][1], key=lambda b: bench.here(name, b)["throughput"])
        out["saturation"][name] = saturation(bench, host, single, server, name, [best], peer)
    if "open" not in skipped and "wide" in names:
        out["open"] = open_loop(bench, host, server, median(out["saturation"]["wide"], "server"))


if __name__ == "__main__":
    main()
