"""Tensors and core functions beside PyTorch: each expression of a table returns the same values, element types, shapes
and kinds of result in both, or raises in both. `TALWEG_BLESS=1` stores PyTorch's results for `test_names.py`."""

import json
import os

import pytest
from tensor_expressions import EXPECTED, LINES, differs, evaluated

import talweg as tw

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("line", LINES)
def test_expressions_are_pytorchs(line):
    theirs, refused = evaluated(torch, line)
    ours, error = evaluated(tw, line)
    if refused is not None:
        assert isinstance(error, tw.Error), f"PyTorch raises {refused!r}, here {error!r} {ours!r}"
    else:
        assert error is None and differs(ours, theirs) is None, error or differs(ours, theirs)


def test_what_is_stored_is_pytorchs():
    results = {line: evaluated(torch, line) for line in LINES}
    found = {line: {"raises": True} if error else result for line, (result, error) in results.items()}
    if os.environ.get("TALWEG_BLESS"):
        lines = (f"{json.dumps(line)}: {json.dumps(result)}" for line, result in found.items())
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    stored = json.loads(EXPECTED.read_text())
    assert list(stored) == LINES and not [d for line in LINES if (d := differs(stored[line], found[line]))]
