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
    with pytest.raises(TypeError, match="floating-point"):
        tw.nn.Linear(1, 1).to(tw.int32)
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


@pytest.mark.parametrize("name", DEVICES)
def test_linear_layers_in_8_bits(name):
    tw.manual_seed(1)
    x = tw.randn(64, 32).eval()
    y = (x[:, :8].sum(1) > 0).long().eval()
    model = tw.nn.Sequential(tw.nn.Linear(32, 64), tw.nn.ReLU(), tw.nn.Linear(64, 2)).to(name)
    optimizer = tw.optim.Adam(model.parameters(), lr=0.01)

    @tw.jit
    def step(x, y):
        with tw.autocast("float8"):
            loss = tw.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x, y).item() for _ in range(80)]
    assert losses[-1] < 0.1 < losses[0]
    assert {p.dtype for p in model.parameters()} == {tw.float32}
    with tw.autocast(tw.float8_e4m3fn):
        assert model(x).dtype == tw.bfloat16


def test_scopes_are_decorators_and_nest():
    @tw.autocast("float16")
    def product(a):
        with tw.autocast(enabled=False):
            inner = a @ a
        return a @ a, inner

    outer, inner = product(tw.ones(2, 2))
    assert (outer.dtype, inner.dtype) == (tw.float16, tw.float32)
    with pytest.raises(tw.DTypeError, match="bfloat16, float16 or float32"):
        tw.autocast("int32").__enter__()


@pytest.mark.parametrize("name", DEVICES)
def test_dlpack_says_where_a_tensor_is(name):
    x = tw.arange(6, dtype="float32", device=name).reshape(2, 3) * 2
    kind = (1, 0) if name == "cpu" else (2, int(name.split(":")[1]))
    assert x.__dlpack_device__() == kind
    # Asked for on the host, it comes as a copy where it is not there.
    capsule = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(10, 0))
    same = tw.from_dlpack(x)
    assert same.device == name and same.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert tw.from_dlpack(x, copy=True).device == name
    assert tw.from_dlpack(x, device="cpu").device == "cpu"
    if name != "cpu":
        with pytest.raises(BufferError, match="copied"):
            x.__dlpack__(dl_device=(1, 0), copy=False)
        with pytest.raises(BufferError, match="copied"):
            tw.from_dlpack(x, device="cpu", copy=False)
        with pytest.raises(BufferError, match="stream 0"):
            x.__dlpack__(stream=0)


@pytest.mark.skipif(len(DEVICES) == 1, reason="there is no GPU")
def test_pytorch_shares_a_gpus_memory():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    x = (tw.arange(12, dtype="float32", device="cuda:0") / 3).reshape(3, 4)
    y = torch.from_dlpack(x)
    assert y.device == torch.device("cuda:0") and y.tolist() == x.tolist()
    # The first taker shares the memory, which outlives the tensor; another one gets its own memory.
    assert torch.from_dlpack(x).data_ptr() != y.data_ptr()
    del x
    tw.zeros(12, device="cuda:0").eval()
    assert (y * 3).sum().item() == 66
    del y

    a = torch.randn(64, 32, device="cuda")
    t = tw.from_dlpack(a, copy=False)
    assert t.device == "cuda:0" and t.dtype == tw.float32 and torch.from_dlpack(t).data_ptr() == a.data_ptr()
    np.testing.assert_allclose(tw.exp(t).numpy(), a.exp().cpu().numpy(), rtol=1e-5)
    # Whatever is asked of PyTorch before is done first.
    b = torch.ones(4096, 4096, device="cuda")
    for _ in range(20):
        b = b @ b / 4096
    assert tw.from_dlpack(b).mean().item() == 1
    # Other orders of axes are views; what lies apart, or is no float, is copied there.
    turned = tw.from_dlpack(a.T, copy=False)
    assert turned.device == "cuda:0"
    np.testing.assert_array_equal(turned.numpy(), a.T.cpu().numpy())
    for view in [a[1:, ::3], a[:, 1], a[3:5, None], a[0, :1].expand(4, 5), torch.arange(7, device="cuda"), a[2, 2], a[:0]]:
        got = tw.from_dlpack(view)
        assert got.device == "cuda:0" and got.shape == tuple(view.shape)
        np.testing.assert_array_equal(got.numpy(), view.cpu().numpy())
    with pytest.raises(BufferError, match="copied"):
        tw.from_dlpack(a[:, ::2], copy=False)
    # A step never writes into lent memory, nor into what was lent.
    before = a.clone()
    step = tw.jit(lambda t: t * 2 + 1)
    t = step(step(tw.from_dlpack(a)))
    lent = torch.from_dlpack(t)
    kept = lent.clone()
    for _ in range(3):
        t = step(t)
    t.eval()
    assert torch.equal(a, before) and torch.equal(lent, kept)
    # PyTorch's tensor lives as long as ours.
    t = tw.from_dlpack(torch.full((1000,), 7.0, device="cuda"))
    torch.cuda.empty_cache()
    torch.full((1000,), 8.0, device="cuda")
    assert t.sum().item() == 7000
    z = torch.randn(5, device="cuda", dtype=torch.complex64)
    np.testing.assert_allclose((tw.from_dlpack(z) * 1j).numpy(), z.cpu().numpy() * 1j, rtol=1e-6)
    assert tw.tensor(a).device == "cuda:0" and tw.asarray(a).device == "cuda:0"


