"""Modules, layers, losses, optimizers, schedules, metrics, data."""

import inspect
import itertools
import pickle

import numpy as np
import pytest

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, Dataset, TensorDataset


class Mlp(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 2)
        self.scale = nn.Parameter(tw.ones(2))
        self.register_buffer("steps", tw.zeros(1))

    def forward(self, x):
        return self.out(self.norm(self.hidden(x)).relu()) * self.scale


def test_parameters_are_found_by_attribute():
    m = Mlp()
    assert [n for n, _ in m.named_parameters()] == [
        "scale",
        "hidden.weight",
        "hidden.bias",
        "norm.weight",
        "norm.bias",
        "out.weight",
        "out.bias",
    ]
    assert set(m.state_dict()) >= {"norm.running_mean", "norm.running_var", "steps"}
    assert m.num_parameters() == 2 + 32 + 8 + 16 + 16 + 2
    assert isinstance(m.hidden.weight, nn.Parameter) and not isinstance(tw.zeros(1), nn.Parameter)
    assert m(tw.randn(3, 4)).shape == (3, 2)
    assert "Linear(in_features=4" in repr(m)


def test_state_moves_between_models(tmp_path):
    a, b = Mlp(), Mlp()
    x = tw.randn(3, 4)
    a.eval(), b.eval()
    assert a(x).tolist() != b(x).tolist()
    tw.save(a.state_dict(), tmp_path / "m.safetensors")
    b.load_state_dict(tw.load(tmp_path / "m.safetensors"))
    assert a(x).tolist() == b(x).tolist()
    assert pickle.loads(pickle.dumps(a)).eval()(x).tolist() == a(x).tolist()
    state = a.state_dict()
    state["hidden.weight"] = tw.zeros(1, 1)
    before = b.state_dict()["out.weight"].tolist()
    with pytest.raises(ValueError, match="hidden.weight"):
        b.load_state_dict(state)
    assert b.state_dict()["out.weight"].tolist() == before
    with pytest.raises(KeyError, match="missing"):
        b.load_state_dict({})


def test_training_and_inference_differ():
    m = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4))
    x = tw.ones(8, 4)
    m(x)
    assert m[1].running_mean.tolist() != [0, 0, 0, 0]
    m.eval()
    assert m[0](x).tolist() == x.tolist()
    assert not m[0].training


@pytest.mark.parametrize(
    "layer, shape, out",
    [
        (lambda: nn.Conv1d(3, 4, 3, padding=1), (2, 3, 8), (2, 4, 8)),
        (lambda: nn.Conv2d(3, 4, 3, padding="same", groups=1), (2, 3, 8, 8), (2, 4, 8, 8)),
        (lambda: nn.Conv3d(1, 2, 2, stride=2), (1, 1, 4, 4, 4), (1, 2, 2, 2, 2)),
        (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 3, 4, 4), (2, 4, 8, 8)),
        (lambda: nn.MaxPool2d(2), (2, 3, 4, 4), (2, 3, 2, 2)),
        (lambda: nn.AvgPool1d(2, stride=1), (2, 3, 4), (2, 3, 3)),
        (lambda: nn.AdaptiveAvgPool2d(1), (2, 3, 4, 4), (2, 3, 1, 1)),
        (lambda: nn.LayerNorm(4), (2, 4), (2, 4)),
        (lambda: nn.RMSNorm([3, 4]), (2, 3, 4), (2, 3, 4)),
        (lambda: nn.GroupNorm(2, 4), (2, 4, 5), (2, 4, 5)),
        (lambda: nn.Flatten(), (2, 3, 4), (2, 12)),
        (lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=16), (2, 5, 8), (2, 5, 8)),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, norm=nn.LayerNorm(8)), (2, 5, 8), (2, 5, 8)),
        (lambda: nn.GELU(), (3,), (3,)),
        (lambda: nn.LeakyReLU(0.2), (3,), (3,)),
        (lambda: nn.Identity(), (3,), (3,)),
    ],
)
def test_layers(layer, shape, out):
    layer = layer()
    x = tw.randn(shape)
    y = layer(x)
    assert y.shape == out
    if list(layer.parameters()):
        y.square().sum().backward()
        assert all(p.grad is not None and p.grad.shape == p.shape for p in layer.parameters())


