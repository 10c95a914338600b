"""Layers with quantized weights."""

# mypy: ignore-errors
import numpy as np

import talweg as tw
from .. import _native
from .._checked import value_error
from ..nn.module import Module

BLOCK = 32


def q8_0(weight):
    """Rows in blocks of 32: a 16-bit scale and 32 signed bytes each, as GGUF has them."""
    blocks = weight.reshape(weight.shape[0], -1, BLOCK).astype(np.float32)
    scale = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16)
    by = scale.astype(np.float32)
    q = np.rint(np.divide(blocks, by, out=np.zeros_like(blocks), where=by != 0)).clip(-127, 127).astype(np.int8)
    return np.concatenate([scale.view(np.uint8), q.view(np.uint8)], -1).reshape(weight.shape[0], -1)


def q4_0(weight):
    """Rows in blocks of 32: a 16-bit scale and 32 numbers of 4 bits each, as GGUF has them."""
    blocks = weight.reshape(weight.shape[0], -1, BLOCK).astype(np.float32)
    # The number of greatest magnitude becomes -8.
    at = np.abs(blocks).argmax(-1)[..., None]
    scale = (np.take_along_axis(blocks, at, -1) / -8).astype(np.float16)
    by = scale.astype(np.float32)
    q = np.divide(blocks, by, out=np.zeros_like(blocks), where=by != 0)
    q = np.floor(q + 8.5).clip(0, 15).astype(np.uint8)
    packed = q[..., :16] | (q[..., 16:] << 4)
    return np.concatenate([scale.view(np.uint8), packed], -1).reshape(weight.shape[0], -1)


_FORMATS = {"q8_0": q8_0, "q4_0": q4_0}


class BlockLinear(Module):
    """A trained ``Linear`` whose weight stays in blocks of 32 numbers of 8 or 4 bits, which one scale belongs to. With
    ``int8`` inputs are rounded to 8 bits on the way.

    >>> tw.compression.BlockLinear(tw.nn.Linear(32, 4), "q8_0")(tw.ones(3, 32)).shape
    talweg.Size([3, 4])
    """

    def __init__(self, linear, format="q8_0", int8=False):
        super().__init__()
        weight = linear.weight.detach().numpy()
        if format not in _FORMATS:
            raise value_error(f"BlockLinear: there is no format {format!r}; there are {sorted(_FORMATS)}")
        if weight.shape[1] % BLOCK:
            raise value_error(f"BlockLinear: {weight.shape[1]} inputs are no multiple of {BLOCK}")
        self.format, self.int8 = format, int8
        self.register_buffer("weight", tw.tensor(_FORMATS[format](weight)))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x):
        by = dict(format=self.format, int8=self.int8, interleaved=False)
        y = _native.apply_row("quantized_matmul", [x, self.weight], by)[0]
        return y if self.bias is None else y + self.bias


def quantized(x, step, is_unsigned):
    """x in steps: those of bytes without a sign where nothing is negative, so that none is wasted."""
    return _native.apply_row("quantize_static", [x], dict(step=step, dtype=tw.uint8 if is_unsigned else tw.int8))[0]


class StaticLinear(Module):
    """A trained ``Linear`` in 8-bit integers with one scale for all inputs, found by calibration. With ``is_unsigned``,
    inputs below zero count as zero.

    >>> layer = tw.compression.StaticLinear(tw.nn.Linear(4, 2), 2.0)
    >>> layer(tw.ones(3, 4)).shape
    talweg.Size([3, 2])
    """

    def __init__(self, linear, most, mean=None, is_unsigned=False):
        super().__init__()
        weight, scale = linear.weight.detach().quantize(-1)
        self.is_unsigned = is_unsigned
        self.step = max(float(most), 1e-12) / (255 if is_unsigned else 127)
        self.register_buffer("weight", weight.t().contiguous())
        self.register_buffer("scale", scale.reshape(-1))
        bias = tw.zeros(linear.out_features) if linear.bias is None else linear.bias.detach()
        if mean is not None:
            # Rounding of weights moves the mean of the outputs; the bias moves it back.
            lost = linear.weight.detach() - weight.to(tw.float32) * scale
            bias = bias + lost @ mean
        self.register_buffer("bias", bias)

    def forward(self, x):
        q = quantized(x, self.step, self.is_unsigned)
        return _native.apply_row("static_linear", [q, self.weight, self.scale, self.bias], dict(step=self.step))[0]


