"""Learning rates that change with the step: pure functions of it."""

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

class ReduceLROnPlateau:
    """Falls by ``factor`` when a figure stops to improve."""
    def __init__(self, optimizer: Any, mode: str = 'min', factor: float = 0.1, patience: int = 10, threshold: float = 0.0001, cooldown: int = 0, min_lr: float = 0.0) -> None: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes a state."""
    def state_dict(self) -> dict[str, Any]:
        """Learning rate, best figure, and how many came since it and since the last fall."""
    def step(self, metrics: Any) -> None:
        """Takes the next figure."""

class ConstantLR:
    """Always the same."""
    last_epoch: int
    def __init__(self, optimizer: Any) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

class CosineAnnealingLR:
    """Half a cosine down to ``eta_min``.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CosineAnnealingLR(o, 4)
    >>> round(s.lr(2), 3), round(s.lr(4), 3)
    (0.5, 0.0)"""
    last_epoch: int
    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

class ExponentialLR:
    """Multiplied by ``gamma`` after every step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ExponentialLR(o, 0.5)
    >>> [s.lr(i) for i in range(3)]
    [1.0, 0.5, 0.25]"""
    last_epoch: int
    def __init__(self, optimizer: Any, gamma: float) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

class LambdaLR:
    """The first learning rate times a function of the step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=2.0)
    >>> tw.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (step + 1)).lr(1)
    1.0"""
    last_epoch: int
    def __init__(self, optimizer: Any, lr_lambda: Callable[[int], float]) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

class OneCycleLR:
    """Up to ``max_lr``, then far down."""
    last_epoch: int
    def __init__(self, optimizer: Any, max_lr: float, total_steps: int, pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 10000.0) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

class StepLR:
    """Multiplied by ``gamma`` after every ``step_size`` steps.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.StepLR(o, 2, gamma=0.5)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]"""
    last_epoch: int
    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

class Warmup:
    """From ``start`` up in ``steps``, then as another scheduler says.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.Warmup(tw.optim.lr_scheduler.ConstantLR(o), 4)
    >>> s.lr(4)
    1.0"""
    last_epoch: int
    def __init__(self, then: Any, steps: int, start: float = 0.0) -> None: ...
    def get_last_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        ...
    def lr(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self) -> None:
        """Goes on to the next step."""

