"""Modules behave as PyTorch's: registration, tying, hooks, state, types, copies."""

import copy
import pickle

import numpy as np
import pytest

import talweg as tw
from talweg import nn
from talweg.nn import functional as F


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(7, 4)
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x):
        return self.head(self.body(self.wte(x)).tanh())


def trained(model, steps=3):
    optimizer = tw.optim.AdamW(model.parameters(), lr=0.1)
    x, y = tw.tensor([[0, 1, 2], [3, 4, 5]]), tw.tensor([[1, 2, 3], [4, 5, 6]])
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x).reshape(-1, 7), y.reshape(-1)).backward()
        optimizer.step()
    return model


def test_tied_weights_are_one_parameter():
    m = trained(Tied())
    assert m.head.weight is m.wte.weight
    assert [n for n, _ in m.named_parameters()] == ["wte.weight", "body.weight", "body.bias"]
    assert len(list(m.named_parameters(remove_duplicate=False))) == 4
    assert list(m.state_dict()) == ["wte.weight", "body.weight", "body.bias", "head.weight"]
    assert m.num_parameters() == 28 + 16 + 4
    other = Tied()
    other.load_state_dict(m.state_dict())
    assert other.head.weight is other.wte.weight and other.head.weight.tolist() == m.wte.weight.tolist()
    for again in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), m.double()):
        assert again.head.weight is again.wte.weight and len(list(again.parameters())) == 3


def test_a_trainer_keeps_ties_in_checkpoints(tmp_path):
    x, y = tw.randint(0, 7, (32, 3)), tw.randint(0, 7, (32, 3))

    def made(steps):
        tw.manual_seed(3)
        m = Tied()
        o = tw.optim.AdamW(m.parameters(), lr=0.1)
        loader = tw.utils.data.DataLoader((x, y), batch_size=8)
        t = tw.train.Trainer(m, o, loader, steps=steps, checkpoints=tmp_path / str(steps % 4), save_every=2, progress=False)
        return m, t, lambda x, y: F.cross_entropy(m(x).reshape(-1, 7), y.reshape(-1))

    whole, t, loss = made(4)
    t.fit(loss)
    half, t, loss = made(2)
    t.fit(loss)
    (tmp_path / "2").rename(tmp_path / "rest")
    rest, t, loss = made(4)
    (tmp_path / "0").rename(tmp_path / "done")
    (tmp_path / "rest").rename(tmp_path / "0")
    assert t.resume() == 2
    t.fit(loss)
    assert rest.head.weight is rest.wte.weight
    assert rest.wte.weight.tolist() == whole.wte.weight.tolist() == rest.head.weight.tolist()


