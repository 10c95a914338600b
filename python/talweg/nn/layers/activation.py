"""Activations, dropout and softmax as modules: each holds the settings of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._checked import check, value_error
from .. import functional as F
from ..init import constant_
from ..module import Module
from .common import Function, parameter, placed, probability, shown

if TYPE_CHECKING:
    from typing import Any

    from ... import DTypeLike, Tensor

__all__ = [
    "AlphaDropout", "CELU", "ChannelShuffle", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU",
    "FeatureAlphaDropout", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "PixelShuffle", "PixelUnshuffle", "RReLU", "ReLU", "ReLU6", "SELU",
    "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(Function):
    def forward(self, input: Tensor) -> Tensor:
        return self._of(input)


class ReLU(_Activation, of=F.relu):
    """max(x, 0), elementwise."""

    inplace: bool = False


class ReLU6(_Activation, of=F.relu6):
    """x held in [0, 6], elementwise; the derivative at the ends is 0."""

    inplace: bool = False


class SELU(_Activation, of=F.selu):
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer."""

    inplace: bool = False


class SiLU(_Activation, of=F.silu):
    """x sigmoid(x), elementwise; also known as swish."""

    inplace: bool = False


class Mish(_Activation, of=F.mish):
    """x tanh(softplus(x)), elementwise."""

    inplace: bool = False


class Hardsigmoid(_Activation, of=F.hardsigmoid):
    """(x + 3) / 6 held in [0, 1], elementwise."""

    inplace: bool = False


class Hardswish(_Activation, of=F.hardswish):
    """x times (x + 3) / 6 held in [0, 1], elementwise."""

    inplace: bool = False


class ELU(_Activation, of=F.elu):
    """x, and alpha (exp(x) - 1) below zero."""

    alpha: float = 1.0
    inplace: bool = False


class CELU(_Activation, of=F.celu):
    """x, and alpha (exp(x / alpha) - 1) below zero."""

    alpha: float = 1.0
    inplace: bool = False


class LeakyReLU(_Activation, of=F.leaky_relu):
    """x, and ``negative_slope`` x below zero."""

    negative_slope: float = 0.01
    inplace: bool = False


class Hardtanh(_Activation, of=F.hardtanh):
    """x between ``min_val`` and ``max_val``."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


class Threshold(_Activation, of=F.threshold):
    """x where it is above ``threshold``, else ``value``."""

    threshold: float
    value: Any
    inplace: bool = False


class GELU(_Activation, of=F.gelu):
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""

    approximate: str = "none"


class GLU(_Activation, of=F.glu):
    """The first half of a dimension times the sigmoid of the second."""

    dim: int | None = -1


class Tanh(_Activation, of=F.tanh):
    """Hyperbolic tangent, elementwise."""


class Sigmoid(_Activation, of=F.sigmoid):
    """1 / (1 + exp(-x)), elementwise."""


class LogSigmoid(_Activation, of=F.logsigmoid):
    """log(sigmoid(x)) without overflow, elementwise."""


class Softsign(_Activation, of=F.softsign):
    """x / (1 + |x|), elementwise."""


class Tanhshrink(_Activation, of=F.tanhshrink):
    """x - tanh(x), elementwise."""


class Softplus(_Activation, of=F.softplus):
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""

    beta: float = 1.0
    threshold: float = 20.0


class Softshrink(_Activation, of=F.softshrink):
    """x moved towards zero by ``lambd``."""

    lambd: float = 0.5


class Hardshrink(_Activation, of=F.hardshrink):
    """x, and zero within ±``lambd``."""

    lambd: float = 0.5


class Softmax(_Activation, of=F.softmax):
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type."""

    dim: int | None = None


class Softmin(_Activation, of=F.softmin):
    """``softmax`` of -x."""

    dim: int | None = None


class LogSoftmax(_Activation, of=F.log_softmax):
    """The logarithm of ``softmax``."""

    dim: int | None = None


class PixelShuffle(_Activation, of=F.pixel_shuffle):
    """Depth-to-space: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``."""

    upscale_factor: int


class PixelUnshuffle(_Activation, of=F.pixel_unshuffle):
    """Space-to-depth: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``."""

    downscale_factor: int


class ChannelShuffle(_Activation, of=F.channel_shuffle):
    """Channels of several groups interleaved."""

    groups: int


class Softmax2d(Module):
    """``softmax`` over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise value_error(f"Softmax2d: expected 3 or 4 dimensions, not {input.ndim}")
        return F.softmax(input, -3)


class PReLU(Module):
    """A leaky ReLU whose slope is trained, one for all or one for each channel.

    >>> tw.nn.PReLU()(tw.tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(
        self, num_parameters: int = 1, init: Any = 0.25, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        # ``num_parameters`` is also the method that counts elements: here it is PyTorch's attribute.
        self.__dict__["num_parameters"] = num_parameters
        self.__dict__["init"] = init
        self.weight = parameter(num_parameters)
        self.reset_parameters()
        placed(self, device, dtype)

    def reset_parameters(self) -> None:
        """Resets the slopes."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.__dict__['num_parameters']}"


class RReLU(Module):
    """A leaky ReLU whose slope is drawn again for each element in training."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return shown(lower=self.lower, upper=self.upper)


class _DropoutNd(Module):
    _call = None

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p, self.inplace = probability(self, p), inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self)._call(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Sets elements to zero with probability ``p``, in training only.

    >>> tw.nn.Dropout(0.5).eval()(tw.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    _call = staticmethod(F.dropout)


class Dropout1d(_DropoutNd):
    """Sets whole channels ``[N, C, L]`` to zero."""

    _call = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """Sets whole channels ``[N, C, H, W]`` to zero."""

    _call = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """Sets whole channels ``[N, C, D, H, W]`` to zero."""

    _call = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """Dropout that preserves mean and variance of ``SELU`` outputs."""

    _call = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels."""

    _call = staticmethod(F.feature_alpha_dropout)


check(globals(), __all__)
