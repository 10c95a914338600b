"""Compression: what is quantized stays near, what is pruned stays zero, and the report says what happened."""

import json

import numpy as np
import pytest

import talweg as tw
from talweg import compression, nn


@pytest.fixture
def model():
    tw.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))


INPUTS = [tw.rand(16, 64), tw.rand(16, 64)]


@pytest.mark.parametrize("method, least", [("int8", 35), ("int4", 14), ("static", 30)])
def test_a_quantized_model_stays_near(model, method, least):
    small, report = tw.compress(model, method, calibrate=INPUTS, min_gain=0.0)
    assert report.sqnr > least
    assert report.bytes_after < report.bytes_before * (0.35 if method == "int4" else 0.45)
    assert all(layer.after != "float32" for layer in report.layers)
    assert isinstance(model[0], nn.Linear) and type(small[0]) is not nn.Linear


def test_no_layer_becomes_slower(model):
    small, report = tw.compress(model, "int8", calibrate=INPUTS, min_gain=1e9)
    assert [layer.after for layer in report.layers] == ["float32"] * 2
    assert all("times as fast" in layer.kept_because for layer in report.layers)
    assert small(INPUTS[0]).tolist() == model(INPUTS[0]).tolist()
    small, report = tw.compress(model, "int4", calibrate=INPUTS, min_gain=0.0, min_sqnr=200.0)
    assert "dB" in report.layers[0].kept_because


def test_the_report_in_three_forms(model, tmp_path):
    _, report = tw.compress(model, "static", calibrate=INPUTS, evaluate=lambda m: m(INPUTS[0]).mean().item(), min_gain=0.0)
    assert json.loads(report.json())["layers"][0]["after"] == "static int8"
    assert "figure of merit" in str(report)
    report.save(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count("<rect") == 4 and "static int8" in page


@pytest.mark.parametrize("format, step", [("q8_0", 1 / 127), ("q4_0", 1 / 8)])
def test_blocks_are_those_of_gguf(format, step):
    tw.manual_seed(1)
    linear = nn.Linear(64, 8, bias=False)
    layer = compression.BlockLinear(linear, format)
    rows = layer(tw.eye(64)).t().numpy()
    weight = linear.weight.detach().numpy()
    most = np.abs(weight.reshape(8, 2, 32)).max(-1, keepdims=True)
    assert (np.abs(rows - weight).reshape(8, 2, 32) <= most * step * 1.01).all()
    with pytest.raises(tw.ArgumentError, match="multiple of 32"):
        compression.BlockLinear(nn.Linear(33, 2))


def test_calibration_cuts_outliers():
    seen = compression.Observer()
    values = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    values[0, 0] = 100
    seen.update(tw.tensor(values))
    assert compression.threshold(seen, "minmax") == 100
    assert 3 < compression.threshold(seen, "percentile", 99.9) < 6
    assert compression.threshold(seen, "entropy") < 20
    with pytest.raises(tw.ArgumentError, match="no method"):
        compression.threshold(seen, "median")


class Block(nn.Module):
    """Two convolutions around a shortcut, as in a residual network."""

    def __init__(self, channels):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.norm2 = nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(y)) + x).relu()


