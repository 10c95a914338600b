"""Gradients on and off, and tensors in files."""

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

class set_grad_enabled:
    """Turns gradients on or off at once; as a scope, until its end.

    >>> import talweg as tw
    >>> with tw.set_grad_enabled(False):
    ...     tw.is_grad_enabled()
    False"""
    def __init__(self, on: bool) -> None: ...
    def __enter__(self) -> Self:
        ...
    def __exit__(self, *_exception: Any) -> None:
        ...

def enable_grad(f: Callable[..., Any] | None = None) -> Any:
    """A scope or decorator in which gradients are prepared, inside of ``no_grad``.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad(), tw.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True"""
def inference_mode(f: Callable[..., Any] | None = None) -> Tensor:
    """A scope or decorator in which no gradient is prepared.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False"""
def is_grad_enabled() -> bool:
    """True unless inside `no_grad`."""
def load(path: str | PathLike[str], map_location: Any = None) -> Any:
    """Reads what ``save`` has written; of any other safetensors file, its tensors by name. ``map_location``: the device
    to read to.

    >>> import talweg as tw
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> tw.save(tw.nn.Linear(2, 3).state_dict(), path)
    >>> sorted(tw.load(path))
    ['bias', 'weight']"""
def no_grad(f: Callable[..., Any] | None = None) -> Any:
    """A scope or decorator in which no gradient is prepared.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False"""
def save(obj: Any, path: str | PathLike[str]) -> None:
    """Writes tensors, such as ``model.state_dict()``, or dicts and lists with tensors, numbers and strings in them, as a
    safetensors file.

    The file appears whole or not at all. PyTorch's order of arguments; tensors are named by their path.

    >>> import talweg as tw
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> tw.save({"model": {"w": tw.ones(2)}, "epoch": 3}, path)
    >>> found = tw.load(path)
    >>> found["model"]["w"].tolist(), found["epoch"]
    ([1.0, 1.0], 3)"""
