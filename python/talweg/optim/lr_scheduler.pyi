"""Learning rates that change with the step: PyTorch's schedules, which multiply what they find, so that several of them"""

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

class LRScheduler:
    """The base of schedules: a subclass says the learning rate of each group in ``get_lr``, by ``last_epoch``, the number
    of steps so far."""
    last_epoch: int
    optimizer: Any
    base_lrs: list[float]
    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None: ...
    def get_last_lr(self) -> list[float]:
        """The learning rates that were set last."""
    def get_lr(self) -> list[float]:
        """The learning rate of each group now."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, and sets the learning rates."""
    def lr(self, step: int) -> float:
        """The learning rate of the first group at a step, counted from 0, if no other schedule works on it."""
    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step, or to the one that is given."""

class ChainedScheduler(LRScheduler):
    """Schedules that work together: each multiplies what the others have set.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> both = [tw.optim.lr_scheduler.ExponentialLR(o, 0.5), tw.optim.lr_scheduler.ExponentialLR(o, 0.1)]
    >>> s = tw.optim.lr_scheduler.ChainedScheduler(both)
    >>> s.step()
    >>> s.get_last_lr()
    [0.05]"""
    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step of all."""

class ConstantLR(LRScheduler):
    """``factor`` times the learning rate for ``total_iters`` steps, then the whole.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ConstantLR(o, factor=0.5, total_iters=2)
    >>> [s.lr(i) for i in range(4)]
    [0.5, 0.5, 1.0, 1.0]"""
    def __init__(self, optimizer: Any, factor: float = 0.3333333333333333, total_iters: int = 5, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class CosineAnnealingLR(LRScheduler):
    """Half a cosine down to ``eta_min`` in ``T_max`` steps, and up again after them.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CosineAnnealingLR(o, 4)
    >>> round(s.lr(2), 3), round(s.lr(4), 3)
    (0.5, 0.0)"""
    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to ``eta_min`` in ``T_0`` steps, then again from the top in ``T_mult`` times as many.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, T_mult=2)
    >>> [round(s.lr(i), 3) for i in range(7)]
    [1.0, 0.5, 1.0, 0.854, 0.5, 0.146, 1.0]"""
    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None: ...
    @property
    def T_cur(self) -> int: ...
    def get_lr(self) -> list[float]:
        ...

class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` and down again, over and over (Smith 2017).

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, step_size_up=2, cycle_momentum=False)
    >>> [round(s.lr(i), 3) for i in range(5)]
    [0.1, 0.3, 0.5, 0.3, 0.1]"""
    def __init__(self, optimizer: Any, base_lr: float | Sequence[float], max_lr: float | Sequence[float], step_size_up: int = 2000, step_size_down: int | None = None, mode: str = 'triangular', gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None, scale_mode: str = 'cycle', cycle_momentum: bool = True, base_momentum: float | Sequence[float] = 0.8, max_momentum: float | Sequence[float] = 0.9, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...

class ExponentialLR(LRScheduler):
    """Multiplied by ``gamma`` after every step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ExponentialLR(o, 0.5)
    >>> [s.lr(i) for i in range(3)]
    [1.0, 0.5, 0.25]"""
    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class LambdaLR(LRScheduler):
    """The first learning rate times a function of the step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=2.0)
    >>> tw.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (step + 1)).lr(1)
    1.0"""
    def __init__(self, optimizer: Any, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...

class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` of the learning rate in ``total_iters`` steps.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.LinearLR(o, start_factor=0.5, total_iters=2)
    >>> [s.lr(i) for i in range(4)]
    [0.5, 0.75, 1.0, 1.0]"""
    def __init__(self, optimizer: Any, start_factor: float = 0.3333333333333333, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class MultiStepLR(LRScheduler):
    """Multiplied by ``gamma`` at each of ``milestones``.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.MultiStepLR(o, [1, 3], gamma=0.5)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 0.5, 0.5, 0.25, 0.25]"""
    def __init__(self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class MultiplicativeLR(LRScheduler):
    """The learning rate times a function of the step, at each step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.MultiplicativeLR(o, lambda step: 0.5)
    >>> s.step()
    >>> s.get_last_lr()
    [0.5]"""
    def __init__(self, optimizer: Any, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...

class OneCycleLR(LRScheduler):
    """Up to ``max_lr``, then far down (Smith and Topin 2019); the momentum goes the other way.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=10, cycle_momentum=False)
    >>> round(s.lr(0), 3), round(s.lr(2), 3), round(s.lr(9), 3)
    (0.04, 1.0, 0.0)"""
    def __init__(self, optimizer: Any, max_lr: float | Sequence[float], total_steps: int | None = None, epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = 'cos', cycle_momentum: bool = True, base_momentum: float | Sequence[float] = 0.85, max_momentum: float | Sequence[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 10000.0, three_phase: bool = False, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...

class PolynomialLR(LRScheduler):
    """Down to zero in ``total_iters`` steps, by a power of what is left.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.PolynomialLR(o, total_iters=4, power=2.0)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 0.5625, 0.25, 0.0625, 0.0]"""
    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class ReduceLROnPlateau(LRScheduler):
    """Falls by ``factor`` when a figure has not improved for more than ``patience`` steps.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1)
    >>> for loss in [3.0, 3.0, 3.0]:
    ...     s.step(loss)
    >>> o.param_groups[0]["lr"]
    0.5"""
    def __init__(self, optimizer: Any, mode: str = 'min', factor: float = 0.1, patience: int = 10, threshold: float = 0.0001, threshold_mode: str = 'rel', cooldown: int = 0, min_lr: float | Sequence[float] = 0, eps: float = 1e-08) -> None: ...
    def is_better(self, a: float, best: float) -> bool:
        """True if a figure is an improvement."""
    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the next figure."""

class SequentialLR(LRScheduler):
    """Schedules one after the other; each begins at its milestone.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> first = tw.optim.lr_scheduler.ConstantLR(o, factor=0.5, total_iters=2)
    >>> s = tw.optim.lr_scheduler.SequentialLR(o, [first, tw.optim.lr_scheduler.ExponentialLR(o, 0.5)], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += s.get_last_lr()
    ...     s.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.5]"""
    def __init__(self, optimizer: Any, schedulers: Sequence[Any], milestones: Iterable[int], last_epoch: int = -1) -> None: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...
    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step."""

class StepLR(LRScheduler):
    """Multiplied by ``gamma`` after every ``step_size`` steps.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.StepLR(o, 2, gamma=0.5)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]"""
    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None: ...
    def get_lr(self) -> list[float]:
        ...

class Warmup(LRScheduler):
    """From the portion ``start`` of the first learning rate up in ``steps``, then as another schedule says.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.Warmup(tw.optim.lr_scheduler.ExponentialLR(o, 0.5), 4)
    >>> s.lr(2), s.lr(4), s.lr(5)
    (0.5, 1.0, 0.5)"""
    def __init__(self, then: Any, steps: int, start: float = 0.0) -> None: ...
    def get_lr(self) -> list[float]:
        ...
    def state_dict(self) -> dict[str, Any]:
        ...

