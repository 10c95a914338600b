"""Models: modules whose parameters are found by attribute, layers, losses.

The layers are those of the Rust side; parameter names are PyTorch's, so that weights move across.
"""

from . import functional, init, utils
from .functional import *  # noqa: F403
from .layers import *  # noqa: F403
from .losses import *  # noqa: F403
from .module import Module, ModuleDict, ModuleList, Parameter, ParameterList, Sequential
