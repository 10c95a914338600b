"""``talweg compress``: a module of a Python file in fewer bits, with a report."""

# mypy: ignore-errors
import argparse
import copy
import runpy
import sys

import talweg as tw
from .gguf import save_gguf
from .prune import prune_channels, prune_heads, prune_layers, prune_magnitude
from .quantize import compare, compress


def _model(source, weights):
    file, _, attribute = source.rpartition(":")
    if not file:
        raise SystemExit(f"talweg compress: {source}: expected FILE.py:NAME or FILE.pt2:")
    if file.endswith(".pt2"):
        return tw.from_torch(file)
    names = runpy.run_path(file, run_name="__compress__")
    if attribute not in names:
        raise SystemExit(f"talweg compress: {file} has no {attribute!r}")
    model = names[attribute]
    model = model() if isinstance(model, type) else model
    if weights:
        model.load_state_dict(tw.load(weights))
    return model


def _inputs(path, batch):
    """Batches of the rows of an array in a file."""
    if path.endswith(".npy"):
        import numpy

        rows = tw.tensor(numpy.load(path, allow_pickle=False))
    else:
        rows = tw.load(path)
        rows = next(iter(rows.values())) if isinstance(rows, dict) else rows
    return [rows[i : i + batch] for i in range(0, rows.shape[0], batch)]


def main(args):
    """Runs the command; the exit status."""
    parser = argparse.ArgumentParser(prog="talweg compress", description="A module in fewer bits, each layer measured.")
    parser.add_argument("model", help="FILE.py:NAME of a module, or FILE.pt2:")
    parser.add_argument("--weights", help="a file of its parameters")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--int8", action="store_const", const="int8", dest="method", help="weights in 8 bits, inputs as they come")
    how.add_argument("--int4", action="store_const", const="int4", dest="method", help="weights in 4 bits")
    how.add_argument("--static", action="store_const", const="static", dest="method", help="8 bits with calibrated ranges")
    how.add_argument("--fp8", action="store_const", const="fp8", dest="method", help="weights in 8-bit floats")
    how.add_argument("--prune", type=float, metavar="SHARE", help="puts this share of weights to zero")
    how.add_argument("--prune-channels", type=float, metavar="SHARE", help="removes this share of channels")
    how.add_argument("--prune-heads", type=float, metavar="SHARE", help="removes this share of attention heads")
    how.add_argument("--prune-layers", type=float, metavar="SHARE", help="removes this share of blocks, those that change least")
    parser.add_argument("--calibrate", metavar="DATA", help="inputs, a row an example: .npy, .safetensors or .pt")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--calibration", default="percentile", choices=["minmax", "percentile", "entropy"])
    parser.add_argument("--min-gain", type=float, default=1.0, help="how many times as fast a layer must become")
    parser.add_argument("--report", help="where the report goes: .html, .json or text")
    parser.add_argument("--out", help="where the result goes: parameters as .safetensors or .gguf, the model as .onnx")
    given = parser.parse_args(args)
    model = _model(given.model, given.weights)
    if given.method:
        if not given.calibrate:
            parser.error("--calibrate is needed: each layer is measured on its inputs")
        by = dict(calibration=given.calibration, min_gain=given.min_gain)
        model, report = compress(model, given.method, calibrate=_inputs(given.calibrate, given.batch), **by)
        print(report)
        if given.report:
            report.save(given.report)
    else:
        before = copy.deepcopy(model)
        if given.prune is not None:
            print(f"sparsity {prune_magnitude(model, given.prune).sparsity:.4f}")
        elif given.prune_heads is not None:
            model = prune_heads(model, given.prune_heads)
        elif given.prune_layers is not None:
            if not given.calibrate:
                parser.error("--prune-layers needs --calibrate: blocks are compared on inputs")
            model, names = prune_layers(model, given.prune_layers, _inputs(given.calibrate, given.batch))
            print(f"removed {', '.join(names)}")
        else:
            is_row = isinstance(model, tw.nn.Sequential) and not any(len(m._modules) for m in model)
            if not is_row and not given.calibrate:
                parser.error("--prune-channels needs --calibrate for a model that is no Sequential of layers")
            example = None if is_row else (_inputs(given.calibrate, 1)[0],)
            model = prune_channels(model, given.prune_channels, example=example)
        counts = [sum(p.numel() for p in m.parameters()) for m in (before, model)]
        print(f"parameters {counts[0]:,} → {counts[1]:,}")
        if given.report and not given.calibrate:
            parser.error("--report needs --calibrate: both models are measured on inputs")
        if given.calibrate:
            report = compare(before, model, calibrate=_inputs(given.calibrate, given.batch), method="pruned")
            print(report)
            if given.report:
                report.save(given.report)
    if given.out:
        _write(model, given.out, given.calibrate and _inputs(given.calibrate, 1)[0], parser)
    return 0


def _write(model, path, example, parser):
    if path.endswith(".onnx"):
        if example is None:
            parser.error("--out .onnx needs --calibrate: the model is traced with an input")
        tw.onnx.save(model.eval(), path, (example,), dynamic_shapes=[{0: "batch"}])
    elif path.endswith(".gguf"):
        save_gguf(model, path)
    else:
        tw.save(model.state_dict(), path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
