"""Types: every public function says its own, stubs are those of the native module, and mypy judges both."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import talweg as tw

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "talweg"
STUBS = {"__init__.pyi", "_native.pyi"}  # the first is generated from the op table (crates/py/generate)
TYPED = ("nn", "optim", "train", "utils", "linalg", "fft", "special", "signal", "masked")


def test_only_the_native_module_has_stubs():
    assert {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.pyi")} == STUBS


@pytest.mark.parametrize("path", [p for n in TYPED for p in sorted(PACKAGE.rglob(f"{n}*/**/*.py"))], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_what_a_module_offers_has_types(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    offered = getattr(importlib.import_module(name), "__all__", ())
    wrong = []
    for node in ast.parse(path.read_text()).body:
        is_offered = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in offered
        for f in (node.body if isinstance(node, ast.ClassDef) else [node]) if is_offered else ():
            is_public = isinstance(f, ast.FunctionDef) and (not f.name.startswith("_") or f.name in ("__init__", "__call__"))
            if is_public and not is_typed(f):
                wrong.append(f"{node.name}.{f.name}, line {f.lineno}")
    assert not wrong


def is_typed(f):
    """True if every parameter and the result of a function has a type."""
    a = f.args
    arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    has_result = f.returns is not None or f.name == "__init__" or any(isinstance(d, ast.Name) and d.id == "overload" for d in f.decorator_list)
    return has_result and all(x.annotation is not None or x.arg in ("self", "cls") for x in arguments)


def names(path):
    """What a stub file defines, and the members of its class Tensor."""
    top, members = set(), set()
    for n in ast.parse(path.read_text()).body:
        for defined in defines(n):
            top.add(defined)
        if isinstance(n, ast.ClassDef) and n.name == "Tensor":
            members |= {d for m in n.body for d in defines(m)}
    return top, members


def defines(n):
    if isinstance(n, (ast.FunctionDef, ast.ClassDef)):
        return [n.name]
    if isinstance(n, ast.Assign):
        return [t.id for t in n.targets]
    if isinstance(n, ast.AnnAssign):
        return [n.target.id]
    return [a.asname or a.name for a in n.names] if isinstance(n, (ast.Import, ast.ImportFrom)) else []


def test_nothing_of_the_package_lacks_a_type():
    top, members = names(PACKAGE / "__init__.pyi")
    assert not [n for n in vars(tw) if not n.startswith("_") and n not in top]
    inherited = set(dir(object)) | {"__array_priority__", "__array_wrap__", "__rdiv__", "__deepcopy__", "__delitem__", "__module__", "__array_namespace__"}
    assert not [n for n in dir(tw.Tensor) if n not in members | inherited and not n.startswith("_repr_")]


def test_mypy_understands_programs(tmp_path):
    pytest.importorskip("mypy")
    program = HERE / "typed.py"
    wanted = [line.split("# ")[-1].strip() for line in program.read_text().splitlines() if "reveal_type" in line]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", str(tmp_path), str(program)]
    # The stubs as they are here, not those of an installed package.
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(HERE.parent)})
    lines = done.stdout.splitlines()
    found = [line.split('"')[1] for line in lines if "Revealed type" in line]
    # Bodies of modules that carry their annotations themselves are not judged, as of any installed package.
    wrong = [line for line in lines if "error" in line and "no errors" not in line and "talweg/" not in line.replace(".pyi:", "")]
    wrong += [line for line in lines if "error" in line and ".pyi:" in line]
    expected = [line for line in program.read_text().splitlines() if "# wrong:" in line]
    assert found == wanted, done.stdout
    assert len([w for w in wrong if "typed.py" in w]) == len(expected) and all("typed.py" in w or "Found" in w for w in wrong), done.stdout
