"""Ops of one function on several logical devices."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import talweg as tw

EXAMPLE = Path(__file__).parents[1] / "examples" / "placement.py"


@pytest.fixture(autouse=True)
def three():
    tw.config.set_logical_devices("cpu", 3)
    yield
    tw.config.set_logical_devices("cpu", 0)


def test_logical_devices_are_listed():
    assert tw.devices()[:4] == ["cpu", "cpu:0", "cpu:1", "cpu:2"]
    tw.config.set_logical_devices("cpu", 2, memory_limit=[1 << 20, None], threads=1)
    assert tw.config.logical_devices() == [("cpu:0", 1 << 20, 1), ("cpu:1", None, 1)]
    for wrong, says in [
        (lambda: tw.config.set_logical_devices("cuda", 2), "cannot be divided"),
        (lambda: tw.config.set_logical_devices("cpu", -1), "number of devices"),
        (lambda: tw.config.set_logical_devices("cpu", 2, memory_limit=[1]), "1 numbers for 2 devices"),
        (lambda: tw.config.set_logical_devices("cpu", 2, memory_limit=0), "greater than 0"),
    ]:
        with pytest.raises(ValueError, match=says):
            wrong()


def test_scopes_are_constraints():
    @tw.jit
    def f(x):
        with tw.device("cpu:1"):
            y = (x @ x).tanh()
        with tw.device("cpu:2"):
            z = y.exp()
        with tw.colocate_with(y):
            w = x.sin()
        return y, z, w

    x = tw.arange(16).reshape(4, 4).float() / 16
    y, z, w = f(x)
    assert [str(t.device) for t in (y, z, w)] == ["cpu:1", "cpu:2", "cpu:1"]
    np.testing.assert_array_equal(z.numpy(), (x @ x).tanh().exp().numpy())
    np.testing.assert_array_equal(np.from_dlpack(y), (x @ x).tanh().numpy())
    text = f.explain(x)
    assert "== after place" in text and "== after split_parts" in text
    assert "cpu:1 -> cpu:2" in text and "test_placement.py" in text and 'device("cpu:2")' in text
    # Values of several logical devices meet where a graph needs them.
    np.testing.assert_array_equal((y + z).numpy(), y.numpy() + z.numpy())


def test_an_unknown_device_is_named():
    with pytest.raises(tw.DeviceError, match='no device "cpu:7".*cpu:0, cpu:1, cpu:2'):
        with tw.device("cpu:7"):
            pass
    tw.config.set_logical_devices("cpu", 0)
    with tw.device("cpu:7"):  # as in PyTorch, the host is one device
        assert tw.ones(1).device == "cpu"


def test_a_model_larger_than_one_device_trains_on_two():
    def train(on=None):
        tw.manual_seed(0)
        layers = [tw.nn.Linear(64, 64, bias=False) for _ in range(6)]
        optimizer = tw.optim.SGD([layer.weight for layer in layers], lr=0.1, momentum=0.9)

        @tw.jit
        def step(x):
            for layer in layers:
                x = layer(x).tanh()
            loss = (x * x).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        x = tw.arange(8 * 64).reshape(8, 64).float() / 512
        if on:
            with tw.device(on):
                return float(step(x))
        return [float(step(x)) for _ in range(5)], {str(layer.weight.device) for layer in layers}

    tw.config.set_logical_devices("cpu", 0)
    alone, _ = train()
    tw.config.set_logical_devices("cpu", 2, memory_limit=200_000)
    with pytest.raises(tw.DeviceError, match="cpu:0 needs .* memory limit is 200.0 kB"):
        train("cpu:0")
    spread, homes = train()
    assert spread == alone
    assert homes == {"cpu:0", "cpu:1"}


def test_a_failed_part_changes_nothing():
    table = tw.nn.Parameter(tw.arange(12).reshape(6, 2).float())

    @tw.jit
    def step(i):
        with tw.device("cpu:1"):
            rows = table[i]
        with tw.device("cpu:2"):
            loss = (rows * rows).sum()
        loss.backward()
        with tw.no_grad():
            table.copy_(table - 0.1 * table.grad)
        table.grad = None
        return loss

    step(tw.tensor([0, 5]))
    before = table.detach().numpy().copy()
    with pytest.raises(IndexError):
        step(tw.tensor([0, 6]))
    np.testing.assert_array_equal(table.detach().numpy(), before)


def test_the_example_runs():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, env={**os.environ, "TALWEG_QUICK": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "cpu:0 -> cpu:1" in done.stdout
