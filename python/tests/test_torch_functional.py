"""``nn.functional`` and ``nn.utils`` beside PyTorch's: one expression, both libraries, values and gradients."""

import inspect

import numpy as np
import pytest

import talweg as tw
from talweg._differences import absent

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")

# x, y: [2, 4, 6, 6]; a, b: [3, 5]; v: [5]; p: probabilities [3, 5]; i: classes [3]; q, k: [2, 2, 4, 8]; s: [2, 3, 7].
CASES = """
F.gelu(a, approximate="tanh")
F.softmax(a, dim=0, dtype=torch.float64)
F.log_softmax(input=a, dim=1)
F.softmin(a, dim=1)
F.glu(x, dim=1)
F.prelu(x, v[:4].abs())
F.rrelu(a, 0.1, 0.3, training=False)
F.threshold(a, 0.2, -1.0)
F.hardtanh(a, min_val=-0.3, max_val=0.4)
F.leaky_relu(a, negative_slope=0.2)
F.softplus(a, beta=2, threshold=1)
F.logsigmoid(a)
F.celu(a, alpha=0.5)
F.linear(input=a, weight=b)
F.linear(a, b, v[:3])
F.bilinear(a, b, a.reshape(1, 3, 5)[:, :, :].expand(4, 3, 5)[:, :1].expand(4, 5, 5))
F.conv2d(input=x, weight=y[:, :2, :3, :3].reshape(4, 2, 3, 3)[:4], stride=(2, 1), padding=1, groups=2)
F.conv1d(s, s.reshape(2, 3, 7)[:, :, :3], padding="same")
F.conv_transpose2d(x, y.transpose(0, 1)[:, :, :2, :2], stride=2, output_padding=1)
F.avg_pool2d(x, kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
F.max_pool2d(x, kernel_size=(2, 3), stride=1)
F.max_pool2d(x, 2, return_indices=True)[1]
F.max_pool2d_with_indices(x, 2)[1]
F.max_pool1d(s, 3, stride=2, dilation=2)
F.lp_pool2d(x.abs() + 0.1, 3.0, kernel_size=2)
F.adaptive_avg_pool2d(x, (None, 4))
F.adaptive_max_pool2d(x, 4, return_indices=True)[1]
F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), kernel_size=2)
F.unfold(x, kernel_size=(2, 3), dilation=2, padding=1, stride=(2, 1))
F.fold(F.unfold(x, 3, stride=3), output_size=(6, 6), kernel_size=3, stride=3)
F.pad(x, (1, 2, 0, 1))
F.pad(x, pad=(1, 1), value=2.5)
F.pad(x, (1, 2, 2, 1), mode="reflect")
F.pad(x, (1, 2, 2, 1), mode="replicate")
F.pad(x, (1, 2, 2, 1), mode="circular")
F.interpolate(x, scale_factor=2)
F.interpolate(x, size=(4, 9), mode="bilinear")
F.interpolate(x, size=(4, 9), mode="bilinear", align_corners=True)
F.interpolate(x, scale_factor=1.5, mode="bicubic")
F.interpolate(x, size=(4, 9), mode="bilinear", antialias=True)
F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True)
F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True, align_corners=True)
F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=torch.ones(2, 4, 2) * 0.3)
F.ctc_loss(q[0].transpose(0, 1), torch.tensor([[1, 2], [3, 3]]), [4, 3], [2, 1])
F.linear_cross_entropy(a, b[:, :], i % 3, reduction="sum")
F.grouped_mm(q.reshape(16, 8), k.reshape(2, 8, 8), offs=torch.tensor([5, 16], dtype=torch.int32))
F.grouped_mm(k.reshape(2, 8, 8), q.reshape(8, 16), offs=torch.tensor([4, 16], dtype=torch.int32))
F.grouped_mm(q.reshape(8, 16), k.reshape(16, 8), offs=torch.tensor([0, 4, 16], dtype=torch.int32))
F.grouped_mm(q.reshape(2, 8, 8), k.reshape(2, 8, 8))
torch.stft(a, 4, window=torch.hann_window(4), return_complex=True).abs()
torch.linalg.lu_factor(a[:, :3])[0]
torch.linalg.lstsq(a.mT, b.mT).solution
torch.special.bessel_j0(torch.linspace(-60.0, 60.0, 50))
torch.special.airy_ai(torch.linspace(-20.0, 10.0, 50))
torch.special.zeta(torch.linspace(1.1, 9.0, 20), torch.linspace(0.2, 7.0, 20))
torch.special.ndtri(torch.linspace(0.001, 0.999, 20))
F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)
F.interpolate(s, size=5, mode="linear")
F.interpolate(x, size=4, mode="area")
F.interpolate(x, size=4, mode="nearest-exact")
F.upsample(x, scale_factor=2, mode="bilinear", align_corners=True)
F.affine_grid(a.reshape(-1)[:12].reshape(2, 2, 3), (2, 4, 3, 5), align_corners=False)
F.affine_grid(a.reshape(-1)[:6].reshape(1, 2, 3), (1, 4, 3, 5), align_corners=True)
F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1) * 0.4, align_corners=False)
F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1) * 0.4, mode="nearest", padding_mode="border", align_corners=True)
F.pixel_shuffle(x, upscale_factor=2)
F.pixel_unshuffle(x, 3)
F.channel_shuffle(x, 2)
F.layer_norm(x, (6, 6))
F.layer_norm(a, normalized_shape=[5], weight=v, bias=v, eps=1e-3)
F.rms_norm(a, (5,), weight=v)
F.rms_norm(a, (5,), eps=0.1)
F.group_norm(x, num_groups=2)
F.group_norm(x, 2, weight=v[:4], bias=v[:4])
F.batch_norm(x, None, None, training=True)
F.batch_norm(x, v[:4].detach(), v[:4].detach() ** 2 + 0.1, weight=v[:4])
F.instance_norm(x)
F.instance_norm(x, weight=v[:4], bias=v[:4], eps=1e-2)
F.local_response_norm(x, size=3)
F.normalize(a, p=1, dim=0)
F.normalize(a)
F.cosine_similarity(a, b, dim=0)
F.pairwise_distance(a, b, p=3, keepdim=True)
F.pdist(a)
F.one_hot(i, num_classes=7)
F.one_hot(i)
F.embedding(i, a.T, padding_idx=1)
F.embedding_bag(i.repeat(4), a.T, torch.tensor([0, 2, 2, 9]))
F.embedding_bag(i.repeat(4), a.T, torch.tensor([0, 2, 2, 9]), mode="max")
F.embedding_bag(i.repeat(4), a.T, torch.tensor([0, 2, 9, 12]), mode="sum", include_last_offset=True, padding_idx=0)
F.embedding_bag(i.repeat(4).reshape(4, 3), a.T, mode="sum", per_sample_weights=a.reshape(-1)[:12].reshape(4, 3))
F.cross_entropy(a, i, weight=v.detach().abs(), ignore_index=2, label_smoothing=0.2)
F.cross_entropy(a, p, reduction="sum")
F.cross_entropy(a[0], i[0])
F.nll_loss(F.log_softmax(a, 1), i, reduction="none")
F.mse_loss(a, b, reduction="sum")
F.l1_loss(a, b)
F.smooth_l1_loss(a, b, beta=0.3)
F.smooth_l1_loss(a, b, beta=0.0)
F.huber_loss(a, b, delta=0.3)
F.binary_cross_entropy(p, p.detach() ** 2, weight=v.detach().abs())
F.binary_cross_entropy_with_logits(a, p.detach(), pos_weight=v.detach().abs(), reduction="none")
F.kl_div(F.log_softmax(a, 1), p.detach(), reduction="batchmean")
F.poisson_nll_loss(a, p, full=True, log_input=True)
F.gaussian_nll_loss(a, b, p, full=True)
F.hinge_embedding_loss(a, b.detach().sign(), margin=0.3)
F.margin_ranking_loss(a[:, 0], b[:, 0], b[:, 1].detach().sign(), margin=0.3)
F.cosine_embedding_loss(a, b, b[:, 0].detach().sign(), margin=0.1)
F.triplet_margin_loss(a, b, p, margin=0.5, p=2, swap=True)
F.triplet_margin_with_distance_loss(a, b, p, distance_function=lambda s, t: (s - t).abs().sum(-1), swap=True)
F.soft_margin_loss(a, b.detach().sign())
F.multilabel_soft_margin_loss(a, (p > 0.4).float())
F.multi_margin_loss(a, i, p=2, margin=0.7)
F.scaled_dot_product_attention(q, k, q)
F.scaled_dot_product_attention(q, k, q, is_causal=True, scale=0.3)
F.scaled_dot_product_attention(q, k, q, attn_mask=torch.ones(4, 4).tril() > 0)
F.scaled_dot_product_attention(q, k, q, attn_mask=q[0, 0, :, :4])
torch.nn.utils.parameters_to_vector([a, v])
torch.nn.utils.rnn.pad_sequence([a, b[:1]], padding_value=3.0)
torch.nn.utils.rnn.pad_sequence([a, b[:1]], batch_first=True, padding_side="left")
torch.nn.utils.rnn.pack_padded_sequence(s, [3, 2], batch_first=True).data
torch.nn.utils.rnn.pack_padded_sequence(s, torch.tensor([1, 2]), batch_first=True, enforce_sorted=False).data
torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.pack_sequence([a[:1], b], enforce_sorted=False), total_length=5)[0]
torch.nn.utils.get_total_norm([a, v], norm_type=3.0)
""".strip().splitlines()

