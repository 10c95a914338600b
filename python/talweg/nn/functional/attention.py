"""Attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from .common import probability
from .convolution import dropout, linear

if TYPE_CHECKING:
    from typing import Any

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor, key: Any, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
    query_lengths: Tensor | None = None, key_lengths: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Attention of queries ``[..., H, L, E]`` with keys and values. True in a bool mask includes a key; other masks are added
    to the scores. Of sequences of several lengths, ``query_lengths`` and ``key_lengths`` say how much of each counts.

    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, key_lengths=tw.tensor([5, 3])).shape
    talweg.Size([2, 2, 5, 4])
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise value_error(f"scaled_dot_product_attention: dropout_p must lie between 0 and 1, not {dropout_p}")
    if is_causal and attn_mask is not None:
        raise value_error("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    _native.check_types("scaled_dot_product_attention", [query, key, value], False)
    return query.attention(
        key,
        value,
        mask=attn_mask,
        causal=is_causal,
        scale=scale,
        grouped=enable_gqa,
        dropout=(dropout_p, _native.batch_key(query)) if dropout_p > 0.0 else None,
        query_lengths=query_lengths,
        key_lengths=key_lengths,
    )


def is_bool(mask):
    """True for a mask of true and false."""
    return str(mask.dtype).endswith("bool")


def _additive(mask, dtype):
    """A mask that is added to scores."""
    return Tensor.where(mask, float("-inf"), 0.0).astype(dtype) if is_bool(mask) else mask.astype(dtype)


def joined_mask(attn_mask, key_padding_mask, batch, heads, lengths, dtype):
    """PyTorch's masks of modules, in which True excludes a position, as one that ``Tensor.attention`` takes: in a bool one true
    takes part."""
    masks = []
    if attn_mask is not None:
        shape = attn_mask.shape
        if len(shape) == 3:
            if shape[0] != batch * heads:
                raise value_error(f"attn_mask is {tuple(shape)}, but there are {batch} sequences of {heads} heads")
            attn_mask = attn_mask.reshape(batch, heads, *shape[1:])
        elif len(shape) != 2:
            raise value_error(f"attn_mask must be [L, S] or [N heads, L, S], not {tuple(shape)}")
        if tuple(shape[-2:]) != lengths:
            raise value_error(f"attn_mask is {tuple(shape)}, but there are {lengths[0]} queries and {lengths[1]} keys")
        masks.append(attn_mask)
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (batch, lengths[1]):
            raise value_error(f"key_padding_mask must be {(batch, lengths[1])}, of each key, not {tuple(key_padding_mask.shape)}")
        masks.append(key_padding_mask.reshape(batch, 1, 1, -1))
    if not masks:
        return None
    if all(map(is_bool, masks)):
        out = masks[0] if len(masks) == 1 else masks[0] | masks[1]
        return ~out
    first, *rest = (_additive(m, dtype) for m in masks)
    return first + rest[0] if rest else first


def attention_weights(q, k, mask, causal, lengths, dropout_p):
    """The weights ``[N, H, L, S]``, written out."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:
        rows, columns = scores.shape[-2:]
        seen = _native.arange(columns).unsqueeze(0) <= _native.arange(rows).unsqueeze(1)
        scores = Tensor.where(seen, scores, float("-inf"))
    if lengths is not None:
        inside = _native.arange(scores.shape[-1]) < lengths.reshape(-1, 1, 1, 1)
        scores = Tensor.where(inside, scores, float("-inf"))
    if mask is not None:
        scores = Tensor.where(mask, scores, float("-inf")) if is_bool(mask) else scores + mask
    weights = scores.softmax(-1)
    return dropout(weights, dropout_p) if dropout_p > 0.0 else weights


def attend(q, k, v, mask, causal, lengths, dropout_p, need_weights):
    """The result of each head, and the weights if they are asked for. Where nothing is dropped the weights are apart
    from the result: they are computed only if they are read."""
    if not need_weights or dropout_p == 0.0:
        settings = dict(mask=mask, causal=causal, key_lengths=lengths)
        out = q.attention(k, v, dropout=(dropout_p, _native.batch_key(q)) if dropout_p > 0.0 else None, **settings)
        return out, attention_weights(q, k, mask, causal, lengths, 0.0) if need_weights else None
    weights = attention_weights(q, k, mask, causal, lengths, dropout_p)
    return weights @ v, weights