def test_the_constructor_of_the_base_need_not_be_called():
    class Plain(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(tw.ones(2))

    class Calls(Plain):
        def __init__(self):
            super().__init__()
            nn.Module.__init__(self)

    for m in (Plain(), Calls()):
        assert list(m.state_dict()) == ["w"] and m.training


def test_attributes_are_registered_by_their_kind():
    m = nn.Module()
    m.w = nn.Parameter(tw.ones(2))
    m.plain = tw.ones(2)
    m.leaf = tw.ones(2).requires_grad_()
    m.register_buffer("mean", tw.zeros(2))
    m.register_buffer("cache", tw.zeros(2), persistent=False)
    m.register_buffer("none", None)
    m.register_parameter("bias", None)
    m.counter = tw.Variable(0, trainable=False)
    assert list(m.state_dict()) == ["w", "mean", "counter"] and m.bias is None and m.none is None
    assert [n for n, _ in m.named_buffers()] == ["mean", "cache", "counter"]
    assert list(m._parameters) == ["w", "bias"] and [n for n, _ in m.named_parameters()] == ["w"]
    for name in ("w", "bias"):
        with pytest.raises(TypeError, match="nn.Parameter or None"):
            setattr(m, name, tw.ones(2))
    with pytest.raises(TypeError, match="buffer"):
        m.mean = 3
    with pytest.raises(TypeError):
        m.register_buffer("list", [1.0])
    with pytest.raises(KeyError, match="exists"):
        m.register_buffer("w", tw.ones(1))
    with pytest.raises(KeyError, match="dot"):
        m.register_parameter("a.b", None)
    before = m.mean
    m.mean = m.mean + 1
    assert before.tolist() == [0, 0] and m.mean.tolist() == [1, 1] and "mean" in m.state_dict()
    m.mean = None
    m.w = None
    assert "mean" not in m.state_dict() and list(m.parameters()) == []
    del m.counter
    assert not hasattr(m, "counter") and "plain" in dir(m) and "cache" in dir(m)
    with pytest.raises(TypeError):
        m.w = nn.Linear(1, 1)
    m.plain = nn.Linear(1, 1)
    assert "plain" not in m.__dict__ and list(m._modules) == ["plain"]


def test_buffers_change_inside_a_jitted_function():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", tw.zeros(1))
            self.register_buffer("count", tw.tensor(0))

        def forward(self, x):
            self.mean = 0.5 * self.mean + 0.5 * x.mean(0, keepdims=True)
            self.count += 1
            return x - self.mean

    eager, jitted = Mean(), Mean()
    step = tw.jit(lambda x: jitted(x))
    for i in range(3):
        x = tw.ones(2, 1).reshape(2) * i
        assert eager(x).tolist() == step(x).tolist()
    assert eager.mean.tolist() == jitted.mean.tolist() == [1.25] and jitted.count.item() == eager.count.item() == 3


def test_the_mode_is_a_plain_attribute():
    m = nn.Sequential(nn.Dropout(0.9), nn.Sequential(nn.BatchNorm1d(2)))
    m[0].training = False
    assert m(tw.ones(4, 2)).tolist() == [[0.0, 0.0]] * 4 and m.training and not m[0].training
    assert not any(part.training for part in m.eval().modules())
    with pytest.raises(ValueError):
        m.train("yes")


def test_paths():
    m = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    assert m.get_submodule("1.0") is m[1][0] and m.get_submodule("") is m
    assert m.get_parameter("0.bias") is m[0].bias and m.get_buffer("1.0.running_mean") is m[1][0].running_mean
    for wrong in (lambda: m.get_submodule("3"), lambda: m.get_parameter("0.nothing"), lambda: m.get_buffer("0.weight"), lambda: m.nothing):
        with pytest.raises(AttributeError):
            wrong()
    shared = nn.Linear(2, 2)
    m = nn.Sequential(shared, nn.ReLU(), shared)
    assert len(list(m.modules())) == 3 and list(m.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert len(list(m.parameters())) == 2 and [n for n, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1", "2"]


def test_loading_says_what_does_not_fit():
    m = nn.Linear(2, 3)
    found = m.load_state_dict({"weight": tw.ones(3, 2), "other": tw.ones(1)}, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["other"]
    assert m.weight.tolist() == [[1, 1]] * 3
    assert repr(m.load_state_dict(m.state_dict())) == "<All keys matched successfully>"
    w = m.weight
    m.load_state_dict({"weight": tw.zeros(3, 2, dtype="float64"), "bias": tw.zeros(3)}, assign=True)
    assert m.weight is not w and m.weight.dtype == tw.float64 and isinstance(m.weight, nn.Parameter)
    state = m.state_dict(prefix="part.", keep_vars=True)
    assert list(state) == ["part.weight", "part.bias"] and state["part.weight"] is m.weight

    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"version": 7}

        def set_extra_state(self, state):
            self.version = state["version"]

    a, b = Extra(1, 1), Extra(1, 1)
    b.load_state_dict(a.state_dict())
    assert b.version == 7


def test_state_hooks():
    m = nn.Linear(2, 1)
    m.register_state_dict_post_hook(lambda module, state, prefix, meta: state.__delitem__(prefix + "bias"))
    m._register_state_dict_hook(lambda module, state, prefix, meta: None)
    assert list(m.state_dict()) == ["weight"]
    m = nn.Linear(2, 1)
    m.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: state.update({prefix + "bias": state.pop(prefix + "b")}))
    m.load_state_dict({"weight": tw.ones(1, 2), "b": tw.ones(1)})
    assert m.bias.item() == 1


def test_forward_hooks_see_and_change():
    m, seen = nn.Linear(2, 1, bias=False), []
    nn.init.ones_(m.weight)
    first = m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    second = m.register_forward_hook(lambda module, args, out: seen.append(args[0].tolist()))
    third = m.register_forward_hook(lambda module, args, kwargs, out: out + 1, with_kwargs=True, prepend=True)
    assert m(tw.ones(1, 2)).item() == 5 and seen == [[[2.0, 2.0]]]
    for handle in (first, second, third):
        handle.remove()
    assert m(tw.ones(1, 2)).item() == 2 and len(seen) == 1
    with m.register_forward_pre_hook(lambda module, args, kwargs: (args, {"input": kwargs["input"] * 3}), with_kwargs=True):
        assert m(input=tw.ones(1, 2)).item() == 6


def test_backward_hooks_see_and_change_gradients():
    m, seen = nn.Linear(2, 1, bias=False), []
    nn.init.ones_(m.weight)

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    m.register_full_backward_hook(hook)
    m.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    x = tw.ones(1, 2).requires_grad_()
    m(x * 1).sum().backward()
    assert seen == [([[2.0, 2.0]], [[2.0]])] and x.grad.tolist() == [[20.0, 20.0]] and m.weight.grad.tolist() == [[2.0, 2.0]]
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda module, given, out: seen.append(given))
    m(tw.ones(1, 2)).sum().backward()
    assert seen[-1] == (None,)


def test_backward_hooks_of_nested_and_repeated_modules():
    order = []
    m = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True)), nn.Linear(2, 1))
    plain = copy.deepcopy(m)
    for name, part in m.named_modules():
        part.register_full_backward_hook(lambda module, given, out, name=name: order.append(name))
    for net in (m, plain):
        (net(net[1](tw.ones(3, 2)))).sum().backward()
    for p, q in zip(m.parameters(), plain.parameters()):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)
    assert order == ["2", "1.1", "1.0", "1", "0", "", "1.1", "1.0", "1"]
    step = tw.jit(lambda x: m(x).sum())
    assert step(tw.ones(3, 2)).item() == pytest.approx(plain(tw.ones(3, 2)).sum().item(), rel=1e-5)


