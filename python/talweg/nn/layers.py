"""Layers with PyTorch's signatures; what they compute is the Rust side's."""

from .. import _native
from .._native import Tensor
from .._checked import check, type_error, value_error
from .module import Module

__all__ = []


class _Layer(Module):
    """A module around a layer of the Rust side; its variables are attributes under their names."""

    _kind = None

    def _make(self, **settings):
        kind = self._kind or type(self).__name__
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_native", _native.Layer(kind, settings))
        names = {}
        for path, variable, _trained in self._native.state():
            names[path] = variable
        object.__setattr__(self, "_variables", names)

    def __getattr__(self, name):
        # Only what is not an attribute comes here: the layer's variables.
        variables = self.__dict__.get("_variables", {})
        if name in variables:
            return variables[name]
        if any(path.startswith(name + ".") for path in variables):
            return _Inner(self, name)
        if name == "bias" and variables:
            return None
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name, value):
        variables = self.__dict__.get("_variables", {})
        if name in variables:
            variables[name].assign(value)
            return
        super().__setattr__(name, value)

    def _own_state(self):
        yield from self._variables.items()
        yield from super()._own_state()

    def _set_mode(self, mode):
        self._native.train(mode)

    def forward(self, x):
        return self._native(x)[0]

    def extra_repr(self):
        return ", ".join(f"{k}={v!r}" for k, v in self._settings.items())

    def __reduce__(self):
        state = {name: v.detach() for name, v in self._variables.items()}
        own = {k: v for k, v in self.__dict__.items() if k not in ("_native", "_variables", "_settings")}
        return _restore, (type(self), self._settings, state, self.training), own


class _Inner:
    """A part of a layer, such as ``layer.self_attn``."""

    def __init__(self, layer, prefix):
        self._layer, self._prefix = layer, prefix

    def __getattr__(self, name):
        return getattr(self._layer, f"{self._prefix}.{name}")


def _restore(cls, settings, state, training):
    layer = cls.__new__(cls)
    layer._make(**settings)
    for name, value in state.items():
        layer._variables[name].assign(value)
    return layer.train(training)


def _public(cls):
    __all__.append(cls.__name__)
    return cls


@_public
class Linear(_Layer):
    """y = x Wᵀ + b on the last dimension.

    >>> import talweg as tw
    >>> tw.nn.Linear(4, 2)(tw.ones(3, 4)).shape
    (3, 2)
    """

    def __init__(self, in_features, out_features, bias=True):
        self._make(in_features=in_features, out_features=out_features, bias=bias)
        self.in_features, self.out_features = in_features, out_features


@_public
class QuantizedLinear(Module):
    """A trained ``Linear`` with a weight of 8-bit integers and a scale for each output, for inference: a quarter of
    the memory, and on processors that multiply bytes several times as fast. Each row of x is quantized as it comes.

    >>> import talweg as tw
    >>> tw.nn.QuantizedLinear(tw.nn.Linear(4, 2))(tw.ones(3, 4)).shape
    (3, 2)
    """

    def __init__(self, linear):
        weight, scale = linear.weight.detach().quantize(-1)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.bias = None
        if linear.bias is not None:
            self.register_buffer("bias", linear.bias.detach())

    def forward(self, x):
        return x.quantized_linear(self.weight, self.scale, self.bias)


@_public
class Embedding(_Layer):
    """Row i of a table for each whole number i.

    >>> import talweg as tw
    >>> tw.nn.Embedding(10, 4)(tw.tensor([[1, 2], [3, 4]])).shape
    (2, 2, 4)
    """

    def __init__(self, num_embeddings, embedding_dim):
        self._make(num_embeddings=num_embeddings, embedding_dim=embedding_dim)


@_public
class Dropout(_Layer):
    """Sets elements to zero with probability ``p``, in training only.

    >>> import talweg as tw
    >>> tw.nn.Dropout(0.5).eval()(tw.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p=0.5):
        if not 0.0 <= p < 1.0:
            raise value_error(f"Dropout: p must be at least 0 and less than 1, not {p}")
        self._make(p=p)


@_public
class Flatten(_Layer):
    """Several dimensions as one.

    >>> import talweg as tw
    >>> tw.nn.Flatten()(tw.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim=1, end_dim=-1):
        self._make(start_dim=start_dim, end_dim=end_dim)


