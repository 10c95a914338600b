#!/usr/bin/env python3
"""Random layers in 8-bit integers beside ONNX Runtime without its optimizations, which computes each operator as it is.

    cargo build --release -p talweg-onnx --example onnx_cases
    python scripts/onnx_quantized.py target/release/examples/onnx_cases [--count 100] [--seed 0]

Convolutions (dense, grouped, depthwise; padded, strided, dilated) and products as QDQ, `QLinear…` and `…Integer`, with
`uint8` and `int8`, zero points and scales for each channel, some in blocks with pooling and a residual sum. A result may
be off by one step: sums in another order round to a neighbor. Needs `onnx` and `onnxruntime`.
"""

from __future__ import annotations

import argparse
import collections
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self, rng):
        self.rng, self.nodes, self.initializers, self.count = rng, [], [], 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, array) -> str:
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, *inputs, **attributes) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def steps(self, scale, dtype=None):
        """A scale and a zero point of bytes."""
        dtype = dtype or self.rng.choice([np.uint8, np.int8])
        info = np.iinfo(dtype)
        zero = int(self.rng.choice([info.min, 0, self.rng.integers(info.min, info.max)]))
        return self.constant(np.float32(scale)), self.constant(np.array(zero, dtype)), float(scale)

    def weight(self, shape, axis):
        """Bytes with a scale for all or for each output, and zero points: none but zero for each output."""
        is_signed = self.rng.random() < 0.7
        w = self.rng.integers(-80, 80, shape).astype(np.int64)
        zero = 0 if is_signed else int(self.rng.integers(100, 150))
        dtype, n = np.int8 if is_signed else np.uint8, shape[axis] if self.rng.random() < 0.6 else 1
        scale = (0.002 + 0.01 * self.rng.random(n)).astype(np.float32)
        zeros = np.full(n, zero, dtype)
        if n == 1:
            scale, zeros = scale[0], zeros[0]
        return self.constant((w + zero).astype(dtype)), self.constant(scale), self.constant(zeros), np.atleast_1d(scale)

    def dequantized(self, x, scale, zero, **by) -> str:
        return self.node("DequantizeLinear", x, scale, zero, **by)

    def through(self, x, scale):
        """Numbers as bytes and back."""
        s, z, step = self.steps(scale)
        return self.dequantized(self.node("QuantizeLinear", x, s, z), s, z), step


def geometry(rng, channels):
    groups = int(rng.choice([1, 1, 1 + (channels % 2 == 0), channels]))
    kernel, stride, dilation = (int(rng.choice(v)) for v in ([1, 3, 3, 5], [1, 1, 2], [1, 1, 2]))
    pads = [int(p) for p in rng.integers(0, kernel // 2 * dilation + 1, 4)]
    outputs = channels if groups == channels else groups * int(rng.integers(1, 20))
    by = dict(kernel_shape=[kernel, kernel], strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, group=groups)
    return (outputs, channels // groups, kernel, kernel), by


def conv_qdq(net, shape):
    rng = net.rng
    x, _ = net.through("x", 0.02)
    channels = shape[1]
    for _ in range(int(rng.integers(1, 3))):
        size, by = geometry(rng, channels)
        w, ws, wz, _ = net.weight(size, 0)
        weight = net.dequantized(w, ws, wz, axis=0)
        bias = net.constant(rng.normal(0, 0.3, size[0]).astype(np.float32))
        y = net.node("Conv", x, weight, *([bias] if rng.random() < 0.7 else []), **by)
        y = net.node("Relu", y) if rng.random() < 0.5 else y
        x, step = net.through(y, 0.03)
        channels = size[0]
        if rng.random() < 0.3:
            x, step = net.through(net.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1], pads=[1, 0, 0, 1]), 0.03)
        if rng.random() < 0.4:
            # A residual sum with another layer of one element.
            w, ws, wz, _ = net.weight((channels, channels, 1, 1), 0)
            z, _ = net.through(net.node("Conv", x, net.dequantized(w, ws, wz, axis=0)), 0.04)
            x, step = net.through(net.node("Relu", net.node("Add", z, x)), 0.05)
    return x, 2 * step, TensorProto.FLOAT


def conv_qlinear(net, shape):
    size, by = geometry(net.rng, shape[1])
    dtype = net.rng.choice([np.uint8, np.int8])
    xs, xz, _ = net.steps(0.02, dtype)
    w, ws, wz, _ = net.weight(size, 0)
    ys, yz, _ = net.steps(0.05, dtype)
    kind = net.initializers[-1].data_type
    bias = net.constant(net.rng.integers(-3000, 3000, size[0]).astype(np.int32))
    x = net.node("QuantizeLinear", "x", xs, xz)
    return net.node("QLinearConv", x, xs, xz, w, ws, wz, ys, yz, bias, **by), 1, kind


def conv_integer(net, shape):
    size, by = geometry(net.rng, shape[1])
    if net.rng.random() < 0.5:
        outs = [net.name() for _ in range(3)]
        net.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], outs))
        x, zero = outs[0], outs[2]
    else:
        xs, zero, _ = net.steps(0.02, np.uint8)
        x = net.node("QuantizeLinear", "x", xs, zero)
    w = net.constant(net.rng.integers(0, 255, size).astype(np.uint8))
    wz = net.constant(np.array(128, np.uint8))
    return net.node("ConvInteger", x, w, zero, wz, **by), 0, TensorProto.INT32