def test_types_of_modules():
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    m[0].bias.requires_grad = False
    for convert, dtype in [(m.half, "float16"), (m.bfloat16, "bfloat16"), (m.double, "float64"), (m.float, "float32")]:
        assert convert() is m
        assert {str(p.dtype) for p in m.parameters()} == {f"talweg.{dtype}"}
        assert str(m[1].running_mean.dtype) == f"talweg.{dtype}" and str(m[1].num_batches_tracked.dtype) == "talweg.int64"
        assert not m[0].bias.requires_grad and m[0].weight.requires_grad
    assert m.to(tw.float64)[0].weight.dtype == tw.float64
    assert m.to(tw.ones(1))[0].weight.dtype == tw.float32
    assert m.to("cpu", tw.float64, non_blocking=True)[0].weight.dtype == tw.float64
    assert m.to(device="cpu", dtype=tw.float32)(tw.ones(4, 2)).shape == (4, 3)
    with pytest.raises(TypeError, match="floating-point"):
        m.to(tw.int64)
    optimizer = tw.optim.SGD(m.parameters(), lr=0.1)
    m.double()(tw.ones(4, 2, dtype="float64")).sum().backward()
    with pytest.raises(tw.GradientError):
        optimizer.step()


def test_gradients_are_forgotten_or_zero():
    m = nn.Linear(2, 1)
    m(tw.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert m.weight.grad.tolist() == [[0, 0]]
    m.zero_grad()
    assert m.weight.grad is None
    m.requires_grad_(False)
    assert not m(tw.ones(1, 2)).requires_grad


def test_containers():
    seq = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    seq.append(nn.Tanh()).insert(0, nn.Sigmoid())
    assert [type(m).__name__ for m in seq] == ["Sigmoid", "Linear", "ReLU", "Tanh"] and isinstance(seq[-1], nn.Tanh)
    del seq[0]
    seq[1] = nn.GELU()
    assert list(seq._modules) == ["0", "1", "2"] and isinstance(seq[1:], nn.Sequential) and len(seq[1:]) == 2
    assert isinstance(seq.pop(1), nn.GELU) and len(seq + seq) == 4
    with pytest.raises(IndexError):
        seq[5]
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.Linear(1, 1), nn.Linear(1, 1)]
    layers.insert(1, nn.ReLU())
    assert len(layers) == 4 and len(layers[:2]) == 2 and layers[-1] in layers
    named = nn.ModuleDict({"a": nn.Linear(1, 1)})
    named["b"] = nn.ReLU()
    named.update([("c", nn.Tanh())])
    assert list(named) == ["a", "b", "c"] and "b" in named and isinstance(named.pop("b"), nn.ReLU) and len(named) == 2
    p = nn.ParameterDict({"x": tw.ones(1)})
    p["y"] = nn.Parameter(tw.ones(2))
    assert repr(p) == "ParameterDict(\n  (x): Parameter of size (1,)\n  (y): Parameter of size (2,)\n)"
    assert list(p.state_dict()) == ["x", "y"] and p.get("z") is None and len(p.pop("x")) == 1
    listed = nn.ParameterList([tw.ones(1)])
    listed += [tw.ones(2)]
    assert [tuple(t.shape) for t in listed] == [(1,), (2,)] and listed[-1] is list(listed.parameters())[-1]


