"""Products and convolutions in WebAssembly on one thread of Node, beside ONNX Runtime Web with the same files.

    npm install --prefix DIR onnxruntime-web
    python scripts/bench_wasm.py --npm DIR [--talweg target/release/talweg] [--keep FOLDER] [--rounds 30] [NAME ...]

Each ONNX file is compiled by `talweg build --target wasm32` and run in one Node process with ONNX Runtime Web, taking
turns. Times are the least of all rounds. `NODE_OPTIONS=--experimental-wasm-relaxed-simd` lets Node 20 run the second
module, with relaxed SIMD; later versions need no option.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(nodes, inputs, constants):
    rng = np.random.default_rng(0)
    value = lambda shape: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    stored = [numpy_helper.from_array(value(s), n) for n, s in constants.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", given, [result], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


def product(m, k, n, is_constant=True):
    sides = {"x": [m, k]}, {"w": [k, n]}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model([node], *sides) if is_constant else model([node], {**sides[0], **sides[1]}, {})


def conv(channels, side, kernel=3, groups=1):
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4, group=groups)
    return model([node], {"x": [1, channels, side, side]}, {"w": [channels, channels // groups, kernel, kernel]})


def mlp(rows, width, layers):
    names = [f"w{i}" for i in range(layers)]
    nodes = []
    for i, w in enumerate(names):
        nodes.append(helper.make_node("MatMul", [f"r{i}" if i else "x", w], [f"h{i}"]))
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"r{i + 1}" if i + 1 < layers else "y"]))
    return model(nodes, {"x": [rows, width]}, {n: [width, width] for n in names})


CASES = {
    "product_256": lambda: product(256, 256, 256, False),
    "product_512": lambda: product(512, 512, 512, False),
    "product_64x256": lambda: product(64, 256, 256, False),
    "weights_256": lambda: product(256, 256, 256),
    "weights_128x768": lambda: product(128, 768, 768),
    "weights_1x1024": lambda: product(1, 1024, 1024),
    "mlp_32x512": lambda: mlp(32, 512, 4),
    "conv_64x56": lambda: conv(64, 56),
    "conv_256x14": lambda: conv(256, 14),
    "pointwise_128x28": lambda: conv(128, 28, 1),
    "depthwise_128x28": lambda: conv(128, 28, 3, 128),
}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--npm", required=True, help="the folder with node_modules")
    p.add_argument("--talweg", default="target/release/talweg")
    p.add_argument("--keep", help="a folder for the modules, which later runs use again")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--no-build", action="store_true", help="run the modules of the last time")
    p.add_argument("names", nargs="*", default=list(CASES))
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in [] if args.no_build else args.names:
            path = folder / f"{name}.onnx"
            onnx.save(CASES[name](), path)
            output = folder / f"{name}.wasm"
            # One project: what all models share is compiled once.
            command = [os.path.abspath(args.talweg), "build", str(path), "--target", "wasm32", "-o", str(output)]
            subprocess.run([*command, "--project", str(folder / "project")], check=True, stdout=subprocess.DEVNULL)
        script = pathlib.Path(__file__).with_name("bench_wasm.mjs").resolve()
        subprocess.run(["node", str(script), os.path.abspath(args.npm), str(folder), str(args.rounds), *args.names], check=True)


if __name__ == "__main__":
    main()