@pytest.mark.parametrize("name", DEVICES)
def test_complex_decompositions_run_everywhere(name):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 3)) + 1j * rng.standard_normal((2, 4, 3))
    a = tw.asarray(x, device=name)
    u, s, vh = tw.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose(((u * s[:, None]) @ vh).numpy(), x, atol=1e-12)
    q, r = tw.linalg.qr(a)
    np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-12)
    w, v = tw.linalg.eigh(a.mT.conj() @ a)
    np.testing.assert_allclose(w.sqrt().numpy()[:, ::-1], s.numpy(), rtol=1e-10)


class Looked(tw.nn.Module):
    """A lookup, averages that the forward pass moves, and classes."""

    def __init__(self):
        self.table, self.inner = tw.nn.Embedding(50, 64), tw.nn.Linear(64, 96)
        self.norm, self.outer = tw.nn.BatchNorm1d(96), tw.nn.Linear(96, 10)

    def forward(self, i):
        return self.outer(self.norm(self.inner(self.table(i)).tanh()))


@pytest.mark.parametrize("bad", ["index", "class"])
@pytest.mark.parametrize("is_held", [False, True], ids=["in place", "held"])
@pytest.mark.parametrize("way", [tw.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_with_a_bad_index_changes_no_variable(device, bad, is_held, way):
    model = Looked().to(device)
    optimizer = tw.optim.Adam(model.parameters(), lr=0.01)

    @way
    def step(i, y):
        optimizer.zero_grad()
        loss = tw.nn.functional.cross_entropy(model(i), y)
        loss.backward()
        optimizer.step()
        return loss

    def state():
        kept = [v for of in optimizer.state_dict()["state"].values() for v in of.values()]
        return [np.asarray(v).copy() for v in [*model.state_dict().values(), *kept]]

    rng = np.random.default_rng(0)
    places, classes = rng.integers(0, 50, 32), rng.integers(0, 10, 32)

    def call(i=places, y=classes):
        return step(tw.tensor(i).to(device), tw.tensor(y).to(device))

    for _ in range(5):
        call()
    call().item()
    # Memory with another reader is not overwritten.
    held = [p.detach() for p in model.parameters()] if is_held else []
    before = state()
    wrong = np.where(np.arange(32) == 7, 77, places if bad == "index" else classes)
    with pytest.raises(tw.Error, match="77"):
        # On a GPU the second one is requested before the first is known.
        results = [call(i=wrong) if bad == "index" else call(y=wrong), call()]
        [r.item() for r in results]
    assert all((a == b).all() for a, b in zip(before, state(), strict=True))
    assert np.isfinite(call().item()) and any((a != b).any() for a, b in zip(before, state(), strict=True))
    del held
