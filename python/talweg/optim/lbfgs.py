"""Limited-memory BFGS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from .._checked import check, type_error, value_error
from .optimizer import Optimizer, load_flat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .. import Tensor

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS: ``step`` evaluates ``closure`` several times. There is one parameter group.

    >>> w = tw.nn.Parameter([3.0])
    >>> loss = tw.optim.LBFGS([w]).step(lambda: (w - 1).square().sum())
    >>> loss.item(), round(w.item(), 3)
    (4.0, 1.0)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise value_error(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        names = "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn maximize".split()
        values = (lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, line_search_fn, maximize)
        super().__init__(params, dict(zip(names, values)))

    def _prepare(self):
        super()._prepare()
        self._native = None

    def _made(self):
        g = self.param_groups[0]
        settings = {k: g[k] for k in ("max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size")}
        settings.update(lr=float(g["lr"]), strong_wolfe=g["line_search_fn"] is not None)
        return _native.Lbfgs(g["params"], settings)

    def _added(self, group):
        if len(self.param_groups) > 1:
            raise value_error("LBFGS: all parameters belong to one group: give them in one list")
        self._native = self._made()

    def _changed(self, group, key):
        if key in self.defaults and key != "maximize":
            made = self._made()
            load_flat(made.state(), self._flat())
            self._native = made

    def _flat(self):
        return {name: v.detach() for name, v in self._native.state()}

    def step(self, closure: Callable[[], Any] | None = None) -> Tensor:
        """One step; returns the loss before it. ``closure`` need not call ``backward``."""
        if closure is None:
            raise type_error("LBFGS: step needs a function that returns the loss: optimizer.step(closure)")
        for hook in list(self._pre_hooks.values()):
            hook(self, (closure,), {})
        is_ascending, losses = self.param_groups[0]["maximize"], []

        def evaluated():
            loss = closure()
            losses[1:] = [loss]
            return -loss if is_ascending else loss

        self._native.step(evaluated)
        for hook in list(self._post_hooks.values()):
            hook(self, (closure,), {})
        return losses[0] if isinstance(losses[0], _native.Tensor) else _native.tensor(losses[0])

    @property
    def state(self) -> Any:
        """The state, with the first parameter, as PyTorch keeps it."""
        return {self.param_groups[0]["params"][0]: dict(self._native.state())}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Loads what ``state_dict`` returned, or the ``"optimizer"`` part of a checkpoint; nothing changes if it does not
        fit."""
        if "param_groups" in state_dict:
            super().load_state_dict(state_dict)
        else:
            load_flat(self._native.state(), state_dict)

    def _take_state(self, state):
        if 0 in state:
            load_flat(self._native.state(), state[0])

    def _own_attributes(self):
        return {k: v for k, v in super()._own_attributes().items() if k != "_native"}


check(globals(), __all__)
