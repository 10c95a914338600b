"""Activations, dropout and softmax as modules: each holds the settings of its function."""

import inspect

from ..._checked import check, value_error
from .. import functional as F
from ..init import constant_
from ..module import Module
from .common import bound, parameter, placed, probability, shown

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "PReLU", "RReLU", "Softmax2d"]


def _module(name, f, defaults, hidden=()):
    """The function ``f`` as a module; ``defaults`` are its settings in order. Those without a default are needed."""

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        given = bound(name, signature, self, args, kwargs)
        given.apply_defaults()
        self.__dict__.update({k: v for k, v in given.arguments.items() if k != "self"})

    kinds = inspect.Parameter
    parts = [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
    parts += [kinds(k, kinds.POSITIONAL_OR_KEYWORD, default=v) for k, v in defaults.items()]
    signature = inspect.Signature(parts)
    __init__.__signature__ = signature

    def forward(self, input):
        return f(input, **{k: self.__dict__[k] for k in defaults})

    def extra_repr(self):
        values = {k: self.__dict__[k] for k in defaults}
        if values.get("inplace") is False:
            del values["inplace"]
        return f"{values['lambd']}" if "lambd" in values else shown(**values)

    doc = (f.__doc__ or "").split(">>>")[0].strip() or f"The function {f.__name__} as a module."
    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": doc, "__module__": __name__}
    __all__.append(name)
    return type(name, (Module,), body)


_needed = inspect.Parameter.empty
_in_place = {"inplace": False}
ReLU = _module("ReLU", F.relu, _in_place)
ReLU6 = _module("ReLU6", F.relu6, _in_place)
SELU = _module("SELU", F.selu, _in_place)
SiLU = _module("SiLU", F.silu, _in_place)
Mish = _module("Mish", F.mish, _in_place)
Hardsigmoid = _module("Hardsigmoid", F.hardsigmoid, _in_place)
Hardswish = _module("Hardswish", F.hardswish, _in_place)
ELU = _module("ELU", F.elu, {"alpha": 1.0, **_in_place})
CELU = _module("CELU", F.celu, {"alpha": 1.0, **_in_place})
LeakyReLU = _module("LeakyReLU", F.leaky_relu, {"negative_slope": 0.01, **_in_place})
Hardtanh = _module("Hardtanh", F.hardtanh, {"min_val": -1.0, "max_val": 1.0, **_in_place})
Threshold = _module("Threshold", F.threshold, {"threshold": _needed, "value": _needed, **_in_place})
GELU = _module("GELU", F.gelu, {"approximate": "none"})
GLU = _module("GLU", F.glu, {"dim": -1})
Tanh = _module("Tanh", F.tanh, {})
Sigmoid = _module("Sigmoid", F.sigmoid, {})
LogSigmoid = _module("LogSigmoid", F.logsigmoid, {})
Softsign = _module("Softsign", F.softsign, {})
Tanhshrink = _module("Tanhshrink", F.tanhshrink, {})
Softplus = _module("Softplus", F.softplus, {"beta": 1.0, "threshold": 20.0})
Softshrink = _module("Softshrink", F.softshrink, {"lambd": 0.5})
Hardshrink = _module("Hardshrink", F.hardshrink, {"lambd": 0.5})
Softmax = _module("Softmax", F.softmax, {"dim": None})
Softmin = _module("Softmin", F.softmin, {"dim": None})
LogSoftmax = _module("LogSoftmax", F.log_softmax, {"dim": None})
PixelShuffle = _module("PixelShuffle", F.pixel_shuffle, {"upscale_factor": _needed})
PixelUnshuffle = _module("PixelUnshuffle", F.pixel_unshuffle, {"downscale_factor": _needed})
ChannelShuffle = _module("ChannelShuffle", F.channel_shuffle, {"groups": _needed})


class Softmax2d(Module):
    """``softmax`` over the channels of pictures."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise value_error(f"Softmax2d: expected 3 or 4 dimensions, not {input.ndim}")
        return F.softmax(input, -3)


class PReLU(Module):
    """A leaky ReLU whose slope is trained, one for all or one for each channel.

    >>> import talweg as tw
    >>> tw.nn.PReLU()(tw.tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        # ``num_parameters`` is also the method that counts elements: here it is PyTorch's attribute.
        self.__dict__["num_parameters"] = num_parameters
        self.__dict__["init"] = init
        self.weight = parameter(num_parameters)
        self.reset_parameters()
        placed(self, device, dtype)

    def reset_parameters(self):
        """All slopes as at the beginning."""
        constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.__dict__['num_parameters']}"


class RReLU(Module):
    """A leaky ReLU whose slope is drawn anew for each element in training."""

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return shown(lower=self.lower, upper=self.upper)


class _DropoutNd(Module):
    _call = None

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        self.p, self.inplace = probability(self, p), inplace

    def forward(self, input):
        return type(self)._call(input, self.p, self.training, self.inplace)

    def extra_repr(self):
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
