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
    (lambda: F.instance_norm(tw.ones(2, 3, 1)), r"each channel of shape \(2, 3, 1\) is one number"),
    (lambda: nn.InstanceNorm2d(2)(tw.ones(1, 2, 1, 1)), "is one number"),
    (lambda: tw.masked_scatter(tw.zeros(3), tw.tensor([True] * 3), tw.ones(2)).tolist(), "index 2 is out of range"),
    (lambda: F.gaussian_nll_loss(tw.ones(2), tw.ones(2), -1.0), "var must be at least 0"),
    (lambda: tw.bernoulli(tw.ones(2), 1.5), "p must lie between 0 and 1"),
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


class Powers:
    def __init__(self, base):
        self.base = base

    def __call__(self, step):
        return self.base**step


@pytest.mark.parametrize("kind", ["LambdaLR", "MultiplicativeLR"])
def test_a_schedules_state_has_what_its_objects_remember(kind):
    make = getattr(tw.optim.lr_scheduler, kind)
    first = make(tw.optim.SGD([tw.zeros(1, requires_grad=True)], lr=1.0), Powers(0.5))
    assert first.state_dict()["lr_lambdas"] == [{"base": 0.5}]
    second = make(tw.optim.SGD([tw.zeros(1, requires_grad=True)], lr=1.0), Powers(0.9))
    second.load_state_dict(first.state_dict())
    second.step()
    assert second.lr_lambdas[0].base == 0.5 and second.get_last_lr() == [0.5]
    function = make(tw.optim.SGD([tw.zeros(1, requires_grad=True)], lr=1.0), lambda step: 1.0)
    assert function.state_dict()["lr_lambdas"] == [None]
    function.load_state_dict(function.state_dict())


def test_steps_between_warm_restarts():
    o = tw.optim.SGD([tw.zeros(1, requires_grad=True)], lr=1.0)
    s = tw.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, T_mult=2)
    seen = []
    for _ in range(10):
        s.step()
        seen.append((s.T_cur, s.T_i))
    assert seen == [(1, 3), (2, 3), *[(i, 6) for i in range(6)], (0, 12), (1, 12)]


def test_stacked_parameters_collect_gradients():
    layers = [nn.BatchNorm1d(2) for _ in range(3)]
    params, buffers = tw.func.stack_module_state(layers)
    assert all(p.requires_grad and p.is_leaf for p in params.values()) and not any(b.requires_grad for b in buffers.values())
    optimizer = tw.optim.SGD(params.values(), lr=0.5)
    (params["weight"] * tw.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    optimizer.step()
    assert params["weight"].tolist() == [[0.5, 0.5], [0, 0], [-0.5, -0.5]]
    assert layers[0].weight.tolist() == [1, 1]
    layers[0].requires_grad_(False)
    assert not tw.func.stack_module_state(layers)[0]["weight"].requires_grad


@pytest.mark.parametrize("same", [lambda x: x.float(), lambda x: x.type(tw.float32), lambda x: x.type_as(x), lambda x: x.to(tw.float32)])
def test_a_conversion_to_the_same_type_is_the_tensor_itself(same):
    x = tw.tensor([2.0, 4.0])
    same(x).div_(2)
    assert x.tolist() == [1, 2]
    x.double().mul_(2)
    assert x.tolist() == [1, 2]


def test_one_number_a_channel_may_be_normalized_by_running_averages():
    layer = nn.InstanceNorm1d(2, track_running_stats=True).eval()
    assert layer(tw.ones(1, 2, 1)).shape == (1, 2, 1)


def test_a_mask_takes_as_many_values_as_it_has_places():
    got = tw.masked_scatter(tw.zeros(4), tw.tensor([False, True, False, False]), tw.tensor([5.0]))
    assert got.tolist() == [0, 5, 0, 0]


def test_the_derivative_of_quantiles_in_the_middle():
    p = tw.tensor([0.3, 0.5, 0.7], dtype=tw.float64, requires_grad=True)
    y = tw.special.ndtri(p)
    y.sum().backward()
    assert p.grad.tolist() == pytest.approx([2.8761037, 2.5066283, 2.8761037], rel=1e-6)


def test_the_slope_of_rrelu_at_zero_is_that_of_negative_numbers():
    x = tw.tensor([-1.0, 0.0, 1.0], requires_grad=True)
    F.rrelu(x, 0.25, 0.75).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 1]


def test_milestones_are_counted_in_the_state_as_pytorchs():
    def schedule(at):
        return tw.optim.lr_scheduler.MultiStepLR(tw.optim.SGD([tw.zeros(1, requires_grad=True)], lr=1.0), at, gamma=0.5)

    first, second = schedule([2, 2, 3]), schedule([9])
    assert first.state_dict()["milestones"] == {2: 2, 3: 1} and first.lr(2) == 0.25
    first.step()
    for milestones in ({2: 2, 3: 1}, [2, 2, 3]):
        second.load_state_dict(first.state_dict() | {"milestones": milestones})
        rates = []
        for _ in range(3):
            second.step()
            rates += second.get_last_lr()
        assert rates == [0.25, 0.125, 0.125]


CHOSEN = [
    lambda x: x.clamp(min=0),
    lambda x: x.clamp(0, 9),
    lambda x: tw.maximum(x, tw.tensor(0.0)),
    lambda x: tw.fmax(x, tw.tensor(0.0)),
    lambda x: -(-x).clamp(max=0),
    lambda x: -tw.minimum(-x, tw.tensor(0.0)),
    lambda x: -tw.fmin(-x, tw.tensor(0.0)),
]


