"""Convolutions, pooling, windows."""

import math

from ..._checked import check, type_error, value_error
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import UninitializedParameter
from .common import parameter, placed, shown, size, window
from .linear import LazyModule

__all__ = ["Fold", "Unfold"]


def _public(cls):
    __all__.append(cls.__name__)
    return cls


class _ConvNd(Module):
    """A convolution of ``_rank`` dimensions."""

    _rank = 0
    _is_transposed = False

    def _settings(self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, padding_mode):
        name, n = type(self).__name__, self._rank
        self.groups = size(self, "groups", groups, 1)
        self.in_channels, self.out_channels = size(self, "in_channels", in_channels), size(self, "out_channels", out_channels)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise value_error(f"{name}: {groups} groups do not divide {in_channels} inputs and {out_channels} outputs")
        self.kernel_size = window(self, "kernel_size", kernel_size, n, 1)
        self.stride, self.dilation = window(self, "stride", stride, n, 1), window(self, "dilation", dilation, n, 1)
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise value_error(f"{name}: padding is a size, 'valid' or 'same', not {padding!r}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise value_error(f"{name}: padding='same' needs stride 1")
            self.padding = padding
        else:
            self.padding = window(self, "padding", padding, n)
        self.output_padding = window(self, "output_padding", output_padding, n)
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise value_error(f"{name}: padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not {padding_mode!r}")
        self.padding_mode = padding_mode

    def _make(self, bias):
        g, pair = self.groups, (self.out_channels, self.in_channels)
        first, second = pair[::-1] if self._is_transposed else pair
        self.weight = parameter(first, second // g, *self.kernel_size)
        self.register_parameter("bias", parameter(self.out_channels) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform in ±1/√fan_in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def _widths(self):
        """Padding of each edge, last dimension first."""
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            pairs = [(t // 2, t - t // 2) for t in totals]
        else:
            pairs = [(p, p) for p in ((0,) * self._rank if self.padding == "valid" else self.padding)]
        return [w for pair in reversed(pairs) for w in pair]

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._widths(), self.padding_mode), 0
        conv = getattr(F, f"conv{self._rank}d")
        return conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else text + f", padding_mode={self.padding_mode}"


def _named(base, name, rank, doc, **body):
    made = type(name, base, {"_rank": rank, "__doc__": doc, "__module__": __name__, **body})
    return _public(made)


def _conv(rank, what):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        Module.__init__(self)
        self._settings(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, padding_mode)
        self._make(bias)
        placed(self, device, dtype)

    return _named((_ConvNd,), f"Conv{rank}d", rank, f"Convolution of {what}.", __init__=__init__)


Conv1d = _conv(1, "signals ``[N, C, L]``")
Conv2d = _conv(2, "pictures ``[N, C, H, W]``")
Conv3d = _conv(3, "volumes ``[N, C, D, H, W]``")


class _ConvTransposeNd(_ConvNd):
    _is_transposed = True

    def forward(self, input, output_size=None):
        """With ``output_size``, the output padding is what makes the result so large."""
        extra = self.output_padding if output_size is None else self._output_padding(input, output_size)
        conv = getattr(F, f"conv_transpose{self._rank}d")
        return conv(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _output_padding(self, input, output_size):
        n = self._rank
        wanted = tuple(output_size)[-n:]
        places = zip(input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size)
        least = [(s - 1) * t - 2 * p + d * (k - 1) + 1 for s, t, p, d, k in places]
        extra = tuple(w - m for w, m in zip(wanted, least))
        if any(not 0 <= e < t for e, t in zip(extra, self.stride)):
            raise value_error(f"{type(self).__name__}: output_size {wanted} is not between {tuple(least)} and the next stride")
        return extra


def _conv_transpose(rank, what):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        Module.__init__(self)
        name = type(self).__name__
        if padding_mode != "zeros":
            raise value_error(f"{name}: padding_mode is 'zeros' for transposed convolutions, not {padding_mode!r}")
        if isinstance(padding, str):
            raise type_error(f"{name}: padding is a size, not {padding!r}")
        self._settings(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, "zeros")
        self._make(bias)
        placed(self, device, dtype)

    doc = f"Transposed convolution of {what}."
    return _named((_ConvTransposeNd,), f"ConvTranspose{rank}d", rank, doc, __init__=__init__)


ConvTranspose1d = _conv_transpose(1, "signals")
ConvTranspose2d = _conv_transpose(2, "pictures")
ConvTranspose3d = _conv_transpose(3, "volumes")


class _LazyConv(LazyModule):
    def _lazy(self, settings, bias, device, dtype):
        Module.__init__(self)
        groups = settings[-2]
        self._settings(groups if isinstance(groups, int) else 1, *settings)
        self.in_channels = 0
        self.weight = UninitializedParameter()
        self.register_parameter("bias", UninitializedParameter() if bias else None)
        self.__dict__["_place"] = (device, dtype)

    def initialize_parameters(self, input, *_args, **_kwargs):
        """Makes the parameters for an input."""
        self.in_channels = input.shape[input.ndim - self._rank - 1]
        if self.in_channels % self.groups:
            raise value_error(f"{type(self).__name__}: {self.groups} groups do not divide {self.in_channels} inputs")
        has_bias = self.bias is not None
        self._make(has_bias)


def _lazy_conv(rank, cls):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
        device=None, dtype=None,
    ):  # fmt: skip
        self._lazy((out_channels, kernel_size, stride, padding, dilation, 0, groups, padding_mode), bias, device, dtype)

    doc = f"A ``Conv{rank}d`` whose ``in_channels`` are those of its first input."
    return _named((_LazyConv, cls), f"LazyConv{rank}d", rank, doc, __init__=__init__, cls_to_become=cls)


def _lazy_conv_transpose(rank, cls):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        settings = (out_channels, kernel_size, stride, padding, dilation, output_padding, groups, padding_mode)
        self._lazy(settings, bias, device, dtype)

    doc = f"A ``ConvTranspose{rank}d`` whose ``in_channels`` are those of its first input."
    return _named((_LazyConv, cls), f"LazyConvTranspose{rank}d", rank, doc, __init__=__init__, cls_to_become=cls)


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy_conv(n, c) for n, c in [(1, Conv1d), (2, Conv2d), (3, Conv3d)])
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy_conv_transpose(n, c) for n, c in [(1, ConvTranspose1d), (2, ConvTranspose2d), (3, ConvTranspose3d)]
)


class _Pool(Module):
    """A pooling layer: its settings are the function's arguments."""

    _names = ()

    def extra_repr(self):
        return shown(**{n: getattr(self, n) for n in self._names})


def _max_pool(rank):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        Module.__init__(self)
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        window(self, "kernel_size", kernel_size, rank, 1), window(self, "stride", self.stride, rank, 1)
        window(self, "padding", padding, rank), window(self, "dilation", dilation, rank, 1)
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    pool = getattr(F, f"max_pool{rank}d")

    def forward(self, input):
        return pool(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

    doc = "The largest element of each window; with ``return_indices`` also where it is."
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    return _named((_Pool,), f"MaxPool{rank}d", rank, doc, __init__=__init__, forward=forward, _names=names)


def _max_unpool(rank):
    def __init__(self, kernel_size, stride=None, padding=0):
        Module.__init__(self)
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        window(self, "kernel_size", kernel_size, rank, 1), window(self, "stride", self.stride, rank, 1)
        window(self, "padding", padding, rank)

    pool = getattr(F, f"max_unpool{rank}d")

    def forward(self, input, indices, output_size=None):
        return pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    doc = "Elements back at the places that ``MaxPool`` with ``return_indices`` has taken them from."
    names = ("kernel_size", "stride", "padding")
    return _named((_Pool,), f"MaxUnpool{rank}d", rank, doc, __init__=__init__, forward=forward, _names=names)


def _avg_pool(rank):
    pool = getattr(F, f"avg_pool{rank}d")

    def keep(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
        Module.__init__(self)
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        window(self, "kernel_size", kernel_size, rank, 1), window(self, "stride", self.stride, rank, 1)
        window(self, "padding", padding, rank)
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def init1(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        stride = kernel_size if stride is None else stride
        sizes = [(n,) if isinstance(n, int) else n for n in (kernel_size, stride, padding)]
        keep(self, *sizes, ceil_mode, count_include_pad)

    def init(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        keep(self, kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input):
        divisor = () if rank == 1 else (self.divisor_override,)
        return pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, *divisor)

    made = init1 if rank == 1 else init
    made.__name__ = "__init__"
    names = ("kernel_size", "stride", "padding")
    doc = "The mean of each window."
    return _named((_Pool,), f"AvgPool{rank}d", rank, doc, __init__=made, forward=forward, _names=names)


def _lp_pool(rank):
    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        Module.__init__(self)
        window(self, "kernel_size", kernel_size, rank, 1)
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    pool = getattr(F, f"lp_pool{rank}d")

    def forward(self, input):
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    names = ("norm_type", "kernel_size", "stride", "ceil_mode")
    doc = "The p-th root of the sum of p-th powers of each window."
    return _named((_Pool,), f"LPPool{rank}d", rank, doc, __init__=__init__, forward=forward, _names=names)


def _fractional(rank):
    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        Module.__init__(self)
        window(self, "kernel_size", kernel_size, rank, 1)
        if (output_size is None) == (output_ratio is None):
            raise value_error(f"FractionalMaxPool{rank}d: give output_size or output_ratio")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices, self._random_samples = return_indices, _random_samples

    pool = getattr(F, f"fractional_max_pool{rank}d")

    def forward(self, input):
        settings = (self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return pool(input, self.kernel_size, *settings)

    names = ("kernel_size", "output_size", "output_ratio", "return_indices")
    doc = "The largest element of windows at random places."
    return _named((_Pool,), f"FractionalMaxPool{rank}d", rank, doc, __init__=__init__, forward=forward, _names=names)


def _checked_output(layer, output_size, rank):
    values = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(values) != rank:
        raise value_error(f"{type(layer).__name__}: output_size has {len(values)} sizes, not {rank}")
    for v in values:
        if v is not None:
            size(layer, "output_size", v)


def _adaptive_avg(rank):
    def __init__(self, output_size):
        Module.__init__(self)
        _checked_output(self, output_size, rank)
        self.output_size = output_size

    pool = getattr(F, f"adaptive_avg_pool{rank}d")

    def forward(self, input):
        return pool(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"

    doc = "Means of as many windows as asked for."
    body = dict(__init__=__init__, forward=forward, extra_repr=extra_repr)
    return _named((_Pool,), f"AdaptiveAvgPool{rank}d", rank, doc, **body)


def _adaptive_max(rank):
    def __init__(self, output_size, return_indices=False):
        Module.__init__(self)
        _checked_output(self, output_size, rank)
        self.output_size, self.return_indices = output_size, return_indices

    pool = getattr(F, f"adaptive_max_pool{rank}d")

    def forward(self, input):
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self):
        return f"output_size={self.output_size}"

    doc = "The largest elements of as many windows as asked for."
    body = dict(__init__=__init__, forward=forward, extra_repr=extra_repr)
    return _named((_Pool,), f"AdaptiveMaxPool{rank}d", rank, doc, **body)


MaxPool1d, MaxPool2d, MaxPool3d = map(_max_pool, (1, 2, 3))
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = map(_max_unpool, (1, 2, 3))
AvgPool1d, AvgPool2d, AvgPool3d = map(_avg_pool, (1, 2, 3))
FractionalMaxPool2d, FractionalMaxPool3d = map(_fractional, (2, 3))
LPPool1d, LPPool2d, LPPool3d = map(_lp_pool, (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = map(_adaptive_avg, (1, 2, 3))
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = map(_adaptive_max, (1, 2, 3))


class Unfold(_Pool):
    """Windows of pictures as columns.

    >>> import talweg as tw
    >>> tw.nn.Unfold(2, stride=2)(tw.ones(1, 3, 4, 4)).shape
    talweg.Size([1, 12, 4])
    """

    _names = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        window(self, "kernel_size", kernel_size, 2, 1), window(self, "dilation", dilation, 2, 1)
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Pool):
    """Columns added up to pictures.

    >>> import talweg as tw
    >>> tw.nn.Fold((4, 4), 2, stride=2)(tw.ones(1, 12, 4)).shape
    talweg.Size([1, 3, 4, 4])
    """

    _names = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        window(self, "output_size", output_size, 2), window(self, "kernel_size", kernel_size, 2, 1)
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


check(globals(), __all__)
