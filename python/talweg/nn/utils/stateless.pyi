"""Modules as functions of their parameters, for ``grad``, ``vmap`` and ``jacobian``."""

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

def functional_call(module: Module, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, *, tie_weights: bool = True, strict: bool = False) -> Any:
    """``module(*args, **kwargs)`` with other tensors in the place of its parameters and buffers, by path.

    >>> import talweg as tw
    >>> layer = tw.nn.Linear(2, 1, bias=False)
    >>> loss = lambda state, x: tw.nn.utils.stateless.functional_call(layer, state, (x,)).sum()
    >>> tw.grad(loss)({"weight": tw.zeros(1, 2)}, tw.ones(3, 2))["weight"].tolist()
    [[3.0, 3.0]]"""
def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one kind, each stacked along a new first axis: for ``vmap``.

    >>> import talweg as tw
    >>> params, buffers = tw.nn.utils.stateless.stack_module_state([tw.nn.Linear(2, 3) for _ in range(4)])
    >>> params["weight"].shape, buffers
    (talweg.Size([4, 3, 2]), {})"""
