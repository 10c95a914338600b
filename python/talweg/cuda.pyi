"""NVIDIA GPUs: whether there are any."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

def device_count() -> int:
    """How many there are.

    >>> import talweg as tw
    >>> tw.cuda.device_count() >= 0
    True"""
def is_available() -> bool:
    """True if there is one.

    >>> import talweg as tw
    >>> tw.cuda.is_available() == (tw.cuda.device_count() > 0)
    True"""
