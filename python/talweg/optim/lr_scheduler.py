"""Learning-rate schedules of PyTorch. They multiply the current rate, so that several can be chained."""

from __future__ import annotations

import bisect
import collections
import math
import types
from typing import TYPE_CHECKING

from .._checked import check, type_error, value_error
from .cycles import CyclicLR, OneCycleLR
from .optimizer import Optimizer
from .schedule import LRScheduler, each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "Warmup",
]  # fmt: skip

_LRScheduler = LRScheduler  # the name that PyTorch had before 2.0


class LambdaLR(LRScheduler):
    """The first learning rate times a function of the step.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=2.0)
    >>> tw.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (step + 1)).lr(1)
    1.0
    """

    def __init__(
        self, optimizer: Any, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _functions(self, optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]

    def _closed(self, group, step):
        return self.base_lrs[group] * self.lr_lambdas[group](step)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"lr_lambdas": _states(self.lr_lambdas)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(_restored(self.lr_lambdas, state_dict))


def _functions(scheduler, optimizer, f):
    if not isinstance(optimizer, Optimizer):
        raise type_error(f"{type(scheduler).__name__}: expected an optimizer, not {type(optimizer).__name__}")
    functions = each(scheduler, "lr_lambda", f, optimizer)
    if not all(map(callable, functions)):
        raise type_error(f"{type(scheduler).__name__}: lr_lambda is a function of the step, not {type(f).__name__}")
    return functions


def _states(functions):
    """What an object that can be called remembers; nothing of a function."""
    return [None if isinstance(f, types.FunctionType) else dict(getattr(f, "__dict__", {})) for f in functions]


def _restored(functions, state):
    """The rest of a schedule's state, once the objects that can be called have taken theirs."""
    for f, saved in zip(functions, state.get("lr_lambdas", ())):
        if saved is not None:
            f.__dict__.update(saved)
    return {k: v for k, v in state.items() if k != "lr_lambdas"}


class MultiplicativeLR(LRScheduler):
    """The learning rate times a function of the step, at each step.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.MultiplicativeLR(o, lambda step: 0.5)
    >>> s.step()
    >>> s.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Any, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _functions(self, optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_first:
            return self._rates()
        return [rate * f(self.last_epoch) for rate, f in zip(self._rates(), self.lr_lambdas)]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"lr_lambdas": _states(self.lr_lambdas)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(_restored(self.lr_lambdas, state_dict))


class StepLR(LRScheduler):
    """Multiplied by ``gamma`` after every ``step_size`` steps.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.StepLR(o, 2, gamma=0.5)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _closed(self, group, step):
        return self.base_lrs[group] * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplied by ``gamma`` at each of ``milestones``.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.MultiStepLR(o, [1, 3], gamma=0.5)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = collections.Counter(sorted(milestones)), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        times = self.milestones.get(self.last_epoch, 0)
        return [rate * self.gamma**times for rate in self._rates()]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict)
        # A list, as earlier states had, or counts.
        self.milestones = collections.Counter(self.milestones)

    def _closed(self, group, step):
        return self.base_lrs[group] * self.gamma ** sum(n for at, n in self.milestones.items() if at <= step)