def _convolution(name, doc):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True
    ):
        self._make(
            in_channels=in_channels,
            out_channels=out_channels,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    return _public(type(name, (_Layer,), {"__init__": __init__, "__doc__": doc, "__module__": __name__}))


Conv1d = _convolution("Conv1d", "Convolution of signals ``[N, C, L]``.")
Conv2d = _convolution("Conv2d", "Convolution of pictures ``[N, C, H, W]``.")
Conv3d = _convolution("Conv3d", "Convolution of volumes ``[N, C, D, H, W]``.")


def _transposed(name, doc):
    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
    ):
        self._make(
            in_channels=in_channels,
            out_channels=out_channels,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    return _public(type(name, (_Layer,), {"__init__": __init__, "__doc__": doc, "__module__": __name__}))


ConvTranspose1d = _transposed("ConvTranspose1d", "Transposed convolution of signals.")
ConvTranspose2d = _transposed("ConvTranspose2d", "Transposed convolution of pictures.")
ConvTranspose3d = _transposed("ConvTranspose3d", "Transposed convolution of volumes.")


def _max_pool(name):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        self._make(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)

    return _public(type(name, (_Layer,), {"__init__": __init__, "__doc__": "The largest element of each window.", "__module__": __name__}))


def _avg_pool(name):
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        self._make(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )

    return _public(type(name, (_Layer,), {"__init__": __init__, "__doc__": "The mean of each window.", "__module__": __name__}))


def _adaptive(name):
    def __init__(self, output_size):
        self._make(output_size=output_size)

    doc = "As many windows as asked for."
    return _public(type(name, (_Layer,), {"__init__": __init__, "__doc__": doc, "__module__": __name__}))


MaxPool1d, MaxPool2d, MaxPool3d = map(_max_pool, ["MaxPool1d", "MaxPool2d", "MaxPool3d"])
AvgPool1d, AvgPool2d, AvgPool3d = map(_avg_pool, ["AvgPool1d", "AvgPool2d", "AvgPool3d"])
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = map(
    _adaptive, ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"]
)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = map(
    _adaptive, ["AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d"]
)


@_public
class LayerNorm(_Layer):
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.LayerNorm(4)(tw.randn(2, 4)).shape
    (2, 4)
    """

    def __init__(self, normalized_shape, eps=1e-5, bias=True):
        self._make(normalized_shape=normalized_shape, eps=eps, bias=bias)


@_public
class RMSNorm(_Layer):
    """Divided by the root of the mean square over the last dimensions, then scaled.

    >>> import talweg as tw
    >>> tw.nn.RMSNorm(4)(tw.randn(2, 4)).shape
    (2, 4)
    """

    def __init__(self, normalized_shape, eps=1e-6):
        self._make(normalized_shape=normalized_shape, eps=eps)


@_public
class GroupNorm(_Layer):
    """Mean 0 and variance 1 over groups of channels, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.GroupNorm(2, 4)(tw.randn(3, 4, 5)).shape
    (3, 4, 5)
    """

    def __init__(self, num_groups, num_channels, eps=1e-5):
        self._make(num_groups=num_groups, num_channels=num_channels, eps=eps)


class _BatchNorm(_Layer):
    """Batch normalization of channels at axis 1."""

    _kind = "BatchNorm"

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        self._make(num_features=num_features, eps=eps, momentum=momentum)


@_public
class BatchNorm1d(_BatchNorm):
    """Batch normalization of ``[N, C]`` or ``[N, C, L]``.

    >>> import talweg as tw
    >>> tw.nn.BatchNorm1d(4)(tw.randn(3, 4)).shape
    (3, 4)
    """


@_public
class BatchNorm2d(_BatchNorm):
    """Batch normalization of ``[N, C, H, W]``.

    >>> import talweg as tw
    >>> tw.nn.BatchNorm2d(4)(tw.randn(3, 4, 5, 5)).shape
    (3, 4, 5, 5)
    """


@_public
class BatchNorm3d(_BatchNorm):
    """Batch normalization of ``[N, C, D, H, W]``.

    >>> import talweg as tw
    >>> tw.nn.BatchNorm3d(4)(tw.randn(3, 4, 2, 2, 2)).shape
    (3, 4, 2, 2, 2)
    """


class _Recurrent(_Layer):
    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0.0,
        bidirectional=False,
    ):
        self._make(
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
        )

    def forward(self, x, state=None, lengths=None):
        """The visible state at every step, and the last state.

        With ``lengths`` of sequences that are filled up at the end, results behind a sequence's end are zero, and
        its last state is that of its own last step: PyTorch's packed sequences, in any order.
        """
        given = [] if state is None else [state] if isinstance(state, Tensor) else list(state)
        y, *last = self._native(x, *given, lengths=lengths)
        return y, last[0] if len(last) == 1 else tuple(last)


@_public
class RNN(_Recurrent):
    """Elman's recurrent network.

    >>> import talweg as tw
    >>> y, h = tw.nn.RNN(3, 4)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """


@_public
class LSTM(_Recurrent):
    """Long short-term memory; the state is the pair (h, c).

    >>> import talweg as tw
    >>> y, (h, c) = tw.nn.LSTM(3, 4, batch_first=True)(tw.randn(2, 5, 3))
    >>> y.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))
    """


@_public
class GRU(_Recurrent):
    """Gated recurrent units.

    >>> import talweg as tw
    >>> y, h = tw.nn.GRU(3, 4, bidirectional=True)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    ((5, 2, 8), (2, 2, 4))
    """


def _check_batch_first(layer, batch_first):
    if batch_first is not True:
        raise value_error(f"{type(layer).__name__}: the batch is always the first axis here, [N, L, E]; batch_first must be True")


@_public
class MultiheadAttention(_Layer):
    """Attention with several heads on ``[N, L, E]``.

    >>> import talweg as tw
    >>> x = tw.randn(2, 5, 8)
    >>> tw.nn.MultiheadAttention(8, 2)(x, x, x, is_causal=True).shape
    (2, 5, 8)
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, *, batch_first=True):
        _check_batch_first(self, batch_first)
        self._make(embed_dim=embed_dim, num_heads=num_heads, dropout=dropout)

    def forward(self, query, key, value, attn_mask=None, is_causal=False, *, key_lengths=None):
        """``attn_mask``: true (or 0) takes part; PyTorch's bool masks say the opposite. ``key_lengths [N]``: how many
        keys of each sequence count."""
        return self._native(query, key, value, mask=attn_mask, causal=is_causal, lengths=key_lengths)[0]


