"""Averages of weights over training: stochastic weight averaging (Izmailov and others 2018) and exponential averages."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

from .. import _native
from .._checked import check, value_error
from .._state import no_grad
from ..nn import Module
from ..nn.layers.norm import _BatchNorm
from .lr_scheduler import LRScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from .. import Tensor

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """An exponential average, as ``avg_fn`` of ``AveragedModel``.

    >>> tw.optim.swa_utils.get_ema_avg_fn(0.9)(tw.tensor(1.0), tw.tensor(2.0), 3).item()
    1.1
    """
    if not 0.0 <= decay <= 1.0:
        raise value_error(f"get_ema_avg_fn: decay must lie between 0 and 1, not {decay}")
    return lambda average, current, _count: average * decay + current * (1 - decay)


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The mean of all models, as ``avg_fn`` of ``AveragedModel``.

    >>> tw.optim.swa_utils.get_swa_avg_fn()(tw.tensor(1.0), tw.tensor(4.0), 2).item()
    2.0
    """
    return lambda average, current, count: average + (current - average) / (count + 1)


def _multi(one):
    def average(averages, currents, count):
        for a, c in zip(averages, currents):
            a.copy_(one(a.detach(), c.detach(), count))

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """An exponential average of lists of tensors, in place.

    >>> x = tw.tensor([1.0])
    >>> tw.optim.swa_utils.get_ema_multi_avg_fn(0.5)([x], [tw.tensor([2.0])], 1)
    >>> x.item()
    1.5
    """
    return _multi(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The mean of all lists of tensors, in place.

    >>> x = tw.tensor([1.0])
    >>> tw.optim.swa_utils.get_swa_multi_avg_fn()([x], [tw.tensor([2.0])], 1)
    >>> x.item()
    1.5
    """
    return _multi(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: of all models that ``update_parameters`` has seen, or by
    ``avg_fn(average, current, count)``.

    >>> model = tw.nn.Linear(1, 1)
    >>> average = tw.optim.swa_utils.AveragedModel(model, multi_avg_fn=tw.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    >>> average.update_parameters(model)
    >>> average.n_averaged.item(), average(tw.ones(1, 1)).shape
    (1, talweg.Size([1, 1]))
    """

    def __init__(
        self, model: Module, device: str | None = None, avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise value_error("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", _native.zeros((), dtype="int64"))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes a model into the average."""
        pairs = list(zip(self.module.parameters(), model.parameters()))
        if self.use_buffers:
            pairs += [(a, b) for a, b in zip(self.module.buffers(), model.buffers())]
        is_first = int(self.n_averaged.item()) == 0
        with no_grad():
            floats = [(a, b) for a, b in pairs if "float" in str(a.dtype)]
            for a, b in pairs:
                if is_first or "float" not in str(a.dtype):
                    a.copy_(b.detach())
            if not is_first and self.multi_avg_fn is not None:
                self.multi_avg_fn([a for a, _ in floats], [b.detach() for _, b in floats], self.n_averaged)
            elif not is_first:
                average = self.avg_fn or get_swa_avg_fn()
                for a, b in floats:
                    a.copy_(average(a.detach(), b.detach(), self.n_averaged))
            if not self.use_buffers:
                for a, b in zip(self.module.buffers(), model.buffers()):
                    a.copy_(b.detach())
        self.n_averaged.add_(1)


def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Recomputes the running averages of batch normalization, by one pass over data.

    >>> model = tw.nn.BatchNorm1d(1)
    >>> tw.optim.swa_utils.update_bn([tw.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean.tolist()
    [2.0]
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    was_training, momenta = model.training, [m.momentum for m in layers]
    for m in layers:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    with no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    for m, momentum in zip(layers, momenta):
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """To a constant learning rate ``swa_lr`` in ``anneal_epochs`` steps.

    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.swa_utils.SWALR(o, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> s.step()
    >>> s.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Any, swa_lr: float | Sequence[float], anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear"):
            raise value_error(f"SWALR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        values = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        for g, value in zip(optimizer.param_groups, values):
            g["swa_lr"] = value
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        t = min(1.0, max(0.0, step / max(1, self.anneal_epochs)))
        return t if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        step = self.last_epoch - (0 if self.anneal_epochs else 1)
        before, now = self._share(max(0, step - 1)), self._share(max(0, step))
        out = []
        for g, rate in zip(self.optimizer.param_groups, self._rates()):
            begin = g["swa_lr"] if before == 1 else (rate - before * g["swa_lr"]) / (1 - before)
            out.append(g["swa_lr"] * now + begin * (1 - now))
        return out


check(globals(), __all__)
