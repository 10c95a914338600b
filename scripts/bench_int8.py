"""ResNet-18 and MobileNet v2 in f32 and in static int8, beside ONNX Runtime with the exported files, taking turns.

    python scripts/bench_int8.py [--threads 2] [--size 224] [--rounds 8] [--layers]

Weights are random: this is about speed. Every time is the least of all rounds, so that other load matters least.
ONNX Runtime is left out where it is not installed. `--layers` prints the report of the compressor.
"""

import argparse
import os
import tempfile
import time


class Args(argparse.Namespace):
    threads: int
    size: int
    rounds: int


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--size", type=int, default=224, help="side of the images")
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--layers", action="store_true")
    p.add_argument("nets", nargs="*", default=["resnet18", "mobilenet_v2"])
    return p.parse_args()


ARGS = arguments()
os.environ["TALWEG_THREADS"] = str(ARGS.threads)

import talweg as tw  # noqa: E402
from talweg import nn  # noqa: E402
from vision_blocks import Basic, Inverted, unit  # noqa: E402


def resnet18():
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    first = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*first, *(Basic(*s) for s in sizes), *last)


def mobilenet_v2():
    parts, inputs = unit(3, 32, 3, 2), 32
    kinds = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, outputs, count, stride in kinds:
        for i in range(count):
            parts.append(Inverted(inputs, outputs, stride if i == 0 else 1, expand))
            inputs = outputs
    return nn.Sequential(*parts, *unit(320, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = ARGS.threads
    options.log_severity_level = 3
    s = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: s.run(None, {s.get_inputs()[0].name: x})


def main():
    for name in ARGS.nets:
        tw.manual_seed(0)
        net, x = globals()[name](), tw.rand(1, 3, ARGS.size, ARGS.size)
        with tw.no_grad():
            net(tw.rand(4, 3, ARGS.size, ARGS.size)).numpy()
        small, report = tw.compress(net.eval(), "static", calibrate=[x])
        if ARGS.layers:
            print(report)
        array = x.numpy()
        runs = {"f32": tw.jit(net).frozen(), "int8": tw.jit(small).frozen()}
        calls = {k: lambda f=f: f(x).numpy() for k, f in runs.items()}
        with tempfile.TemporaryDirectory() as folder:
            for k, model in (("f32", net), ("int8", small)):
                path = f"{folder}/{k}.onnx"
                tw.onnx.save(model, path, (x,))
                try:
                    calls[f"ONNX Runtime {k}"] = lambda f=session(path): f(array)
                except ImportError as e:
                    print(f"ONNX Runtime is left out: {e}")
        least = dict.fromkeys(calls, float("inf"))
        with tw.no_grad():
            for _ in range(ARGS.rounds):
                for k, f in calls.items():
                    for _ in range(6):
                        start = time.perf_counter()
                        f()
                        least[k] = min(least[k], time.perf_counter() - start)
        kept = sum(layer.after == "float32" for layer in report.layers)
        print(f"{name}: {len(report.layers)} layers, {kept} kept in f32; " + ", ".join(f"{k} {s * 1e3:.2f} ms" for k, s in least.items()))


main()
