"""Optimizers and schedules of learning rates with PyTorch's names and signatures; the built-in rules are the Rust side's."""

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
from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils

class Optimizer:
    """The base class of optimizers. A custom one is a subclass with ``step``, as in PyTorch. To run in graphs, under
    ``launch`` and on servers, subclass ``Rule`` instead.

    >>> import talweg as tw
    >>> class Descent(tw.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @tw.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad
    >>> w = tw.nn.Parameter([2.0])
    >>> w.square().sum().backward()
    >>> Descent([w], lr=0.25).step()
    >>> w.item()
    1.0"""
    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    def __init__(self, params: Iterable[Any], defaults: Any = None) -> None: ...
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with settings of their own."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch; nothing changes if it does not fit."""
    @property
    def lr(self) -> float: ...
    @lr.setter
    def lr(self, value: float) -> None: ...
    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer)`` is called after ``load_state_dict``."""
    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer, state_dict)`` is called before ``load_state_dict`` and may return another state."""
    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer, state_dict)`` is called after ``state_dict`` and may return another."""
    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer)`` is called before ``state_dict``."""
    def register_step_post_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(optimizer, args, kwargs)`` is called after each step."""
    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(optimizer, args, kwargs)`` is called before each step."""
    @property
    def state(self) -> Any: ...
    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: {name: tensor}}, "param_groups": [settings]}``, as PyTorch's."""
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients."""
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the collected gradients, or makes them zero."""

class LBFGS(Optimizer):
    """Limited-memory BFGS: ``step`` asks ``closure`` for the loss several times. There is one group of parameters.

    >>> import talweg as tw
    >>> w = tw.nn.Parameter([3.0])
    >>> loss = tw.optim.LBFGS([w]).step(lambda: (w - 1).square().sum())
    >>> loss.item(), round(w.item(), 3)
    (4.0, 1.0)"""
    def __init__(self, params: Iterable[Any], lr: float = 1.0, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-07, tolerance_change: float = 1e-09, history_size: int = 100, line_search_fn: str | None = None, *, maximize: bool = False) -> None: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, or the ``"optimizer"`` part of a checkpoint; nothing changes if it does not
        fit."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Tensor:
        """One step; the loss at its begin. ``closure`` need not call ``backward``."""

class Rule(Optimizer):
    """A custom optimizer: a subclass defines, in tensor code, the update of one parameter.

    >>> import talweg as tw
    >>> class Momentum(tw.optim.Rule):
    ...     defaults = {"lr": 0.1, "beta": 0.5}
    ...     slots = {"speed": 0.0}
    ...
    ...     def update(self, param, grad, state, lr, step, weight_decay):
    ...         speed = self.settings["beta"] * state["speed"] + grad
    ...         return param - lr * speed, {"speed": speed}
    >>> w = tw.nn.Parameter([1.0, 2.0])
    >>> optimizer = Momentum([w], lr=0.5)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     w.square().sum().backward()
    ...     optimizer.step()
    >>> w.tolist()
    [-0.5, -1.0]

    ``slots`` names the state of each parameter: arrays of its shape, filled with these numbers at first. ``update`` returns the
    new parameter and the new state; ``lr`` and ``step``, which counts from 1, are tensors. It runs wherever the built-in
    rules do: in graphs, under ``jit``, with gradients that are averaged over workers, and on servers of the parameter
    store; there it may read variables that are single numbers, and other tensors as they are when the optimizer is made."""
    slots: dict[str, float]
    def __init__(self, params: Iterable[Any], **settings: Any) -> None: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""
    def update(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], lr: Tensor, step: Tensor, weight_decay: float) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of one parameter: ``(parameter, state)``. A subclass says it."""

class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992); the average is the state ``ax``."""
    def __init__(self, params: Iterable[Any], lr: float = 0.01, lambd: float = 0.0001, alpha: float = 0.75, t0: float = 1000000.0, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False, capturable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012)."""
    def __init__(self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-06, weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern 2018): ``eps`` are the smallest second moment's root and the smallest size that a
    parameter counts with, ``d`` is the root mean square above which a step is scaled down."""
    def __init__(self, params: Iterable[Any], lr: float = 0.01, beta2_decay: float = -0.8, eps: tuple[float | None, float] = ..., d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Adagrad(Optimizer):
    """Adagrad (Duchi and others 2011)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.01, lr_decay: float = 0, weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Adam(Optimizer):
    """Adam (Kingma and Ba 2014).

    >>> import talweg as tw
    >>> w = tw.nn.Parameter([1.0])
    >>> optimizer = tw.optim.Adam([{"params": [w], "lr": 0.1}], betas=(0.9, 0.95))
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> sorted(optimizer.state_dict()["state"][0])
    ['exp_avg', 'exp_avg_sq', 'step']"""
    def __init__(self, params: Iterable[Any], lr: float = 0.001, betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False, fused: bool | None = None, decoupled_weight_decay: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Adamax(Optimizer):
    """Adam by the largest gradient (Kingma and Ba 2014)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.002, betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, capturable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Lion(Optimizer):
    """Lion (Chen and others 2023)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.0001, betas: tuple[float, float] = ..., weight_decay: float = 0.0, *, maximize: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Muon(Optimizer):
    """Momentum made orthogonal (Jordan and others 2024), for matrices."""
    def __init__(self, params: Iterable[Any], lr: float = 0.001, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True, ns_coefficients: tuple[float, float, float] = ..., eps: float = 1e-07, ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.002, betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0, momentum_decay: float = 0.004, decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class RAdam(Optimizer):
    """Adam with a rectified variance (Liu and others 2019)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.001, betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class RMSprop(Optimizer):
    """RMSProp (Tieleman and Hinton 2012)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.01, alpha: float = 0.99, eps: float = 1e-08, weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class Rprop(Optimizer):
    """Resilient backpropagation (Riedmiller and Braun 1993): the signs of gradients alone count."""
    def __init__(self, params: Iterable[Any], lr: float = 0.01, etas: tuple[float, float] = ..., step_sizes: tuple[float, float] = ..., *, capturable: bool = False, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class SGD(Optimizer):
    """Gradient descent, with momentum.

    >>> import talweg as tw
    >>> w = tw.nn.Parameter([1.0])
    >>> optimizer = tw.optim.SGD([w], lr=0.5, momentum=0.9, nesterov=True)"""
    def __init__(self, params: Iterable[Any], lr: float = 0.001, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class SparseAdam(Optimizer):
    """PyTorch's Adam for sparse gradients, which there are none of here: refused."""
    def __init__(self, params: Iterable[Any], lr: float = 0.001, betas: tuple[float, float] = ..., eps: float = 1e-08, maximize: bool = False) -> None: ...
    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    @property
    def state(self) -> Any: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Those of parameters are then forgotten; parameters without one stay as
        they are."""

class AdamW(Adam):
    """Adam with decay apart from the gradient (Loshchilov and Hutter 2019)."""
    def __init__(self, params: Iterable[Any], lr: float = 0.001, betas: tuple[float, float] = ..., eps: float = 1e-08, weight_decay: float = 0.01, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, fused: bool | None = None) -> None: ...

