"""What the documentation says is run: the examples of docstrings, and the programs of the guide and the README."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import talweg as tw

ROOT = Path(__file__).parent.parent.parent
# Modules that need PyTorch or JAX, which are not installed here, have no examples.
OTHERS = ("talweg._native", "talweg.torch_backend", "talweg._stablehlo.read")
MODULES = ["talweg", *(m.name for m in pkgutil.walk_packages(tw.__path__, "talweg.") if not m.name.startswith(OTHERS))]


class Numbers(doctest.OutputChecker):
    """Numbers are compared to the accuracy of float32."""

    NUMBER = re.compile(r"-?\d+\.\d*(?:e-?\d+)?")

    def check_output(self, want, got, optionflags):
        if super().check_output(want, got, optionflags):
            return True
        if self.NUMBER.sub("#", want) != self.NUMBER.sub("#", got):
            return False
        pairs = zip(self.NUMBER.findall(want), self.NUMBER.findall(got))
        return all(float(a) == pytest.approx(float(b), rel=1e-5, abs=1e-6) for a, b in pairs)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    module = importlib.import_module(name)
    names = {"tw": tw, "tensor": tw.tensor, **vars(tw.nn), **vars(module)}
    for test in doctest.DocTestFinder().find(module, globs=names):
        if module.__name__ != "talweg" or not test.name.startswith("talweg.Tensor"):
            result = doctest.DocTestRunner(Numbers()).run(test)
            assert result.failed == 0, test.name


def test_worked_examples_of_ops():
    """The table's examples, as the methods show them."""
    runner, count, wrong = doctest.DocTestRunner(Numbers()), 0, []
    parser = doctest.DocTestParser()
    for name in tw._native.OPS:
        text = getattr(tw._ops, name).__doc__ or ""
        test = parser.get_doctest(text, {"tensor": tw.tensor}, name, None, 0)
        if test.examples:
            count += 1
            if runner.run(test).failed:
                wrong.append(name)
    assert not wrong and count > 60


def test_functions_written_by_hand_have_an_example():
    missing = [n for n, f in tw._functions.PUBLIC.items() if inspect.isfunction(f) and n not in tw._native.OPS and ">>>" not in (f.__doc__ or "")]
    for name in ["_transforms", "_graph", "fft", "linalg", "nn.functional", "nn.utils", "utils.data", "data", "_files"]:
        module = importlib.import_module(f"talweg.{name}")
        listed = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for n in listed:
            value = getattr(module, n)
            if inspect.isfunction(value) and value.__module__ == module.__name__ and ">>>" not in (value.__doc__ or ""):
                missing.append(f"{name}.{n}")
    # Other names of ops have what their rows say.
    assert sorted(set(missing) - set(tw._functions.elementwise.ALIASES)) == []


PAGES = "compression concepts custom-ops data debugging extending observability parameter-store python recipes serving tensorflow1 tutorial".split()


@pytest.mark.parametrize("page", [*(f"docs/{p}.md" for p in PAGES), "README.md"])
def test_programs_of_the_documentation(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert programs
    for program in programs:
        exec(compile(program, page, "exec"), {"__name__": "__main__"})


def test_every_example_is_in_the_guide():
    guide = (ROOT / "docs/python.md").read_text()
    for path in (ROOT / "python/examples").glob("*.py"):
        assert f"python/examples/{path.name}" in guide, path.name
    missing = [p.stem for p in (ROOT / "crates/talweg/examples").glob("*.rs") if f"`{p.stem}`" not in guide]
    assert not missing, "the guide says of each Rust example what it is in Python, or why it is not"
