"""Layers with PyTorch's signatures, parameter names and initial distributions: Python over the ops."""

from . import activation, adaptive, conv, embedding, graph, linear, loss, norm, pool, rnn, transformer, vision
from .activation import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .conv import *  # noqa: F403
from .embedding import *  # noqa: F403
from .graph import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .norm import *  # noqa: F403
from .pool import *  # noqa: F403
from .rnn import *  # noqa: F403
from .transformer import *  # noqa: F403
from .vision import *  # noqa: F403

__all__: list[str] = []
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += conv.__all__
__all__ += embedding.__all__
__all__ += graph.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += norm.__all__
__all__ += pool.__all__
__all__ += rnn.__all__
__all__ += transformer.__all__
__all__ += vision.__all__
