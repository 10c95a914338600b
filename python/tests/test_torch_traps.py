"""What PyTorch refuses or warns about, and what a program would otherwise compute without a word."""

import errno
import warnings

import numpy as np
import pytest

import talweg as tw
from talweg import nn
from talweg.nn import functional as F

REFUSED = [
    (lambda: F.one_hot(tw.tensor([0, 3]), 2), "classes 0 to 3 of 2"),
    (lambda: F.one_hot(tw.tensor([-1, 0]), 2), "classes -1 to 0 of 2"),
    (lambda: tw.multinomial(tw.tensor([0.0, 0.0]), 1), "multinomial: weights"),
    (lambda: tw.multinomial(tw.tensor([-1.0, 2.0]), 1), "multinomial: weights"),
    (lambda: tw.multinomial(tw.tensor([[1.0, 1.0], [float("nan"), 1.0]]), 1), "multinomial: weights"),
    (lambda: F.ctc_loss(tw.zeros(5, 1, 3).log_softmax(2), tw.tensor([[1]]), [6], [1]), "input length is 6, but log_probs has 5"),
    (lambda: attention(key_padding_mask=tw.zeros(1, 2, dtype=tw.bool)), r"key_padding_mask must be \(1, 3\)"),
    (lambda: attention(attn_mask=tw.zeros(3, 2)), "2 queries and 3 keys"),
    (lambda: tw.ones(3)[tw.tensor([0, 1, 1], dtype=tw.uint8)], r"index of uint8 is a mask.*write x\[i.bool\(\)\]"),
    (lambda: tw.einsum(tw.ones(2), tw.ones(2)), "list of its dimensions' numbers"),
    (lambda: tw.einsum(tw.ones(2), [52]), "0 to 51"),
    (lambda: tw.linalg.cholesky_ex(-tw.eye(2), check_errors=True), "not positive definite"),
    (lambda: tw.linalg.inv_ex(tw.linalg.inv(tw.zeros(2, 2))), "singular"),
]


def attention(**masks):
    return nn.MultiheadAttention(4, 2)(tw.ones(2, 1, 4), tw.ones(3, 1, 4), tw.ones(3, 1, 4), **masks)


@pytest.mark.parametrize("call, says", REFUSED, ids=[says for _, says in REFUSED])
def test_it_is_refused(call, says):
    with pytest.raises(tw.Error, match=says):
        call()


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_loss_that_broadcasts_warns(name):
    with pytest.warns(UserWarning, match=f"{name}.*broadcast"):
        getattr(F, name)(tw.ones(3, 1), tw.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(F, name)(tw.ones(3, 1), tw.ones(3, 1))


def test_dropout_of_one_layer_warns():
    with pytest.warns(UserWarning, match="no effect"):
        nn.LSTM(2, 3, dropout=0.5)


class Halved(nn.Module):
    def forward(self, a):
        return a / 2


def test_an_assignment_needs_a_right_inverse():
    layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", Halved())
    with pytest.raises(tw.Error, match="Halved has no right_inverse"):
        layer.weight = tw.ones(2, 2)


def test_a_generator_is_closed_and_thrown_into_inside_of_the_scope():
    seen = []

    @tw.no_grad()
    def parts():
        try:
            yield 1
        except ValueError:
            seen.append(tw.is_grad_enabled())
            yield 2
        finally:
            seen.append(tw.is_grad_enabled())

    g = parts()
    assert (next(g), g.throw(ValueError())) == (1, 2)
    g.close()
    assert seen == [False, False] and tw.is_grad_enabled()


LOADS = {"load": tw.load, "from_torch": tw.from_torch, "onnx": tw.onnx.load, "llm": tw.llm.load}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_missing_file_is_a_file_not_found_error(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="missing.pt2") as raised:
        load(tmp_path / "missing.pt2")
    assert isinstance(raised.value, tw.FileMissingError) and isinstance(raised.value, tw.FileError)
    assert raised.value.errno == errno.ENOENT


def test_a_sum_has_the_type_that_is_asked_for():
    u = tw.tensor([200, 100], dtype=tw.uint8)
    for total in (u.sum(dtype=tw.uint64), u.sum(0, dtype=tw.uint64), tw.sum(u, dtype=tw.uint64)):
        assert (total.dtype, total.item()) == (tw.uint64, 300)


def test_the_dimensions_of_einsum_are_in_the_order_of_their_numbers():
    x, y = tw.ones(2), tw.ones(3)
    assert tw.einsum(x, [0], y, [26]).shape == tw.einsum(y, [26], x, [0]).shape == (2, 3)
    assert tw.einsum(x, [26], y, [0]).shape == (3, 2)


def test_a_cached_parametrization_and_a_traced_function_are_apart():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    double, x = tw.jit(lambda x: layer(x) * 2), tw.ones(1, 2)
    with nn.utils.parametrize.cached():
        known = layer.weight
        double(x)
        assert layer.weight is known
    with tw.no_grad():
        layer.parametrizations.weight.original0.mul_(3)
    assert double(x).tolist() == [pytest.approx((layer(x) * 2)[0].tolist())]
    with nn.utils.parametrize.cached():
        tw.jit(lambda x: layer(x) + 1)(x)
        assert layer.weight.tolist() == [pytest.approx(row) for row in layer.weight.tolist()]


def test_weights_of_multinomial_may_have_an_infinite_sum():
    assert tw.multinomial(tw.tensor([0.0, 60000.0, 60000.0], dtype=tw.float16), 1).item() in (1, 2)
    assert tw.multinomial(tw.tensor([0.0, 3e38, 3e38]), 2).tolist() in ([1, 2], [2, 1])


def test_solve_ex_has_the_shape_of_solve():
    A, b = tw.full((1, 1, 1), 2.0), tw.ones(1)
    assert tw.linalg.solve_ex(A, b).result.shape == tw.linalg.solve(A, b).shape == (1, 1)


def test_a_number_of_numpy_is_an_index_whatever_its_type():
    x = tw.arange(300)
    for kind in ("uint8", "int8", "uint16", "int64", "uint64"):
        assert x[np.dtype(kind).type(7)].item() == 7
    x[np.uint8(200)] = -1
    assert x[200].item() == -1 and x[np.array(3, dtype="uint8")].item() == 3
    with pytest.raises(tw.Error, match="uint8 is a mask"):
        x[np.array([1, 2], dtype="uint8")]
