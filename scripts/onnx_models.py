#!/usr/bin/env python3
"""Real ONNX files beside ONNX Runtime: the outputs for random inputs at two sizes, within 1e-3 of the largest value.

    cargo build --release -p talweg-onnx --example onnx_cases
    python scripts/onnx_models.py target/release/examples/onnx_cases DIR...

Every `.onnx` file below the folders is tried, those in wheels (`pip download --no-deps silero-vad ...`) too. Needs
`onnx`, `onnxruntime` and `numpy`.
"""

from __future__ import annotations

import argparse
import collections
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import numpy_helper

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}
# Free sizes to try, in this order: a model may accept some alone.
SIZES = [320, 64, 512, 128, 160, 640, 16, 1600, 16000, 2, 1]


def inputs_of(session, size: int, rng) -> dict[str, np.ndarray]:
    """Random inputs: the first axis 1 where it is free, the others `size`. A state begins with a fixed axis."""
    out = {}
    for i in session.get_inputs():
        is_state = bool(i.shape) and isinstance(i.shape[0], int) and i.shape[0] != 1
        free = [1 if a == 0 or is_state else size for a in range(len(i.shape))]
        dims = [d if isinstance(d, int) else free[a] for a, d in enumerate(i.shape)]
        dtype = TYPES[i.type]
        is_float = np.issubdtype(dtype, np.floating)
        out[i.name] = rng.standard_normal(dims).astype(dtype) * dtype(0.1) if is_float else np.ones(dims, dtype)
        if i.name in ("sr", "sample_rate"):
            out[i.name] = np.full(dims, 16000, dtype)
    return out


def case(path: Path, root: Path, name: str) -> tuple[Path | None, str]:
    """A folder with the model and ONNX Runtime's outputs at two sizes, or why there is none."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as e:
        return None, f"onnxruntime does not load it: {e}"
    if any(i.type not in TYPES for i in session.get_inputs()):
        return None, "an input is no tensor of numbers"
    folder = root / name
    folder.mkdir()
    (folder / "model.onnx").symlink_to(path.resolve())
    rng, sets, largest = np.random.default_rng(0), 0, 0.0
    for size in SIZES:
        try:
            feeds = inputs_of(session, size, rng)
            wanted = session.run(None, feeds)
        except Exception:
            continue
        data = folder / f"test_data_set_{sets}"
        data.mkdir()
        for k, value in enumerate(feeds.values()):
            (data / f"input_{k}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
        for k, value in enumerate(wanted):
            (data / f"output_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(value)).SerializeToString())
            if np.issubdtype(np.asarray(value).dtype, np.floating) and np.asarray(value).size:
                largest = max(largest, float(np.nanmax(np.abs(value))))
        # ONNX Runtime's own sigmoid is off by up to 1.2e-7: more than that where a detector finds nothing.
        (folder / "tolerance").write_text(f"1e-3 {1e-3 * max(largest, 2e-4)}")
        sets += 1
        if sets == 2 or all(isinstance(d, int) for i in session.get_inputs() for d in i.shape):
            break
    return (folder, "") if sets else (None, "onnxruntime takes none of the sizes tried")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the example onnx_cases")
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        files = []
        for folder in map(Path, args.folders):
            files += sorted(folder.rglob("*.onnx"))
            for wheel in sorted(folder.rglob("*.whl")):
                with zipfile.ZipFile(wheel) as z:
                    for member in z.namelist():
                        if member.endswith(".onnx"):
                            files.append(Path(z.extract(member, root / "files" / wheel.name.split("-")[0])))
        counts: collections.Counter[str] = collections.Counter()
        (root / "cases").mkdir()
        for k, path in enumerate(files):
            folder, why = case(path, root / "cases", f"{k:03}-{path.stem}")
            if folder is None:
                line = ("skipped", why)
            else:
                try:
                    done = subprocess.run([args.binary, str(folder)], capture_output=True, text=True, timeout=300)
                    line = tuple((done.stdout.strip() + "\t\t").split("\t")[1:3]) if done.stdout else ("failed", "it died")
                except subprocess.TimeoutExpired:
                    line = ("failed", "more than 300 s")
            counts[line[0]] += 1
            print(f"{line[0]:12} {path.parent.name}/{path.name} {line[1][:300]}", flush=True)
        print(f"{len(files)} files: {dict(counts)}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