class StaticConv(Module):
    """A trained ``Conv1d``, ``Conv2d`` or ``Conv3d`` in 8-bit integers: one scale for all inputs, found by calibration,
    one for each output channel of the weight. It computes with channels last; elementwise layers between two of them
    need no copies.

    >>> layer = tw.compression.StaticConv(tw.nn.Conv2d(3, 4, 3), 2.0)
    >>> layer(tw.ones(1, 3, 8, 8)).shape
    talweg.Size([1, 4, 6, 6])
    """

    def __init__(self, conv, most, mean=None, is_unsigned=False):
        super().__init__()
        if getattr(conv, "padding_mode", None) != "zeros" or conv._is_transposed:
            raise value_error(f"StaticConv: expected a convolution padded with zeros, not {conv!r}")
        self.rank, self.groups = conv._rank, conv.groups
        weight = conv.weight.detach()
        flat, scale = weight.reshape((weight.shape[0], -1)).quantize(-1)
        self.is_unsigned = is_unsigned
        self.step = max(float(most), 1e-12) / (255 if is_unsigned else 127)
        widths = conv._widths()[::-1]
        self.settings = dict(
            stride=list(conv.stride), padding_lo=widths[1::2], padding_hi=widths[::2], dilation=list(conv.dilation),
            groups=conv.groups, step=self.step,
        )  # fmt: skip
        self.register_buffer("weight", flat.reshape(weight.shape))
        self.register_buffer("scale", scale.reshape(-1))
        bias = tw.zeros(conv.out_channels) if conv.bias is None else conv.bias.detach()
        if mean is not None:
            # As in a linear layer, as if windows lay inside.
            lost = weight - flat.reshape(weight.shape).to(tw.float32) * scale.reshape((-1,) + (1,) * (weight.ndim - 1))
            lost = lost.sum(tuple(range(2, weight.ndim))).reshape((conv.groups, -1, weight.shape[1]))
            bias = bias + (lost @ mean.reshape((conv.groups, -1, 1))).reshape(-1)
        self.register_buffer("bias", bias)

    def forward(self, x):
        if x.ndim == self.rank + 1:
            return self.forward(x.unsqueeze(0)).squeeze(0)
        return self._products(quantized(x, self.step, self.is_unsigned))

    def _products(self, q):
        """The result for an input in steps."""
        return _native.apply_row("static_conv", [q, self.weight, self.scale, self.bias], self.settings)[0]

    def extra_repr(self):
        outputs, inputs = self.weight.shape[0], self.weight.shape[1] * self.groups
        return f"{inputs}, {outputs}, kernel_size={tuple(self.weight.shape[2:])}, step={self.step:.4g}"


class Fp8Linear(Module):
    """A trained ``Linear`` whose weight is kept in 8-bit floats (``float8_e4m3fn``), with one scale for each output. It
    computes in the type of its input.

    >>> tw.compression.Fp8Linear(tw.nn.Linear(4, 2))(tw.ones(3, 4)).shape
    talweg.Size([3, 2])
    """

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach().float()
        # The largest number of the type is 448.
        scale = (weight.abs().amax(1) / 448).clamp(min=1e-30)
        self.register_buffer("weight", (weight / scale.unsqueeze(1)).to(tw.float8_e4m3fn))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x):
        y = x @ self.weight.to(x.dtype).t() * self.scale.to(x.dtype)
        return y if self.bias is None else y + self.bias

    def extra_repr(self):
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


class Int8Embedding(Module):
    """A trained ``Embedding`` in 8-bit integers, with one scale for each row.

    >>> tw.compression.Int8Embedding(tw.nn.Embedding(10, 4))(tw.tensor([1, 2])).shape
    talweg.Size([2, 4])
    """

    def __init__(self, embedding):
        super().__init__()
        if embedding.max_norm is not None:
            raise value_error("Int8Embedding: an embedding with max_norm changes its table; it cannot be quantized")
        weight, scale = embedding.weight.detach().quantize(-1)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.reshape(-1, 1))

    def forward(self, ids):
        return self.weight[ids].to(self.scale.dtype) * self.scale[ids]

    def extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"
