"""Measures `talweg serve` beside the model in process on a GPU, with ResNet-50 and MiniLM.

    python scripts/serve_gpu.py export DIRECTORY              # needs the Python package; weights are left out
    python scripts/serve_gpu.py measure TALWEG DIRECTORY OUT [FLAG…]  # needs the program and Python alone

Weights are random, so the directory holds their header only and `measure` fills in the rest. Input images are bytes; the
model scales them. `OUT/serve.json` has every round, the table is printed. The server is saturated where more clients do not get more answers:
the table has the number of clients with the most.
"""

import array
import hashlib
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import time
import urllib.request

DEVICE = "cuda:0"
# Batch sizes to try in process, and numbers of clients of the closed loop.
LOAD = {"resnet50": ([32, 64], [192, 256, 384]), "minilm": ([32, 64], [256, 384])}
ROUNDS, SECONDS = 2, 3


def export(folder):
    import serve_nets
    import talweg as tw

    tw.manual_seed(0)
    folder = pathlib.Path(folder)
    net = serve_nets.resnet(tw.nn, [3, 4, 6, 3], True).eval()
    net.export(folder / "resnet50" / "1", tw.zeros(2, 3, 224, 224, dtype=tw.uint8),
               preprocess=lambda image: image.float() / 255)
    shapes = {n: {0: "batch"} for n in ("ids", "mask")}
    ones = tw.ones(2, 128, dtype=tw.int64)
    tw.export(serve_nets.minilm(tw.nn).eval(), folder / "minilm" / "1", (ones, ones), dynamic_shapes=shapes, name="minilm")
    for path in folder.glob("*/1/weights.safetensors"):
        with open(path, "rb") as file:
            head = file.read(8)
            head += file.read(struct.unpack("<Q", head)[0])
        path.with_suffix(".head").write_bytes(head)
        path.unlink()


def fill(directory):
    """Weights for a header: small numbers, and ones where a variance is."""
    head = (directory / "weights.head").read_bytes()
    rows = {k: v for k, v in json.loads(head[8:]).items() if k != "__metadata__"}
    size = max(v["data_offsets"][1] for v in rows.values())
    dice = random.Random(1)
    small = array.array("f", [dice.gauss(0, 0.02) for _ in range(1 << 16)]).tobytes()
    data = bytearray((small * (size // len(small) + 1))[:size])
    for name, row in rows.items():
        first, last = row["data_offsets"]
        if "running_var" in name:
            data[first:last] = array.array("f", [1.0] * ((last - first) // 4)).tobytes()
    content = head + bytes(data)
    (directory / "weights.safetensors").write_bytes(content)
    description = json.loads((directory / "model.json").read_text())
    description["sha256"]["weights.safetensors"] = hashlib.sha256(content).hexdigest()
    (directory / "model.json").write_text(json.dumps(description))


def output(command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")
    return json.loads(done.stdout)


STAGES = ("compute_input", "compute_infer", "compute_output")


def spent(host, name):
    """What the server has run so far: batches, rows, and nanoseconds of the stages of all batches."""
    with urllib.request.urlopen(f"http://{host}/v2/models/{name}/stats") as answer:
        stats = json.load(answer)["model_stats"][0]
    out = {"executions": stats["execution_count"], "rows": stats["inference_count"]}
    return out | {key: stats["inference_stats"][key]["ns"] for key in STAGES}


def measure(program, folder, out, *flags):
    folder, rounds = pathlib.Path(folder), []
    loads = {name: load for name, load in LOAD.items() if (folder / name).exists()}
    os.environ["TALWEG_DEVICE"] = DEVICE
    for directory in folder.glob("*/1"):
        fill(directory)
    begun = time.monotonic()
    command = [program, "serve", folder, "--port", "0", "--batch-max", "64", "--replicas", "2", "--latency-ms", "100", *flags]
    server = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    host = server.stdout.readline().split()[3].removeprefix("http://").rstrip("/")
    result = {"start_seconds": time.monotonic() - begun, "device": DEVICE, "rounds": rounds}
    bench = [program, "bench", "serve", "--server", host, "--model"]
    here = lambda name, rows: output([*bench, name, "--rows", rows, "--seconds", SECONDS, "--here", folder / name / "1"])
    there = lambda name, clients, seconds: output([*bench, name, "--clients", clients, "--seconds", seconds])
    try:
        for name, (_, clients) in loads.items():
            there(name, clients[0], 12)  # compiles the batch sizes
        for _ in range(ROUNDS):
            r = {}
            for name, (batches, clients) in loads.items():
                alone = {b: here(name, b)["throughput"] for b in batches}
                full = {}
                for n in clients:
                    before = spent(host, name)
                    full[n] = there(name, n, SECONDS)
                    full[n]["batches"] = {k: v - before[k] for k, v in spent(host, name).items()}
                r[name] = {"here": alone, "load": full}
            rounds.append(r)
    finally:
        server.terminate()
        server.wait(60)
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(out) / "serve.json").write_text(json.dumps(result, indent=1))
    print("| model | clients | in process, rows/s | server | of in process | p50, ms | p99, ms | rows of a batch | "
          "joining, running, answering a batch, ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---|")
    m = statistics.median
    for name, (_, clients) in loads.items():
        best = [max(r[name]["here"].values()) for r in rounds]
        for n in clients:
            reports = [r[name]["load"][n] for r in rounds]
            part = lambda key, x: x["batches"][key] / max(x["batches"]["executions"], 1)
            ms = ", ".join(f"{m([part(key, x) for x in reports]) / 1e6:.2f}" for key in STAGES)
            print(f"| {name} | {n} | {m(best):,.0f} | {m([x['throughput'] for x in reports]):,.0f} | "
                  f"{m([x['throughput'] / b for x, b in zip(reports, best)]):.2f} | {m([x['p50_ms'] for x in reports]):.1f} | "
                  f"{m([x['p99_ms'] for x in reports]):.1f} | {m([part('rows', x) for x in reports]):.1f} | {ms} |")
    print(f"start to ready: {result['start_seconds']:.1f} s")


if __name__ == "__main__":
    {"export": export, "measure": measure}[sys.argv[1]](*sys.argv[2:])
