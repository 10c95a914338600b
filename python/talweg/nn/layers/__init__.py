"""Layers with PyTorch's signatures, parameter names and initial distributions: Python over the ops."""

from . import activation, adaptive, conv, embedding, graph, linear, loss, norm, rnn, transformer, vision
from .activation import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .conv import *  # noqa: F403
from .embedding import *  # noqa: F403
from .graph import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .norm import *  # noqa: F403
from .rnn import *  # noqa: F403
from .transformer import *  # noqa: F403
from .vision import *  # noqa: F403

_PARTS = (activation, adaptive, conv, embedding, graph, linear, loss, norm, rnn, transformer, vision)
__all__ = sorted(n for part in _PARTS for n in part.__all__)