RNG = np.random.default_rng(0)
ARRAYS = {
    "x": RNG.standard_normal((2, 4, 6, 6)),
    "y": RNG.standard_normal((2, 4, 6, 6))[:, :, :, :].repeat(2, 0),
    "a": RNG.standard_normal((3, 5)),
    "b": RNG.standard_normal((3, 5)),
    "v": RNG.standard_normal(5) + 0.1,
    "p": RNG.random((3, 5)) * 0.8 + 0.1,
    "q": RNG.standard_normal((2, 2, 4, 8)),
    "k": RNG.standard_normal((2, 2, 4, 8)),
    "s": RNG.standard_normal((2, 3, 7)),
}


def evaluated(text, library):
    space = {"torch": library, "F": library.nn.functional, "i": library.tensor(np.array([1, 4, 2]))}
    leaves = {n: library.tensor(a.astype("f4"), requires_grad=True) for n, a in ARRAYS.items()}
    out = eval(text, {**space, **{n: t * 1 for n, t in leaves.items()}})
    gradients = {}
    if out.requires_grad:
        out.square().sum().backward()
        gradients = {n: t.grad.numpy() for n, t in leaves.items() if t.grad is not None}
    return out.detach().numpy(), gradients


@pytest.mark.parametrize("text", CASES)
def test_functions_are_pytorchs(text):
    wanted, wanted_gradients = evaluated(text, torch)
    got, gradients = evaluated(text, tw)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=3e-4, atol=3e-5)
    for name, g in wanted_gradients.items():
        np.testing.assert_allclose(gradients.get(name, np.zeros_like(g)), g, rtol=2e-3, atol=2e-4, err_msg=name)


