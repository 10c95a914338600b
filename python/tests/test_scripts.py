"""Whole programs in PyTorch's style train to PyTorch's losses when only their imports are changed.

The programs are `scripts/*.py`; PyTorch's losses are in `scripts/losses.json`, written by `scripts/idioms.py --programs`
at the root of the repository.
"""

import json

import beside
import pytest

# bfloat16 has 8 bits; LBFGS and second derivatives amplify the last bit.
TOLERANCE = {"amp": 3e-2, "lbfgs": 1e-3, "maml": 1e-3, "unet": 2e-3, "cnn": 2e-3}


def test_every_program_has_losses():
    assert sorted(json.loads(beside.LOSSES.read_text())) == sorted(beside.programs())


@pytest.mark.parametrize("name", beside.programs())
def test_a_program_trains_to_pytorchs_losses(name):
    want = json.loads(beside.LOSSES.read_text())[name]
    assert beside.losses(beside.programs()[name], "talweg") == pytest.approx(want, rel=TOLERANCE.get(name, 5e-4), abs=1e-5)
