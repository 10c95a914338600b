"""Cyclical learning rates and the one-cycle policy, with inverse momentum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .._checked import check, type_error, value_error
from .optimizer import Optimizer
from .schedule import LRScheduler, each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["CyclicLR", "OneCycleLR"]


class _Momentum:
    """The momentum of groups as a schedule changes it: ``momentum``, or the first of ``betas``."""

    def __init__(self, scheduler, optimizer):
        settings = optimizer.defaults
        if "momentum" not in settings and "betas" not in settings:
            name = type(scheduler).__name__
            raise value_error(f"{name}: cycle_momentum needs an optimizer with momentum or betas; or cycle_momentum=False")
        self._optimizer, self._is_beta = optimizer, "betas" in settings
        if hasattr(optimizer, "cycle_momentum"):
            optimizer.cycle_momentum()

    def set(self, values):
        if len(set(values)) > 1 and hasattr(self._optimizer, "cycle_momentum"):
            raise value_error("a momentum that is cycled is the same for all groups")
        for g, m in zip(self._optimizer.param_groups, values):
            if self._is_beta:
                g["betas"] = (m, *g["betas"][1:])
            else:
                g["momentum"] = m


class CyclicLR(LRScheduler):
    """Cyclical learning rate between ``base_lr`` and ``max_lr`` (Smith 2017).

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, step_size_up=2, cycle_momentum=False)
    >>> [round(s.lr(i), 3) for i in range(5)]
    [0.1, 0.3, 0.5, 0.3, 0.1]
    """

    def __init__(
        self, optimizer: Any, base_lr: float | Sequence[float], max_lr: float | Sequence[float],
        step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8, max_momentum: float | Sequence[float] = 0.9, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise type_error(f"CyclicLR: expected an optimizer, not {type(optimizer).__name__}")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise value_error(f"CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', not {mode!r}")
        lows = each(self, "base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for g, low in zip(optimizer.param_groups, lows):
                g["lr"] = g["initial_lr"] = float(low)
        self.max_lrs = each(self, "max_lr", max_lr, optimizer)
        self._up, self._down = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self._scale_fn, self.scale_mode = scale_fn, scale_mode if scale_fn else ("iterations" if mode == "exp_range" else "cycle")
        self._momentum = _Momentum(self, optimizer) if cycle_momentum else None
        self.base_momentums = each(self, "base_momentum", base_momentum, optimizer)
        self.max_momentums = each(self, "max_momentum", max_momentum, optimizer)
        super().__init__(optimizer, last_epoch)

    def _height(self, step):
        """The position within the cycle, from 0 to 1, and the scale of this cycle."""
        total = self._up + self._down
        cycle = math.floor(1 + step / total)
        x, turn = 1.0 + step / total - cycle, self._up / total
        height = x / turn if x <= turn else (x - 1) / (turn - 1)
        if self._scale_fn is not None:
            scale = self._scale_fn(cycle if self.scale_mode == "cycle" else step)
        else:
            scale = {"triangular": 1.0, "triangular2": 1 / 2.0 ** (cycle - 1), "exp_range": self.gamma**step}[self.mode]
        return height * scale

    def get_lr(self) -> list[float]:
        height = self._height(self.last_epoch)
        if self.cycle_momentum:
            self._momentum.set([m - (m - low) * height for low, m in zip(self.base_momentums, self.max_momentums)])
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs)]

    def _jumped(self):
        return self.get_lr()  # which sets the momentum as well

    def _closed(self, group, step):
        return self.base_lrs[group] + (self.max_lrs[group] - self.base_lrs[group]) * self._height(step)

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in super().state_dict().items() if k != "_momentum"}


class OneCycleLR(LRScheduler):
    """One-cycle policy: up to ``max_lr``, then far down (Smith and Topin 2019), with inverse momentum.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=10, cycle_momentum=False)
    >>> round(s.lr(0), 3), round(s.lr(2), 3), round(s.lr(9), 3)
    (0.04, 1.0, 0.0)
    """

    def __init__(
        self, optimizer: Any, max_lr: float | Sequence[float], total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            raise type_error(f"OneCycleLR: expected an optimizer, not {type(optimizer).__name__}")
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise value_error("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0 <= pct_start <= 1:
            raise value_error(f"OneCycleLR: {total_steps} steps of which {pct_start} go up")
        if anneal_strategy not in ("cos", "linear"):
            raise value_error(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        up = float(pct_start * total_steps) - 1
        down = float(2 * pct_start * total_steps) - 2 if three_phase else total_steps - 1
        self._phases = [(up, 0, 1), (down, 1, 0 if three_phase else 2)]
        if three_phase:
            self._phases.append((total_steps - 1, 0, 2))
        self.max_lrs = each(self, "max_lr", max_lr, optimizer)
        self._levels = [(high / div_factor, high, high / div_factor / final_div_factor) for high in self.max_lrs]
        if last_epoch == -1:
            for g, (first, _, _) in zip(optimizer.param_groups, self._levels):
                g["lr"] = g["initial_lr"] = first
        self._momentum = _Momentum(self, optimizer) if cycle_momentum else None
        low, high = (each(self, n, v, optimizer) for n, v in (("base_momentum", base_momentum), ("max_momentum", max_momentum)))
        self._momentums = [(h, l, h) for l, h in zip(low, high)]
        super().__init__(optimizer, last_epoch)

    def _at(self, levels, step):
        """The value of a step, between the levels of its phase."""
        begin = 0.0
        for i, (end, a, b) in enumerate(self._phases):
            if step <= end or i == len(self._phases) - 1:
                share = (step - begin) / (end - begin) if end > begin else 1.0
                if self.anneal_strategy == "cos":
                    return levels[b] + (levels[a] - levels[b]) / 2.0 * (math.cos(math.pi * share) + 1)
                return levels[a] + (levels[b] - levels[a]) * share
            begin = end
        raise AssertionError("a schedule has phases")

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise value_error(f"OneCycleLR: step {self.last_epoch} of {self.total_steps}")
        if self.cycle_momentum:
            self._momentum.set([self._at(m, self.last_epoch) for m in self._momentums])
        return [self._at(levels, self.last_epoch) for levels in self._levels]

    def _jumped(self):
        return self.get_lr()  # which sets the momentum as well

    def _closed(self, group, step):
        return self._at(self._levels[group], step)

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in super().state_dict().items() if k != "_momentum"}


check(globals(), __all__)
