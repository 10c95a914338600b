"""Which device computes."""

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
    """A scope or decorator in which tensors are made on a device: ``"cpu"``, ``"cuda:0"``.

    What uses a tensor is computed where the tensor is; tensors on the host go wherever they are needed.

    >>> import talweg as tw
    >>> with tw.device("cpu"):
    ...     x = tw.ones(3)
    >>> x.device
    'cpu'"""
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> Self:
        ...
    def __exit__(self, *_exception: Any) -> None:
        ...

def devices() -> list[str]:
    """The devices of this machine.

    >>> import talweg as tw
    >>> tw.devices()[0]
    'cpu'"""
def get_default_device() -> str:
    """The device that computes what is on the host alone.

    >>> import talweg as tw
    >>> tw.get_default_device()
    'cpu'"""
def set_default_device(name: str) -> None:
    """Makes tensors of this thread on a device from now on; ``None``: on that of ``TALWEG_DEVICE``, or the host.

    >>> import talweg as tw
    >>> tw.set_default_device("cpu")
    >>> tw.set_default_device(None)"""