def cnn():
    tw.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), Block(16), nn.Conv2d(16, 8, 1, stride=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    for _ in range(3):
        net(tw.randn(8, 3, 12, 12) * 2 + 1)
    return net.eval()


IMAGES = [tw.randn(4, 3, 12, 12) for _ in range(2)]


@pytest.mark.parametrize("calibration", ["minmax", "percentile", "entropy"])
def test_convolutions_in_integers_stay_near(calibration):
    net = cnn()
    small, report = tw.compress(net, "static", calibrate=IMAGES, calibration=calibration, min_gain=0.0)
    assert [layer.name for layer in report.layers] == ["0", "3.conv1", "3.conv2", "4", "7"]
    assert all(layer.after == "static int8" for layer in report.layers)
    # What goes through a ReLU has no sign, and a whole byte for its size.
    assert not small[0].is_unsigned and small[4].is_unsigned and small[4].weight.dtype == tw.int8
    assert report.sqnr > (15 if calibration == "entropy" else 24), str(report)
    assert isinstance(net[1], nn.BatchNorm2d) and isinstance(small[1], nn.Identity)


@pytest.mark.parametrize(
    "conv, shape",
    [
        (nn.Conv1d(5, 7, 3, stride=2, padding=2, dilation=2), (2, 5, 17)),
        (nn.Conv2d(6, 9, (3, 2), padding="same", groups=3), (1, 6, 8, 9)),
        (nn.Conv3d(2, 4, 2, bias=False), (2, 2, 4, 5, 3)),
        (nn.Conv2d(40, 40, 3, padding=1, groups=40), (1, 40, 9, 9)),
        (nn.Conv2d(3, 4, 3), (3, 8, 8)),
    ],
)
def test_a_convolution_in_integers_is_the_rounded_one(conv, shape):
    tw.manual_seed(2)
    x = tw.rand(*shape)
    layer = compression.StaticConv(conv, 1.0, is_unsigned=True)
    steps = (x / layer.step).round() * layer.step
    weight = layer.weight.to(tw.float32) * layer.scale.reshape((-1,) + (1,) * (conv.weight.ndim - 1))
    rounded = type(conv)(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups)
    rounded.weight, rounded.bias = nn.Parameter(weight), nn.Parameter(layer.bias)
    assert np.allclose(layer(x).numpy(), rounded(steps).detach().numpy(), atol=1e-4)
    assert np.allclose(layer(x).numpy(), conv(x).detach().numpy(), atol=0.03)


def test_only_convolutions_padded_with_zeros_become_integers():
    with pytest.raises(tw.ArgumentError, match="padded with zeros"):
        compression.StaticConv(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), 1.0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"))
    _, report = tw.compress(net, "static", calibrate=IMAGES)
    assert report.layers == []


def test_a_quantized_model_is_written_as_qdq(tmp_path):
    small, _ = tw.compress(cnn(), "static", calibrate=IMAGES, min_gain=0.0)
    path = str(tmp_path / "small.onnx")
    tw.onnx.save(small, path, (IMAGES[0],))
    data = (tmp_path / "small.onnx").read_bytes()
    # A layer has one of the first, and two of the second; names of operators and of values.
    assert data.count(b"QuantizeLinear") >= 5 and data.count(b"DequantizeLinear") >= 10
    assert b"ConvInteger" not in data and len(data) < 12_000
    want, got = small(IMAGES[0]).numpy(), tw.onnx.load(path)(IMAGES[0]).numpy()
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()


def test_bias_correction_keeps_the_mean():
    tw.manual_seed(3)
    conv, x = nn.Conv2d(8, 4, 1), tw.rand(16, 8, 6, 6) + 1
    with tw.no_grad():
        # One large weight a channel leaves the others few steps.
        conv.weight.copy_(tw.where(tw.arange(8).reshape(1, 8, 1, 1) == 0, 40.0, conv.weight))
    want = conv(x).detach().numpy().mean((0, 2, 3))
    means = x.numpy().mean((0, 2, 3))
    plain, corrected = (compression.StaticConv(conv, 2.0, mean, is_unsigned=True) for mean in (None, tw.tensor(means)))
    off = [np.abs(layer(x).numpy().mean((0, 2, 3)) - want).max() for layer in (plain, corrected)]
    assert off[1] < off[0] / 3


def test_batch_normalization_is_folded_unless_the_convolution_has_other_readers():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
            self.norm.running_mean.copy_(tw.ones(4))

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    net = Twice().eval()
    before = net(IMAGES[0]).numpy().copy()
    assert compression.fold_batch_norms(net, (IMAGES[0],)) == 0
    assert np.array_equal(net(IMAGES[0]).numpy(), before) and isinstance(net.norm, nn.BatchNorm2d)
    assert compression.fold_batch_norms(cnn(), (IMAGES[0],)) == 3


def test_equalization_changes_no_result(model):
    with tw.no_grad():
        model[0].weight.copy_(model[0].weight * tw.linspace(0.01, 10, 96).reshape(96, 1))
    before = model(INPUTS[0]).numpy().copy()
    assert compression.equalize(model) == 1
    assert np.allclose(model(INPUTS[0]).numpy(), before, rtol=1e-4, atol=1e-5)
    ranges = model[0].weight.abs().amax(1)
    assert ranges.max().item() / ranges.min().item() < 200


def test_quantization_aware_training_learns():
    tw.manual_seed(0)
    net = compression.prepare_qat(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), 4, 8)
    x = tw.randn(64, 8)
    y = (x.sum(1) > 0).to(tw.int64)
    optimizer = tw.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    plain = compression.finish_qat(net.eval())
    assert type(plain[0]) is nn.Linear
    assert all(len(np.unique(row)) <= 15 for row in plain[0].weight.detach().numpy())


