#!/usr/bin/env python3
"""`talweg bench` beside ONNX Runtime on ONNX files, taking turns: least milliseconds of a run.

    python scripts/bench_onnx.py target/release/talweg model.onnx... [--size batch=1] [--int8] [--rounds 3]

`--int8` times two files more for each: those that ONNX Runtime's static quantizer writes with unsigned and with signed
activations (QDQ, a scale for each channel, ranges of random inputs). Needs `onnx` and `onnxruntime`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
         "tensor(uint8)": np.uint8, "tensor(float16)": np.float16, "tensor(double)": np.float64}  # fmt: skip


def session(path: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs(s: onnxruntime.InferenceSession, sizes: dict[str, int], rng) -> dict[str, np.ndarray]:
    out = {}
    for i in s.get_inputs():
        dims, dtype = [d if isinstance(d, int) else sizes.get(d, 1) for d in i.shape], TYPES[i.type]
        out[i.name] = rng.random(dims).astype(dtype) if np.issubdtype(dtype, np.floating) else np.ones(dims, dtype)
    return out


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


def quantized(path: str, folder: str, sizes: dict[str, int]) -> list[str]:
    s, rng, out = session(path, 1), np.random.default_rng(0), []
    ready = f"{folder}/ready.onnx"
    quant_pre_process(path, ready, skip_symbolic_shape=True)
    for kind in (QuantType.QUInt8, QuantType.QInt8):
        out.append(f"{folder}/{Path(path).stem}.{kind.name[1:].lower()}.onnx")
        feeds = [inputs(s, sizes, rng) for _ in range(3)]
        quantize_static(ready, out[-1], Reader(feeds), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=kind,
                        weight_type=QuantType.QInt8)  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talweg", help="the program")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    sizes = {name: int(n) for name, n in (s.split("=") for s in given.size)}
    env = {**os.environ, "TALWEG_THREADS": str(given.threads)}
    print(f"{'file':40} {'Talweg':>9} {'ONNX Runtime':>13} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for path in given.files:
            files += [path, *(quantized(path, folder, sizes) if given.int8 else [])]
        for path in files:
            s = session(path, given.threads)
            feeds = inputs(s, sizes, np.random.default_rng(0))
            free = {d for i in s.get_inputs() for d in i.shape if d in sizes}
            options = [o for name in sorted(free) for o in ("--size", f"{name}={sizes[name]}")]
            ours = theirs = float("inf")
            for _ in range(given.rounds):
                done = subprocess.run([given.talweg, "bench", path, *options], capture_output=True, text=True, env=env)
                if done.returncode:
                    raise SystemExit(f"{path}: {done.stderr}")
                ours = min(ours, json.loads(done.stdout)["min_ms"])
                start = time.perf_counter()
                while time.perf_counter() - start < 2:
                    began = time.perf_counter()
                    s.run(None, feeds)
                    theirs = min(theirs, (time.perf_counter() - began) * 1e3)
            print(f"{Path(path).name:40} {ours:9.2f} {theirs:13.2f} {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
