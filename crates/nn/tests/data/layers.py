"""Parameters, inputs, results and gradients of PyTorch's layers, as layers.txt.

    python layers.py > layers.txt

Lines: `CASE KIND NAME SHAPE values...`, where KIND is `param`, `input`, `output`, `grad_param` or
`grad_input`, and SHAPE is `2x3`. Gradients are those of the sum of all outputs times 0.1, 0.2, ...
in turn (from 1 again for each output, over 10). Graph layers are not PyTorch's: they are computed
from dense matrices by the papers' formulas.
"""

import torch
from torch import nn

torch.manual_seed(3)


def line(case, kind, name, t):
    shape = "x".join(str(d) for d in t.shape)
    print(case, kind, name, shape, *(f"{v:.8g}" for v in t.detach().flatten().tolist()))


def dump(case, params, inputs, f):
    inputs = {n: t.requires_grad_(t.is_floating_point()) for n, t in inputs.items()}
    outputs = f(*inputs.values())
    loss = sum((y * (torch.arange(1, y.numel() + 1).remainder(10).float() / 10).reshape(y.shape)).sum() for y in outputs)
    loss.backward()
    for kind, list_ in (("param", params), ("input", inputs)):
        for n, t in list_.items():
            line(case, kind, n, t)
            if t.is_floating_point():
                line(case, "grad_" + kind, n, t.grad)
    for i, y in enumerate(outputs):
        line(case, "output", str(i), y)


def layer(case, module, inputs, f):
    for p in module.parameters():
        # Also what starts at zero or one must be told apart.
        nn.init.uniform_(p, -0.7, 0.7)
    dump(case, dict(module.named_parameters()), inputs, lambda *a: f(module, *a))


def x(*shape):
    return torch.randn(*shape)


def recurrent(m, x, *state):
    y, last = m(x, state if isinstance(m, nn.LSTM) else state[0])
    return [y, *(last if isinstance(last, tuple) else [last])]


h = {"h": x(1, 3, 4)}
h2 = {"h": x(2, 3, 4)}
layer("rnn", nn.RNN(2, 4), {"x": x(5, 3, 2)} | h, recurrent)
layer("gru", nn.GRU(2, 4, num_layers=2, batch_first=True), {"x": x(3, 5, 2), "h": x(2, 3, 4)}, recurrent)
layer("lstm", nn.LSTM(2, 4), {"x": x(5, 3, 2), "h": x(1, 3, 4), "c": x(1, 3, 4)}, recurrent)
layer(
    "lstm_stacked",
    nn.LSTM(2, 4, num_layers=2, batch_first=True, bias=False),
    {"x": x(3, 5, 2)} | h2 | {"c": x(2, 3, 4)},
    recurrent,
)


def qkv():
    return {"q": x(2, 3, 4), "k": x(2, 5, 4), "v": x(2, 5, 4)}


layer("attention", nn.MultiheadAttention(4, 2, batch_first=True), qkv(), lambda m, *a: [m(*a, need_weights=False)[0]])
options = dict(dim_feedforward=6, dropout=0.0, batch_first=True)
layer("encoder", nn.TransformerEncoderLayer(4, 2, **options), {"x": x(2, 3, 4)}, lambda m, x: [m(x)])
layer(
    "encoder_first",
    nn.TransformerEncoderLayer(4, 2, norm_first=True, activation="gelu", **options),
    {"x": x(2, 3, 4)},
    lambda m, x: [m(x, src_mask=nn.Transformer.generate_square_subsequent_mask(3))],
)
layer(
    "decoder",
    nn.TransformerDecoderLayer(4, 2, **options),
    {"x": x(2, 3, 4), "memory": x(2, 5, 4)},
    lambda m, x, y: [m(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3))],
)
layer("conv_transpose1d", nn.ConvTranspose1d(2, 3, 3, stride=2), {"x": x(2, 2, 4)}, lambda m, x: [m(x)])
layer(
    "conv_transpose2d",
    nn.ConvTranspose2d(4, 2, (3, 2), stride=2, padding=1, output_padding=1, groups=2),
    {"x": x(1, 4, 3, 3)},
    lambda m, x: [m(x)],
)
layer("conv_transpose3d", nn.ConvTranspose3d(1, 2, 2, bias=False), {"x": x(1, 1, 2, 2, 2)}, lambda m, x: [m(x)])
layer("max_pool2d", nn.MaxPool2d(3, stride=2, padding=1), {"x": x(1, 2, 5, 4)}, lambda m, x: [m(x)])
layer("avg_pool2d", nn.AvgPool2d(2), {"x": x(1, 2, 5, 4)}, lambda m, x: [m(x)])

EDGES = torch.tensor([[0, 1, 1, 2, 3, 0, 4], [1, 0, 2, 1, 2, 4, 0]])


def dense():
    """Row i: which nodes send to node i, itself included."""
    a = torch.eye(5)
    a[EDGES[1], EDGES[0]] = 1
    return a


def gcn(params):
    def f(x, _):
        a = dense()
        d = a.sum(1).rsqrt().diag()
        return [d @ a @ d @ x @ params["lin.weight"].T + params["bias"]]

    return f


def gat(params, average):
    def f(x, _):
        heads, width = params["att_src"].shape[1:]
        h = (x @ params["lin.weight"].T).reshape(5, heads, width)
        src, dst = (h * params["att_src"]).sum(-1), (h * params["att_dst"]).sum(-1)
        e = nn.functional.leaky_relu(dst[:, None] + src[None], 0.2)
        share = e.masked_fill(dense()[:, :, None] == 0, float("-inf")).softmax(1)
        y = torch.einsum("ijh,jhw->ihw", share, h)
        return [(y.mean(1) if average else y.flatten(1)) + params["bias"]]

    return f