class _Transformer(_Layer):
    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", *, norm_first=False, batch_first=True
    ):
        _check_batch_first(self, batch_first)
        self._make(
            d_model=d_model,
            nhead=nhead,
            dim_feedforward=dim_feedforward,
            dropout=dropout,
            activation=activation,
            norm_first=norm_first,
        )


class _Stack(_Layer):
    def _stack(self, layer, kind, num_layers, norm):
        if not isinstance(layer, kind):
            raise type_error(f"{type(self).__name__}: expected a {kind.__name__}, not {type(layer).__name__}")
        if norm is not None and not isinstance(norm, LayerNorm):
            raise type_error(f"{type(self).__name__}: norm is a LayerNorm or None, not {type(norm).__name__}")
        self._make(**layer._settings, num_layers=num_layers, norm=norm is not None)
        # As in PyTorch, all layers begin as copies of the one that was given.
        for path, variable in self._variables.items():
            part, _, rest = path.partition(".")
            if part == "layers":
                variable.assign(layer._variables[rest.partition(".")[2]].detach())
            elif norm is not None:
                variable.assign(norm._variables[rest].detach())


def _encode(self, src, mask=None, is_causal=False, *, src_lengths=None):
    return self._native(src, mask=mask, causal=is_causal, lengths=src_lengths)[0]


def _decode(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_is_causal=False, *, tgt_lengths=None, memory_lengths=None):
    masks = {"mask": tgt_mask, "memory_mask": memory_mask, "lengths": tgt_lengths, "memory_lengths": memory_lengths}
    return self._native(tgt, memory, causal=tgt_is_causal, **masks)[0]