class ConstantLR(LRScheduler):
    """``factor`` times the learning rate for ``total_iters`` steps, then the full rate.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ConstantLR(o, factor=0.5, total_iters=2)
    >>> [s.lr(i) for i in range(4)]
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(self, optimizer: Any, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise value_error(f"ConstantLR: factor must lie between 0 and 1, not {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch == self.total_iters:
            return [rate / self.factor for rate in self._rates()]
        return self._rates()

    def _closed(self, group, step):
        return self.base_lrs[group] * (self.factor if step < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` of the learning rate in ``total_iters`` steps.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.LinearLR(o, start_factor=0.5, total_iters=2)
    >>> [s.lr(i) for i in range(4)]
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Any, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise value_error(f"LinearLR: factors must lie between 0 and 1, not {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, step):
        return self.start_factor + (self.end_factor - self.start_factor) * min(step, self.total_iters) / self.total_iters

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_first or self.last_epoch > self.total_iters:
            return self._rates()
        ratio = self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)
        return [rate * ratio for rate in self._rates()]

    def _closed(self, group, step):
        return self.base_lrs[group] * self._factor(step)


class ExponentialLR(LRScheduler):
    """Multiplied by ``gamma`` after every step.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ExponentialLR(o, 0.5)
    >>> [s.lr(i) for i in range(3)]
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = float(gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._rates() if self._is_first else [rate * self.gamma for rate in self._rates()]

    def _closed(self, group, step):
        return self.base_lrs[group] * self.gamma**step


class PolynomialLR(LRScheduler):
    """Polynomial decay to zero in ``total_iters`` steps.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.PolynomialLR(o, total_iters=4, power=2.0)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 0.5625, 0.25, 0.0625, 0.0]
    """

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_first or self.last_epoch > self.total_iters:
            return self._rates()
        ratio = (1 - self.last_epoch / self.total_iters) / (1 - (self.last_epoch - 1) / self.total_iters)
        return [rate * ratio**self.power for rate in self._rates()]

    def _closed(self, group, step):
        return self.base_lrs[group] * (1 - min(step, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Cosine annealing to ``eta_min`` in ``T_max`` steps, and up again after them.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CosineAnnealingLR(o, 4)
    >>> round(s.lr(2), 3), round(s.lr(4), 3)
    (0.5, 0.0)
    """

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise value_error(f"CosineAnnealingLR: T_max must be at least 1, not {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        n, step = self.T_max, self.last_epoch
        if self._is_first and step <= 0:
            return self._rates()
        if self._step_count == 1 and step > 0:
            return [self._closed(g, step) for g in range(len(self.base_lrs))]
        if (step - 1 - n) % (2 * n) == 0:
            turn = (1 - math.cos(math.pi / n)) / 2
            return [rate + (base - self.eta_min) * turn for base, rate in zip(self.base_lrs, self._rates())]
        ratio = (1 + math.cos(math.pi * step / n)) / (1 + math.cos(math.pi * (step - 1) / n))
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in self._rates()]

    def _closed(self, group, step):
        return self.eta_min + (self.base_lrs[group] - self.eta_min) * (1 + math.cos(math.pi * step / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing to ``eta_min`` in ``T_0`` steps, with warm restarts, each ``T_mult`` times as long.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, T_mult=2)
    >>> [round(s.lr(i), 3) for i in range(7)]
    [1.0, 0.5, 1.0, 0.854, 0.5, 0.146, 1.0]
    """

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_0 < 1 or T_mult < 1 or T_0 != int(T_0) or T_mult != int(T_mult):
            raise value_error(f"CosineAnnealingWarmRestarts: T_0 and T_mult are integers of at least 1, not {T_0} and {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def _place(self, step):
        """Steps since the last restart, and of how many."""
        length = self.T_0
        if self.T_mult == 1:
            return step % length, length
        while step >= length:
            step, length = step - length, length * self.T_mult
        return step, length

    def _closed(self, group, step):
        at, length = self._place(step)
        return self.eta_min + (self.base_lrs[group] - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2

    def get_lr(self) -> list[float]:
        return [self._closed(g, max(self.last_epoch, 0)) for g in range(len(self.base_lrs))]

    @property
    def T_cur(self) -> int:
        """Steps since the last restart."""
        return self._place(max(self.last_epoch, 0))[0]

    @property
    def T_i(self) -> int:
        """Steps from the last restart to the next."""
        return self._place(max(self.last_epoch, 0))[1]


class Warmup(LRScheduler):
    """Linear warmup from the fraction ``start`` of the learning rate in ``steps``, then another schedule.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.Warmup(tw.optim.lr_scheduler.ExponentialLR(o, 0.5), 4)
    >>> s.lr(2), s.lr(4), s.lr(5)
    (0.5, 1.0, 0.5)
    """

    def __init__(self, then: Any, steps: int, start: float = 0.0) -> None:
        if not isinstance(then, LRScheduler):
            raise type_error(f"Warmup: expected a schedule to go on with, not {type(then).__name__}")
        self._then, self._steps, self._start = then, steps, start
        for g, base in zip(then.optimizer.param_groups, then.base_lrs):
            g["lr"] = base
        super().__init__(then.optimizer)

    def _closed(self, group, step):
        if step >= self._steps:
            return self._then._closed(group, step - self._steps)
        return self._then._closed(group, 0) * (self._start + (1.0 - self._start) * step / self._steps)

    def get_lr(self) -> list[float]:
        return [self._closed(g, self.last_epoch) for g in range(len(self.base_lrs))]

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in super().state_dict().items() if k != "_then"}


class SequentialLR(LRScheduler):
    """Schedules in sequence; each begins at its milestone.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> first = tw.optim.lr_scheduler.ConstantLR(o, factor=0.5, total_iters=2)
    >>> s = tw.optim.lr_scheduler.SequentialLR(o, [first, tw.optim.lr_scheduler.ExponentialLR(o, 0.5)], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += s.get_last_lr()
    ...     s.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(self, optimizer: Any, schedulers: Sequence[Any], milestones: Iterable[int], last_epoch: int = -1) -> None:
        schedulers, milestones = list(schedulers), list(milestones)
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise value_error(f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} milestones, not {len(milestones)}")
        for s in schedulers:
            if getattr(s, "optimizer", None) is not optimizer:
                raise value_error("SequentialLR: all schedules must be of the same optimizer")
        self._schedulers, self._milestones, self.optimizer = schedulers, milestones, optimizer
        self.last_epoch = last_epoch + 1
        # The schedules have each taken their first step: only the first one's counts.
        for g in optimizer.param_groups:
            g["lr"] = g["initial_lr"]
        for s in schedulers:
            s.last_epoch -= 1
        first = schedulers[0]
        first._is_first, first._step_count = True, 0
        first.step()
        first._is_first = False
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Advances to the next step."""
        if epoch is not None:
            raise value_error("SequentialLR: a step follows from the ones before it")
        self.last_epoch += 1
        at = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        own = {"last_epoch": self.last_epoch, "_milestones": self._milestones, "_last_lr": self._last_lr}
        return {**own, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = dict(state_dict)
        parts = state.pop("_schedulers")
        self.__dict__.update(state)
        for s, part in zip(self._schedulers, parts):
            s.load_state_dict(part)
        for g, value in zip(self.optimizer.param_groups, self._last_lr):
            g["lr"] = value


class ChainedScheduler(LRScheduler):
    """Chained schedules: each multiplies the rate that the others have set.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> both = [tw.optim.lr_scheduler.ExponentialLR(o, 0.5), tw.optim.lr_scheduler.ExponentialLR(o, 0.1)]
    >>> s = tw.optim.lr_scheduler.ChainedScheduler(both)
    >>> s.step()
    >>> s.get_last_lr()
    [0.05]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        schedulers = list(schedulers)
        if not schedulers:
            raise value_error("ChainedScheduler: there are no schedules")
        optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not optimizer for s in schedulers):
            raise value_error("ChainedScheduler: all schedules must be of the same optimizer")
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = [float(g["lr"]) for g in optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Advances all schedules to the next step."""
        for s in self._schedulers:
            s.step()
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        return {"_schedulers": [s.state_dict() for s in self._schedulers], "_last_lr": self._last_lr}

    load_state_dict = SequentialLR.load_state_dict


class ReduceLROnPlateau(LRScheduler):
    """Reduces the learning rate by ``factor`` when a metric has not improved for more than ``patience`` steps.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1)
    >>> for loss in [3.0, 3.0, 3.0]:
    ...     s.step(loss)
    >>> o.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self, optimizer: Any, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: float | Sequence[float] = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise type_error(f"ReduceLROnPlateau: expected an optimizer, not {type(optimizer).__name__}")
        if mode not in ("min", "max"):
            raise value_error(f"ReduceLROnPlateau: mode is min or max, not {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise value_error(f"ReduceLROnPlateau: threshold_mode is rel or abs, not {threshold_mode!r}")
        if factor >= 1.0:
            raise value_error(f"ReduceLROnPlateau: factor must be less than 1, not {factor}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = each(self, "min_lr", min_lr, optimizer)
        self.last_epoch = 0
        self._last_lr = [float(g["lr"]) for g in optimizer.param_groups]
        self._reset()

    def _reset(self):
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    def is_better(self, a: float, best: float) -> bool:
        """True if a metric is an improvement."""
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * a < sign * (best * (1 - sign * self.threshold)) if math.isfinite(best) else sign * a < sign * best
        return sign * a < sign * (best - sign * self.threshold)

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Takes the next value of the metric."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for g, least in zip(self.optimizer.param_groups, self.min_lrs):
                old = float(g["lr"])
                new = max(old * self.factor, least)
                if old - new > self.eps:
                    g["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()


check(globals(), __all__)


def __getattr__(name: str) -> object:
    from .._differences import missing

    raise missing(".optim.lr_scheduler", name)
