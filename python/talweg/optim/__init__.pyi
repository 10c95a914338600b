"""Optimizers with PyTorch's names and signatures; the rules are the Rust side's."""

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

class LBFGS:
    """Limited-memory BFGS: ``step`` asks ``closure`` for the loss several times."""
    def __init__(self, params: Iterable[Any], lr: float = 1.0, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-07, tolerance_change: float = 1e-09, history_size: int = 100, line_search_fn: str | None = None) -> None: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes a state; nothing changes if a part is missing."""
    def state_dict(self) -> dict[str, Tensor]:
        """Everything a checkpoint needs, by name."""
    def step(self, closure: Callable[[], Tensor]) -> float:
        """One step; the loss at its begin. ``closure`` need not call ``backward``."""
    def zero_grad(self) -> None:
        """Forgets collected gradients."""

class Optimizer:
    """A rule applied to parameters.

    ``step`` uses the gradients that ``backward`` has collected, and forgets them; ``minimize`` makes the
    update of a graph instead, for a session."""
    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    def __init__(self, params: Iterable[Any], **settings: Any) -> None: ...
    def add_param_group(self, group: dict[str, Any]) -> None:
        """Adds parameters with a learning rate or weight decay of their own."""
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes a state; nothing changes if a part is missing."""
    @property
    def lr(self) -> float: ...
    @lr.setter
    def lr(self, value: float) -> None: ...
    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
    def state_dict(self) -> dict[str, Tensor]:
        """Step count, learning rates and the state of each parameter, by name."""
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients, which are then forgotten."""
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the collected gradients."""

class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012)."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern 2018)."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class Adagrad(Optimizer):
    """Adagrad (Duchi and others 2011)."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class Adam(Optimizer):
    """Adam (Kingma and Ba 2014)."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class AdamW(Optimizer):
    """Adam with decay apart from the gradient."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class Lion(Optimizer):
    """Lion (Chen and others 2023)."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class NAdam(Optimizer):
    """Adam with Nesterov's momentum."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class RMSprop(Optimizer):
    """RMSProp (Tieleman and Hinton 2012)."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

class Rule(Optimizer):
    """An optimizer of one's own: a subclass says in tensor code how one parameter moves.

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
    ...     w.square().sum().backward()
    ...     optimizer.step()
    >>> w.tolist()
    [-0.5, -1.0]

    ``slots`` names what is kept for each parameter, arrays like it that begin with these numbers. ``update`` returns the
    new parameter and the new state; ``lr`` and ``step``, which counts from 1, are tensors. It runs wherever the built-in
    rules do: in graphs, under ``jit``, with gradients that are averaged over workers, and on servers of the parameter
    store; there it may use numbers and other tensors as they are when the optimizer is made, but no variables."""
    slots: dict[str, float]
    @property
    def settings(self) -> dict[str, Any]: ...
    def update(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], lr: Tensor, step: Tensor, weight_decay: float) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of one parameter: ``(parameter, state)``. A subclass says it."""

class SGD(Optimizer):
    """Gradient descent, with momentum."""
    def __init__(self, params: Iterable[Any], *args: Any, **settings: Any) -> None: ...

