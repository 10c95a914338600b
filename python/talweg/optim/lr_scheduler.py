"""Learning rates that change with the step: pure functions of it."""

from .. import _native
from .._checked import check, value_error

_make = _native.Schedule

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "StepLR",
    "Warmup",
]


class _Scheduler:
    """Sets the learning rate of every group at each ``step``; ``lr(step)`` says it without setting it."""

    def __init__(self, optimizer, schedule):
        self.optimizer, self._schedule, self.last_epoch = optimizer, schedule, 0
        optimizer.lr = schedule.lr(0)

    def lr(self, step):
        """The learning rate of a step, counted from 0."""
        return self._schedule.lr(step)

    def step(self):
        """Goes on to the next step."""
        self.last_epoch += 1
        self.optimizer.lr = self.lr(self.last_epoch)

    def get_last_lr(self):
        return [g["lr"] for g in self.optimizer.param_groups]

    def state_dict(self):
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state):
        self.last_epoch = state["last_epoch"]
        self.optimizer.lr = self.lr(self.last_epoch)


class ConstantLR(_Scheduler):
    """Always the same."""

    def __init__(self, optimizer):
        super().__init__(optimizer, _make.constant(optimizer.lr))


class StepLR(_Scheduler):
    """Multiplied by ``gamma`` after every ``step_size`` steps.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.StepLR(o, 2, gamma=0.5)
    >>> [s.lr(i) for i in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer, step_size, gamma=0.1):
        super().__init__(optimizer, _make.step_decay(optimizer.lr, step_size, gamma))


class ExponentialLR(_Scheduler):
    """Multiplied by ``gamma`` after every step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.ExponentialLR(o, 0.5)
    >>> [s.lr(i) for i in range(3)]
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer, gamma):
        super().__init__(optimizer, _make.exponential(optimizer.lr, gamma))


class CosineAnnealingLR(_Scheduler):
    """Half a cosine down to ``eta_min``.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.CosineAnnealingLR(o, 4)
    >>> round(s.lr(2), 3), round(s.lr(4), 3)
    (0.5, 0.0)
    """

    def __init__(self, optimizer, T_max, eta_min=0.0):
        super().__init__(optimizer, _make.cosine(optimizer.lr, eta_min, T_max))


class OneCycleLR(_Scheduler):
    """Up to ``max_lr``, then far down."""

    def __init__(self, optimizer, max_lr, total_steps, pct_start=0.3, div_factor=25.0, final_div_factor=1e4):
        super().__init__(optimizer, _make.one_cycle(max_lr, total_steps, pct_start, div_factor, final_div_factor))


class Warmup(_Scheduler):
    """From ``start`` up in ``steps``, then as another scheduler says.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.lr_scheduler.Warmup(tw.optim.lr_scheduler.ConstantLR(o), 4)
    >>> s.lr(4)
    1.0
    """

    def __init__(self, then, steps, start=0.0):
        super().__init__(then.optimizer, _make.warmup(steps, start, then._schedule))


class LambdaLR(_Scheduler):
    """The first learning rate times a function of the step.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=2.0)
    >>> tw.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (step + 1)).lr(1)
    1.0
    """

    class _Function:
        def __init__(self, base, f):
            self._base, self._f = base, f

        def lr(self, step):
            return self._base * self._f(step)

    def __init__(self, optimizer, lr_lambda):
        super().__init__(optimizer, self._Function(optimizer.lr, lr_lambda))


class ReduceLROnPlateau:
    """Falls by ``factor`` when a figure stops to improve."""

    def __init__(
        self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, cooldown=0, min_lr=0.0
    ):
        if mode not in ("min", "max"):
            raise value_error(f"ReduceLROnPlateau: mode is min or max, not {mode!r}")
        self.optimizer = optimizer
        self._native = _native.Plateau(
            optimizer.lr,
            maximize=mode == "max",
            factor=factor,
            patience=patience,
            threshold=threshold,
            cooldown=cooldown,
            lr_min=min_lr,
        )

    def step(self, metrics):
        """Takes the next figure."""
        self.optimizer.lr = self._native.observe(float(metrics))

    def state_dict(self):
        """Learning rate, best figure, and how many came since it and since the last fall."""
        return {"state": list(self._native.state)}

    def load_state_dict(self, state):
        """Takes a state."""
        self._native.state = tuple(state["state"])
        self.optimizer.lr = self._native.state[0]


check(globals(), __all__)
