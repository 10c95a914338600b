"""PyTorch's module paths of layers: ``nn.modules.conv.Conv2d`` is ``nn.Conv2d``.

>>> isinstance(tw.nn.BatchNorm2d(3), tw.nn.modules.batchnorm._BatchNorm)
True
"""

import sys
import types

from . import containers, hooks, layers
from . import module as _module
from .containers import *  # noqa: F403
from .layers import *  # noqa: F403
from .module import Module

__path__: list[str] = []  # a package: its modules can be imported

_PLACES = {
    "activation": (layers.activation, layers.transformer),
    "adaptive": (layers.adaptive,),
    "batchnorm": (layers.norm,),
    "channelshuffle": (layers.activation,),
    "container": (containers,),
    "conv": (layers.conv,),
    "distance": (layers.embedding,),
    "dropout": (layers.activation,),
    "flatten": (layers.linear,),
    "fold": (layers.pool,),
    "instancenorm": (layers.norm,),
    "linear": (layers.linear, layers.transformer),
    "loss": (layers.loss,),
    "module": (_module,),
    "normalization": (layers.norm,),
    "padding": (layers.vision,),
    "pixelshuffle": (layers.activation,),
    "pooling": (layers.pool,),
    "rnn": (layers.rnn,),
    "sparse": (layers.embedding,),
    "transformer": (layers.transformer,),
    "upsampling": (layers.vision,),
}

_HOOKS = ("forward_pre", "forward", "full_backward_pre", "full_backward")

for _name, _files in _PLACES.items():
    _made = types.ModuleType(f"{__name__}.{_name}", f"The layers of ``torch.nn.modules.{_name}``.")
    for _file in _files:
        _made.__dict__.update({k: v for k, v in vars(_file).items() if isinstance(v, type)})
    if _name == "module":
        _made.__dict__.update({f: getattr(hooks, f) for f in (f"register_module_{kind}_hook" for kind in _HOOKS)})
    sys.modules[_made.__name__] = globals()[_name] = _made
