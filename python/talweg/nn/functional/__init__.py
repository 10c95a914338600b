"""Functions of models: PyTorch's names, arguments and defaults."""

from . import activation, attention, convolution, fractional, loss, normalization, vision
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .convolution import *  # noqa: F403
from .fractional import *  # noqa: F403
from .loss import *  # noqa: F403
from .normalization import *  # noqa: F403
from .vision import *  # noqa: F403

__all__: list[str] = []
__all__ += activation.__all__
__all__ += attention.__all__
__all__ += convolution.__all__
__all__ += fractional.__all__
__all__ += loss.__all__
__all__ += normalization.__all__
__all__ += vision.__all__


def __getattr__(name: str) -> object:
    from ..._differences import missing

    raise missing(".nn.functional", name)
