"""Parameters that are computed from others at each read: ``weight = f(original)``."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from ... import Tensor
from ... import dtype
from ... import DTypeLike
from ... import Update
from ...nn import Module
from ...train import Callback
from ...train import History
from ...train import Silent
from ...train import Trainer
from ...utils.data import Subset

class ParametrizationList(Module):
    """The functions that make a parameter, in order, and what they are made of: ``original``, or ``original0``, ...

    >>> import talweg as tw
    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> [n for n, _ in layer.parametrizations.weight.named_parameters()]
    ['original0', 'original1']"""
    def __init__(self, modules: Any, original: Tensor) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def __setitem__(self, index: Any, module: Module) -> None:
        ...
    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
    def extend(self, modules: Any) -> Self:
        """Adds modules at the end."""
    def forward(self) -> Tensor:
        ...
    def __call__(self) -> Tensor: ...
    def insert(self, index: Any, module: Module) -> Self:
        """Adds a module before another."""
    def pop(self, key: Any) -> Module:
        """Removes a module and returns it."""

def cached() -> Any:
    """A scope in which PyTorch computes each parametrization once; here equal expressions are computed once anyway.

    >>> import talweg as tw
    >>> with tw.nn.utils.parametrize.cached():
    ...     y = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))(tw.ones(1, 2))"""
def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if a module, or one of its tensors, has parametrizations.

    >>> import talweg as tw
    >>> tw.nn.utils.parametrize.is_parametrized(tw.nn.Linear(2, 2))
    False"""
def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """``module.tensor_name`` becomes ``parametrization(original)``.

    >>> import talweg as tw
    >>> class Symmetric(tw.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = tw.nn.Linear(3, 3)
    >>> layer = tw.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True"""
def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """The tensor is an ordinary one again: with the value it has, or what it was made of.

    >>> import talweg as tw
    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> layer = tw.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> isinstance(layer.weight, tw.nn.Parameter)
    True"""
def type_before_parametrizations(module: Module) -> type:
    """The class of a module as if it had no parametrizations.

    >>> import talweg as tw
    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> tw.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'"""
