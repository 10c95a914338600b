"""Figures over many batches."""

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

class Accuracy:
    """Share of examples whose highest score is the target."""
    def __init__(self) -> None: ...
    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds a batch."""
    def value(self) -> float:
        """The figure so far."""

class Auc:
    """Area under the receiver operating characteristic."""
    def __init__(self) -> None: ...
    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds a batch."""
    def value(self) -> float:
        """The figure so far."""

class Confusion:
    """How often each class was taken for each other."""
    def __init__(self, classes: int) -> None: ...
    def accuracy(self) -> float:
        """Share of right predictions."""
    def f1(self, average: str = 'macro') -> float:
        """The harmonic mean of precision and recall: `macro`, `micro` or `weighted`."""
    def precision(self, class_: int) -> float:
        """Of the examples predicted as a class, the share that is."""
    def recall(self, class_: int) -> float:
        """Of the examples of a class, the share predicted as it."""
    def tensor(self) -> Tensor:
        """Counts, a row for each true class."""
    def update(self, predicted: Tensor, targets: Tensor) -> None:
        """Adds a batch of predicted and true classes."""

class Perplexity:
    """The exponential of the mean loss of a token."""
    def __init__(self) -> None: ...
    def update(self, loss: float, tokens: int) -> None:
        """Adds a mean loss over `tokens`."""
    def value(self) -> float:
        """The figure so far."""

class TopK:
    """Share of examples whose target is among the `k` highest scores."""
    def __init__(self, k: int = ...) -> None: ...
    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds a batch."""
    def value(self) -> float:
        """The figure so far."""

