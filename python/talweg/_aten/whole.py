"""Operators that PyTorch decomposes for its compilers: layers, activations, losses. Files of `torch.export` have them."""

# mypy: ignore-errors
import talweg as tw
from ..nn import functional as F
from .table import ROWS, need, row

# Functions of the package, and of its `nn.functional`, with the operator's name and arguments.
_PACKAGE = """outer einsum movedim flatten unflatten chunk split type_as expand_as norm cdist numel nonzero_static tile
    repeat_interleave cross bincount isclose zeros_like ones_like swapaxes narrow real imag log_sigmoid softsign
    absolute negative positive arctan2 subtract multiply divide true_divide greater greater_equal less less_equal
    not_equal clip addr diff diag diag_embed trace kron vander hstack vstack dstack argsort kthvalue median mode
    broadcast_to ravel squeeze_copy take_along_dim index_fill logcumsumexp cummax cummin logical_not""".split()
_FUNCTIONAL = """relu6 silu hardswish hardsigmoid mish selu celu softplus softshrink hardshrink tanhshrink glu prelu threshold
    pixel_shuffle pixel_unshuffle channel_shuffle one_hot cosine_similarity pairwise_distance normalize""".split()
for _name in _PACKAGE:
    if hasattr(tw, _name):
        ROWS.setdefault(_name, getattr(tw, _name))
for _name in _FUNCTIONAL:
    ROWS.setdefault(_name, getattr(F, _name))
ROWS["logsigmoid"] = ROWS["log_sigmoid"] = F.logsigmoid


@row()
def linear(x, weight, bias=None):
    return F.linear(x, weight, bias)


def _conv(n):
    def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return getattr(F, f"conv{n}d")(x, weight, bias, stride, padding, dilation, groups)

    def transposed(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return getattr(F, f"conv_transpose{n}d")(x, weight, bias, stride, padding, output_padding, groups, dilation)

    def max_pool(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        stride = stride or None
        return getattr(F, f"max_pool{n}d")(x, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)

    ROWS[f"conv{n}d"], ROWS[f"conv_transpose{n}d"], ROWS[f"max_pool{n}d"] = conv, transposed, max_pool
    ROWS[f"conv_transpose{n}d.input"] = transposed
    ROWS[f"adaptive_avg_pool{n}d"] = lambda x, size: getattr(F, f"adaptive_avg_pool{n}d")(x, size)
    ROWS[f"adaptive_max_pool{n}d"] = lambda x, size: getattr(F, f"adaptive_max_pool{n}d")(x, size, return_indices=True)


for _n in (1, 2, 3):
    _conv(_n)


@row()
def batch_norm(x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=False):
    return F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)


@row()
def instance_norm(x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled=False):
    return F.instance_norm(x, mean, var, weight, bias, use_input_stats, momentum, eps)


@row()
def layer_norm(x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=False):
    return F.layer_norm(x, tuple(shape), weight, bias, eps)


@row()
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=False):
    return F.group_norm(x, num_groups, weight, bias, eps)


@row()
def rms_norm(x, shape, weight=None, eps=None):
    return F.rms_norm(x, tuple(shape), weight, eps)


@row()
def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


@row("dropout")
def dropout(x, p, train):
    return F.dropout(x, p, train)


@row("feature_dropout")
def feature_dropout(x, p, train):
    return F.dropout2d(x, p, train)


@row("softmax")
def softmax(x, dim, dtype=None):
    return tw.softmax(x, dim, dtype=dtype)


@row("log_softmax")
def log_softmax(x, dim, dtype=None):
    return tw.log_softmax(x, dim, dtype=dtype)


@row("transpose", "swapdims")
def transpose(x, dim0, dim1):
    return x.transpose(dim0, dim1)


@row()
def t(x):
    return x.t()


@row("to")
def to(x, *args, **settings):
    """To an element type, given somewhere among a device, flags and another tensor's."""
    for a in (*args, settings.get("dtype")):
        if isinstance(a, tw.dtype):
            return x.to(a)
        if isinstance(a, tw.Tensor):
            return x.to(a.dtype)
    return x


@row()
def pad(x, pad, mode="constant", value=None):
    return F.pad(x, list(pad), mode, value)


_REDUCTIONS = ("none", "mean", "sum")


@row()
def cross_entropy_loss(x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    by = dict(ignore_index=ignore_index, reduction=_REDUCTIONS[reduction], label_smoothing=label_smoothing)
    return F.cross_entropy(x, target, weight, **by)


@row("nll_loss_nd", "nll_loss")
def nll_loss(x, target, weight=None, reduction=1, ignore_index=-100):
    return F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction])


for _name in ("mse_loss", "l1_loss"):
    ROWS[_name] = lambda x, target, reduction=1, _f=getattr(F, _name): _f(x, target, reduction=_REDUCTIONS[reduction])


@row("lstm")
def lstm(x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    need(not (dropout and train), "an LSTM with dropout between its layers")
    x = x.transpose(0, 1) if batch_first else x
    ways = 2 if bidirectional else 1
    each = len(params) // (num_layers * ways)
    need(each == (4 if has_biases else 2), "an LSTM with projections")
    hs, cs = [], []
    for layer in range(num_layers):
        seen = []
        for way in range(ways):
            at = layer * ways + way
            w_ih, w_hh, *biases = params[at * each : (at + 1) * each]
            gates = F.linear(x, w_ih, biases[0] + biases[1] if biases else None)
            (h, c), y = tw.scan(_lstm_step(w_hh), (hx[0][at], hx[1][at]), gates, reverse=way == 1)
            seen.append(y)
            hs.append(h)
            cs.append(c)
        x = seen[0] if ways == 1 else tw.cat(seen, -1)
    return x.transpose(0, 1) if batch_first else x, tw.stack(hs), tw.stack(cs)


def _lstm_step(w_hh):
    def step(state, row):
        h, c = state
        i, f, g, o = tw.chunk(row + F.linear(h, w_hh), 4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    return step


@row("embedding_bag")
def embedding_bag(*_, **__):
    need(False, "embedding bags")




@row()
def type_as(x, other):
    return x.to(other.dtype)


@row()
def expand_as(x, other):
    return x.expand(*other.shape)


@row()
def new_ones(x, size, dtype=None):
    return tw.ones(tuple(size), dtype=dtype or x.dtype)


@row()
def new_full(x, size, fill_value, dtype=None):
    return tw.full(tuple(size), fill_value, dtype=dtype or x.dtype)


for _name, _of in (("__and__", "bitwise_and"), ("__or__", "bitwise_or"), ("__xor__", "bitwise_xor")):
    ROWS[_name] = getattr(tw, _of)
