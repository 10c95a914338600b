"""Models: modules whose parameters are found by attribute, layers, losses: PyTorch's names, arguments and defaults."""

from . import functional, init, utils
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .functional import *  # noqa: F403
from .layers import *  # noqa: F403
from .module import Module
from . import modules, parallel  # noqa: I001 (need the layers)
from .parameter import Buffer, Parameter, UninitializedParameter


def __getattr__(name):
    from .._differences import missing

    raise missing(".nn", name)
