"""`torch.compile(backend="talweg")` beside PyTorch: values, gradients, strides, aliases, fallbacks."""

import copy

import pytest

torch = pytest.importorskip("torch")

import talweg.torch_backend as backend  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend.report().clear()
    torch.manual_seed(0)


def close(a, b, tolerance=1e-4):
    a, b = a.detach().double(), b.detach().double()
    assert a.shape == b.shape
    assert (a - b).abs().max() <= tolerance * max(b.abs().max().item(), 1e-3)


def compiled(f, **settings):
    return torch.compile(f, backend="talweg", **settings)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.c2, self.n2 = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8)
        self.up, self.out = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu6(self.n1(self.c1(x))), 3, 2, 1)
        x = F.hardswish(self.n2(self.c2(x))) + x
        x = F.avg_pool2d(F.interpolate(self.up(x), scale_factor=2), 2)
        return self.out(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Block(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads, self.embed = heads, nn.Embedding(50, d, padding_idx=0)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, ids):
        x = self.embed(ids)
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return F.log_softmax(x + self.mlp(self.n2(x)), -1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Embedding(20, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 20)

    def forward(self, ids):
        return self.out(self.lstm(self.embed(ids))[0])


MODELS = {
    "mlp": (Mlp, lambda: torch.randn(8, 16)),
    "conv": (Conv, lambda: torch.randn(4, 3, 32, 32)),
    "block": (Block, lambda: torch.randint(0, 50, (2, 9))),
    "lstm": (Recurrent, lambda: torch.randint(0, 20, (3, 5))),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_and_infers_as_in_pytorch(name):
    torch._dynamo.config.allow_rnn = True
    make, example = MODELS[name]
    ours = make()
    theirs = copy.deepcopy(ours)
    x = example()
    f = compiled(ours)
    steps = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (ours, theirs)]
    for _ in range(4):
        losses = []
        for model, call, step in ((ours, f, steps[0]), (theirs, theirs, steps[1])):
            step.zero_grad()
            loss = call(x).square().mean()
            loss.backward()
            step.step()
            losses.append(loss)
        close(*losses)
    for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()):
        if a.is_floating_point() and "num_batches" not in key:
            close(a, b, 1e-3)
    ours.eval(), theirs.eval()
    with torch.no_grad():
        close(f(x), theirs(x), 1e-3)
    assert backend.report().fallbacks == {} and backend.report().graph_breaks == {}


def test_results_have_memory_of_their_own():
    def f(x):
        y = x.sin()
        return y, y * 1, y

    a, b, c = compiled(f)(torch.ones(3))
    a.add_(10)
    close(b, torch.ones(3).sin())
    # One tensor that is returned twice stays one.
    assert torch.equal(a, c)


def test_strides_are_those_that_pytorch_promises():
    x = torch.randn(4, 6)
    assert compiled(lambda x: (x + 1).t())(x).stride() == (1, 6)
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    y, z = compiled(conv)(image), conv(image)
    assert y.stride() == z.stride()
    close(y, z)


def test_views_and_changes_of_arguments_are_seen():
    def f(x, y):
        x.mul_(2)
        return x[1], y.t(), x + y

    x, y = torch.ones(2, 2), torch.ones(2, 2)
    a, b, c = compiled(f)(x, y)
    assert x.tolist() == [[2, 2], [2, 2]] and c.tolist() == [[3, 3], [3, 3]]
    a.zero_()
    assert x.tolist() == [[2, 2], [0, 0]]
    b.fill_(5)
    assert y.tolist() == [[5, 5], [5, 5]]


def test_inputs_in_any_layout():
    def f(a, b, c, d):
        return a @ b + c * d

    a, b = torch.randn(5, 3).t(), torch.randn(3, 4).as_strided((5, 4), (0, 1))
    c, d = torch.randn(6, 8)[::2, ::2], torch.randn(4).expand(3, 4)
    close(compiled(f)(a, b, c, d), f(a, b, c, d))
    mask = torch.tensor([True, False, True])
    ids = torch.arange(6).reshape(2, 3).t()
    assert compiled(lambda m, i: torch.where(m[:, None], i, -1))(mask, ids).tolist() == [[0, 3], [-1, -1], [2, 5]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_element_types(dtype):
    m, x = Mlp().to(dtype), torch.randn(8, 16).to(dtype)
    close(compiled(m)(x), m(x), 1e-6 if dtype == torch.float64 else 2e-2)


def test_sizes_may_change():
    m = Block()
    f = compiled(m, dynamic=True)
    for t in (3, 7, 12):
        ids = torch.randint(0, 50, (2, t))
        close(f(ids), m(ids))
    assert sum(g.kind == "forward" for g in backend.report().graphs) == 1


def test_unknown_operators_run_in_pytorch():
    def f(x):
        return torch.linalg.eigvalsh(x @ x.t()).sqrt() + x.sum()

    x = torch.eye(3) * 2
    close(compiled(f)(x), f(x))
    assert list(backend.report().fallbacks) == ["aten._linalg_eigh.default"]
    assert "in PyTorch: aten._linalg_eigh" in str(backend.report())


def test_an_index_by_truth_values_runs_in_pytorch():
    def f(x):
        return (x * 2)[x > 0] + 1

    x = torch.tensor([1.0, -1.0, 3.0])
    assert torch.compile(f, backend="talweg")(x).tolist() == [3, 7]


def test_frozen_weights_are_compiled_in_until_they_change():
    m = Mlp().eval()
    f = compiled(m, options={"frozen": True})
    x = torch.randn(2, 16)
    with torch.no_grad():
        for _ in range(3):
            close(f(x), m(x))
        m.a.weight.mul_(2)
        close(f(x), m(x))
        m.b.bias.data = torch.ones(4)
        close(f(x), m(x))


def test_weights_that_are_replaced_are_seen():
    m = Mlp()
    f = compiled(m)
    x = torch.randn(2, 16)
    close(f(x), m(x))
    m.a.weight.data = torch.randn(32, 16)
    close(f(x), m(x))


def test_options_that_do_not_exist_are_refused():
    with pytest.raises(Exception, match="unknown options"):
        compiled(Mlp(), options={"fast": True})(torch.randn(1, 16))


def test_dropout_follows_the_seed_and_the_rate():
    def f(x):
        return F.dropout(x, 0.25)

    x = torch.ones(20_000)
    call = compiled(f)
    torch.manual_seed(3)
    a, b = call(x), call(x)
    torch.manual_seed(3)
    assert torch.equal(call(x), a) and not torch.equal(a, b)
    assert abs((a == 0).float().mean().item() - 0.25) < 0.02
    assert a[a != 0].unique().tolist() == pytest.approx([4 / 3])


def test_double_use_of_one_graph_in_two_steps():
    # Gradients are summed over calls of one graph.
    m = Mlp()
    f = compiled(m)
    a, b = torch.randn(2, 16), torch.randn(2, 16)
    (f(a).sum() + f(b).sum()).backward()
    ours = [p.grad.clone() for p in m.parameters()]
    m.zero_grad()
    (m(a).sum() + m(b).sum()).backward()
    for p, g in zip(m.parameters(), ours):
        close(g, p.grad)


def test_tensors_made_inside_of_a_function_are_constants():
    def f(x):
        return x * torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3)

    assert compiled(f)(torch.ones(3)).tolist() == [1, 3, 5]
    assert backend.report().fallbacks == {}


def _traced(f, *devices):
    """The graph of a function of tensors that are said to be on these devices: none of them has to be there."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        return make_fx(f)(*(torch.empty(3, 4, device=d) for d in devices))


def _refused(f, *devices):
    from talweg.torch_backend import lower

    return {n.target._schema.name: why for n, why in lower.probe(_traced(f, *devices)).items()}


def test_results_on_another_device_are_left_to_pytorch():
    # Without an argument on the GPU nothing says to run there.
    why = _refused(lambda x: (x + 1, torch.zeros(2, device="cuda")), "cpu")
    assert why == {"aten::zeros": "a result on cuda:0 of a program on cpu"}
    # A result in host memory beside arguments on the GPU.
    why = _refused(lambda x: (x * 2, torch.arange(3, device="cpu") + 1), "cuda")
    assert why == {"aten::arange": "a result on cpu of a program on cuda:0", "aten::add": "a result on cpu of a program on cuda:0"}
    assert "aten::_to_copy" in _refused(lambda x: x.cpu() + 1, "cuda")
    assert _refused(lambda x: x + torch.ones(4, device="cuda"), "cuda") == {}
    assert set(_refused(lambda x, y: (x + 1, y + 1), "cuda:0", "cuda:1").values()) == {"arguments on cuda:0 and cuda:1"}


def test_parts_without_arguments_on_their_device_stay_in_pytorch():
    from talweg.torch_backend import lower

    assert not lower._stays(_traced(lambda x: (x + 1, torch.zeros(4, device="cuda")), "cpu"))
    assert lower._stays(_traced(lambda x: x + torch.zeros(4, device="cuda"), "cuda"))
    assert not lower._stays(_traced(lambda x, y: (x + 1, y + 1), "cuda:0", "cuda:1"))
