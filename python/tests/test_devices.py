"""Devices and 16-bit products. What needs a GPU runs where there is one, and everything else on the host."""

import numpy as np
import pytest

import talweg as tw

DEVICES = tw.devices()


def test_devices_are_named():
    assert DEVICES[0] == "cpu" == tw.ones(2).device
    assert tw.cuda.device_count() == len(DEVICES) - 1 and tw.cuda.is_available() == (len(DEVICES) > 1)
    for make in [lambda: tw.device("abacus").__enter__(), lambda: tw.zeros(2, device="abacus"), lambda: tw.nn.Linear(1, 1).to("abacus")]:
        with pytest.raises(tw.DeviceError, match='no device "abacus"'):
            make()
    with pytest.raises(tw.DeviceError):
        tw.ones(1).cuda(99)
    with pytest.raises(TypeError, match="autocast"):
        tw.nn.Linear(1, 1).to(tw.float16)
    assert tw.get_default_device() in DEVICES


@pytest.mark.parametrize("name", DEVICES)
def test_tensors_stay_where_they_are(name):
    with tw.device(name):
        made = [tw.zeros(2), tw.tensor([1.0, 2.0]), tw.arange(3), tw.eye(2), tw.randn(2), tw.full((2,), 3.0), tw.ones_like(tw.ones(2))]
        assert tw.get_default_device() == name
    assert {t.device for t in made} == {name}
    x = tw.tensor([1.0, 2.0], device=name)
    y = (x * 2 + np.ones(2, dtype="float32")).exp()
    assert y.eval().device == name and x.to("cpu").device == "cpu" and x.to(y).device == name
    np.testing.assert_allclose(y.numpy(), np.exp([3.0, 5.0]), rtol=1e-5)
    assert (f"device='{name}'" in repr(y)) == (name != "cpu")


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", DEVICES)
def test_a_model_trains_where_it_is(name, jit):
    tw.manual_seed(0)
    x = tw.randn(64, 4).eval()
    y = (x.sum(1) > 0).long().eval()
    model = tw.nn.Sequential(tw.nn.Linear(4, 16), tw.nn.ReLU(), tw.nn.BatchNorm1d(16), tw.nn.Linear(16, 2)).to(name)
    optimizer = tw.optim.Adam(model.parameters(), lr=0.05)

    def step(x, y):
        loss = tw.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = tw.jit(step) if jit else step
    losses = [run(x, y).item() for _ in range(60)]
    assert losses[-1] < 0.1 < losses[0]
    assert {p.device for p in model.state_dict().values()} == {name}
    assert {p.device for p in model.cpu().state_dict().values()} == {"cpu"}


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_in_16_bits(name, dtype):
    tw.manual_seed(1)
    x = tw.randn(32, 8).eval()
    y = (x.sum(1) > 0).long().eval()
    model = tw.nn.Sequential(tw.nn.Linear(8, 32), tw.nn.Tanh(), tw.nn.Linear(32, 2)).to(name)
    optimizer, scaler = tw.optim.SGD(model.parameters(), lr=0.5), tw.GradScaler(init_scale=2.0**40)
    losses = []
    for _ in range(80):
        with tw.autocast(dtype):
            out = model(x)
            loss = tw.nn.functional.cross_entropy(out, y)
        assert out.dtype == tw.dtype(dtype) and loss.dtype == tw.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        losses.append(loss.item())
    assert losses[-1] < 0.2 < losses[0] and (x @ x.T).dtype == tw.float32
    # Steps that overflowed in f16 were left out and halved the factor; bf16 holds what f32 holds.
    assert (scaler.get_scale() < 2.0**40) == (dtype == "float16")
    other = tw.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == scaler.get_scale()


def test_scopes_are_decorators_and_nest():
    @tw.autocast("float16")
    def product(a):
        with tw.autocast(enabled=False):
            inner = a @ a
        return a @ a, inner

    outer, inner = product(tw.ones(2, 2))
    assert (outer.dtype, inner.dtype) == (tw.float16, tw.float32)
    with pytest.raises(tw.DTypeError, match="bf16, f16 or f32"):
        tw.autocast("int32").__enter__()
