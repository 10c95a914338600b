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


class ReLU(Function):
    """max(x, 0), elementwise."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.relu, input)


class ReLU6(Function):
    """x held in [0, 6], elementwise; the slope at the ends is 0."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.relu6, input)


class SELU(Function):
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.selu, input)


class SiLU(Function):
    """x sigmoid(x), elementwise; also known as swish."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.silu, input)


class Mish(Function):
    """x tanh(softplus(x)), elementwise."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.mish, input)


class Hardsigmoid(Function):
    """(x + 3) / 6 held in [0, 1], elementwise."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.hardsigmoid, input)


class Hardswish(Function):
    """x times (x + 3) / 6 held in [0, 1], elementwise."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.hardswish, input)


class ELU(Function):
    """x, and alpha (exp(x) - 1) below zero."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.elu, input)


class CELU(Function):
    """x, and alpha (exp(x / alpha) - 1) below zero."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.celu, input)


class LeakyReLU(Function):
    """x, and ``negative_slope`` x below zero."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.leaky_relu, input)


class Hardtanh(Function):
    """x between ``min_val`` and ``max_val``."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.hardtanh, input)


class Threshold(Function):
    """x where it is above ``threshold``, else ``value``."""

    def __init__(self, threshold: float, value: Any, inplace: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.threshold, input)


class GELU(Function):
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.gelu, input)


class GLU(Function):
    """The first half of a dimension times the sigmoid of the second."""

    def __init__(self, dim: int | None = -1) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.glu, input)


class Tanh(Function):
    """Hyperbolic tangent, elementwise."""

    def __init__(self) -> None:
        super().__init__({})

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.tanh, input)


class Sigmoid(Function):
    """1 / (1 + exp(-x)), elementwise."""

    def __init__(self) -> None:
        super().__init__({})

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.sigmoid, input)


class LogSigmoid(Function):
    """log(sigmoid(x)) without overflow, elementwise."""

    def __init__(self) -> None:
        super().__init__({})

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.logsigmoid, input)


class Softsign(Function):
    """x / (1 + |x|), elementwise."""

    def __init__(self) -> None:
        super().__init__({})

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.softsign, input)


class Tanhshrink(Function):
    """x - tanh(x), elementwise."""

    def __init__(self) -> None:
        super().__init__({})

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.tanhshrink, input)


class Softplus(Function):
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.softplus, input)


class Softshrink(Function):
    """x moved towards zero by ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.softshrink, input)


class Hardshrink(Function):
    """x, and zero within ±``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.hardshrink, input)


class Softmax(Function):
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.softmax, input)


class Softmin(Function):
    """``softmax`` of -x."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.softmin, input)


class LogSoftmax(Function):
    """The logarithm of ``softmax``."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.log_softmax, input)


class PixelShuffle(Function):
    """Channels to places: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.pixel_shuffle, input)


class PixelUnshuffle(Function):
    """Places to channels: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.pixel_unshuffle, input)


class ChannelShuffle(Function):
    """Channels of several groups interleaved."""

    def __init__(self, groups: int) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor) -> Tensor:
        return self._of(F.channel_shuffle, input)


class Softmax2d(Module):
    """``softmax`` over the channels of pictures."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise value_error(f"Softmax2d: expected 3 or 4 dimensions, not {input.ndim}")
        return F.softmax(input, -3)


class PReLU(Module):
    """A leaky ReLU whose slope is trained, one for all or one for each channel.

    >>> import talweg as tw
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
        """All slopes as at the beginning."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.__dict__['num_parameters']}"


class RReLU(Module):
    """A leaky ReLU whose slope is drawn anew for each element in training."""

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

    >>> import talweg as tw
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
    """Dropout that keeps mean and variance of what ``SELU`` returns."""

    _call = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels."""

    _call = staticmethod(F.feature_alpha_dropout)


check(globals(), __all__)
