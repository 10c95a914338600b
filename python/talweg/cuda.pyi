"""NVIDIA GPUs: whether there are any, which one computes, and its random numbers."""

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

class device:
    """A device, ``"cpu"`` or ``"cuda:0"``; as a scope or decorator, tensors are made there.

    What uses a tensor is computed where the tensor is; tensors on the host go wherever they are needed. A device is a
    string as well: functions take either.

    >>> import talweg as tw
    >>> tw.device("cuda", 1).type, tw.device("cuda:1").index, tw.device("cpu").index
    ('cuda', 1, None)
    >>> with tw.device("cpu"):
    ...     x = tw.ones(3)
    >>> x.device
    device(type='cpu')"""
    def __init__(self, type: str = 'cpu', index: Any = None) -> None: ...
    def __enter__(self) -> Self:
        ...
    def __exit__(self, *_exception: Any) -> None:
        ...
    @property
    def index(self) -> Any: ...
    @property
    def type(self) -> Any: ...

def current_device() -> Tensor:
    """The number of the GPU that computes what is on the host alone, or 0.

    >>> import talweg as tw
    >>> tw.cuda.current_device()
    0"""
def device_count() -> int:
    """How many there are.

    >>> import talweg as tw
    >>> tw.cuda.device_count() >= 0
    True"""
def empty_cache() -> Tensor:
    """Does nothing: free memory is used again by the allocator, which changes no result.

    >>> import talweg as tw
    >>> tw.cuda.empty_cache()"""
def get_device_name(device: str | None = None) -> Tensor:
    """The name of a GPU, such as ``"cuda:0"``."""
def is_available() -> bool:
    """True if there is one.

    >>> import talweg as tw
    >>> tw.cuda.is_available() == (tw.cuda.device_count() > 0)
    True"""
def manual_seed(seed: int) -> Tensor:
    """Begins the random numbers of this thread anew: those of a GPU are the same ones.

    >>> import talweg as tw
    >>> tw.cuda.manual_seed(0)"""
def manual_seed_all(seed: int) -> Tensor:
    """Begins the random numbers of this thread anew: those of a GPU are the same ones.

    >>> import talweg as tw
    >>> tw.cuda.manual_seed(0)"""
def set_device(device: str | None) -> Tensor:
    """Makes tensors of this thread on a GPU from now on."""