def test_parameters_keep_what_is_said_of_them():
    p = nn.Parameter(tw.ones(2), requires_grad=False)
    p.group = "slow"
    for again in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert isinstance(again, nn.Parameter) and not again.requires_grad and again.group == "slow"
    assert isinstance(tw.Variable([1.0]), nn.Parameter) and not isinstance(tw.ones(1).requires_grad_(), nn.Parameter)
    assert nn.Parameter(tw.tensor([1, 2]), requires_grad=False).dtype == tw.int64


def test_in_place_functions_change_their_input():
    x = tw.tensor([-1.0, 2.0])
    y = F.relu(x, inplace=True)
    assert y is x and x.tolist() == [0, 2]
    assert nn.LeakyReLU(0.5, inplace=True)(x - 1) is not x
    leaf = tw.tensor([-1.0, 2.0], requires_grad=True)
    hidden = leaf * 3
    nn.ReLU(inplace=True)(hidden)
    hidden.sum().backward()
    assert leaf.grad.tolist() == [0, 3]
    with pytest.raises(RuntimeError):
        F.relu(leaf, inplace=True)


def test_lazy_layers_take_shapes_from_their_input():
    m = nn.Sequential(nn.LazyConv2d(4, 3, bias=False), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    assert m(tw.ones(2, 3, 5, 5)).shape == (2, 2)
    assert [type(part).__name__ for part in m] == ["Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear"]
    assert m[0].weight.shape == (4, 3, 3, 3) and m[1].num_features == 4 and m[4].in_features == 36
    state = m.state_dict()
    other = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    assert list(other.state_dict()) == list(state)
    loaded = nn.LazyLinear(2)
    loaded.load_state_dict({"weight": tw.ones(2, 3), "bias": tw.ones(2)})
    assert loaded(tw.ones(1, 3)).tolist() == [[4, 4]]


def test_batch_norm_of_several_workers_is_that_of_the_whole_batch(monkeypatch):
    tw.manual_seed(0)
    x = tw.randn(6, 3, 2, 2) + 100.0
    whole, part = nn.BatchNorm2d(3), nn.SyncBatchNorm(3)
    other = x[4:]

    def all_reduce(mine, group=None):
        """What the other worker, which has the last two examples, adds."""
        if mine.shape[0] == 4:
            return mine + tw.cat([other.sum((0, 2, 3)), tw.tensor([8.0])])
        return mine + (other - x.mean((0, 2, 3)).reshape(1, 3, 1, 1)).square().sum((0, 2, 3))

    monkeypatch.setattr(tw.distributed, "world_size", lambda: 2)
    monkeypatch.setattr(tw.distributed.functional, "all_reduce", all_reduce)
    np.testing.assert_allclose(part(x[:4]).detach().numpy(), whole(x)[:4].detach().numpy(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(part.running_var.numpy(), whole.running_var.numpy(), rtol=1e-3)
    assert part.num_batches_tracked.item() == 1
    monkeypatch.undo()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    assert type(model[1]) is nn.SyncBatchNorm and model(tw.ones(4, 2)).shape == (4, 3)


def test_weights_with_norms():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    w = layer.weight.tolist()
    layer.parametrizations.weight.original0.data = layer.parametrizations.weight.original0.detach() * 2
    np.testing.assert_allclose(layer.weight.numpy(), 2 * np.array(w), rtol=1e-5)
    layer(tw.ones(1, 3)).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert again.weight.tolist() == layer.weight.tolist() and again.weight is not layer.weight
    plain = nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert type(plain) is nn.Linear and list(plain.state_dict()) == ["bias", "weight"]
    old = nn.utils.weight_norm(nn.Conv1d(2, 3, 2), dim=0)
    assert old(tw.ones(1, 2, 4)).shape == (1, 3, 3) and old.weight_g.shape == (3, 1, 1)
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=3)
    for _ in range(5):
        spectral(tw.ones(1, 5)).sum().backward()
    assert np.linalg.svd(spectral.eval().weight.numpy())[1][0] == pytest.approx(1.0, rel=1e-2)


def test_packed_sequences_go_through_recurrent_layers():
    tw.manual_seed(1)
    rnn = nn.utils.rnn
    parts = [tw.randn(2, 3), tw.randn(4, 3), tw.randn(1, 3)]
    for layer in (nn.LSTM(3, 4, bidirectional=True, num_layers=2), nn.GRU(3, 4)):
        packed = rnn.pack_sequence(parts, enforce_sorted=False)
        y, state = layer(packed)
        assert isinstance(y, rnn.PackedSequence)
        for got, part, i in zip(rnn.unpack_sequence(y), parts, range(3)):
            wanted, alone = layer(part)
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-6)
            h = state[0] if isinstance(state, tuple) else state
            np.testing.assert_allclose(h[:, i].numpy(), (alone[0] if isinstance(alone, tuple) else alone).numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="sorted"):
        rnn.pack_sequence(parts)


def test_modules_are_functions_of_their_parameters():
    call = nn.utils.stateless.functional_call
    m = Tied()
    before = m.wte.weight
    x = tw.tensor([[0, 1]])
    state = {"wte.weight": tw.ones(7, 4), "body.weight": tw.zeros(4, 4), "body.bias": tw.ones(4)}
    np.testing.assert_allclose(call(m, state, x).numpy(), 4 * np.tanh(1) * np.ones((1, 2, 7)), rtol=1e-5)
    assert m.wte.weight is before is m.head.weight
    with pytest.raises(KeyError, match="nothing"):
        call(m, {"nothing": tw.ones(1)}, x)
    models = [nn.Linear(3, 2) for _ in range(4)]
    params, _ = nn.utils.stateless.stack_module_state(models)
    y = tw.vmap(lambda w, b, x: call(models[0], {"weight": w, "bias": b}, (x,)), in_axes=(0, 0, None))(params["weight"], params["bias"], tw.ones(5, 3))
    for i, each in enumerate(models):
        np.testing.assert_allclose(y[i].numpy(), each(tw.ones(5, 3)).numpy(), rtol=1e-5)


def test_masks_of_attention_modules_leave_out():
    tw.manual_seed(2)
    m, x = nn.MultiheadAttention(8, 2, batch_first=True), tw.randn(2, 4, 8)
    future = tw.ones(4, 4, dtype="bool").triu(1)
    _, weights = m(x, x, x, attn_mask=future)
    assert (weights.numpy()[:, np.triu_indices(4, 1)[0], np.triu_indices(4, 1)[1]] == 0).all()
    added = nn.Transformer.generate_square_subsequent_mask(4)
    for other in (dict(attn_mask=added), dict(is_causal=True), dict(attn_mask=future, is_causal=True, need_weights=False)):
        np.testing.assert_allclose(m(x, x, x, **other)[0].numpy(), m(x, x, x, attn_mask=future)[0].numpy(), rtol=1e-4, atol=1e-5)
    ignored = tw.tensor([[False, False, True, True], [False, False, False, False]])
    _, weights = m(x, x, x, key_padding_mask=ignored, attn_mask=future, average_attn_weights=False)
    assert weights.shape == (2, 2, 4, 4) and (weights.numpy()[0, :, :, 2:] == 0).all() and weights.numpy()[1, :, 3, 2].all()
    # The function's bool masks say who takes part.
    q = tw.randn(1, 1, 4, 8)
    by_mask = F.scaled_dot_product_attention(q, q, q, attn_mask=~future)
    np.testing.assert_allclose(by_mask.numpy(), F.scaled_dot_product_attention(q, q, q, is_causal=True).numpy(), rtol=1e-4, atol=1e-5)


def test_ambiguous_and_deprecated_arguments_are_refused():
    for call, text in [
        (lambda: F.softmax(tw.ones(2, 2, 2)), "give dim"),
        (lambda: F.mse_loss(tw.ones(2), tw.ones(2), size_average=True), "reduction"),
        (lambda: F.layer_norm(tw.ones(2, 3), (2,)), "last dimensions"),
        (lambda: F.interpolate(tw.ones(1, 1, 2, 2), scale_factor=2, antialias=True), "antialias"),
        (lambda: nn.Conv2d(1, 1, 3, padding_mode="mirror"), "padding_mode"),
        (lambda: nn.LSTM(2, 3, proj_size=3), "proj_size"),
        (lambda: nn.RNN(2, 3, nonlinearity="gelu"), "nonlinearity"),
        (lambda: nn.MultiheadAttention(8, 3), "heads"),
        (lambda: F.batch_norm(tw.ones(1, 3), None, None, training=True), "more than 1 value"),
        (lambda: nn.Linear(1, 1).register_backward_hook(print), "full_backward"),
    ]:
        with pytest.raises(tw.Error, match=text):
            call()


def test_functions_are_called_with_pytorchs_keywords():
    x = tw.randn(2, 3, 8, 8)
    assert F.max_pool2d(input=x, kernel_size=2, stride=2).shape == (2, 3, 4, 4)
    y, index = F.max_pool2d(x, kernel_size=2, return_indices=True)
    assert F.max_unpool2d(y, index, kernel_size=2).shape == x.shape
    assert F.one_hot(tw.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.dropout2d(x, p=1.0).abs().sum().item() == 0
    dropped = F.dropout2d(tw.ones(8, 16, 2, 2), p=0.5).numpy()
    assert (dropped.reshape(8, 16, 4).std(-1) == 0).all() and 0.5 < dropped.mean() < 1.5
    hard = F.gumbel_softmax(tw.randn(5, 4), tau=0.5, hard=True)
    assert hard.sum(1).tolist() == [1] * 5 and set(hard.reshape(-1).tolist()) == {0.0, 1.0}
    mean = tw.zeros(3)
    F.batch_norm(x, mean, tw.ones(3), training=True, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean((0, 2, 3)), atol=1e-5)
    assert F.embedding_bag(tw.tensor([0, 1, 1]), tw.eye(3), offsets=tw.tensor([0, 1, 3]), include_last_offset=True, mode="sum").shape == (2, 3)
    table = nn.Embedding(4, 2, padding_idx=0)
    assert table.weight[0].tolist() == [0, 0]
    table(tw.tensor([0, 1])).sum().backward()
    assert table.weight.grad[0].tolist() == [0, 0] and table.weight.grad[1].tolist() == [1, 1]
    assert not nn.Embedding.from_pretrained(tw.ones(2, 2)).weight.requires_grad


def test_initial_values():
    w = nn.Parameter(tw.zeros(64, 32, 3, 3))
    for fill, std in [
        (lambda: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), (2 / (64 * 9)) ** 0.5),
        (lambda: nn.init.kaiming_uniform_(w, a=5**0.5), (1 / 3 / (32 * 9)) ** 0.5),
        (lambda: nn.init.xavier_normal_(w, gain=2.0), 2 * (2 / (96 * 9)) ** 0.5),
        (lambda: nn.init.trunc_normal_(w, mean=1.0, std=0.1, a=0.8, b=1.2), 0.088),
    ]:
        fill()
        assert float(np.std(w.detach().numpy())) == pytest.approx(std, rel=0.05)
    assert nn.init.eye_(nn.Parameter(tw.zeros(2, 3))).tolist() == [[1, 0, 0], [0, 1, 0]]
    conv = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
    nn.init.dirac_(conv.weight, groups=2)
    x = tw.randn(1, 4, 5, 5)
    np.testing.assert_allclose(conv(x).numpy(), x.numpy(), atol=1e-6)
    assert nn.init.calculate_gain("leaky_relu", 0.2) == pytest.approx((2 / 1.04) ** 0.5)


def test_vectors_of_parameters_and_norms_of_gradients():
    m = nn.Linear(2, 1)
    vector = nn.utils.parameters_to_vector(m.parameters())
    nn.utils.vector_to_parameters(vector * 0 + 2, m.parameters())
    assert m.weight.tolist() == [[2, 2]] and m.bias.tolist() == [2]
    (m.weight * tw.tensor([3.0, -4.0])).sum().backward()
    assert nn.utils.clip_grad_norm_(m.parameters(), 1.0, norm_type=float("inf")).item() == 4
    np.testing.assert_allclose(m.weight.grad.numpy(), [[0.75, -1.0]], rtol=1e-5)
    assert nn.utils.clip_grad_norm_(m.weight, 10.0).item() == pytest.approx(1.25)
    assert nn.utils.clip_grad_norm_([m.bias], 1.0).item() == 0
