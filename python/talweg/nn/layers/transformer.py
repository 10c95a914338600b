"""Multi-head attention and the transformer, with PyTorch's masks: True in a bool mask excludes a position."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, type_error, value_error
from .. import functional as F
from .. import init
from ..containers import ModuleList
from ..module import Module
from .activation import Dropout
from .common import parameter, placed, probability, size
from .linear import Linear
from .norm import LayerNorm

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ... import DTypeLike, Tensor

__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


class NonDynamicallyQuantizableLinear(Linear):
    """The last layer of attention: a linear layer under the name that PyTorch prints."""


class MultiheadAttention(Module):
    """Multi-head attention over ``[L, N, E]``, or ``[N, L, E]`` with ``batch_first``: the result and the weights.

    >>> x = tw.randn(2, 5, 8)
    >>> y, weights = tw.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> y.shape, weights.shape
    (talweg.Size([2, 5, 8]), talweg.Size([2, 5, 5]))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embed_dim, self.num_heads = size(self, "embed_dim", embed_dim, 1), size(self, "num_heads", num_heads, 1)
        if self.embed_dim % self.num_heads:
            raise value_error(f"MultiheadAttention: {num_heads} heads do not divide a width of {embed_dim}")
        self.head_dim, self.dropout = self.embed_dim // self.num_heads, probability(self, dropout)
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        e = self.embed_dim
        self.kdim, self.vdim = e if kdim is None else kdim, e if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == e and self.vdim == e
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * e, e)
        else:
            self.q_proj_weight, self.k_proj_weight = parameter(e, e), parameter(e, self.kdim)
            self.v_proj_weight = parameter(e, self.vdim)
        for name in ["q_proj_weight", "k_proj_weight", "v_proj_weight"] if self._qkv_same_embed_dim else ["in_proj_weight"]:
            self.register_parameter(name, None)
        self.register_parameter("in_proj_bias", parameter(3 * e) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(e, e, bias)
        self.bias_k = parameter(1, 1, e) if add_bias_kv else None
        self.bias_v = parameter(1, 1, e) if add_bias_kv else None
        self._reset_parameters()
        placed(self, device, dtype)

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Any, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False, *,
        key_lengths: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The result, and the weights ``[N, L, S]`` (``[N, heads, L, S]`` if they are not averaged) or None.

        ``key_padding_mask [N, S]`` and ``attn_mask [L, S]`` or ``[N heads, L, S]``: true is left out; others are added to
        the scores. ``key_lengths [N]``: how many keys of each sequence count.
        """
        if query.shape[-1] != self.embed_dim:
            raise value_error(f"MultiheadAttention: expected {self.embed_dim} channels, not {query.shape[-1]}")
        own = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        weights = self.in_proj_weight.chunk(3, 0) if self._qkv_same_embed_dim else own
        biases = (self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn)
        heads = F.attention.Heads(self.num_heads, weights, *biases, self.out_proj.weight, self.out_proj.bias)
        masks = (attn_mask, key_padding_mask, is_causal, key_lengths)
        drop = self.dropout if self.training else 0.0
        return heads.attend(query, key, value, self.batch_first, masks, drop, need_weights, average_attn_weights)


def _activation(layer, activation):
    known = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
    if callable(activation):
        return activation
    if activation not in known:
        raise value_error(f"{type(layer).__name__}: activation is a function, 'relu', 'gelu' or 'silu', not {activation!r}")
    return known[activation]


class _Layer(Module):
    """Self-attention and a feed-forward network, each with a residual connection and a normalization."""

    _attentions = ()

    def _make(self, d_model, nhead, dim_feedforward, dropout, activation, eps, batch_first, norm_first, bias):
        if not isinstance(dim_feedforward, int):
            raise type_error(f"{type(self).__name__}: dim_feedforward is an integer, not {type(dim_feedforward).__name__}")
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first))
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first = norm_first
        for i in range(len(self._attentions) + 1):
            setattr(self, f"norm{i + 1}", LayerNorm(d_model, eps, bias=bias))
        for i in range(len(self._attentions) + 1):
            setattr(self, f"dropout{i + 1}", Dropout(dropout))
        self.activation = _activation(self, activation)

    def _feed_forward(self, x, dropout):
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _residual(self, x, norm, f):
        return x + f(norm(x)) if self.norm_first else norm(x + f(x))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a normalization.

    >>> tw.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(tw.randn(2, 5, 8)).shape
    talweg.Size([2, 5, 8])
    """

    _attentions = ("self_attn",)

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._make(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        placed(self, device, dtype)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False, *, src_lengths: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """True in a bool mask excludes a position. ``src_lengths [N]``: the lengths of the sequences."""
        masks = dict(attn_mask=src_mask, key_padding_mask=src_key_padding_mask, is_causal=is_causal, key_lengths=src_lengths)
        attend = lambda x: self.dropout1(self.self_attn(x, x, x, need_weights=False, **masks)[0])  # noqa: E731
        x = self._residual(src, self.norm1, attend)
        return self._residual(x, self.norm2, lambda x: self._feed_forward(x, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """Self-attention, cross-attention to a memory, and a feed-forward network.

    >>> x = tw.randn(5, 2, 8)
    >>> tw.nn.TransformerDecoderLayer(8, 2, 16)(x, x, tgt_is_causal=True).shape
    talweg.Size([5, 2, 8])
    """

    _attentions = ("self_attn", "multihead_attn")

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._make(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        placed(self, device, dtype)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False, *, tgt_lengths: Tensor | None = None,
        memory_lengths: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """True in a bool mask excludes a position. ``tgt_lengths``, ``memory_lengths``: the lengths of the sequences."""
        own = dict(attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, is_causal=tgt_is_causal, key_lengths=tgt_lengths)
        cross = dict(attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask)
        cross |= dict(is_causal=memory_is_causal, key_lengths=memory_lengths)
        to_self = lambda x: self.dropout1(self.self_attn(x, x, x, need_weights=False, **own)[0])  # noqa: E731
        to_memory = lambda x: self.dropout2(self.multihead_attn(x, memory, memory, need_weights=False, **cross)[0])  # noqa: E731
        x = self._residual(tgt, self.norm1, to_self)
        x = self._residual(x, self.norm2, to_memory)
        return self._residual(x, self.norm3, lambda x: self._feed_forward(x, self.dropout3))


def _copies(stack, layer, num_layers):
    if not isinstance(layer, Module):
        raise type_error(f"{type(stack).__name__}: expected a layer, not {type(layer).__name__}")
    stack.layers = ModuleList(copy.deepcopy(layer) for _ in range(size(stack, "num_layers", num_layers)))
    stack.num_layers = num_layers


class TransformerEncoder(Module):
    """A stack of encoder layers, copies of the given one.

    >>> layer = tw.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> tw.nn.TransformerEncoder(layer, 3)(tw.randn(5, 2, 8)).shape
    talweg.Size([5, 2, 8])
    """

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Any = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        _copies(self, encoder_layer, num_layers)
        # PyTorch's hints for its nested tensors, which do not change results.
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.norm = norm

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None, *, src_lengths: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        masks = dict(src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        if src_lengths is not None:
            masks["src_lengths"] = src_lengths
        for layer in self.layers:
            src = layer(src, **masks)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers, copies of the given one, all with the same memory.

    >>> layer = tw.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> tw.nn.TransformerDecoder(layer, 2)(tw.randn(2, 5, 8), tw.randn(2, 7, 8)).shape
    talweg.Size([2, 5, 8])
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        _copies(self, decoder_layer, num_layers)
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False, *, tgt_lengths: Tensor | None = None,
        memory_lengths: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        masks = dict(tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask)
        masks |= dict(memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal))
        lengths = dict(tgt_lengths=tgt_lengths, memory_lengths=memory_lengths)
        masks |= {k: v for k, v in lengths.items() if v is not None}
        for layer in self.layers:
            tgt = layer(tgt, memory, memory_is_causal=memory_is_causal, **masks)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder (Vaswani and others 2017).

    >>> model = tw.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(tw.randn(5, 2, 8), tw.randn(3, 2, 8)).shape
    talweg.Size([3, 2, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norm = lambda: LayerNorm(d_model, layer_norm_eps, bias=bias)  # noqa: E731
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        placed(self, device, dtype)

    def _reset_parameters(self):
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """True in a bool mask excludes a position."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise value_error(f"Transformer: expected {self.d_model} channels, not {src.shape[-1]} and {tgt.shape[-1]}")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)
        return self.decoder(tgt, memory, *masks)

    @staticmethod
    def generate_square_subsequent_mask(sz: Any, device: str | None = None, dtype: DTypeLike | None = None) -> Tensor:
        """A causal mask: -inf above the diagonal, zeros elsewhere.

        >>> tw.nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        after = _native.arange(sz).unsqueeze(0) > _native.arange(sz).unsqueeze(1)
        mask = _native.Tensor.where(after, float("-inf"), 0.0).astype("float32" if dtype is None else dtype)
        return mask if device is None else mask.to_device(device)


check(globals(), __all__)
