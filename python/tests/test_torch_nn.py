"""Layers, functions and losses beside PyTorch's: the same definition, PyTorch's weights, its outputs and gradients."""

import copy
import pickle

import numpy as np
import pytest

import talweg as tw
from talweg import nn

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")

# A layer, and the shapes of its inputs; "i" before a shape: integers below 5.
LAYERS = """
Linear(3, 2) | 4,3
Linear(3, 2, bias=False) | 2,4,3
Linear(3, 2, dtype=float64) | 4,3
Bilinear(3, 4, 2) | 5,3 ; 5,4
Identity(1, 2, unused=3) | 2,3
Flatten() | 2,3,4
Flatten(0, 1) | 2,3,4
Unflatten(1, (2, 3)) | 4,6
Embedding(5, 3) | i4,2
Embedding(5, 3, padding_idx=1) | i4,2
Embedding(5, 3, padding_idx=-1, scale_grad_by_freq=True) | i4,2
Embedding(5, 3, max_norm=1.0) | i4,2
EmbeddingBag(5, 3) | i4,2
EmbeddingBag(5, 3, mode="sum") | i4,2
EmbeddingBag(5, 3, mode="max") | i4,2
EmbeddingBag(5, 3, mode="mean", padding_idx=1) | i4,3
Conv1d(2, 4, 3) | 2,2,7
Conv1d(2, 4, 3, padding="same", dilation=2, padding_mode="circular") | 2,2,7
Conv2d(2, 4, 3, groups=2) | 2,2,6,5
Conv2d(2, 4, (3, 2), stride=2, padding=(1, 0), bias=False) | 2,2,6,5
Conv2d(2, 4, 3, padding=1, padding_mode="reflect") | 2,2,6,5
Conv2d(2, 4, 3, padding=1, padding_mode="replicate") | 2,6,5
Conv3d(2, 4, 2, dilation=(1, 2, 1)) | 1,2,4,4,4
ConvTranspose1d(2, 4, 3, stride=2, output_padding=1) | 2,2,5
ConvTranspose2d(2, 4, 3, stride=2, padding=1, groups=2) | 2,2,5,4
ConvTranspose3d(2, 2, 2, bias=False) | 1,2,3,3,3
MaxPool1d(2) | 2,3,8
MaxPool2d(3, stride=2, padding=1) | 2,3,8,8
MaxPool2d(2, ceil_mode=True, dilation=2) | 2,3,8,8
MaxPool2d(2, return_indices=True) | 2,3,4,4
MaxPool3d(2) | 2,3,4,4,4
AvgPool1d(2, stride=1) | 2,3,4
AvgPool2d(3, 2, 1, count_include_pad=False) | 2,3,6,6
AvgPool2d(2, divisor_override=3) | 2,3,6,6
AvgPool3d(2) | 2,3,4,4,4
LPPool1d(2, 3) | 2,3,8
LPPool2d(2, 2, stride=1) | 2,3,8,8
AdaptiveAvgPool1d(3) | 2,3,8
AdaptiveAvgPool2d((None, 2)) | 2,3,6,8
AdaptiveAvgPool2d(1) | 3,6,8
AdaptiveAvgPool3d(2) | 2,3,4,4,5
AdaptiveMaxPool1d(3, return_indices=True) | 2,3,8
AdaptiveMaxPool2d((3, 2)) | 2,3,8,8
AdaptiveMaxPool3d(2) | 2,3,4,4,4
LayerNorm((2, 3)) | 4,2,3
LayerNorm(3, elementwise_affine=False) | 4,3
LayerNorm(3, eps=1e-3, bias=False) | 4,3
RMSNorm(3) | 4,3
RMSNorm((2, 3), eps=1e-2, elementwise_affine=False) | 4,2,3
GroupNorm(2, 4) | 3,4,5
GroupNorm(4, 4, affine=False) | 3,4,5,2
BatchNorm1d(3) | 4,3
BatchNorm1d(3, affine=False) | 4,3,2
BatchNorm2d(3, momentum=None) | 4,3,2,2
BatchNorm2d(3, track_running_stats=False) | 4,3,2,2
BatchNorm3d(3, eps=1e-3, momentum=0.4) | 4,3,2,2,2
InstanceNorm1d(3) | 4,3,5
InstanceNorm2d(3, affine=True, track_running_stats=True) | 4,3,5,2
InstanceNorm2d(3) | 3,5,2
InstanceNorm3d(3) | 4,3,5,2,2
LocalResponseNorm(2) | 4,3,5,5
ReLU() | 3,4
ReLU(inplace=True) | 3,4
ReLU6(True) | 3,4
SELU() | 3,4
SiLU(inplace=True) | 3,4
Mish() | 3,4
Hardsigmoid() | 3,4
Hardswish() | 3,4
ELU(0.5) | 3,4
CELU(alpha=2.0, inplace=True) | 3,4
LeakyReLU(0.2, True) | 3,4
Hardtanh(-0.5, 0.5) | 3,4
Threshold(0.1, 20) | 3,4
GELU() | 3,4
GELU(approximate="tanh") | 3,4
GLU() | 3,4
GLU(dim=0) | 4,3
Tanh() | 3,4
Sigmoid() | 3,4
LogSigmoid() | 3,4
Softsign() | 3,4
Tanhshrink() | 3,4
Softplus(2.0, 1.0) | 3,4
Softshrink(0.3) | 3,4
Hardshrink() | 3,4
PReLU() | 3,4
PReLU(4, init=0.1) | 3,4,2
Softmax(dim=1) | 3,4,2
Softmax() | 3,4
Softmin(dim=0) | 3,4,2
LogSoftmax(dim=-1) | 3,4,2
Softmax2d() | 2,3,4,2
PixelShuffle(2) | 1,4,3,3
PixelUnshuffle(2) | 1,4,4,6
ChannelShuffle(2) | 1,4,2,2
Fold((4, 4), 2, stride=2) | 1,12,4
Unfold((2, 3), padding=1) | 2,3,4,5
Upsample(scale_factor=2) | 1,2,3,3
Upsample(size=(5, 4), mode="bilinear", align_corners=True) | 1,2,3,3
Upsample(scale_factor=(1.5, 2.0), mode="bicubic") | 1,2,4,4
UpsamplingBilinear2d(scale_factor=2) | 1,2,3,3
UpsamplingNearest2d(size=4) | 1,2,3,3
ConstantPad1d(2, 3.5) | 2,3,4
ConstantPad2d((1, 0, 2, 1), 1.5) | 2,3,4
ZeroPad2d(1) | 1,2,3,3
ZeroPad3d(1) | 1,2,3,3,2
ReflectionPad1d(2) | 2,3,4
ReflectionPad2d((1, 2, 1, 0)) | 1,2,3,3
ReplicationPad2d(2) | 1,2,3,3
ReplicationPad3d(1) | 1,2,3,3,2
CircularPad2d(1) | 1,2,3,3
CosineSimilarity(dim=1) | 3,4 ; 3,4
PairwiseDistance(p=1, keepdim=True) | 3,4 ; 3,4
RNN(3, 4) | 5,2,3
RNN(3, 4, 2, "relu", bias=False, bidirectional=True) | 5,2,3
LSTM(3, 4, 2, batch_first=True, bidirectional=True) | 2,5,3
LSTM(3, 4, proj_size=2, num_layers=2) | 5,2,3
GRU(3, 4, bidirectional=True) | 5,2,3
GRU(3, 4) | 5,3
RNNCell(3, 4, nonlinearity="relu") | 2,3
LSTMCell(3, 4) | 2,3
GRUCell(3, 4) | 2,3
GRUCell(3, 4) | 3
MultiheadAttention(8, 2) | 5,2,8 ; 6,2,8 ; 6,2,8
MultiheadAttention(8, 2, bias=False, batch_first=True) | 2,5,8 ; 2,6,8 ; 2,6,8
MultiheadAttention(8, 2, kdim=3, vdim=4) | 5,2,8 ; 6,2,3 ; 6,2,4
MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True) | 5,8 ; 6,8 ; 6,8
TransformerEncoderLayer(8, 2, 16, dropout=0.0) | 5,2,8
TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True, batch_first=True, bias=False) | 2,5,8
TransformerDecoderLayer(8, 2, 16, dropout=0.0) | 5,2,8 ; 6,2,8
TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True, batch_first=True) | 2,5,8 ; 2,6,8
Transformer(8, 2, 2, 1, 16, dropout=0.0) | 5,2,8 ; 6,2,8
"""
CASES = [tuple(part.strip() for part in line.split("|")) for line in LAYERS.strip().splitlines()]