def test_attention_knows_lengths_and_drops():
    tw.manual_seed(0)
    q, k, v = tw.randn(2, 4, 5, 8), tw.randn(2, 2, 6, 8), tw.randn(2, 2, 6, 8)
    attend = nn.functional.scaled_dot_product_attention
    assert inspect.signature(tw.scaled_dot_product_attention).parameters.keys() == inspect.signature(attend).parameters.keys()
    causal = tw.scaled_dot_product_attention(q, q, q, None, 0.0, True)
    np.testing.assert_array_equal(causal.numpy(), attend(q, q, q, is_causal=True).numpy())
    seen = tw.arange(6) < tw.tensor([[6], [2]])
    by_mask = attend(q, k, v, seen.reshape(2, 1, 1, 6), enable_gqa=True)
    by_length = attend(q, k, v, enable_gqa=True, key_lengths=tw.tensor([6, 2]))
    np.testing.assert_allclose(by_length.numpy(), by_mask.numpy(), rtol=1e-5, atol=1e-6)
    short = attend(q, k, v, enable_gqa=True, query_lengths=tw.tensor([5, 3])).numpy()
    assert not short[1, :, 3:].any() and short[0].any() and short[1, :, :3].any()
    dropped = attend(q, k, v, dropout_p=0.5, enable_gqa=True).numpy()
    assert (dropped != attend(q, k, v, enable_gqa=True).numpy()).any()
    for wrong in [dict(dropout_p=-0.1), dict(dropout_p=1.5), dict(key_lengths=tw.tensor([6])), dict(key_lengths=tw.tensor([6.0, 2.0]))]:
        with pytest.raises(tw.Error):
            attend(q, k, v, enable_gqa=True, **wrong)
    m, x = nn.MultiheadAttention(8, 2, batch_first=True), tw.randn(2, 5, 8)
    for weights in (True, False):
        by_mask = m(x, x, x, tw.arange(5) >= tw.tensor([[5], [3]]), need_weights=weights)
        by_length = m(x, x, x, key_lengths=tw.tensor([5, 3]), need_weights=weights)
        for got, wanted in zip(by_length, by_mask):
            assert (got is None) == (wanted is None) == (not weights and got is not by_length[0])
            if got is not None:
                np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_layers_of_several_tensors():
    x = tw.randn(5, 2, 3)
    y, (h, c) = nn.LSTM(3, 4, num_layers=2)(x)
    assert y.shape == (5, 2, 4) and h.shape == c.shape == (2, 2, 4)
    y, h = nn.GRU(3, 4, batch_first=True)(x, None)
    assert y.shape == (5, 2, 4) and h.shape == (1, 5, 4)
    assert "weight_ih_l0" in nn.RNN(3, 4).state_dict()
    q = tw.randn(2, 5, 8)
    m = nn.MultiheadAttention(8, 2)
    assert [t.shape for t in m(q, q, q, is_causal=True)] == [(2, 5, 8), (5, 2, 2)]
    assert set(m.state_dict()) == {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    assert m.out_proj.weight.shape == (8, 8)
    assert nn.TransformerDecoderLayer(8, 2, dim_feedforward=8)(q, q).shape == (2, 5, 8)
    assert nn.Embedding(10, 4)(tw.tensor([[1, 2], [3, 4]])).shape == (2, 2, 4)
    edges = tw.tensor([[0, 1], [1, 2]])
    assert nn.GCN(3, 4)(tw.randn(3, 3), edges).shape == (3, 4)
    assert nn.GAT(3, 4, heads=2)(tw.randn(3, 3), edges).shape == (3, 8)


def test_bad_settings_are_refused():
    for bad in [
        lambda: nn.MultiheadAttention(7, 2),
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.Dropout(1.5),
        lambda: nn.Conv2d(3, 4, (3, 3, 3)),
    ]:
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError):
        nn.TransformerEncoderLayer(8, 2, colour="red")
    with pytest.raises(ValueError, match="in_features must be a size"):
        nn.Linear(-1, 2)
    with pytest.raises(tw.ShapeError, match="test_nn.py"):
        nn.Linear(4, 2)(tw.zeros(3, 5))
    with pytest.raises(NotImplementedError):
        nn.Module()(1)


def test_losses():
    x, y = tw.tensor([[2.0, 0.0], [0.0, 3.0]]), tw.tensor([0, 1])
    assert abs(nn.CrossEntropyLoss()(x, y).item() - nn.functional.cross_entropy(x, y).item()) < 1e-7
    assert nn.CrossEntropyLoss(reduction="none")(x, y).shape == (2,)
    assert nn.MSELoss()(x, x * 0).item() == pytest.approx(13 / 4)
    assert nn.BCEWithLogitsLoss()(x, (x > 0).float()).item() > 0
    with pytest.raises(TypeError):
        nn.MSELoss(wrong=1)


