"""Functions of models: PyTorch's names, arguments and defaults."""

from . import activation, attention, convolution, fractional, loss, normalization, vision
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .convolution import *  # noqa: F403
from .fractional import *  # noqa: F403
from .loss import *  # noqa: F403
from .normalization import *  # noqa: F403
from .vision import *  # noqa: F403

__all__ = sorted(n for part in (activation, attention, convolution, fractional, loss, normalization, vision) for n in part.__all__)


def __getattr__(name):
    from ..._differences import missing

    raise missing(".nn.functional", name)
