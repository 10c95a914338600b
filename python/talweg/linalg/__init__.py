"""Linear algebra with PyTorch's names, arguments and results."""

from typing import TYPE_CHECKING, Any

from . import decompositions, norms, solvers
from .._checked import spelled, tensor_first
from .decompositions import *
from .norms import *
from .solvers import *

__all__ = []
__all__ += decompositions.__all__
__all__ += norms.__all__
__all__ += solvers.__all__

globals().update({n: (spelled if n == "multi_dot" else tensor_first)(globals()[n]) for n in __all__ if not isinstance(globals()[n], type)})


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from .._differences import missing

        raise missing(".linalg", name)