def test_pruned_weights_stay_zero(model):
    masks = compression.prune_magnitude(model, 0.9)
    assert masks.sparsity == pytest.approx(0.9, abs=0.01)
    optimizer = tw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        model(INPUTS[0]).square().mean().backward()
        optimizer.step()
        masks()
    zero = sum((m.weight == 0).sum().item() for m in (model[0], model[2]))
    assert zero / (64 * 96 + 96 * 10) == pytest.approx(0.9, abs=0.01)
    blocks = compression.prune_blocks(nn.Sequential(nn.Linear(64, 32)), 0.5).masks[0][1].numpy().reshape(32, 4, 16)
    assert ((blocks.sum(-1) == 0) | (blocks.sum(-1) == 16)).all()


def test_channels_that_are_gone_were_the_smallest():
    tw.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ).eval()
    with tw.no_grad():
        # Channels without weight and bias change nothing when they are gone.
        keep = (tw.arange(8) % 2).to(tw.float32)
        net[0].weight.copy_(net[0].weight * keep.reshape(8, 1, 1, 1))
        net[0].bias.copy_(net[0].bias * keep)
    x = tw.randn(2, 1, 14, 14)
    small = compression.prune_channels(net, 0.5)
    assert small[0].out_channels == 4 and small[4].in_channels == 4 and small[4].out_channels == 2
    first = nn.Sequential(*list(net)[:5])(x).numpy()
    assert small(x).shape == (2, 3)
    kept = np.argsort(-np.abs(net[4].weight.detach().numpy()[:, 1::2]).reshape(4, -1).sum(1))[:2]
    assert np.allclose(nn.Sequential(*list(small)[:5])(x).numpy(), first[:, np.sort(kept)], atol=1e-5)
    with pytest.raises(tw.ArgumentError, match="Sequential"):
        compression.prune_channels(nn.Linear(2, 2), 0.5)


