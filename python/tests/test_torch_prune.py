"""Pruning beside PyTorch's: the same masks for the same weights."""

import numpy as np
import pytest

import talweg as tw
from talweg.nn.utils import prune

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")
from torch.nn.utils import prune as theirs  # noqa: E402


def layers():
    ours, other = tw.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(3, 4, 3)
    ours.load_state_dict(other.state_dict())
    return ours, other


CALLS = {
    "l1": lambda p, m: p.l1_unstructured(m, "weight", 0.3),
    "l1 twice": lambda p, m: p.l1_unstructured(p.l1_unstructured(m, "weight", 0.3), "weight", amount=7),
    "ln": lambda p, m: p.ln_structured(m, "weight", amount=2, n=2, dim=0),
    "ln twice": lambda p, m: p.ln_structured(p.ln_structured(m, "weight", 1, 1, 1), "weight", 0.5, n=float("inf"), dim=0),
    "both": lambda p, m: p.l1_unstructured(p.ln_structured(m, "weight", 1, 2, 0), "weight", 0.5),
    "identity": lambda p, m: p.identity(m, "bias"),
}


@pytest.mark.parametrize("name", CALLS)
def test_masks_are_pytorchs(name):
    ours, other = layers()
    assert CALLS[name](prune, ours) is ours
    CALLS[name](theirs, other)
    assert list(ours.state_dict()) == list(other.state_dict())
    for key, value in other.state_dict().items():
        np.testing.assert_array_equal(np.asarray(ours.state_dict()[key]), value.numpy())
    x = np.random.RandomState(0).randn(1, 3, 5, 5).astype(np.float32)
    np.testing.assert_allclose(np.asarray(ours(tw.tensor(x))), other(torch.tensor(x)).detach().numpy(), atol=1e-5)


def test_a_global_mask_and_a_method_of_ones_own():
    class EveryOther(prune.BasePruningMethod):
        def compute_mask(self, t, default_mask):
            mask = np.array(default_mask)
            mask.ravel()[::2] = 0
            return tw.tensor(mask)

    (a, ta), (b, tb) = layers(), layers()
    prune.global_unstructured([(a, "weight"), (b, "weight")], pruning_method=prune.L1Unstructured, amount=0.4)
    theirs.global_unstructured([(ta, "weight"), (tb, "weight")], pruning_method=theirs.L1Unstructured, amount=0.4)
    for ours, other in ((a, ta), (b, tb)):
        np.testing.assert_array_equal(np.asarray(ours.weight_mask), other.weight_mask.numpy())
    EveryOther.apply(a, "bias")
    assert a.bias_mask.tolist() == [0, 1, 0, 1] and prune.is_pruned(a)
    a(tw.ones(1, 3, 5, 5)).sum().backward()
    assert a.bias_orig.grad.tolist()[0] == 0
    assert isinstance(prune.remove(a, "bias").bias, tw.nn.Parameter)
    with pytest.raises(ValueError, match="not pruned"):
        prune.remove(a, "bias")
    with pytest.raises(ValueError, match="amount"):
        prune.l1_unstructured(b, "bias", 1.5)