@_public
class TransformerEncoderLayer(_Transformer):
    """Attention and a two-layer network, each with a residual and a normalization.

    >>> import talweg as tw
    >>> tw.nn.TransformerEncoderLayer(8, 2, 16)(tw.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    forward = _encode


@_public
class TransformerEncoder(_Stack):
    """Encoder layers on top of each other, copies of the one that is given.

    >>> import talweg as tw
    >>> layer = tw.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> tw.nn.TransformerEncoder(layer, 3)(tw.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(self, encoder_layer, num_layers, norm=None):
        self._stack(encoder_layer, TransformerEncoderLayer, num_layers, norm)

    forward = _encode


@_public
class TransformerDecoderLayer(_Transformer):
    """Attention to itself, attention to a memory, and a two-layer network.

    >>> import talweg as tw
    >>> x = tw.randn(2, 5, 8)
    >>> tw.nn.TransformerDecoderLayer(8, 2, 16)(x, x, tgt_is_causal=True).shape
    (2, 5, 8)
    """

    forward = _decode


@_public
class TransformerDecoder(_Stack):
    """Decoder layers on top of each other, copies of the one that is given, all with the same memory.

    >>> import talweg as tw
    >>> layer = tw.nn.TransformerDecoderLayer(8, 2, 16)
    >>> tw.nn.TransformerDecoder(layer, 2)(tw.randn(2, 5, 8), tw.randn(2, 7, 8)).shape
    (2, 5, 8)
    """

    def __init__(self, decoder_layer, num_layers, norm=None):
        self._stack(decoder_layer, TransformerDecoderLayer, num_layers, norm)

    forward = _decode


@_public
class GCN(_Layer):
    """Graph convolution of nodes ``[N, inputs]`` along edges ``[2, E]``.

    >>> import talweg as tw
    >>> tw.nn.GCN(3, 4)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    (3, 4)
    """

    def __init__(self, in_channels, out_channels):
        self._make(in_channels=in_channels, out_channels=out_channels)

    def forward(self, x, edges):
        return self._native(x, edges)[0]


@_public
class GAT(_Layer):
    """Graph attention; ``concat`` puts the heads side by side, else they are averaged.

    >>> import talweg as tw
    >>> tw.nn.GAT(3, 4, heads=2)(tw.randn(3, 3), tw.tensor([[0, 1], [1, 2]])).shape
    (3, 8)
    """

    def __init__(self, in_channels, out_channels, heads=1, concat=True):
        self._make(in_channels=in_channels, out_channels=out_channels, heads=heads, concat=concat)

    forward = GCN.forward


@_public
class Identity(Module):
    """What comes in.

    >>> import talweg as tw
    >>> tw.nn.Identity()(tw.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x):
        return x


def _function(name, op, **defaults):
    """A function of one tensor as a module; its settings are the op's."""
    call = getattr(Tensor, op)

    def __init__(self, *args, **kwargs):
        if len(args) > len(defaults) or set(kwargs) - set(defaults):
            raise type_error(f"{name} takes {sorted(defaults)}")
        settings = {**defaults, **dict(zip(defaults, args)), **kwargs}
        object.__setattr__(self, "_settings", settings)

    def forward(self, x):
        return call(x, *self._settings.values())

    def extra_repr(self):
        return ", ".join(f"{k}={v!r}" for k, v in self._settings.items())

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__module__": __name__}
    body["__doc__"] = getattr(call, "__doc__", None) or f"The function {op} as a module."
    return _public(type(name, (Module,), body))


ReLU = _function("ReLU", "relu")
ReLU6 = _function("ReLU6", "relu6")
GELU = _function("GELU", "gelu")
SiLU = _function("SiLU", "silu")
Mish = _function("Mish", "mish")
ELU = _function("ELU", "elu", alpha=1.0)
CELU = _function("CELU", "celu", alpha=1.0)
SELU = _function("SELU", "selu")
LeakyReLU = _function("LeakyReLU", "leaky_relu", negative_slope=0.01)
Tanh = _function("Tanh", "tanh")
Sigmoid = _function("Sigmoid", "sigmoid")
LogSigmoid = _function("LogSigmoid", "log_sigmoid")
Softplus = _function("Softplus", "softplus", beta=1.0, threshold=20.0)
Softsign = _function("Softsign", "softsign")
Softshrink = _function("Softshrink", "softshrink", lambd=0.5)
Hardshrink = _function("Hardshrink", "hardshrink", lambd=0.5)
Tanhshrink = _function("Tanhshrink", "tanhshrink")
Hardtanh = _function("Hardtanh", "hardtanh", min_val=-1.0, max_val=1.0)
Hardsigmoid = _function("Hardsigmoid", "hardsigmoid")
Hardswish = _function("Hardswish", "hardswish")
Softmax = _function("Softmax", "softmax", dim=-1)
LogSoftmax = _function("LogSoftmax", "log_softmax", dim=-1)
Softmin = _function("Softmin", "softmin", dim=-1)
PixelShuffle = _function("PixelShuffle", "pixel_shuffle", upscale_factor=2)
PixelUnshuffle = _function("PixelUnshuffle", "pixel_unshuffle", downscale_factor=2)

check(globals(), __all__)
