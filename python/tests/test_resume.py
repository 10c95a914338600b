"""Checkpoints of one language resume in the other, with the same losses to the bit. Rust's trainer is that of
``talweg quickstart``."""

import json
import subprocess
import sys

import numpy as np
import pytest

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

PICTURES, BATCH, PER_EPOCH = 96, 32, 3


def rust(folder, epochs, *more):
    """Trains in Rust to so many epochs."""
    words = ["--images", str(PICTURES), "--batch", str(BATCH), "--epochs", str(epochs), "--dir", str(folder), *more]
    done = subprocess.run([sys.executable, "-m", "talweg", "quickstart", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return losses(folder)


def losses(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {x["step"]: x["train/loss"] for x in lines if "train/loss" in x}


def python(folder, epochs, seed=9, **settings):
    """The same model, data and optimizer here, with other initial values."""
    tw.manual_seed(seed)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    loader = DataLoader(digits(PICTURES), batch_size=BATCH, shuffle=True, drop_last=True)
    optimizer = tw.optim.Adam(model.parameters(), lr=1e-3)
    settings = {"checkpoints": folder, "epochs": epochs, "jit": True, "progress": False, **settings}
    trainer = tw.train.Trainer(model, optimizer, loader, **settings)

    def loss(images, labels):
        pixels = images.float().reshape(-1, 784) * (1.0 / 256.0)
        return nn.functional.cross_entropy(model(pixels), labels)

    return trainer, loss


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The losses of a run that Rust alone does."""
    return rust(tmp_path_factory.mktemp("whole"), 5)


def test_a_run_goes_from_rust_to_python_and_back(tmp_path, whole):
    rust(tmp_path, 2)
    trainer, loss = python(tmp_path, 3)
    assert trainer.resume() == 2 * PER_EPOCH and trainer.epoch == 2
    found = dict(trainer.fit(loss).losses)
    assert found == {s: whole[s] for s in range(7, 10)}
    # In the middle of an epoch, and from a checkpoint that Python wrote.
    again, loss = python(tmp_path, 4, seed=3, callbacks=[StopAt(11)])
    assert again.resume() == 9
    assert dict(again.fit(loss).losses) == {s: whole[s] for s in (10, 11)}
    after = rust(tmp_path, 5, "--resume")
    assert {s: after[s] for s in range(12, 16)} == {s: whole[s] for s in range(12, 16)}


class StopAt(tw.train.Callback):
    def __init__(self, step):
        self.at = step

    def on_step(self, trainer, loss):
        if trainer.step == self.at:
            trainer.stop()


def test_a_run_that_python_began_goes_on_in_rust(tmp_path):
    first, loss = python(tmp_path / "whole", 4)
    expected = dict(first.fit(loss).losses)
    begun, loss = python(tmp_path / "part", 2)
    begun.fit(loss)
    found = rust(tmp_path / "part", 4, "--resume")
    assert {s: found[s] for s in range(7, 13)} == {s: expected[s] for s in range(7, 13)}


def test_parts_of_rusts_checkpoints_load_by_name(tmp_path):
    rust(tmp_path, 1)
    path = next(iter(sorted(tmp_path.glob("step-*.safetensors"))))
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    model.load_state_dict(tw.train.load_checkpoint(path))
    optimizer = tw.optim.Adam(model.parameters())
    optimizer.load_state_dict(tw.train.load_checkpoint(path, "optimizer"))
    assert np.isfinite(model[0].weight.numpy()).all() and optimizer.param_groups[0]["lr"] == pytest.approx(1e-3)


def test_another_data_set_is_refused(tmp_path):
    rust(tmp_path, 1)
    trainer, _ = python(tmp_path, 3)
    trainer.loader = DataLoader(digits(64), batch_size=BATCH, shuffle=True, drop_last=True)
    with pytest.raises(ValueError, match="no place of this loader"):
        trainer.resume()