OPTIMIZERS = ["SGD", "Adagrad", "Adam", "AdamW", "RMSprop", "Adadelta", "NAdam", "Lion", "Adafactor"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_lowers_the_loss(name):
    assert len(OPTIMIZERS) == len(tw._native.OPTIMIZERS)
    w = tw.tensor([3.0, -2.0], requires_grad=True)
    o = getattr(tw.optim, name)([w])
    o.lr = 0.05 if name != "Adadelta" else 1.0
    first = None
    for _ in range(20):
        loss = w.square().sum()
        o.zero_grad()
        loss.backward()
        o.step()
        first = first or loss.item()
    assert w.square().sum().item() < first
    state = o.state_dict()
    assert name == "SGD" or state["state"][0]["step"].item() == 20
    o.load_state_dict(state)
    with pytest.raises(TypeError):
        getattr(tw.optim, name)([w], wrong=1)
    with pytest.raises(TypeError):
        getattr(tw.optim, name)([tw.zeros(2)])


def test_lbfgs():
    w = tw.tensor([3.0, -2.0], requires_grad=True)
    o = tw.optim.LBFGS([w], line_search_fn="strong_wolfe")
    for _ in range(3):
        o.step(lambda: (w - tw.tensor([1.0, 2.0])).square().sum())
    np.testing.assert_allclose(np.asarray(w.detach()), [1, 2], atol=1e-4)

    def bad():
        raise KeyError("as it was")

    with pytest.raises(KeyError, match="as it was"):
        o.step(bad)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_takes_complex_parameters(search):
    # The least of |z - c|^2, and of a number beside it, is where they are equal.
    z = tw.nn.Parameter(tw.zeros(2, 2, dtype="complex64"))
    c = tw.asarray([[1 + 2j, -3j], [0.5, 1 - 1j]])
    o = tw.optim.LBFGS([z], line_search_fn=search)

    def closure():
        o.zero_grad()
        loss = (z - c).abs().square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        o.step(closure)
    np.testing.assert_allclose(z.numpy(), c.numpy(), atol=1e-4)



def test_groups_and_schedules():
    a, b = tw.tensor([1.0], requires_grad=True), tw.tensor([1.0], requires_grad=True)
    o = tw.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.0}], lr=0.5)
    (a + b).sum().backward()
    o.step()
    assert a.item() == 0.5 and b.item() == 1.0
    s = tw.optim.lr_scheduler.StepLR(tw.optim.SGD([a], lr=1.0), 2, 0.5)
    rates = []
    for _ in range(4):
        rates.append(s.optimizer.lr)
        s.step()
    assert rates == [1.0, 1.0, 0.5, 0.5]
    s = tw.optim.lr_scheduler.Warmup(tw.optim.lr_scheduler.CosineAnnealingLR(s.optimizer, 10), 4)
    assert s.lr(0) == 0.0 and s.lr(14) == pytest.approx(0.0, abs=1e-6)
    assert a.grad.item() == 1.0  # a step leaves the gradient of a tensor that is no parameter
    o.zero_grad()
    a.backward()
    norm = nn.utils.clip_grad_norm_([a], 0.1)
    assert norm.item() == 1.0 and a.grad.item() == pytest.approx(0.1, rel=1e-3)


def test_metrics():
    m = tw.metrics.Accuracy()
    m.update(tw.tensor([[0.1, 0.9], [0.8, 0.2]]), tw.tensor([1, 1]))
    assert m.value() == 0.5
    c = tw.metrics.Confusion(2)
    c.update(tw.tensor([0, 1]), tw.tensor([0, 0]))
    assert c.tensor().tolist() == [[1, 1], [0, 0]] and c.accuracy() == 0.5
    with pytest.raises(ValueError):
        c.f1("wrong")


class Squares(Dataset):
    def __getitem__(self, i):
        if i >= len(self):
            raise IndexError(i)
        return {"x": np.float32(i), "y": i * i}

    def __len__(self):
        return 5


def test_data():
    batches = list(DataLoader(Squares(), batch_size=2))
    assert [b["y"].tolist() for b in batches] == [[0, 1], [4, 9], [16]]
    x = np.arange(10, dtype="f4").reshape(5, 2)
    loader = DataLoader((x, np.arange(5)), batch_size=2, shuffle=True, drop_last=True)
    seen = [y.tolist() for _, y in loader]
    assert len(loader) == 2 and len(sum(seen, [])) == 4
    assert [b.tolist() for b in DataLoader(iter([1, 2, 3]), batch_size=2)] == [[1, 2], [3]]
    assert TensorDataset(tw.zeros(3), tw.ones(3))[1][1].item() == 1
    with pytest.raises(ValueError):
        TensorDataset(tw.zeros(3), tw.ones(2))
    with pytest.raises(TypeError):
        DataLoader(iter([1]), shuffle=True)


