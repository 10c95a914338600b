"""The base of schedules of learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._checked import check, type_error, value_error
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["LRScheduler"]


def each(scheduler, name, value, optimizer):
    """A value for each group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise value_error(f"{type(scheduler).__name__}: {name} has {len(value)} values for {count} groups")
    return list(value)


class LRScheduler:
    """The base of schedules: a subclass says the learning rate of each group in ``get_lr``, by ``last_epoch``, the number
    of steps so far."""

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise type_error(f"{type(self).__name__}: expected an optimizer, not {type(optimizer).__name__}")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for g in optimizer.param_groups:
            if last_epoch == -1:
                g.setdefault("initial_lr", float(g["lr"]))
            elif "initial_lr" not in g:
                raise value_error(f"{type(self).__name__}: last_epoch is {last_epoch}, but the groups have no initial_lr")
        self.base_lrs = [g["initial_lr"] for g in optimizer.param_groups]
        self._step_count = 0
        self._is_first = True
        self.step()
        self._is_first = False

    def get_lr(self) -> list[float]:
        """The learning rate of each group now."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr")

    def _closed(self, group, step):
        """The learning rate of a step by itself, of the group of this number."""
        raise value_error(f"{type(self).__name__}: the learning rate of a step follows from the ones before it")

    def _jumped(self):
        """The learning rate of each group after a step to ``last_epoch`` from any other."""
        if type(self)._closed is LRScheduler._closed:
            return self.get_lr()
        return [self._closed(g, self.last_epoch) for g in range(len(self.base_lrs))]

    def lr(self, step: int) -> float:
        """The learning rate of the first group at a step, counted from 0, if no other schedule works on it."""
        return self._closed(0, step)

    def step(self, epoch: int | None = None) -> None:
        """Advances to the next step, or to a given one."""
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = self._jumped()
        for g, value in zip(self.optimizer.param_groups, values):
            g["lr"] = value
        self._last_lr = [float(g["lr"]) for g in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The learning rates that were set last."""
        return self._last_lr

    def _rates(self):
        return [float(g["lr"]) for g in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
        hidden = ("optimizer", "_is_first")
        return {k: v for k, v in self.__dict__.items() if k not in hidden and not callable(v)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, and sets the learning rates."""
        self.__dict__.update(state_dict)
        for g, value in zip(self.optimizer.param_groups, self._last_lr):
            g["lr"] = value


check(globals(), __all__)
