"""``talweg export``: a module or function of a Python file as an exported model. The command passes one JSON object."""

import json
import re
import runpy
import sys
from typing import Any

import talweg as tw

_SHORT = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16",
          "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}


def _example(text: str) -> tuple[str, tw.Tensor, dict[int, tw.Dim]]:
    """``image=f32[batch,3,side<=512]``: the name, an example, and the free axes."""
    match = re.fullmatch(r"(\w+)=(\w+)\[(.*)\]", text.replace(" ", ""))
    if match is None:
        raise ValueError(f"{text}: expected NAME=TYPE[SIZE,...], as in image=f32[batch,3,32,32]")
    name, kind, axes = match.groups()
    sizes, free = [], {}
    for axis, size in enumerate(axes.split(",") if axes else []):
        if size.isdigit():
            sizes.append(int(size))
            continue
        dim = re.fullmatch(r"([A-Za-z_]\w*)(?:<=(\d+))?", size)
        if dim is None:
            raise ValueError(f"{text}: {size!r} is neither a number nor a name")
        free[axis] = tw.Dim(dim[1], max=int(dim[2]) if dim[2] else None)
        sizes.append(1)
    dtype = getattr(tw, _SHORT.get(kind, kind), None)
    if not isinstance(dtype, tw.dtype):
        raise ValueError(f"{text}: there is no type {kind!r}")
    # Random numbers tell a graph that ignores an input from one that reads it; 0 is a valid index everywhere.
    return name, (tw.rand(*sizes).to(dtype) if dtype.is_floating_point else tw.zeros(*sizes, dtype=dtype)), free


def main(request: dict[str, Any]) -> None:
    """Runs the file, finds what it names, and exports it."""
    file, _, attribute = request["source"].rpartition(":")
    if not file:
        raise ValueError(f"{request['source']}: expected FILE.py:NAME")
    # Not "__main__": a file that trains when it is run does not train now.
    names = runpy.run_path(file, run_name="__export__")
    if attribute not in names:
        raise ValueError(f"{file} has no {attribute!r}")
    f = names[attribute]
    f = f() if isinstance(f, type) else f
    if request["weights"]:
        f.load_state_dict(tw.load(request["weights"]))
    if isinstance(f, tw.nn.Module):
        f.eval()
    inputs = [_example(text) for text in request["inputs"]]
    tw.export(
        f, request["directory"], [x for _, x, _ in inputs], dynamic_shapes=[free for _, _, free in inputs], name=request["name"],
        input_names=[n for n, _, _ in inputs], output_names=request["outputs"] or None,
    )


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except (ValueError, OSError, tw.errors.Error) as e:
        sys.exit(f"talweg: {e}")
