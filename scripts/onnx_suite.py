#!/usr/bin/env python3
"""ONNX's own backend suite: every case of the package `onnx`, run by the importer.

    cargo build --release -p talweg-onnx --example onnx_cases
    python scripts/onnx_suite.py target/release/examples/onnx_cases --out suite.tsv

Needs `onnx` (its node cases are made by Python). A case is `passed`, `failed` (an error or other numbers than the
recorded ones) or `unsupported` (refused with an error that names the node). The exit status is 1 if a case of
`--expect FILE`, one name a line, did not pass.
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
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator", "light"]


def saved(value, type_proto) -> bytes:
    """A value as the message that files of test data hold."""
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value if isinstance(value, list) else list(value)).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value).SerializeToString()
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    return numpy_helper.from_array(np.asarray(value)).SerializeToString()


def written(case, root: Path) -> Path | None:
    """The folder of a case; node cases are written to one."""
    has_bf16 = False
    if case.model_dir is not None:
        folder = root / case.name
        if not folder.exists():
            folder.symlink_to(case.model_dir, target_is_directory=True)
        return folder
    if case.model is None:
        return None
    folder = root / case.name
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    graph = case.model.graph
    for k, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{k}"
        data.mkdir(exist_ok=True)
        for i, (value, info) in enumerate(zip(inputs, graph.input)):
            (data / f"input_{i}.pb").write_bytes(saved(value, info.type))
        for i, (value, info) in enumerate(zip(outputs, graph.output)):
            has_bf16 |= info.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
            (data / f"output_{i}.pb").write_bytes(saved(value, info.type))
    rtol = max(case.rtol, 2**-6) if has_bf16 else case.rtol
    (folder / "tolerance").write_text(f"{rtol} {case.atol}")
    return folder


def ran(binary: str, folders: list[Path]) -> list[tuple[str, str, str]]:
    """What becomes of each folder. A process that dies takes only the case it was at."""
    out: list[tuple[str, str, str]] = []
    left = list(folders)
    while left:
        batch = left[:64]
        try:
            done = subprocess.run([binary, *map(str, batch)], capture_output=True, text=True, timeout=300)
            lines = done.stdout.splitlines()
        except subprocess.TimeoutExpired as e:
            lines = (e.stdout or b"").decode().splitlines()
        rows = [tuple((line + "\t\t").split("\t")[:3]) for line in lines]
        out += rows
        left = left[len(rows):]
        if len(rows) < len(batch):
            out.append((left[0].name, "failed", "the process died or hung"))
            left = left[1:]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the example onnx_cases")
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", help="a file for one line a case")
    parser.add_argument("--keep", help="a folder for the cases, which is kept")
    parser.add_argument("--expect", help="a file with the names of cases that must pass")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(args.keep or scratch)
        root.mkdir(parents=True, exist_ok=True)
        folders, unwritten = [], []
        for kind in args.kinds:
            for case in load_model_tests(kind=kind):
                if args.only in case.name:
                    try:
                        folder = written(case, root)
                    except Exception as e:  # the case itself cannot be written
                        unwritten.append((case.name, "failed", f"not written: {e}"))
                        continue
                    if folder is not None:
                        folders.append(folder)
        rows = ran(args.binary, folders) + unwritten
    if args.out:
        Path(args.out).write_text("".join("\t".join(r) + "\n" for r in sorted(rows)))
    counts = collections.Counter(r[1] for r in rows)
    print(f"{len(rows)} cases: {dict(counts)}")
    for name, what, why in sorted(rows):
        if what != "passed" and not args.out:
            print(f"{what:12} {name}: {why[:200]}")
    passed = {r[0] for r in rows if r[1] == "passed"}
    lost = [n for n in Path(args.expect).read_text().split() if n not in passed] if args.expect else []
    for name in lost:
        print(f"no longer passes: {name}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