def matmul_qdq(net, shape):
    rng, step = net.rng, 0.0
    x, width = net.through("x", 0.02)[0], shape[-1]
    for _ in range(int(rng.integers(1, 3))):
        out = int(rng.integers(1, 70))
        is_gemm = len(shape) == 2 and rng.random() < 0.5
        w, ws, wz, _ = net.weight((out, width) if is_gemm else (width, out), 0 if is_gemm else 1)
        weight = net.dequantized(w, ws, wz, axis=0 if is_gemm else 1)
        bias = net.constant(rng.normal(0, 0.3, out).astype(np.float32))
        y = net.node("Gemm", x, weight, bias, transB=1) if is_gemm else net.node("Add", net.node("MatMul", x, weight), bias)
        x, step = net.through(net.node("Relu", y), 0.03)
        width = out
    return x, 2 * step, TensorProto.FLOAT


def matmul_qlinear(net, shape):
    dtype = net.rng.choice([np.uint8, np.int8])
    xs, xz, _ = net.steps(0.02, dtype)
    x = net.node("QuantizeLinear", "x", xs, xz)
    w = net.constant(net.rng.integers(-80, 80, (shape[-1], int(net.rng.integers(1, 70)))).astype(np.int8))
    ws, wz = net.constant(np.float32(0.01)), net.constant(np.array(0, np.int8))
    ys, yz, _ = net.steps(0.05, dtype)
    kind = net.initializers[-1].data_type
    return net.node("QLinearMatMul", x, xs, xz, w, ws, wz, ys, yz), 1, kind


def matmul_integer(net, shape):
    outs = [net.name() for _ in range(3)]
    net.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], outs))
    w = net.constant(net.rng.integers(-120, 120, (shape[-1], int(net.rng.integers(1, 70)))).astype(np.int8))
    zero = [net.constant(np.array(net.rng.integers(-3, 3), np.int8))] if net.rng.random() < 0.6 else []
    return net.node("MatMulInteger", outs[0], w, outs[2], *zero), 0, TensorProto.INT32


KINDS = [conv_qdq, conv_qdq, conv_qlinear, conv_integer, matmul_qdq, matmul_qlinear, matmul_integer]


def case(root: Path, k: int, seed: int) -> Path | str:
    rng = np.random.default_rng([seed, k])
    make = KINDS[k % len(KINDS)]
    if make.__name__.startswith("conv"):
        shape = (int(rng.integers(1, 3)), 2 * int(rng.integers(1, 34)), int(rng.integers(9, 20)), int(rng.integers(9, 20)))
    else:
        shape = (*([2] if rng.random() < 0.5 else []), int(rng.integers(1, 40)), int(rng.integers(1, 90)))
    net = Net(rng)
    y, tolerance, kind = make(net, shape)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(net.nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value(y, kind, None)], net.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    x = rng.normal(0, 1, shape).astype(np.float32)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (want,) = session.run(None, {"x": x})
    except Exception as e:
        return f"{make.__name__}: onnxruntime: {str(e)[:150]}"
    folder = root / f"{k:04}-{make.__name__}"
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, str(folder / "model.onnx"))
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(want).SerializeToString())
    (folder / "tolerance").write_text(f"0 {tolerance * 1.01}")
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the example onnx_cases")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        made = [case(Path(scratch), k, given.seed) for k in range(given.count)]
        for m in made:
            if isinstance(m, str):
                counts["skipped"] += 1
                print(m)
        folders = [str(m) for m in made if not isinstance(m, str)]
        done = subprocess.run([given.binary, *folders], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, what, why = (line + "\t\t").split("\t")[:3]
            counts[what] += 1
            if what != "passed":
                print(f"{what} {name} {why[:300]}")
        missing = len(folders) - len(done.stdout.splitlines())
    print(dict(counts))
    return 1 if missing or counts["failed"] or counts["unsupported"] else 0


if __name__ == "__main__":
    sys.exit(main())
