"""Weights with a norm or a spectral norm of their own."""

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

def orthogonal(module: Module, name: str = 'weight', orthogonal_map: str | None = None, *, use_trivialization: bool = True) -> Module:
    """The weight with orthogonal rows or columns, by a QR decomposition.

    >>> import talweg as tw
    >>> w = tw.nn.utils.parametrizations.orthogonal(tw.nn.Linear(3, 3)).weight
    >>> bool(tw.allclose(w @ w.T, tw.eye(3), atol=1e-5))
    True"""
def spectral_norm(module: Module, name: str = 'weight', n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """The weight divided by its largest singular value, which is estimated by power iteration in training.

    >>> import talweg as tw
    >>> layer = tw.nn.utils.parametrizations.spectral_norm(tw.nn.Linear(4, 4))
    >>> round(tw.linalg.svdvals(layer.eval().weight.detach()).amax().item(), 1)
    1.0"""
def weight_norm(module: Module, name: str = 'weight', dim: int | None = 0) -> Module:
    """The weight as a length and a direction: ``g v / |v|`` for each index of ``dim``.

    >>> import talweg as tw
    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']"""