def masks(library):
    future = library.tensor(np.triu(np.ones((5, 5), dtype=bool), 1))
    pad = library.tensor(np.array([[False] * 5, [False, False, False, True, True]]))
    added = library.tensor(np.random.default_rng(5).standard_normal((4, 5, 5)).astype("f4"))
    return [
        {},
        dict(attn_mask=future),
        dict(key_padding_mask=pad),
        dict(attn_mask=future, key_padding_mask=pad, average_attn_weights=False),
        dict(attn_mask=added, key_padding_mask=pad),
        dict(attn_mask=future, need_weights=False, is_causal=True),
        dict(key_padding_mask=pad.to(library.float32) * -3.0, need_weights=False),
    ]


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("batch_first", [True, False])
def test_masks_of_attention_are_pytorchs(number, batch_first):
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    ours = tw.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(1).standard_normal((2, 5, 8) if batch_first else (5, 2, 8)).astype("f4")
    wanted = theirs(*[torch.tensor(x)] * 3, **masks(torch)[number])
    got = ours(*[tw.tensor(x)] * 3, **masks(tw)[number])
    for a, b in zip(got, wanted):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_masks_of_transformers_are_pytorchs():
    theirs = torch.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
    ours = tw.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
    ours.load_state_dict(theirs.state_dict())
    x, y = (np.random.default_rng(n).standard_normal((n, 2, 8)).astype("f4") for n in (6, 5))
    out = []
    for library, m in ((torch, theirs), (tw, ours)):
        future = m.generate_square_subsequent_mask(5)
        pad = library.tensor(np.array([[False] * 6, [False] * 4 + [True] * 2]))
        kwargs = dict(tgt_mask=future, src_key_padding_mask=pad, memory_key_padding_mask=pad, tgt_is_causal=True)
        out.append(m(library.tensor(x), library.tensor(y), **kwargs).detach().numpy())
    np.testing.assert_allclose(out[1], out[0], rtol=1e-4, atol=1e-5)


