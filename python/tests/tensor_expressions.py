"""Expressions that are evaluated in PyTorch and in Talweg, and what came out as plain data that both are compared in."""

import copy
import math
import pickle
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
EXPECTED = HERE / "tensor_expected.json"
LINES = [line for line in (HERE / "tensor_expressions.txt").read_text().splitlines() if line and not line.startswith("#")]


def values(t):
    """What the expressions are about."""
    x = [[3.0, 1.0, 2.0], [4.0, 2.5, 6.0]]
    return {
        "t": t, "np": np, "math": math, "copy": copy, "pickle": pickle,
        "x": t.tensor(x), "y": t.tensor([[1.0, 5.0, 2.0], [2.0, 2.5, 1.0]]), "w": t.tensor([x, x]),
        "i": t.tensor([[3, 1, 0], [1, 1, 2], [3, 1, 0]]), "b": t.tensor([[True, False], [True, True]]),
        "z": t.tensor([1 + 2j, 3 - 1j]), "n": t.tensor([2.0, math.nan, 1.0, 5.0]), "s": t.tensor([1.0, 2.0, 2.0, 4.0]),
        "v": t.tensor([0.0, 2.0, 3.0, 9.0]),
    }  # fmt: skip


def evaluated(t, line):
    """What a line returns or raises."""
    is_random = line.startswith(("~t.", "~x.", "~i."))
    t.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(line[1:] if is_random else line, values(t))
        except Exception as e:  # noqa: BLE001
            return {"raises": repr(e)}, e
    return data(t, result, is_random), None


def data(t, x, is_random=False):
    """A result as data that JSON can hold."""
    if isinstance(x, t.Tensor):
        elements = None if is_random else [str(v) if isinstance(v, complex) else v for v in x.detach().flatten().tolist()]
        return {"tensor": elements, "dtype": named(x.dtype), "shape": list(x.shape), "requires_grad": x.requires_grad}
    if isinstance(x, t.Size):
        return {"size": list(x)}
    if isinstance(x, (tuple, list)):
        fields = [n for n in ("values", "indices", "min", "max") if isinstance(x, tuple) and hasattr(x, n)]
        return {type_of(x): [data(t, v, is_random) for v in x], "fields": fields}
    if isinstance(x, (t.dtype, t.device)):
        return {"name": named(repr(x))}
    if isinstance(x, np.ndarray):
        return {"array": x.ravel().tolist(), "dtype": x.dtype.name, "shape": list(x.shape)}
    return {type(x).__name__: named(x) if isinstance(x, str) else x}


def type_of(x):
    return "tuple" if isinstance(x, tuple) else "list"


def named(x):
    return str(x).replace("torch", "talweg")


def differs(ours, theirs):
    """Where two results differ, or ``None``; floats are compared to the accuracy of float32."""
    if isinstance(theirs, dict):
        if set(ours) != set(theirs):
            return f"{ours} instead of {theirs}"
        return next((d for k in theirs if (d := differs(ours[k], theirs[k]))), None)
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return f"{ours} instead of {theirs}"
        return next((d for a, b in zip(ours, theirs) if (d := differs(a, b))), None)
    if isinstance(theirs, float) and isinstance(ours, float):
        is_close = math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-6) or math.isnan(ours) and math.isnan(theirs)
        return None if is_close else f"{ours} instead of {theirs}"
    return None if type(ours) is type(theirs) and ours == theirs else f"{ours!r} instead of {theirs!r}"
