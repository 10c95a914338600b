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

def devices() -> list[str]:
    """The names of this machine's devices.

    >>> import talweg as tw
    >>> tw.devices()[0]
    'cpu'"""
def get_default_device() -> str:
    """The device that computes what is on the host alone.

    >>> import talweg as tw
    >>> tw.get_default_device()
    device(type='cpu')"""
def named(where: Any) -> Tensor:
    """The name that the engine knows a device by, of a device, a string or the number of a GPU."""
def set_default_device(device: str | None) -> None:
    """Makes tensors of this thread on a device from now on; ``None``: on that of ``TALWEG_DEVICE``, or the host.

    >>> import talweg as tw
    >>> tw.set_default_device("cpu")
    >>> tw.set_default_device(None)"""
