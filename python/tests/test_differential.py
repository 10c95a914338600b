"""Random programs against NumPy in every element type and face; long runs: `python python/tests/differential.py --programs
100000 --seed N`."""

import numpy as np
import pytest

import differential
import talweg as tw


def test_programs_agree():
    faults, gradients = differential.campaign(250, first=1)
    assert not faults, "\n".join(f"seed {s}: {text}" for s, text in faults)
    assert gradients > 10


PLANTS = {
    "a value that is 4e-6 off": ("UNARY", "tanh", lambda x: tw.tanh(x) * (1 + 4e-6)),
    "a gradient that is 1 % off": ("UNARY", "neg", lambda x: -x * 1.01 + (x * 0.01).detach() if x.dtype.name == "float64" else -x),
    "a reduction along another axis": ("REDUCE", "sum", lambda x, axis, keepdims: x.flip(0).sum(axis, keepdims=keepdims) if x.ndim > 1 else x.sum(axis, keepdims=keepdims)),
    "an integer that does not wrap": ("BINARY", "multiply", lambda a, b: tw.clip(a.astype("int64") * b.astype("int64"), -128, 127).astype(a.dtype) if a.dtype.name == "int8" else a * b),
    "a complex part that is lost": ("UNARY", "square", lambda x: tw.square(x).real.astype(x.dtype) if "complex" in x.dtype.name else tw.square(x)),
    "overflow inside 16 bits": ("REDUCE", "std", lambda x, axis, keepdims: x.square().mean(axis, keepdims=keepdims).sqrt()),
}


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_planted_faults_are_found(monkeypatch, plant):
    table, name, ours = PLANTS[plant]
    entry = getattr(differential, table)[name]
    # The op alone of its table, so that few programs are enough.
    monkeypatch.setattr(differential, table, {name: (ours, *entry[1:])})
    faults, _ = differential.campaign(400, first=1, faults_max=1)
    assert faults, f"{plant} was not found"


def test_a_face_that_differs_is_found(monkeypatch):
    monkeypatch.setattr(tw, "jit", lambda f: lambda *x: [y * 1.01 if y.dtype.name == "float32" else y for y in f(*x)])
    faults, _ = differential.campaign(200, first=1, faults_max=1)
    assert faults and "jit" in faults[0][1]


def test_repeated_draws_are_found(monkeypatch):
    monkeypatch.setattr(tw, "vmap", lambda f, **_: lambda *x: tw.stack([f(*[a[0] for a in x])] * len(x[0])))
    draw = np.random.default_rng(0)
    found = 0
    for seed in draw.integers(0, 2**31, 40):
        try:
            differential.draws(differential.random.Random(int(seed)))
        except differential.Fault as e:
            found += "rows repeat" in str(e)
    assert found
