"""Limited-memory BFGS."""

from .. import _native
from .._checked import check, type_error, value_error
from .._graph import has_grad
from .._native import Tensor
from .optimizer import load_flat

__all__ = ["LBFGS"]


class LBFGS:
    """Limited-memory BFGS: ``step`` asks ``closure`` for the loss several times.

    >>> import talweg as tw
    >>> w = tw.nn.Parameter([3.0])
    >>> loss = tw.optim.LBFGS([w]).step(lambda: (w - 1).square().sum())
    >>> loss.item(), round(w.item(), 3)
    (4.0, 1.0)
    """

    def __init__(
        self,
        params,
        lr=1.0,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
        *,
        maximize=False,
    ):
        if line_search_fn not in (None, "strong_wolfe"):
            raise value_error(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        if isinstance(params, Tensor):
            raise type_error("LBFGS: params is a tensor; give a list of them")
        settings = dict(
            lr=lr,
            iterations=max_iter,
            evaluations=max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history=history_size,
            strong_wolfe=line_search_fn is not None,
        )
        self._maximize, self._params = maximize, list(params)
        self._native = _native.Lbfgs(self._params, settings)

    def step(self, closure):
        """One step; the loss at its begin. ``closure`` need not call ``backward``."""
        value = self._native.step((lambda: -closure()) if self._maximize else closure)
        return _native.tensor(-value if self._maximize else value)

    def zero_grad(self, set_to_none=True):
        """Forgets collected gradients, or makes them zero."""
        for p in self._params:
            p.grad = None if set_to_none or not has_grad(p) else _native.zeros_like(p.grad)

    def state_dict(self):
        """Everything a checkpoint needs, by name."""
        return {name: v.detach() for name, v in self._native.state()}

    def load_state_dict(self, state_dict):
        """Takes a state; nothing changes if a part is missing."""
        load_flat(self._native.state(), state_dict)


check(globals(), __all__)
