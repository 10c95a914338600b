"""Runs code written for PyTorch under PyTorch or under Talweg and compares what comes out: one line of import differs.

`idioms/*.txt` are snippets, one to eight lines each, separated by blank lines; the value of a snippet
is that of its last expression. `scripts/*.py` are whole programs that print their losses.
`scripts/idioms.py` runs both libraries and stores PyTorch's results; the tests need Talweg alone.
"""

import ast
import contextlib
import copy
import hashlib
import io
import json
import math
import numbers
import os
import pickle
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
EXPECTED = HERE / "idioms" / "expected.json"
RAISED = HERE / "idioms" / "raised.json"

PRELUDE = """
x = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
y = torch.tensor([[2.0, 1.0, 0.5], [-1.0, 3.0, 2.0]])
v = torch.tensor([3.0, 1.0, 2.0])
i = torch.tensor([2, 0, 1])
n = torch.tensor([[0, 1, 2], [3, 4, 5]])
b = torch.tensor([[True, False, True], [True, True, False]])
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
square = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
img = torch.tensor(np.sin(np.arange(32, dtype=np.float32)).reshape(1, 2, 4, 4))
q4 = torch.tensor(np.cos(np.arange(48, dtype=np.float32)).reshape(2, 2, 3, 4))
logits = torch.tensor([[1.0, 0.2, -0.5], [0.3, 0.1, 2.0]])
labels = torch.tensor([0, 2])
"""


def snippets():
    """Every idiom as (place, text)."""
    for path in sorted((HERE / "idioms").glob("*.txt")):
        for text in re.split(r"\n\s*\n", path.read_text()):
            if text.strip():
                yield path.stem, text.strip("\n")


def key(text):
    """The name under which the result of a snippet is stored."""
    return hashlib.sha1(text.encode()).hexdigest()[:10]


def imported(text, library):
    """The program with `library` imported in the place of PyTorch."""
    if library == "torch":
        return text
    text = re.sub(r"^(\s*)import torch$", rf"\1import {library} as torch", text, flags=re.M)
    return re.sub(r"^(\s*(?:from|import) )torch\b(?! *$)", rf"\1{library}", text, flags=re.M)


def namespace(library):
    """What a snippet finds: the library under PyTorch's names, the values of the prelude, `fixed`."""
    module = __import__(library)
    names = {"torch": module, "nn": module.nn, "F": module.nn.functional, "np": np}
    names |= {"math": math, "copy": copy, "pickle": pickle, "io": io, "os": os}

    def fixed(layer):
        """Gives every parameter values that do not depend on a random generator."""
        with module.no_grad():
            for p in layer.parameters():
                values = np.sin(np.arange(math.prod(p.shape), dtype=np.float64) + p.ndim) / 2
                p.copy_(module.tensor(values.reshape(tuple(p.shape)).astype(np.float32)))
        return layer

    module.manual_seed(0)
    exec(PRELUDE, names)
    names["fixed"] = fixed
    names["opt1"] = module.optim.SGD([names["w"]], lr=1.0)
    return names


def run(text, library):
    """The encoded result of one snippet, or the exception that ended it."""
    folder = os.getcwd()
    with tempfile.TemporaryDirectory() as empty, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        os.chdir(empty)
        try:
            names = namespace(library)
            names["torch"].set_grad_enabled(True)
            tree = ast.parse(imported(text, library))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "idiom", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "idiom", "eval"), names) if last else None
            return encode(value)
        except Exception as error:
            return error
        finally:
            os.chdir(folder)


def short(value):
    """A number with the digits that are compared."""
    return value if isinstance(value, (bool, int)) or not math.isfinite(value) else float(f"{value:.7g}")


def numbers_of(array):
    """The elements of a NumPy array as plain numbers; complex ones as pairs."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return [short(value) for value in array.ravel().tolist()]


def encode(value):
    """A result as JSON: values, shapes, element types, kinds of containers."""
    kind = type(value).__name__
    if kind in ("dtype", "device"):
        return [kind, str(value).split(".")[-1]]
    if value is None or isinstance(value, (bool, str)):
        return re.sub(r"\b(torch|talweg)\.", "", value) if isinstance(value, str) else value
    if kind in ("Tensor", "Parameter", "Variable", "Buffer") and hasattr(value, "detach"):
        plain = value.detach().cpu()
        dtype = str(plain.dtype).split(".")[-1]
        if dtype in ("bfloat16", "float16"):
            plain = plain.float()
        plain = plain.resolve_conj() if hasattr(plain, "resolve_conj") else plain
        return ["tensor", dtype, list(plain.shape), numbers_of(np.array(plain.numpy()))]
    if isinstance(value, (np.ndarray, np.generic)):
        return ["numpy", value.dtype.name, list(value.shape), numbers_of(np.asarray(value))]
    if isinstance(value, numbers.Number) and not isinstance(value, complex):
        return ["float", short(float(value))] if isinstance(value, float) else int(value)
    if isinstance(value, tuple):
        return ["tuple", *map(encode, value)]
    if isinstance(value, list):
        return ["list", *map(encode, value)]
    if isinstance(value, dict):
        return ["dict", *([encode(k), encode(value[k])] for k in value)]
    if hasattr(value, "named_modules"):
        return ["Module", repr(value)]
    return ["object", kind]


COARSE = {"float16": 2e-3, "bfloat16": 2e-2}


def same(a, b, tolerance=2e-5):
    """Whether two encoded results agree; floats to within `tolerance` of the largest element."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        if a and a[0] in ("tensor", "numpy") and a[:3] == b[:3]:
            one, other = np.array(a[3], dtype=np.float64), np.array(b[3], dtype=np.float64)
            largest = np.max(np.abs(one[np.isfinite(one)]), initial=1e-3)
            return np.allclose(one, other, rtol=0, atol=COARSE.get(a[1], tolerance) * largest, equal_nan=True)
        return all(same(p, q, tolerance) for p, q in zip(a, b))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return a == b or abs(a - b) <= tolerance * max(abs(a), 1e-3) or (a != a and b != b)
    return type(a) is type(b) and a == b


def expected():
    """PyTorch's results by key; a snippet that PyTorch refuses is `["raises", message]`."""
    return json.loads(EXPECTED.read_text())


def raised():
    """The idioms that Talweg refuses, with its message."""
    return json.loads(RAISED.read_text())


def judge(want, got):
    """`same`, `raises`, `accepts` (PyTorch refuses it, so no program of PyTorch's has it) or `differs`."""
    if isinstance(want, list) and want[:1] == ["raises"]:
        return "same" if isinstance(got, Exception) else "accepts"
    if isinstance(got, Exception):
        return "raises"
    return "same" if same(want, got) else "differs"


LOSSES = HERE / "scripts" / "losses.json"


def programs():
    """The whole programs, by name."""
    return {p.stem: p for p in sorted((HERE / "scripts").glob("*.py")) if p.stem != "start"}


def losses(path, library):
    """What a program leaves in `losses`."""
    folder, names = os.getcwd(), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(empty)
        sys.path.insert(0, str(path.parent))
        try:
            exec(compile(imported(path.read_text(), library), str(path), "exec"), names)
        finally:
            sys.path.remove(str(path.parent))
            os.chdir(folder)
    return [float(f"{x:.7g}") for x in names["losses"]]