def values(text):
    rng = np.random.default_rng(len(text))
    out = []
    for part in text.split(";"):
        part = part.strip()
        shape = [int(n) for n in part.lstrip("i").split(",")]
        out.append(rng.integers(0, 5, shape) if part[0] == "i" else rng.standard_normal(shape).astype("f4"))
    return out


def flat(x):
    return [x] if hasattr(x, "shape") else [t for part in x if part is not None for t in flat(part)]


def both(definition):
    theirs = eval(f"torch.nn.{definition}", {"torch": torch, "float64": torch.float64})
    ours = eval(f"nn.{definition}", {"nn": nn, "float64": tw.float64})
    return theirs, ours


def close(ours, theirs, what=""):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-4, atol=2e-5, err_msg=what)


def run(ours, theirs, arrays):
    """Outputs and gradients of both, which must be equal."""
    dtype = next((p.dtype for p in theirs.parameters()), torch.float32)
    xs = [torch.tensor(a) if a.dtype.kind == "i" else torch.tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    ys = [tw.tensor(a) if a.dtype.kind == "i" else tw.tensor(x.detach().numpy(), requires_grad=True) for a, x in zip(arrays, xs)]
    # Layers that change their input cannot be given a leaf.
    wanted, got = (flat(m(*[x * 1 if x.requires_grad else x for x in args])) for m, args in ((theirs, xs), (ours, ys)))
    assert len(wanted) == len(got)
    for a, b in zip(got, wanted):
        assert tuple(a.shape) == tuple(b.shape)
        close(a, b, "output")
    picked = [(a, b) for a, b in zip(got, wanted) if b.requires_grad]
    if not picked:
        return
    weights = [np.random.default_rng(1).standard_normal(tuple(b.shape)) for _, b in picked]
    sum((b * torch.tensor(w, dtype=b.dtype)).sum() for (_, b), w in zip(picked, weights)).backward()
    sum((a * tw.tensor(w, dtype=a.dtype)).sum() for (a, _), w in zip(picked, weights)).backward()
    for x, y in zip(xs, ys):
        if x.grad is not None:
            close(y.grad, x.grad, "gradient of an input")
    for (name, p), q in zip(theirs.named_parameters(), ours.parameters()):
        if p.grad is not None and q.grad is not None:
            close(q.grad, p.grad, f"gradient of {name}")
        else:
            assert p.grad is None or not p.grad.any()


@pytest.mark.parametrize("definition, shapes", CASES)
def test_layers_are_pytorchs(definition, shapes):
    theirs, ours = both(definition)
    keys = {n: tuple(t.shape) for n, t in theirs.state_dict().items()}
    assert {n: tuple(t.shape) for n, t in ours.state_dict().items()} == keys and list(ours.state_dict()) == list(keys)
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(theirs.state_dict())
    for mode in (True, False):
        ours.train(mode), theirs.train(mode), ours.zero_grad(), theirs.zero_grad()
        run(ours, theirs, values(shapes))
    for name, t in theirs.state_dict().items():
        close(ours.state_dict()[name], t, f"state {name}")
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        x = [tw.tensor(a) for a in values(shapes)]
        if not any(p.dtype == tw.float64 for p in ours.parameters()):
            close(flat(again(*x))[0], flat(ours(*x))[0])


@pytest.mark.parametrize("definition", [d for d, _ in CASES])
def test_layers_start_with_pytorchs_distributions(definition):
    theirs, ours = both(definition)
    for (name, p), q in zip(theirs.named_parameters(), ours.parameters()):
        count = p.numel()
        spread = float(p.detach().double().std()) if count > 1 else 0.0
        assert (float(p.detach().abs().max()) == 0) == (float(q.detach().abs().amax()) == 0), name
        if count >= 24 and spread > 0:
            assert 0.5 < float(np.std(q.detach().numpy())) / spread < 2.0, name


LOSSES = """
CrossEntropyLoss() | 4,5 ; i4
CrossEntropyLoss(label_smoothing=0.1, reduction="sum") | 4,5 ; i4
CrossEntropyLoss(ignore_index=2) | 4,5,3 ; i4,3
CrossEntropyLoss(weight=w5) | 4,5 ; i4
NLLLoss(weight=w5, reduction="none") | 4,5 ; i4
MSELoss(reduction="sum") | 4,5 ; 4,5
L1Loss() | 4,5 ; 4,5
SmoothL1Loss(beta=0.5) | 4,5 ; 4,5
HuberLoss(delta=0.3, reduction="none") | 4,5 ; 4,5
BCEWithLogitsLoss(pos_weight=w5) | 4,5 ; p4,5
BCELoss(weight=w5) | p4,5 ; p4,5
KLDivLoss(reduction="batchmean") | 4,5 ; p4,5
KLDivLoss(log_target=True, reduction="sum") | 4,5 ; 4,5
PoissonNLLLoss(full=True) | 4,5 ; p4,5
GaussianNLLLoss(full=True) | 4,5 ; 4,5 ; p4,5
GaussianNLLLoss() | 4,5 ; 4,5 ; p4
HingeEmbeddingLoss(0.5) | 4,5 ; s4,5
MarginRankingLoss(0.5) | 4 ; 4 ; s4
CosineEmbeddingLoss(0.1) | 4,5 ; 4,5 ; s4
TripletMarginLoss(margin=0.5, p=1.0, swap=True) | 4,5 ; 4,5 ; 4,5
TripletMarginWithDistanceLoss(margin=0.5) | 4,5 ; 4,5 ; 4,5
SoftMarginLoss() | 4,5 ; s4,5
MultiLabelSoftMarginLoss(weight=w5) | 4,5 ; b4,5
MultiMarginLoss(p=2, weight=w5) | 4,5 ; i4
MultiLabelMarginLoss() | 3,5 ; m3
"""


def loss_values(text):
    rng, out = np.random.default_rng(3), []
    for part in (p.strip() for p in text.split(";")):
        kind = part[0] if part[0].isalpha() else ""
        shape = [int(n) for n in part.lstrip("ipsbm").split(",")]
        if kind == "m":
            out.append(np.array([[3, 0, -1, 1, 2], [1, -1, 0, 0, 0], [0, 1, 2, 3, 4]]))
        elif kind == "i":
            out.append(rng.integers(0, 5, shape))
        elif kind == "s":
            out.append(np.sign(rng.standard_normal(shape)).astype("f4"))
        elif kind == "b":
            out.append((rng.random(shape) < 0.5).astype("f4"))
        else:
            out.append(rng.random(shape).astype("f4") * 0.9 + 0.05 if kind == "p" else rng.standard_normal(shape).astype("f4"))
    return out


@pytest.mark.parametrize("definition, shapes", [tuple(p.strip() for p in line.split("|")) for line in LOSSES.strip().splitlines()])
def test_losses_are_pytorchs(definition, shapes):
    w5 = np.random.default_rng(5).random(5).astype("f4") + 0.1
    theirs = eval(f"torch.nn.{definition}", {"torch": torch, "w5": torch.tensor(w5)})
    ours = eval(f"nn.{definition}", {"nn": nn, "w5": tw.tensor(w5)})
    arrays = loss_values(shapes)
    x, y = torch.tensor(arrays[0], requires_grad=True), tw.tensor(arrays[0], requires_grad=True)
    wanted = theirs(x, *map(torch.tensor, arrays[1:]))
    got = ours(y, *map(tw.tensor, arrays[1:]))
    assert tuple(got.shape) == tuple(wanted.shape)
    close(got, wanted)
    wanted.sum().backward(), got.sum().backward()
    close(y.grad, x.grad)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    with pytest.raises(tw.Error, match="reduction"):
        nn.MSELoss(size_average=False)