def test_hooks_see_what_pytorchs_see():
    seen = {}
    for library in (torch, tw):
        torch.manual_seed(0)
        source = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        m = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.Tanh(), library.nn.Linear(4, 2))
        m.load_state_dict(source.state_dict())
        log = []
        for name, part in m.named_modules():
            part.register_forward_hook(lambda module, args, out, name=name: log.append((name, out.detach().numpy().tolist())))
            part.register_full_backward_hook(
                lambda module, given, out, name=name: log.append((name, [g.numpy().tolist() for g in (*given, *out)]))
            )
        x = library.ones(2, 3)
        x.requires_grad_()
        m(x * 1).square().sum().backward()
        seen[library] = log
    assert [n for n, _ in seen[tw]] == [n for n, _ in seen[torch]]
    for (_, got), (_, wanted) in zip(seen[tw], seen[torch]):
        for a, b in zip(got, wanted):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["parametrizations.weight_norm", "weight_norm", "parametrizations.spectral_norm", "spectral_norm"])
def test_norms_of_weights_are_pytorchs(kind):
    nets = {}
    for library in (torch, tw):
        make = library.nn.utils
        for part in kind.split("."):
            make = getattr(make, part)
        nets[library] = make(library.nn.Linear(5, 4))
    theirs, ours = nets[torch], nets[tw]
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("f4")
    for mode in (True, False):
        a, b = ours.train(mode)(tw.tensor(x)), theirs.train(mode)(torch.tensor(x))
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
        a.sum().backward(), b.sum().backward()
    for name, p in theirs.named_parameters():
        np.testing.assert_allclose(dict(ours.named_parameters())[name].grad.numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-5)


def test_packed_sequences_are_pytorchs():
    theirs, ours = (library.nn.LSTM(3, 4, num_layers=2, bidirectional=True) for library in (torch, tw))
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((6, 3, 3)).astype("f4")
    out = []
    for library, m in ((torch, theirs), (tw, ours)):
        rnn = library.nn.utils.rnn
        packed = rnn.pack_padded_sequence(library.tensor(x), [2, 6, 4], enforce_sorted=False)
        y, (h, c) = m(packed)
        padded, lengths = rnn.pad_packed_sequence(y)
        out.append([t.detach().numpy() for t in (y.data, y.batch_sizes, h, c, padded, lengths)])
    for a, b in zip(*out):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_adaptive_softmax_is_pytorchs():
    theirs, ours = (library.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True) for library in (torch, tw))
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((3, 8)).astype("f4")
    wanted, got = theirs(torch.tensor(x), torch.tensor([0, 5, 19])), ours(tw.tensor(x), tw.tensor([0, 5, 19]))
    np.testing.assert_allclose(got.output.detach().numpy(), wanted.output.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(got.loss.item(), wanted.loss.item(), rtol=1e-5)
    assert ours.predict(tw.tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()


def test_every_layer_of_pytorch_is_there_with_its_arguments():
    wrong = []
    for name, cls in vars(torch.nn).items():
        if not inspect.isclass(cls) or not cls.__module__.startswith("torch.nn.modules") or absent(f"torch.nn.{name}"):
            continue
        if not hasattr(tw.nn, name):
            wrong.append(name)
            continue
        theirs = [p for p in inspect.signature(cls.__init__).parameters if p not in ("args", "kwargs", "min_value", "max_value")]
        ours = list(inspect.signature(getattr(tw.nn, name).__init__).parameters)
        if [p for p in theirs if p not in ours] and name != "RNNCellBase":
            wrong.append((name, [p for p in theirs if p not in ours]))
    assert not wrong
