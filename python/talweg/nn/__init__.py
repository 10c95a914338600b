"""Models: modules whose parameters are found by attribute, layers, losses: PyTorch's names, arguments and defaults."""

from . import functional as functional
from . import init as init
from . import utils as utils
from .containers import ModuleDict as ModuleDict
from .containers import ModuleList as ModuleList
from .containers import ParameterDict as ParameterDict
from .containers import ParameterList as ParameterList
from .containers import Sequential as Sequential
from .functional.activation import *  # noqa: F403
from .functional.attention import *  # noqa: F403
from .functional.convolution import *  # noqa: F403
from .functional.fractional import *  # noqa: F403
from .functional.loss import *  # noqa: F403
from .functional.normalization import *  # noqa: F403
from .functional.vision import *  # noqa: F403
from .layers.activation import *  # noqa: F403
from .layers.adaptive import *  # noqa: F403
from .layers.conv import *  # noqa: F403
from .layers.embedding import *  # noqa: F403
from .layers.graph import *  # noqa: F403
from .layers.linear import *  # noqa: F403
from .layers.loss import *  # noqa: F403
from .layers.norm import *  # noqa: F403
from .layers.pool import *  # noqa: F403
from .layers.rnn import *  # noqa: F403
from .layers.transformer import *  # noqa: F403
from .layers.vision import *  # noqa: F403
from .module import Module as Module
from . import modules as modules, parallel as parallel  # noqa: I001 (need the layers)
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedParameter as UninitializedParameter


def __getattr__(name: str) -> object:
    from .._differences import missing

    raise missing(".nn", name)