def leaves(**shapes):
    return {n.replace("__", "."): x(*s).requires_grad_() for n, s in shapes.items()}


p = leaves(lin__weight=(2, 3), bias=(2,))
dump("gcn", p, {"x": x(5, 3), "edges": EDGES}, gcn(p))
for case, average, bias in (("gat", False, 4), ("gat_averaged", True, 2)):
    p = leaves(lin__weight=(4, 3), att_src=(1, 2, 2), att_dst=(1, 2, 2), bias=(bias,))
    dump(case, p, {"x": x(5, 3), "edges": EDGES}, gat(p, average))

# Last, so that the random numbers of the cases before stay.
LENGTHS = torch.tensor([2, 5, 3])


def packed(m, x, *state):
    xs = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    y, last = m(xs, state if isinstance(m, nn.LSTM) else state[0])
    y = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]
    return [y, *(last if isinstance(last, tuple) else [last])]


stacked = dict(num_layers=2, batch_first=True)
layer("lstm_lengths", nn.LSTM(2, 4, **stacked), {"x": x(3, 5, 2), "h": x(2, 3, 4), "c": x(2, 3, 4)}, packed)
layer("gru_lengths", nn.GRU(2, 4, **stacked), {"x": x(3, 5, 2), "h": x(2, 3, 4)}, packed)

both = dict(bidirectional=True)
layer("lstm_both", nn.LSTM(2, 4, **both), {"x": x(5, 3, 2), "h": x(2, 3, 4), "c": x(2, 3, 4)}, recurrent)
layer("gru_both", nn.GRU(2, 4, **stacked, **both), {"x": x(3, 5, 2), "h": x(4, 3, 4)}, recurrent)
layer("rnn_both_lengths", nn.RNN(2, 4, **stacked, **both), {"x": x(3, 5, 2), "h": x(4, 3, 4)}, packed)
layer(
    "lstm_both_lengths",
    nn.LSTM(2, 4, **stacked, **both),
    {"x": x(3, 5, 2), "h": x(4, 3, 4), "c": x(4, 3, 4)},
    packed,
)

one = nn.TransformerEncoderLayer(4, 2, norm_first=True, **options)
layer("encoder_stack", nn.TransformerEncoder(one, 2, nn.LayerNorm(4)), {"x": x(2, 3, 4)}, lambda m, x: [m(x)])
one = nn.TransformerDecoderLayer(4, 2, **options)
layer(
    "decoder_stack",
    nn.TransformerDecoder(one, 2, nn.LayerNorm(4)),
    {"x": x(2, 3, 4), "memory": x(2, 5, 4)},
    lambda m, x, y: [m(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3))],
)

for rank, shape in ((1, (6,)), (2, (5, 6)), (3, (4, 5, 3))):
    for kind in ("Max", "Avg"):
        m = getattr(nn, f"{kind}Pool{rank}d")(2, stride=2, padding=1)
        layer(f"{kind.lower()}_pool{rank}d_padded", m, {"x": x(2, 2, *shape)}, lambda m, x: [m(x)])
        m = getattr(nn, f"Adaptive{kind}Pool{rank}d")(2)
        layer(f"adaptive_{kind.lower()}_pool{rank}d", m, {"x": x(2, 2, *shape)}, lambda m, x: [m(x)])
    m = getattr(nn, f"Conv{rank}d")(4, 2, 2, stride=2, padding=1, groups=2)
    layer(f"conv{rank}d", m, {"x": x(2, 4, *shape)}, lambda m, x: [m(x)])


def normed(m, x):
    y = m(x)
    return [y, m.eval()(x)]


layer("linear", nn.Linear(3, 2), {"x": x(4, 3)}, lambda m, x: [m(x)])
layer("layer_norm", nn.LayerNorm((3, 2)), {"x": x(4, 3, 2)}, lambda m, x: [m(x)])
layer("rms_norm", nn.RMSNorm(3), {"x": x(4, 3)}, lambda m, x: [m(x)])
layer("group_norm", nn.GroupNorm(2, 4), {"x": x(3, 4, 5)}, lambda m, x: [m(x)])
# In training, then in inference with the averages of that one batch.
layer("batch_norm1d", nn.BatchNorm1d(3), {"x": x(4, 3)}, normed)
layer("batch_norm2d", nn.BatchNorm2d(2), {"x": x(3, 2, 2, 3)}, normed)
rows = torch.tensor([[0, 1, 1], [1, 0, 1]])
layer("embedding", nn.Embedding(2, 3), {"rows": rows}, lambda m, i: [m(i)])
layer("bilinear", nn.Bilinear(2, 3, 4), {"x": x(5, 2), "y": x(5, 3)}, lambda m, x, y: [m(x, y)])
rows = torch.tensor([[1, 0], [2, 1], [0, 2]])
head = {"x": x(3, 4)}
layer("linear_cross_entropy", nn.LinearCrossEntropyLoss(4, 3), head, lambda m, x: [m(x, rows[:, 0]).reshape(1)])
head = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=True, reduction="none", label_smoothing=0.1)
layer("linear_cross_entropy_outputs", head, {"x": x(3, 4)}, lambda m, x: [m(x, rows)])
