"""Type stubs: current, complete, and right by mypy's judgment."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import talweg as tw

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "talweg"


def generator():
    spec = importlib.util.spec_from_file_location("stubs", HERE.parent / "stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STUBS = generator()


@pytest.mark.parametrize("name", STUBS.MODULES)
def test_stubs_are_current(name):
    text, path = STUBS.stub(name), STUBS.path(name)
    if os.environ.get("TALWEG_BLESS"):
        path.write_text(text)
    assert path.exists() and path.read_text() == text, "run TALWEG_BLESS=1 pytest python/tests/test_stubs.py"


def test_every_module_has_stubs():
    hidden = {"nn.containers", "nn.hooks", "nn.layers", "nn.module", "nn.modules", "nn.parallel", "testing", "utils.dlpack", "nn.parameter", "nn.state", "nn.utils.old_norms", "nn.utils.prune", "compat.mxnet", "compat.theano", "compat.theano.expression", "compat.theano.tensor"}
    hidden |= {"optim.cycles", "optim.lbfgs", "optim.native", "optim.schedule", "optim.optimizer", "optim.rules", "train.curves", "train.optimizers", "train.progress", "train.trainer"}
    # Typed in the source itself.
    hidden |= {"_calls", "_transforms", "_tree", "amp", "func", "_compiled", "autograd", "autograd.functional", "autograd.function", "utils.checkpoint"}
    inline = ("_device", "_differences", "_functions", "_ops", "_size", "array_api", "fft", "linalg", "masked", "random", "return_types", "signal", "special")
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        is_part = name.startswith(("nn.layers.", "nn.functional.", "autograd."))  # what their packages offer
        if is_typed(path) or is_part or name in hidden | {"__init__", "_checked", "compat"}:
            continue
        if name.split(".")[0] in inline:
            assert not path.with_suffix(".pyi").exists(), f"{name} is typed inline"
            continue
        assert name in STUBS.MODULES, name


def is_typed(path):
    """True if a module says its types itself: every parameter and result of what it defines has one."""
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    own = {"self", "cls"}
    arguments = [a for f in functions for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)]
    return all(f.returns or f.name == "__init__" for f in functions) and all(a.annotation or a.arg in own for a in arguments)


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