class Excited(nn.Module):
    """A residual block with a depthwise convolution and squeeze-and-excitation."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.wide, self.norm1 = nn.Conv2d(inputs, 12, 1, bias=False), nn.BatchNorm2d(12)
        self.deep, self.norm2 = nn.Conv2d(12, 12, 3, stride, padding=1, groups=12, bias=False), nn.BatchNorm2d(12)
        self.squeeze, self.excite = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.narrow, self.norm3 = nn.Conv2d(12, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.around = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = self.norm1(self.wide(x)).relu()
        y = tw.clamp(self.norm2(self.deep(y)), 0, 6)
        y = y * self.excite(self.squeeze(y.mean((2, 3), keepdim=True)).relu()).sigmoid()
        return self.norm3(self.narrow(y)) + self.around(x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.a, self.b, self.c = Excited(8, 8, 1), Excited(8, 16, 2), Excited(16, 16, 1)
        self.classes = nn.Linear(24, 5)

    def forward(self, x):
        x = self.a(self.norm(self.first(x)).relu())
        y = self.b(x)
        z = tw.cat([self.c(y).relu(), nn.functional.max_pool2d(x, 2)], 1)
        return self.classes(z.mean((2, 3)))


def _silence(net):
    """Every second channel of every convolution and normalization is zero."""
    with tw.no_grad():
        for m in net.modules():
            if isinstance(m, (nn.Conv2d, nn.BatchNorm2d)):
                keep = (tw.arange(m.weight.shape[0]) % 2 == 0).to(tw.float32)
                for p in (m.weight, m.bias):
                    if p is not None:
                        p.copy_(p * keep.reshape((-1,) + (1,) * (p.ndim - 1)))


def test_channels_of_a_residual_network_go_together():
    tw.manual_seed(0)
    net, x = Residual().eval(), tw.randn(2, 3, 8, 8)
    _silence(net)
    small = compression.prune_channels(net, 0.5, example=(x,))
    assert (small.first.out_channels, small.a.narrow.out_channels, small.b.wide.in_channels) == (4, 4, 4)
    assert (small.c.narrow.out_channels, small.b.around.out_channels, small.c.deep.groups) == (8, 8, 6)
    assert (small.a.squeeze.out_channels, small.a.excite.in_channels, small.a.excite.out_channels) == (2, 2, 6)
    assert (small.classes.in_features, small.classes.out_features) == (12, 5)
    assert np.allclose(small(x).numpy(), net(x).numpy(), atol=1e-5)
    assert net.first.out_channels == 8
    # What reaches the output or a normalization over channels stays.
    with pytest.raises(tw.ArgumentError, match="no channels can go"):
        compression.prune_channels(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)), 0.5, example=(tw.ones(1, 4),))


def test_heads_without_weight_go():
    tw.manual_seed(0)
    net, x = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), tw.randn(2, 5, 16)
    with tw.no_grad():
        keep = (tw.arange(16) // 4 % 2).to(tw.float32)
        net.self_attn.out_proj.weight.copy_(net.self_attn.out_proj.weight * keep)
        net.self_attn.in_proj_weight.copy_(net.self_attn.in_proj_weight * tw.cat([keep] * 3).reshape(-1, 1))
    small = compression.prune_heads(net, 0.5)
    assert small.self_attn.num_heads == 2 and small.self_attn.in_proj_weight.shape == (24, 16)
    assert np.allclose(small(x).numpy(), net(x).numpy(), atol=1e-5)
    with pytest.raises(tw.ArgumentError, match="MultiheadAttention"):
        compression.prune_heads(nn.Linear(2, 2), 0.5)


def test_layers_that_change_nothing_go():
    tw.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), *(nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, batch_first=True) for _ in range(3))).eval()
    with tw.no_grad():
        for p in (net[2].self_attn.out_proj, net[2].linear2):
            p.weight.copy_(p.weight * 0)
            p.bias.copy_(p.bias * 0)
    x = tw.randn(2, 5, 4)
    small, names = compression.prune_layers(net, 0.34, [x])
    assert names == ["2"] and len(small) == 3 and len(net) == 4
    assert np.allclose(small(x).numpy(), net(x).numpy(), atol=1e-6)


def test_embeddings_in_integers_and_weights_in_small_floats():
    tw.manual_seed(0)
    net = nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 8))
    ids = [tw.randint(0, 50, (4, 6))]
    small, report = tw.compress(net, "int8", calibrate=ids, min_gain=0.0)
    assert isinstance(small[0], compression.Int8Embedding) and report.sqnr > 35
    assert report.bytes_after < 0.4 * report.bytes_before
    small, report = tw.compress(net, "fp8", calibrate=ids, min_gain=0.0)
    assert isinstance(small[1], compression.Fp8Linear) and small[1].weight.dtype == tw.float8_e4m3fn
    assert isinstance(small[0], nn.Embedding) and report.sqnr > 25


def test_distillation():
    z = tw.tensor([[1.0, 2.0, 0.5]])
    assert compression.distillation_loss(z, z, alpha=1.0).item() == pytest.approx(0, abs=1e-6)
    loss = compression.distillation_loss(z, z, tw.tensor([1]), alpha=0.5)
    assert loss.item() == pytest.approx(0.5 * nn.functional.cross_entropy(z, tw.tensor([1])).item())


def test_the_command(tmp_path, capsys):
    from talweg.__main__ import main

    (tmp_path / "net.py").write_text("import talweg as tw\nnet = tw.nn.Sequential(tw.nn.Linear(32, 8))\n")
    np.save(tmp_path / "x.npy", np.ones((8, 32), np.float32))
    report, out = str(tmp_path / "r.json"), str(tmp_path / "small.safetensors")
    args = [f"{tmp_path}/net.py:net", "--int8", "--calibrate", str(tmp_path / "x.npy"), "--min-gain", "0", "--report", report, "--out", out]
    assert main(["compress", *args]) == 0
    assert "bytes" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["method"] == "int8"
    assert "0.weight" in tw.load(out)
    assert main(["compress", f"{tmp_path}/net.py:net", "--prune", "0.5"]) == 0


def test_the_command_reports_what_pruning_did(tmp_path, capsys):
    from talweg.__main__ import main

    (tmp_path / "net.py").write_text("import talweg as tw\nnet = tw.nn.Sequential(tw.nn.Linear(32, 8), tw.nn.ReLU(), tw.nn.Linear(8, 2))\n")
    np.save(tmp_path / "x.npy", np.ones((8, 32), np.float32))
    page, given = str(tmp_path / "r.html"), ["--calibrate", str(tmp_path / "x.npy")]
    assert main(["compress", f"{tmp_path}/net.py:net", "--prune-channels", "0.5", *given, "--report", page]) == 0
    assert "parameters 282 → 142" in capsys.readouterr().out
    assert "<h1>pruned</h1>" in (tmp_path / "r.html").read_text()
    with pytest.raises(SystemExit):
        main(["compress", f"{tmp_path}/net.py:net", "--prune", "0.5", "--report", page])
    assert "--calibrate" in capsys.readouterr().err


def _gguf(data):
    """The keys and tensors of a GGUF file, by the specification: name to (type, sizes, bytes from its start)."""
    import struct

    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size : at].decode()

    def value(kind):
        if kind == 9:
            kind, count = take("I"), take("Q")
            return [value(kind) for _ in range(count)]
        return text() if kind == 8 else take({4: "I", 6: "f", 7: "?", 11: "q"}[kind])

    magic, version, tensors, keys = take("4sIQQ")
    assert (magic, version) == (b"GGUF", 3)
    found = {text(): value(take("I")) for _ in range(keys)}
    infos = [(text(), [take("Q") for _ in range(take("I"))], take("I"), take("Q")) for _ in range(tensors)]
    start = at + -at % found["general.alignment"]
    assert all(offset % found["general.alignment"] == 0 for *_, offset in infos)
    return found, {name: (kind, sizes, data[start + offset :]) for name, sizes, kind, offset in infos}


def test_a_model_as_gguf(tmp_path):
    tw.manual_seed(1)
    net = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
    small, _ = tw.compress(net, "int4", calibrate=INPUTS, min_gain=0.0)
    path = tmp_path / "small.gguf"
    size = compression.save_gguf(small, path, metadata={"a.list": [1, 2], "a.text": "x", "a.real": 0.5}, names={"2.bias": "out.bias"})
    data = path.read_bytes()
    assert len(data) == size
    keys, tensors = _gguf(data)
    assert keys["general.architecture"] == "talweg" and keys["a.list"] == [1, 2] and (keys["a.text"], keys["a.real"]) == ("x", 0.5)
    assert {n: t[:2] for n, t in tensors.items()} == {
        "0.weight": (2, [64, 8]), "0.bias": (0, [8]), "2.weight": (0, [8, 3]), "out.bias": (0, [3]),
    }  # fmt: skip
    # Blocks of 32: a scale of 16 bits, then the lower and the upper halves of 16 bytes, 8 above the numbers.
    blocks = np.frombuffer(tensors["0.weight"][2], np.uint8, 16 * 18).reshape(16, 18)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    numbers = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], 1).astype(np.float32) - 8
    weight = net[0].weight.detach().numpy()
    assert np.abs((numbers * scale).reshape(8, 64) - weight).max() < np.abs(weight).max() / 7
    assert np.frombuffer(tensors["2.weight"][2], np.float32, 24).tolist() == net[2].weight.detach().numpy().ravel().tolist()
    with pytest.raises(tw.ArgumentError, match="two tensors"):
        compression.save_gguf(small, path, names=lambda n: "same")


def test_the_command_writes_onnx_and_gguf(tmp_path):
    from talweg.__main__ import main

    (tmp_path / "net.py").write_text("import talweg as tw\nnet = tw.nn.Sequential(tw.nn.Linear(32, 8), tw.nn.ReLU())\n")
    x = np.random.default_rng(0).random((8, 32), np.float32)
    np.save(tmp_path / "x.npy", x)
    args = [f"{tmp_path}/net.py:net", "--calibrate", str(tmp_path / "x.npy"), "--min-gain", "0"]
    assert main(["compress", *args, "--static", "--out", str(tmp_path / "small.onnx")]) == 0
    assert b"DequantizeLinear" in (tmp_path / "small.onnx").read_bytes()
    assert tw.onnx.load(str(tmp_path / "small.onnx"))(tw.tensor(x)).shape == (8, 8)
    assert main(["compress", *args, "--int4", "--out", str(tmp_path / "small.gguf")]) == 0
    assert _gguf((tmp_path / "small.gguf").read_bytes())[1]["0.weight"][:2] == (2, [32, 8])


def test_the_command_quantizes_convolutions(tmp_path, capsys):
    from talweg.__main__ import main

    (tmp_path / "net.py").write_text("import talweg as tw\nnet = tw.nn.Sequential(tw.nn.Conv2d(3, 8, 3), tw.nn.ReLU())\n")
    np.save(tmp_path / "x.npy", np.ones((4, 3, 8, 8), np.float32))
    out = str(tmp_path / "small.safetensors")
    args = [f"{tmp_path}/net.py:net", "--static", "--calibrate", str(tmp_path / "x.npy"), "--calibration", "minmax", "--min-gain", "0"]
    assert main(["compress", *args, "--out", out]) == 0
    assert "static int8" in capsys.readouterr().out
    weights = tw.load(out)
    assert weights["0.weight"].dtype == tw.int8 and weights["0.weight"].shape == (8, 3, 3, 3)


def test_the_rust_command_passes_compress_on(tmp_path, capfd):
    import sys

    from talweg import _native

    (tmp_path / "net.py").write_text("import talweg as tw\nnet = tw.nn.Sequential(tw.nn.Linear(32, 8))\n")
    np.save(tmp_path / "x.npy", np.ones((4, 32), np.float32))
    out = tmp_path / "small.safetensors"
    args = ["compress", f"{tmp_path}/net.py:net", "--int8", "--calibrate", str(tmp_path / "x.npy"), "--min-gain", "0", "--out", str(out)]
    assert _native.main(sys.executable, [sys.executable, "-m", "talweg"], args) == 0 and out.exists()
    assert _native.main(sys.executable, [sys.executable, "-m", "talweg"], ["compress", "--help"]) == 0
    assert "--calibrate" in capfd.readouterr().out
