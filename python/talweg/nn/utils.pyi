"""Gradients cut off before a step."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from .. import Tensor
from .. import dtype
from .. import DTypeLike
from .. import Update
from ..nn import Module
from ..train import Callback
from ..train import History
from ..train import Silent
from ..train import Trainer
from ..utils.data import Subset

def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scales gradients so that their common norm is at most ``max_norm``; the norm before.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_norm_([w], 1.0).item(), w.grad.tolist()
    (5.0, [0.6, 0.8])"""
def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float | None) -> None:
    """Cuts gradients off at ±``clip_value``.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 0.5], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.5]"""
