"""TensorFlow's names of optimizers: ``AdagradOptimizer(0.01).minimize(loss)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from .._native import Tensor, Update
from .._checked import check, type_error, value_error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _variables(loss):
    """The trainable variables that a tensor depends on."""
    return _native.trainable_variables(loss)


class Optimizer:
    """Builds the update that minimizes a loss over the variables it depends on."""

    _kind = ""

    def __init__(self, learning_rate: float, **settings: Any) -> None:
        self._settings = dict(settings, lr=float(learning_rate))
        self._native = None

    def minimize(self, loss: Tensor, var_list: Sequence[Tensor] | None = None) -> Update:
        """The update of one step, for ``Session.run``. A loss of several elements is summed."""
        if not isinstance(loss, Tensor):
            raise type_error(f"minimize: the loss is {type(loss).__name__}, not a tensor")
        variables = list(var_list) if var_list is not None else _variables(loss)
        if not variables:
            raise value_error("minimize: the loss depends on no trainable variable")
        self._native = _native.Optimizer(self._kind, variables, self._settings)
        return self._native.minimize(loss if loss.size == 1 else loss.sum())


def _optimizer(name, kind, translate):
    class Made(Optimizer):
        _kind = kind

        def __init__(self, learning_rate=0.001, **settings):
            unknown = set(settings) - set(translate)
            if unknown:
                raise type_error(f"{name} has no setting {sorted(unknown)[0]!r}; it has {sorted(translate)}")
            super().__init__(learning_rate, **{translate[k]: v for k, v in settings.items()})

    Made.__name__ = Made.__qualname__ = name
    Made.__doc__ = f"TensorFlow's ``{name}``."
    return Made


GradientDescentOptimizer = _optimizer("GradientDescentOptimizer", "Sgd", {})
MomentumOptimizer = _optimizer("MomentumOptimizer", "Sgd", {"momentum": "momentum", "use_nesterov": "nesterov"})
AdagradOptimizer = _optimizer("AdagradOptimizer", "Adagrad", {"initial_accumulator_value": "initial_accumulator"})
AdadeltaOptimizer = _optimizer("AdadeltaOptimizer", "Adadelta", {"rho": "rho", "epsilon": "eps"})
RMSPropOptimizer = _optimizer("RMSPropOptimizer", "RmsProp", {"decay": "alpha", "momentum": "momentum", "epsilon": "eps"})


class AdamOptimizer(Optimizer):
    """TensorFlow's ``AdamOptimizer``."""

    _kind = "Adam"

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        super().__init__(learning_rate, betas=(beta1, beta2), eps=epsilon)


__all__ = [
    "Optimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "AdagradOptimizer",
    "AdadeltaOptimizer",
    "RMSPropOptimizer",
    "AdamOptimizer",
    "Update",
]

check(globals(), __all__)