def multi_head_attention_forward(
    query: Tensor, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Multi-head attention over ``[L, N, E]``, or ``[L, E]`` without a batch: the result, and the weights or None.

    In bool masks, true is left out; others are added to the scores.
    """
    probability("multi_head_attention_forward", dropout_p)
    if static_k is not None or static_v is not None:
        raise value_error("multi_head_attention_forward: static_k and static_v are not supported; use scaled_dot_product_attention")
    if query.shape[-1] != embed_dim_to_check:
        raise value_error(f"multi_head_attention_forward: expected {embed_dim_to_check} channels, not {query.shape[-1]}")
    weights = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else in_proj_weight.chunk(3, 0)
    heads = Heads(num_heads, weights, in_proj_bias, bias_k, bias_v, add_zero_attn, out_proj_weight, out_proj_bias)
    drop = dropout_p if training else 0.0
    masks = (attn_mask, key_padding_mask, is_causal, None)
    return heads.attend(query, key, value, False, masks, drop, need_weights, average_attn_weights)


class Heads:
    """The weights of attention of several heads."""

    def __init__(self, count, weights, biases, bias_k, bias_v, add_zero_attn, out_weight, out_bias):
        self._count, self._weights = count, weights
        self._biases = [None] * 3 if biases is None else biases.chunk(3, 0)
        self._bias_k, self._bias_v, self._add_zero_attn = bias_k, bias_v, add_zero_attn
        self._out = (out_weight, out_bias)

    def attend(self, query, key, value, batch_first, masks, dropout_p, need_weights, average):
        """The result, and the weights or None. ``masks``: of the scores, of the keys, whether causal, the keys' lengths."""
        ranks = {query.ndim, key.ndim, value.ndim}
        if ranks not in ({2}, {3}):
            raise value_error(f"attention: expected 2 or 3 dimensions, not {query.ndim}, {key.ndim} and {value.ndim}")
        attn_mask, key_padding_mask, is_causal, lengths = masks
        if ranks == {2}:
            turn, back = (lambda x: x.unsqueeze(0)), (lambda x: x.squeeze(0))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        else:
            turn = back = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
        if is_causal and attn_mask is not None and key_padding_mask is None and not need_weights:
            attn_mask = None  # the mask is what the hint says
        elif attn_mask is not None:
            is_causal = False
        # Once for tensors that are one.
        transposed = {id(x): turn(x) for x in (query, key, value)}
        masks = (attn_mask, key_padding_mask, is_causal, lengths)
        out, weights = self._batch([transposed[id(x)] for x in (query, key, value)], masks, dropout_p, need_weights)
        if weights is not None:
            weights = weights.mean(1) if average else weights
            weights = weights.squeeze(0) if ranks == {2} else weights
        return back(out), weights

    def _batch(self, tensors, masks, dropout_p, need_weights):
        """Over ``[N, L, E]``."""
        attn_mask, key_padding_mask, is_causal, lengths = masks
        n, length, _ = tensors[0].shape
        projected = [linear(x, w, b) for x, w, b in zip(tensors, self._weights, self._biases)]
        width = projected[0].shape[-1]  # less than that of the input where heads were pruned
        extra = 0
        if self._bias_k is not None:
            projected[1] = Tensor.concat([projected[1], self._bias_k.broadcast_to((n, 1, width))], 1)
            projected[2] = Tensor.concat([projected[2], self._bias_v.broadcast_to((n, 1, width))], 1)
            extra += 1
        if self._add_zero_attn:
            projected[1:] = [x.pad((0, 0, 0, 1)) for x in projected[1:]]
            extra += 1
        if extra:
            if is_causal or lengths is not None:
                raise value_error("attention: with add_bias_kv or add_zero_attn give masks, not is_causal or lengths")
            attn_mask, key_padding_mask = (None if m is None else _widened(m, extra) for m in (attn_mask, key_padding_mask))
        q, k, v = (x.reshape(n, x.shape[1], self._count, width // self._count).transpose(1, 2) for x in projected)
        mask = joined_mask(attn_mask, key_padding_mask, n, self._count, (length, k.shape[2]), q.dtype)
        out, weights = attend(q, k, v, mask, is_causal, lengths, dropout_p, need_weights)
        return linear(out.transpose(1, 2).reshape(n, length, width), *self._out), weights


def _widened(mask, extra):
    """A mask with columns for keys that are always seen."""
    columns = _native.zeros(*mask.shape[:-1], extra, dtype=mask.dtype)
    return Tensor.concat([mask, columns], -1)


check(globals(), __all__)