def test_in_place_initial_values():
    l = nn.Linear(8, 8)
    nn.init.orthogonal_(l.weight)
    np.testing.assert_allclose(np.asarray(l.weight @ l.weight.T), np.eye(8), atol=1e-5)
    nn.init.zeros_(l.bias)
    assert l.bias.sum().item() == 0
    with pytest.raises(TypeError, match="nn.Parameter or None"):
        l.weight = tw.ones(8, 8)
    l.weight = nn.Parameter(tw.ones(8, 8))
    assert l.weight.sum().item() == 64 and l(tw.ones(1, 8)).tolist() == [[8.0] * 8]


@pytest.mark.parametrize("make", [lambda p: tw.optim.SGD(p, lr=0.1), lambda p: tw.optim.Adam(p, lr=0.1)])
def test_complex_parameters_are_optimized_as_their_parts(make):
    z, pair = tw.tensor([1 + 2j, -3j], requires_grad=True), tw.tensor([[1.0, 2.0], [0.0, -3.0]], requires_grad=True)
    by_z, by_pair = make([z]), make([pair])
    for _ in range(3):
        ((z * (2 - 1j)).abs() ** 2).sum().backward()
        ((tw.view_as_complex(pair) * (2 - 1j)).abs() ** 2).sum().backward()
        nn.utils.clip_grad_norm_([z], 5.0)
        nn.utils.clip_grad_norm_([pair], 5.0)
        by_z.step()
        by_pair.step()
    np.testing.assert_allclose(np.asarray(tw.view_as_real(z)), np.asarray(pair), rtol=1e-5)


def test_ctc_loss_sums_over_all_ways():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((4, 3, 3))
    p = np.exp(scores - np.log(np.exp(scores).sum(-1, keepdims=True)))
    targets, times, lengths = [[1, 2], [1, 1], [2, 0]], [4, 4, 3], [2, 2, 1]

    def collapsed(path):
        return [c for i, c in enumerate(path) if c != 0 and (i == 0 or path[i - 1] != c)]

    def likelihood(k):
        ways = [w for w in itertools.product(range(3), repeat=times[k]) if collapsed(w) == targets[k][: lengths[k]]]
        return sum(np.prod([p[t, k, c] for t, c in enumerate(w)]) for w in ways)

    want = [-np.log(likelihood(k)) for k in range(3)]
    x = tw.tensor(scores, requires_grad=True)
    loss = tw.nn.CTCLoss(reduction="none")(x.log_softmax(-1), tw.tensor(targets), tw.tensor(times), lengths)
    np.testing.assert_allclose(loss.numpy(), want, rtol=1e-10)
    flat = tw.tensor([1, 2, 1, 1, 2])
    for reduction, number in [("sum", sum(want)), ("mean", np.mean(np.array(want) / lengths))]:
        got = tw.nn.functional.ctc_loss(x.log_softmax(-1), flat, times, lengths, reduction=reduction)
        np.testing.assert_allclose(got.item(), number, rtol=1e-10)
    single = tw.nn.functional.ctc_loss(x[:, 0].log_softmax(-1), tw.tensor([1, 2]), 4, 2, reduction="none")
    np.testing.assert_allclose(single.item(), want[0], rtol=1e-10)
    # Through the softmax, the gradient of each time that counts sums to nothing; the others have none.
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.sum(-1).numpy(), np.zeros((4, 3)), atol=1e-12)
    assert x.grad[3, 2].tolist() == [0, 0, 0]
    # Two equal classes need three times.
    short = tw.zeros(2, 1, 2).log_softmax(-1)
    assert tw.nn.functional.ctc_loss(short, tw.tensor([[1, 1]]), [2], [2]).item() == np.inf
    assert tw.nn.functional.ctc_loss(short, tw.tensor([[1, 1]]), [2], [2], zero_infinity=True).item() == 0
    for bad in [lambda: tw.nn.CTCLoss(blank=7)(short, tw.tensor([[1]]), [2], [1]), lambda: tw.nn.CTCLoss()(short, tw.tensor([1, 1]), [2], [1])]:
        with pytest.raises(ValueError):
            bad()


def test_sums_of_groups_are_rounded_once():
    a, b, ends = tw.randn(6, 33), tw.randn(2, 33, 5), tw.tensor([2, 6])
    F = nn.functional
    y = F.grouped_mm(a, b, offs=ends, out_dtype=tw.bfloat16)
    assert y.dtype == tw.bfloat16 and y.equal(F.grouped_mm(a, b, offs=ends).bfloat16())
    narrow = a.bfloat16(), b.bfloat16()
    wide = F.grouped_mm(*narrow, offs=ends, out_dtype=tw.float32)
    assert wide.equal(F.grouped_mm(*(x.float() for x in narrow), offs=ends))
