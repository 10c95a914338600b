"""Training on several processes, under ``talweg launch`` or another launcher."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, Self

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

def meet(give: Callable[[], bytes]) -> bytes | None:
    """Between two steps, under all-reduce: lets in workers that replace lost ones.

    ``give`` is called if somebody waits and answers, as bytes, everything that decides the next
    step. A worker that is such a replacement gets these bytes and must take them over before its
    first step; everybody else gets ``None``. A loop that never calls it does without replacements."""
def rank() -> int:
    """Number of this worker; 0 if the process is alone."""
def shard(batch: Any) -> Any:
    """This worker's part of a batch: an equal share of its first axis."""
def world_size() -> int:
    """How many workers were started; 1 if the process is alone."""
