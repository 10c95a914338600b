"""Measures `talweg serve` beside the model in process and beside a Python server with ONNX Runtime.

    python scripts/bench_serve.py TALWEG [--seconds 5] [--rounds 3] [--long]

TALWEG is the program, built with `cargo build --release -p talweg --features serve`. The Python package exports the
models; it must be importable. `onnx`, `onnxruntime`, `fastapi` and `uvicorn` are needed for the peer, else it is left
out. Rounds interleave what is compared, and ratios are medians over rounds: on a busy machine ratios mean more than
times. Prints one JSON object; `load` is the machine's load average before each round.
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

PEER = '''
import json, sys
import numpy as np, onnxruntime, uvicorn
from fastapi import FastAPI, Request, Response

options = onnxruntime.SessionOptions()
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
app = FastAPI()

@app.get("/v2/health/ready")
def ready():
    return {"ready": True}

@app.get("/v2/models/{name}")
def metadata(name: str):
    x = session.get_inputs()[0]
    return {"name": name, "inputs": [{"name": x.name, "datatype": "FP32", "shape": [-1, *x.shape[1:]]}]}

@app.post("/v2/models/{name}/infer")
async def infer(name: str, request: Request):
    body = await request.body()
    length = int(request.headers["inference-header-content-length"])
    tensor = json.loads(body[:length])["inputs"][0]
    x = np.frombuffer(body[length:], np.float32).reshape(tensor["shape"])
    y = session.run(None, {tensor["name"]: x})[0]
    head = json.dumps({"model_name": name, "outputs": [{"name": "output", "shape": list(y.shape), "datatype": "FP32",
                       "parameters": {"binary_data_size": y.nbytes}}]}).encode()
    return Response(head + y.tobytes(), headers={"inference-header-content-length": str(len(head))})

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
'''


def mlp(widths):
    from talweg import nn

    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def resnet18():
    from talweg import nn

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
                nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
            self.short = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride > 1 else None

        def forward(self, x):
            return (self.body(x) + (x if self.short is None else self.short(x))).relu()

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = [64, 64, 128, 256, 512]
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += [Block(a, b, 1 if i == 0 else 2), Block(b, b, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def write_onnx(net, widths, path):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    state, nodes, weights, x = net.state_dict(), [], [], "x"
    keys = sorted({k.split(".")[0] for k in state}, key=int)
    for i, k in enumerate(keys):
        weights += [numpy_helper.from_array(state[f"{k}.{p}"].numpy(), f"{p}{i}") for p in ("weight", "bias")]
        nodes.append(helper.make_node("Gemm", [x, f"weight{i}", f"bias{i}"], [f"y{i}"], transB=1))
        x = f"y{i}"
        if i + 1 < len(keys):
            nodes.append(helper.make_node("Relu", [x], [f"r{i}"]))
            x = f"r{i}"
    tensor = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
    graph = helper.make_graph(nodes, "mlp", [tensor("x", widths[0])], [tensor(x, widths[-1])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert np.isfinite(state["0.weight"].numpy()).all()


class Bench:
    def __init__(self, program, seconds):
        self.program, self.seconds = program, seconds

    def run(self, *words, seconds=None):
        command = [self.program, "bench", "serve", "--seconds", str(seconds or self.seconds), *map(str, words)]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def serve(self, repository, *flags):
        began = time.monotonic()
        command = [self.program, "serve", repository, "--port", "0", *flags]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        host = server.stdout.readline().split()[3].removeprefix("http://").rstrip("/")
        return server, host, time.monotonic() - began


def wait_ready(url):
    for _ in range(600):
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def resident_mb(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def median(rows, key):
    return round(statistics.median(r[key] for r in rows), 4)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--long", action="store_true", help="hold 80 %% of saturation for ten minutes")
    o = arguments.parse_args()
    import talweg as tw

    tw.manual_seed(0)
    bench, out = Bench(o.program, o.seconds), {"load": []}
    small, wide = [64, 128, 16], [1024, 1024, 1024, 1024]
    with tempfile.TemporaryDirectory() as folder:
        nets = {"small": mlp(small), "wide": mlp(wide), "resnet18": resnet18()}
        shapes = {"small": (1, 64), "wide": (1, 1024), "resnet18": (1, 3, 224, 224)}
        for name, net in nets.items():
            net.export(f"{folder}/models/{name}/1", tw.zeros(*shapes[name]))
        has_peer = True
        try:
            write_onnx(nets["small"], small, f"{folder}/small.onnx")
            import fastapi, onnxruntime, uvicorn  # noqa: F401
        except ImportError as e:
            has_peer, out["peer"] = False, f"left out: {e}"
        pathlib.Path(f"{folder}/peer.py").write_text(PEER)
        begun = []
        for _ in range(o.rounds):
            pathlib.Path(f"{folder}/one").mkdir(exist_ok=True)
            server, _, seconds = bench.serve(f"{folder}/models/resnet18/1")
            begun.append({"seconds": seconds, "mb": resident_mb(server.pid)})
            server.terminate()
            server.wait(60)
        out["resnet18_start"] = {"seconds": median(begun, "seconds"), "resident_mb": median(begun, "mb")}
        server, host, _ = bench.serve(f"{folder}/models")
        single, single_host, _ = bench.serve(f"{folder}/models", "--batch-max", "1")
        peer, port = None, 18643
        if has_peer:
            peer = subprocess.Popen([sys.executable, f"{folder}/peer.py", f"{folder}/small.onnx", str(port)])
            wait_ready(f"http://127.0.0.1:{port}/v2/health/ready")
        try:
            measure(o, bench, out, folder, host, single_host, port if peer else None, server)
        finally:
            for p in filter(None, (server, single, peer)):
                p.terminate()
                p.wait(60)
    print(json.dumps(out, indent=1))


def measure(o, bench, out, folder, host, single_host, port, server):
    rows = []
    for name in ("small", "wide", "resnet18"):
        bench.run("--server", host, "--model", name, "--clients", 48, seconds=2)  # compiles the batch sizes
    for _ in range(o.rounds):
        out["load"].append(os.getloadavg()[0])
        r = {}
        here = bench.run("--model", "small", "--here", f"{folder}/models/small/1")
        there = bench.run("--server", host, "--model", "small", "--clients", 1)
        r["added_p50_us"] = (there["p50_ms"] - here["p50_ms"]) * 1e3
        r["added_p99_us"] = (there["p99_ms"] - here["p99_ms"]) * 1e3
        for name, clients in (("wide", 64), ("resnet18", 8)):
            batch = 32 if name == "wide" else 4
            best = bench.run("--model", name, "--rows", batch, "--here", f"{folder}/models/{name}/1")
            full = bench.run("--server", host, "--model", name, "--clients", clients)
            r[f"{name}_of_in_process"] = full["throughput"] / best["throughput"]
            if name == "wide":
                alone = bench.run("--server", single_host, "--model", name, "--clients", clients)
                r["batching_gain"] = full["goodput"] / max(alone["throughput"], 1e-9)
                r["wide_per_second"] = full["throughput"]
        if port:
            ours = bench.run("--server", host, "--model", "small", "--clients", 16)
            theirs = bench.run("--server", f"127.0.0.1:{port}", "--model", "small", "--clients", 16)
            r["of_python_server"] = ours["throughput"] / theirs["throughput"]
            r["small_per_second"] = ours["throughput"]
        rows.append(r)
    out["ratios"] = {k: median(rows, k) for k in rows[0]}
    saturation = out["ratios"]["wide_per_second"]
    seconds = 600 if o.long else max(10, 2 * o.seconds)
    before = resident_mb(server.pid)
    held = bench.run("--server", host, "--model", "wide", "--clients", 512, "--rate", 0.8 * saturation, seconds=seconds)
    over = bench.run("--server", host, "--model", "wide", "--clients", 1024, "--rate", 2 * saturation, seconds=seconds)
    keep = ("sent", "answered", "refused", "failed", "missed", "throughput", "goodput", "p50_ms", "p99_ms", "refusal_p99_ms")
    out["at_80_percent"] = {k: held[k] for k in keep}
    out["at_200_percent"] = {k: over[k] for k in keep}
    out["resident_mb"] = {"before": before, "after": resident_mb(server.pid)}


if __name__ == "__main__":
    main()
