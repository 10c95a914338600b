"""Normalizations and attention of ATen in Talweg's ops: rows of `table` that return statistics beside their result."""

# mypy: ignore-errors
import math

import talweg as tw
from .. import _ops
from ..nn import functional as F
from .table import apply, need, row


def _wide(x):
    return x.to(tw.float32) if x.dtype in (tw.float16, tw.bfloat16) else x


# ---- layer and group norm


@row()
def native_layer_norm(x, shape, weight, bias, eps):
    y = F.layer_norm(x, tuple(shape), weight, bias, eps)
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    var, mean = tw.var_mean(_wide(x), dims, correction=0, keepdim=True)
    return y, mean, (var + eps).rsqrt()


@row()
def native_layer_norm_backward(g, x, shape, mean, rstd, weight, bias, mask, *, eps=None):
    """`eps` is that of the forward operator, where the graph of both was seen."""
    last = tuple(range(x.ndim - len(shape), x.ndim))
    first = tuple(range(x.ndim - len(shape)))
    if eps is not None and weight is not None and first:
        dx, dw, db = apply("layer_norm_grad", [x, g, weight], axes=len(shape), eps=eps)
        return dx if mask[0] else None, dw if mask[1] else None, db if mask[2] else None
    need(mean is not None, "layer norm without its statistics")
    wide, wg = _wide(x), _wide(g)
    y = (wide - mean) * rstd
    weighted = wg if weight is None else wg * _wide(weight)
    along = tw.mean(weighted * y, last, keepdim=True)
    dx = ((weighted - tw.mean(weighted, last, keepdim=True) - y * along) * rstd).to(x.dtype) if mask[0] else None
    onto = lambda t: (tw.sum(t, first) if first else t).to(x.dtype)  # noqa: E731
    dw = onto(wg * y) if mask[1] and weight is not None else None
    return dx, dw, onto(wg) if mask[2] and bias is not None else None


@row()
def native_group_norm(x, weight, bias, n, c, hxw, group, eps):
    y = F.group_norm(x, group, weight, bias, eps)
    var, mean = tw.var_mean(_wide(x).reshape((n, group, -1)), -1, correction=0)
    return y, mean.to(x.dtype), (var + eps).rsqrt().to(x.dtype)


# ---- batch norm


def _moved(running, new, momentum):
    return running * (1 - momentum) + new.to(running.dtype) * momentum


def _batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    """The result, the statistics that the gradient needs, and the running ones after it."""
    if not training:
        y = _ops.batch_norm(x, mean, var, weight, bias, eps)
        none = tw.zeros((0,), dtype=_wide(x).dtype)
        return y, none, none, mean, var
    y, batch_mean, batch_var = _ops.batch_norm_stats(x, weight, bias, eps)
    if mean is not None:
        n = math.prod(x.shape) // x.shape[1]
        mean = _moved(mean, batch_mean, momentum)
        var = _moved(var, batch_var * (n / max(n - 1, 1)), momentum)
    return y, batch_mean, (batch_var + eps).rsqrt(), mean, var


@row("_native_batch_norm_legit_functional")
def batch_norm_functional(x, weight, bias, mean, var, training, momentum, eps):
    return _batch_norm(x, weight, bias, mean, var, training, momentum, eps)


@row("_batch_norm_with_update_functional")
def batch_norm_with_update(x, weight, bias, mean, var, momentum, eps):
    y, save_mean, save_rstd, mean, var = _batch_norm(x, weight, bias, mean, var, True, momentum, eps)
    return y, save_mean, save_rstd, tw.zeros((0,), dtype=tw.uint8), mean, var


