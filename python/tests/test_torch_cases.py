"""A case of each operator of PyTorch's test suite, under PyTorch's names and keywords: values, types and gradients.

`torch_cases.json` is written by `scripts/torch_ops.py --store`; PyTorch is not needed here.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import talweg as tw

CASES = json.loads((Path(__file__).parent / "torch_cases.json").read_text())


def read(x, leaves):
    """An argument; tensors that collect gradients are appended to `leaves`."""
    if isinstance(x, list):
        return [read(v, leaves) for v in x]
    if not isinstance(x, dict):
        return x
    kind, value = next(iter(x.items()))
    if kind == "tensor":
        y = tw.tensor(array(x))
        y = y.astype(getattr(tw, value[0]))
        if not value[3]:
            return y
        leaves.append(y.requires_grad_(True))
        return y.clone()
    if kind == "dtype":
        return getattr(tw, value)
    if kind == "slice":
        return slice(*value)
    if kind == "dict":
        return {k: read(v, leaves) for k, v in value.items()}
    return tuple(read(v, leaves) for v in value)


def array(x):
    dtype, shape, values, _ = x["tensor"]
    if dtype.startswith("complex"):
        pairs = np.array(values, dtype="float64").reshape(-1, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1]).reshape(shape).astype(dtype)
    return np.array(values, dtype="float32" if dtype == "bfloat16" else dtype).reshape(shape)


def found(name):
    """The function of a name, or the method of tensors."""
    value = tw
    for part in name.split("."):
        value = getattr(value, part, None)
    if callable(value) and not isinstance(value, (tw.dtype, type)):
        return value
    is_method = callable(getattr(tw.Tensor, name))
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs) if is_method else getattr(x, name)


def flat(x):
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, (tuple, list)) else [x]


def weights(shape):
    return np.cos(np.arange(np.prod(shape, dtype=int)) * 1.7 + 0.3).reshape(shape).astype("float32")


def check(got, want):
    """Compares a result with a stored one."""
    if not isinstance(want, dict):
        assert got == want
        return
    if "tuple" in want:
        assert tuple(got) == tuple(want["tuple"])
        return
    expected = array(want)
    assert got.dtype.name == want["tensor"][0] and tuple(got.shape) == expected.shape
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    got = (got.astype(tw.float32) if got.dtype.name == "bfloat16" else got).numpy()
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-5 + 1e-4 * min(scale, 1e6))


@pytest.mark.parametrize("case", CASES, ids=[f"{c['op']}-{i}" for i, c in enumerate(CASES)])
def test_operators_are_pytorchs(case):
    leaves = []
    args = [read(a, leaves) for a in case["args"]]
    kwargs = {k: read(v, leaves) for k, v in case["kwargs"].items()}
    result = found(case["op"])(*args, **kwargs)
    outs = [result] if case["out"] and isinstance(case["out"][0], dict) and "tuple" in case["out"][0] else flat(result)
    assert len(outs) == len(case["out"])
    for got, want in zip(outs, case["out"]):
        check(got, want)
    if case["grads"] is None:
        return
    loss = 0.0
    for got, marked in zip(outs, case["marks"]):
        if marked:
            product = got * tw.tensor(weights(tuple(got.shape))).astype(got.real.dtype if is_complex(got) else got.dtype)
            loss = loss + (product.real if is_complex(got) else product).sum()
    loss.backward()
    for leaf, want in zip(leaves, case["grads"]):
        check(tw.zeros_like(leaf) if leaf.grad is None else leaf.grad, want)


def is_complex(x):
    return x.dtype.name.startswith("complex")


def test_there_are_cases_of_most_operators():
    assert len({c["op"] for c in CASES}) >= 400