@pytest.mark.parametrize("bounded", CHOSEN)
@pytest.mark.parametrize("steep", [tw.sqrt, tw.log])
def test_an_infinite_gradient_does_not_reach_what_is_bounded(bounded, steep):
    x = tw.tensor([-1.0, 4.0], requires_grad=True)
    steep(bounded(x)).sum().backward()
    assert x.grad.tolist() == [0, 0.25]


def test_an_angle_at_the_bound_of_clamp():
    x = tw.tensor([1.0, 0.0], requires_grad=True)
    tw.acos(x.clamp(-1, 1)).sum().backward()
    assert x.grad.tolist() == [0, -1]


def test_a_bound_gets_the_rest_of_the_gradient():
    x, lo, hi = (tw.tensor(v, requires_grad=True) for v in ([0.0, 1.0, 2.0, 9.0], [1.0, 1.0, 1.0, 1.0], [5.0, 5.0, 2.0, 5.0]))
    (x.clamp(lo, hi) * tw.tensor([2.0, 4.0, 6.0, 8.0])).sum().backward()
    assert [t.grad.tolist() for t in (x, lo, hi)] == [[0, 2, 3, 0], [2, 2, 0, 0], [0, 0, 3, 8]]
    a, b = (tw.tensor(v, requires_grad=True) for v in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]))
    (tw.maximum(a, b) + 10 * tw.fmin(a, b)).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([10, 5.5, 1], [1, 5.5, 10])


MIXED = [
    ([tw.tensor(1.0), 2.5], [1, 2.5], tw.float32),
    ([3.5, tw.tensor(1.0), 2.5, tw.tensor(4)], [3.5, 1, 2.5, 4], tw.float32),
    ([tw.tensor(1), 2.5], [1, 2.5], tw.float32),
    ([tw.tensor(True), 2], [1, 2], tw.int64),
    ([np.int64(1), 2.5], [1, 2.5], tw.float32),
    ([1.5, np.int64(2)], [1.5, 2], tw.float32),
    ([np.uint8(1), 300], [1, 300], tw.int64),
    ([np.float64(1.5), np.float32(2)], [1.5, 2], tw.float64),
    ([[np.int64(1), 2], [3.5, tw.tensor(4)]], [[1, 2], [3.5, 4]], tw.float32),
    ([1j, tw.tensor(2.0)], [1j, 2], tw.complex64),
]


@pytest.mark.parametrize("data, want, dtype", MIXED)
def test_numbers_beside_tensors_keep_their_order_and_value(data, want, dtype):
    got = tw.tensor(data)
    assert got.tolist() == want and got.dtype == dtype


@pytest.mark.parametrize("number, dtype", [(300, "uint8"), (-129, "int8"), (2**31, "int32"), (1e10, "int32"), (float("nan"), "int64"), (float("inf"), "uint8")])
def test_a_number_that_an_integer_type_does_not_hold_is_refused(number, dtype):
    for make in (lambda: tw.tensor(number, dtype=dtype), lambda: tw.tensor([0, number], dtype=dtype), lambda: tw.full((2,), number, dtype=dtype)):
        with pytest.raises(tw.Error, match=f"does not fit in {dtype}"):
            make()
    assert tw.tensor([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]
    assert tw.tensor([-1, 255], dtype="uint8").tolist() == [255, 255] and tw.tensor([1.9, -1.9], dtype="int8").tolist() == [1, -1]


def test_a_tensor_of_tensors_has_no_history():
    w = tw.tensor([1.0, 2.0], requires_grad=True)
    assert not any(t.requires_grad for t in (tw.tensor(w), tw.tensor(w * 2), tw.tensor([w[0], 3.0]), tw.tensor([w.sum()])))
    assert tw.asarray(w * 2).requires_grad and tw.as_tensor(w).requires_grad and tw.asarray(w, copy=True).requires_grad
    leaf = tw.tensor(w * 2, requires_grad=True)
    leaf.sum().backward()
    assert leaf.is_leaf and leaf.grad.tolist() == [1, 1] and w.grad is None


def test_pythons_types_are_64_bits_wide():
    assert [tw.zeros(1, dtype=t).dtype for t in (float, complex, int, bool)] == [tw.float64, tw.complex128, tw.int64, tw.bool]
    assert tw.tensor([1], dtype=float).dtype == tw.zeros(1).to(float).dtype == tw.float64


def test_a_number_of_numpys_fills_as_pythons():
    numbers = [np.float64(3), np.int64(3), np.float32(3)]
    for make in (lambda x: tw.full((2,), x), tw.arange):
        assert [make(x).dtype for x in numbers] == [tw.float32, tw.int64, tw.float32]


def test_int_of_a_float():
    assert [int(tw.tensor(x)) for x in (2.9, -2.9, True, 2**62)] == [2, -2, 1, 2**62]
    assert int(tw.tensor(1e30, dtype=tw.float64)) == int(1e30)
    with pytest.raises(ValueError, match="NaN"):
        int(tw.tensor(float("nan")))
    with pytest.raises(OverflowError, match="infinity"):
        int(tw.tensor(float("inf")))


@pytest.mark.parametrize("indices", [lambda w: w.sort()[1], lambda w: w.topk(2)[1], lambda w: w.argsort(), lambda w: w.cummax(0)[1]])
def test_indices_collect_no_gradients(indices):
    assert not indices(tw.tensor([1.0, 3.0, 2.0], requires_grad=True)).requires_grad