@row("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_no_training(x, weight, bias, mean, var, momentum, eps):
    y, none, _, _, _ = _batch_norm(x, weight, bias, mean, var, False, momentum, eps)
    return y, none, none, tw.zeros((0,), dtype=tw.uint8)


@row("_native_batch_norm_legit")
def batch_norm_no_stats(x, weight, bias, *rest):
    need(len(rest) == 3, "batch norm that writes its running statistics in place")
    training, momentum, eps = rest
    return _batch_norm(x, weight, bias, None, None, training, momentum, eps)[:3]


@row("native_batch_norm_backward")
def batch_norm_backward(g, x, weight, running_mean, running_var, save_mean, save_rstd, train, eps, mask):
    place = [1] * x.ndim
    place[1] = -1
    axes = (0, *range(2, x.ndim))
    if train:
        mean, scale = save_mean.reshape(place), save_rstd.reshape(place)
    else:
        mean, scale = running_mean.reshape(place), (running_var + eps).rsqrt().reshape(place)
    each = x.shape[1] / max(math.prod(x.shape), 1)
    wg = _wide(g)
    y = (_wide(x) - mean) * scale
    total, along = tw.sum(wg, axes, keepdim=True), tw.sum(wg * y, axes, keepdim=True)
    scaled = scale if weight is None else scale * _wide(weight).reshape(place)
    dx = ((wg - total * each - y * (along * each)) * scaled if train else wg * scaled).to(x.dtype) if mask[0] else None
    kind = x.dtype if weight is None else weight.dtype
    return dx, along.reshape(-1).to(kind) if mask[1] else None, total.reshape(-1).to(kind) if mask[2] else None


@row("batch_norm_backward")
def batch_norm_backward_with_reserve(g, x, weight, mean, var, save_mean, save_rstd, update, eps, mask, reserve):
    return batch_norm_backward(g, x, weight, mean, var, save_mean, save_rstd, update, eps, mask)


# ---- attention


def _attention(op, inputs, mask, causal, scale, dropout):
    need(not dropout, "attention with dropout")
    q = inputs[0]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    rest = [] if mask is None else [mask if mask.dtype == tw.bool else mask.to(q.dtype)]
    return apply(op, [*inputs, *rest], causal=bool(causal), scale=scale, dropout=0.0)


@row("_scaled_dot_product_flash_attention_for_cpu")
def attention_on_cpu(q, k, v, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    return _attention("attention", [q, k, v], attn_mask, is_causal, scale, dropout_p)


@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_on_cpu_backward(g, q, k, v, y, lse, dropout_p, is_causal, attn_mask=None, scale=None):
    return _attention("attention_grad", [q, k, v, y, lse, g], attn_mask, is_causal, scale, dropout_p)


@row("_scaled_dot_product_efficient_attention")
def efficient_attention(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, scale=None):
    y, lse = _attention("attention", [q, k, v], attn_bias, is_causal, scale, dropout_p)
    # PyTorch's kernel wants rows in multiples of 32.
    more = -lse.shape[-1] % 32
    lse = tw.pad(lse, [0, more], "constant", 0.0) if more else lse
    none = tw.zeros((), dtype=tw.int64)
    return y, lse, none, none


@row("_scaled_dot_product_efficient_attention_backward")
def efficient_attention_backward(
    g, q, k, v, attn_bias, y, lse, seed, offset, dropout_p, grad_input_mask, is_causal=False, scale=None
):
    need(not grad_input_mask[3], "the gradient of an attention bias")
    lse = lse[..., : q.shape[-2]]
    return *_attention("attention_grad", [q, k, v, y, lse, g], attn_bias, is_causal, scale, dropout_p), None


@row("_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention")
def flash_attention(q, k, v, *rest, scale=None):
    # The operator of cuDNN has a bias and a flag before the rest.
    bias, rest = (rest[0], rest[2:]) if rest and not isinstance(rest[0], float) else (None, rest)
    dropout, causal = (*rest, 0.0, False)[:2] if rest else (0.0, False)
    y, lse = _attention("attention", [q, k, v], bias, causal, scale, dropout)
    none = tw.zeros((), dtype=tw.int64)
    return y, lse, None, None, q.shape[-2], k.shape[-2], none, none, None


@row("_scaled_dot_product_flash_attention_backward")
def flash_attention_backward(
    g, q, k, v, y, lse, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, scale=None
):
    return _attention("attention_grad", [q, k, v, y, lse, g], None, is_causal, scale, dropout_p)


@row("_scaled_dot_product_cudnn_attention_backward")
def cudnn_attention_backward(
    g, q, k, v, y, lse, seed, offset, attn_bias, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, scale=None
):
    lse = lse.squeeze(-1) if lse.ndim == y.ndim else lse
    return _attention("attention_grad", [q, k, v, y, lse, g], attn_bias, is_causal, scale, dropout_p)


@row("_fused_rms_norm")
def fused_rms_norm(x, shape, weight, eps):
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    wide = _wide(x)
    eps = 1.1920928955078125e-07 if eps is None else eps
    rstd = (tw.mean(wide * wide, dims, keepdim=True) + eps).rsqrt()
    y = wide * rstd
    return (y if weight is None else y * _wide(weight)).to(x.dtype), rstd


# ---- recurrent layers


@row()
def mkldnn_rnn_layer(
    x, w_ih, w_hh, b_ih, b_hh, h, c, reverse, batch_sizes, mode, hidden_size, num_layers, has_biases, bidirectional, batch_first, train
):
    """An LSTM's layer without gradients: x[T, N, I]. The last result is a workspace for the gradient."""
    need(mode == 2 and not train and not batch_sizes and not batch_first, "a recurrent layer other than an LSTM's for inference")
    gates = x @ w_ih.t() + (b_ih + b_hh) if has_biases else x @ w_ih.t()

    def step(state, row):
        h, c = state
        i, f, g, o = tw.chunk(row + h @ w_hh.t(), 4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    state = (h.reshape(tuple(h.shape[-2:])), c.reshape(tuple(c.shape[-2:])))
    (last, cell), y = tw.scan(step, state, gates, reverse=bool(reverse))
    return y, last.reshape(tuple(h.shape)), cell.reshape(tuple(c.shape)), tw.zeros((0,), dtype=tw.uint8)
