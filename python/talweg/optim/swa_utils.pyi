"""Averages of weights over training: stochastic weight averaging (Izmailov and others 2018) and exponential averages."""

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

class AveragedModel(Module):
    """A copy of a model whose parameters are averages: of all models that ``update_parameters`` has seen, or by
    ``avg_fn(average, current, count)``.

    >>> import talweg as tw
    >>> model = tw.nn.Linear(1, 1)
    >>> average = tw.optim.swa_utils.AveragedModel(model, multi_avg_fn=tw.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    >>> average.update_parameters(model)
    >>> average.n_averaged.item(), average(tw.ones(1, 1)).shape
    (1, talweg.Size([1, 1]))"""
    def __init__(self, model: Module, device: str | None = None, avg_fn: Callable[..., Any] | None = None, multi_avg_fn: Callable[..., Any] | None = None, use_buffers: bool = False) -> None: ...
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def update_parameters(self, model: Module) -> None:
        """Takes a model into the average."""

class SWALR:
    """To a constant learning rate ``swa_lr`` in ``anneal_epochs`` steps.

    >>> import talweg as tw
    >>> o = tw.optim.SGD([tw.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> s = tw.optim.swa_utils.SWALR(o, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> s.step()
    >>> s.get_last_lr()
    [0.75]"""
    last_epoch: int
    optimizer: Any
    base_lrs: list[float]
    def __init__(self, optimizer: Any, swa_lr: float | Sequence[float], anneal_epochs: int = 10, anneal_strategy: str = 'cos', last_epoch: int = -1) -> None: ...
    def get_last_lr(self) -> list[float]:
        """The learning rates that were set last."""
    def get_lr(self) -> list[float]:
        ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, and sets the learning rates."""
    def lr(self, step: int) -> float:
        """The learning rate of the first group at a step, counted from 0, if no other schedule works on it."""
    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step, or to the one that is given."""

def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """An exponential average, as ``avg_fn`` of ``AveragedModel``.

    >>> import talweg as tw
    >>> tw.optim.swa_utils.get_ema_avg_fn(0.9)(tw.tensor(1.0), tw.tensor(2.0), 3).item()
    1.1"""
def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """An exponential average of lists of tensors, in place.

    >>> import talweg as tw
    >>> x = tw.tensor([1.0])
    >>> tw.optim.swa_utils.get_ema_multi_avg_fn(0.5)([x], [tw.tensor([2.0])], 1)
    >>> x.item()
    1.5"""
def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The mean of all models, as ``avg_fn`` of ``AveragedModel``.

    >>> import talweg as tw
    >>> tw.optim.swa_utils.get_swa_avg_fn()(tw.tensor(1.0), tw.tensor(4.0), 2).item()
    2.0"""
def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The mean of all lists of tensors, in place.

    >>> import talweg as tw
    >>> x = tw.tensor([1.0])
    >>> tw.optim.swa_utils.get_swa_multi_avg_fn()([x], [tw.tensor([2.0])], 1)
    >>> x.item()
    1.5"""
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Makes running averages of batch normalization anew, by one pass over data.

    >>> import talweg as tw
    >>> model = tw.nn.BatchNorm1d(1)
    >>> tw.optim.swa_utils.update_bn([tw.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean.tolist()
    [2.0]"""
