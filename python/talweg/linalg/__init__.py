"""Linear algebra with PyTorch's names, arguments and results."""

from . import decompositions, norms, solvers
from .._functions.register import spelled
from .decompositions import *
from .norms import *
from .solvers import *

__all__ = sorted(n for part in (decompositions, norms, solvers) for n in part.__all__)

globals().update({n: spelled(globals()[n]) for n in __all__ if not isinstance(globals()[n], type)})
