"""``tf.train.*Optimizer``: TensorFlow's update rules, slots and their first values."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import talweg as tw

from ... import _native
from .control_flow import group
from .errors import invalid
from .gradients import gradients
from .graph import GraphKeys, Operation, Tensor, control_dependencies, convert_to_tensor, get_collection, get_default_graph, make
from .initializers import Constant
from .variables import Variable, assign, assign_add, trainable_variables, variable_of

_T = _native.Tensor


class Optimizer:
    """Makes the operation that lowers a loss.

    A subclass has ``_slots``, the names and first values of its state for each variable, ``_settings``, numbers or
    tensors, and ``_step(ctx, v, g, slots, settings)``, which returns the new value and the new slots.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2
    _slots: tuple[tuple[str, float], ...] = ()

    def __init__(self, use_locking: bool, name: str):
        self._name = name
        self._state: dict[str, dict[Variable, Variable]] = {}
        self._settings: dict[str, Any] = {}

    def get_name(self) -> str:
        """The name."""
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = 1,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """One step: the gradients, and their application."""
        pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        if not any(g is not None for g, _ in pairs):
            raise invalid(f"minimize: no gradient for any variable: the loss {convert_to_tensor(loss).name} depends on none of them")
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = 1,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Variable]]:
        """Pairs of gradients and variables; a gradient is ``None`` where the loss does not depend on the variable."""
        loss = loss() if callable(loss) else loss
        variables = [variable_of(v) for v in (trainable_variables() if var_list is None else var_list)]
        if not variables:
            raise invalid("there is no variable to optimize")
        return list(zip(gradients(loss, variables, grad_ys=grad_loss), variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The operation that applies gradients, and then counts ``global_step``."""
        pairs = [(g, variable_of(v)) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise invalid("apply_gradients: there is no gradient")
        graph = get_default_graph()
        self._prepare()
        with graph.outside():
            for _, v in pairs:
                for i, (slot, first) in enumerate(self._slots):
                    self._make_slot(v, slot, first, i)
        with graph.name_scope(name or self._name):
            done = [self._applied(v, convert_to_tensor(g, v.dtype)) for g, v in pairs]
            with control_dependencies(done):
                done += self._finish()
            if global_step is None:
                made = group(*done, name="update")
            else:
                with control_dependencies(done):
                    made = assign_add(global_step, 1).op
        graph.get_collection_ref(GraphKeys.TRAIN_OP).append(made)
        return made

    def _make_slot(self, v: Variable, slot: str, first: float, i: int) -> Variable:
        slots = self._state.setdefault(slot, {})
        if v not in slots:
            graph = get_default_graph()
            with graph.name_scope(None):
                name = f"{v.op.name}/{self._name}"
                initial = Constant(first, v.dtype)(v.shape.as_list())
                slots[v] = Variable(initial, trainable=False, name=name)
        return slots[v]

    def _applied(self, v: Variable, g: Any) -> Any:
        slots = [self._state[s][v] for s, _ in self._slots]
        settings = {k: convert_to_tensor(s() if callable(s) else s, None if isinstance(s, Tensor) or hasattr(s, "_as_tensor") else v.dtype) for k, s in self._settings.items()}
        names, tensors = list(settings), list(settings.values())
        if not v.shape.is_compatible_with(g.shape):
            raise invalid(f"apply_gradients: {v.name} has shape {v.shape}, its gradient {g.shape}")

        def lower(ctx: Any, gradient: Any, *values: Any) -> Any:
            given = {k: x.to(v.dtype.native) for k, x in zip(names, values)}
            new, after = self._step(ctx.read(v), gradient, [ctx.read(s) for s in slots], given)
            for s, value in zip(slots, after):
                ctx.write(s, value)
            return ctx.write(v, new)

        made = make(f"Apply{self._name}", [g, *tensors], lower, f"update_{v.op.name.replace('/', '_')}", v.dtype, v.shape, writes=(v, *slots))
        if v.constraint is not None:
            with control_dependencies([made]):
                made = assign(v, v.constraint(v.read_value()))
        return made.op

    def _prepare(self) -> None:
        """Makes state that is not of one variable."""

    def _finish(self) -> list[Any]:
        """Operations after all variables."""
        return []

    def _step(self, v: Any, g: Any, slots: list[Any], s: dict[str, Any]) -> tuple[Any, list[Any]]:
        raise NotImplementedError

    def get_slot_names(self) -> list[str]:
        """The names of the slots."""
        return [s for s, _ in self._slots]

    def get_slot(self, var: Any, name: str) -> Variable | None:
        """The state of a variable."""
        return self._state.get(name, {}).get(variable_of(var))

    def variables(self) -> list[Variable]:
        """All state."""
        return [v for slots in self._state.values() for v in slots.values()]


class GradientDescentOptimizer(Optimizer):
    """``v -= lr g``."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"):
        super().__init__(use_locking, name)
        self._settings = {"lr": learning_rate}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        return v - s["lr"] * g, []


class MomentumOptimizer(Optimizer):
    """``a = momentum a + g; v -= lr a``; with Nesterov's momentum ``v -= lr (g + momentum a)``."""

    _slots = (("momentum", 0.0),)

    def __init__(self, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "Momentum", use_nesterov: bool = False):
        super().__init__(use_locking, name)
        self._settings = {"lr": learning_rate, "momentum": momentum}
        self._nesterov = use_nesterov

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        a = slots[0] * s["momentum"] + g
        return v - s["lr"] * (g + s["momentum"] * a if self._nesterov else a), [a]


class AdagradOptimizer(Optimizer):
    """``a += g²; v -= lr g / sqrt(a)``; ``a`` begins with 0.1."""

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, use_locking: bool = False, name: str = "Adagrad"):
        if initial_accumulator_value <= 0:
            raise invalid("initial_accumulator_value must be positive")
        super().__init__(use_locking, name)
        self._slots = (("accumulator", initial_accumulator_value),)
        self._settings = {"lr": learning_rate}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        a = slots[0] + g * g
        return v - s["lr"] * g * a.rsqrt(), [a]


def _shrunk(v: Any, rate: Any, s: Any) -> Any:
    """The proximal step for l1 and l2."""
    return v.sign() * (v.abs() - rate * s["l1"]).relu() / (1 + s["l2"] * rate)


class ProximalAdagradOptimizer(Optimizer):
    """Adagrad with a proximal step for l1 and l2."""

    def __init__(self, learning_rate: Any, initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False, name: str = "ProximalAdagrad"):
        super().__init__(use_locking, name)
        self._slots = (("accumulator", initial_accumulator_value),)
        self._settings = {"lr": learning_rate, "l1": l1_regularization_strength, "l2": l2_regularization_strength}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        a = slots[0] + g * g
        rate = s["lr"] * a.rsqrt()
        return _shrunk(v - rate * g, rate, s), [a]


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent with a proximal step for l1 and l2."""

    def __init__(self, learning_rate: Any, l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False, name: str = "ProximalGradientDescent"):
        super().__init__(use_locking, name)
        self._settings = {"lr": learning_rate, "l1": l1_regularization_strength, "l2": l2_regularization_strength}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        return _shrunk(v - s["lr"] * g, s["lr"], s), []


class AdadeltaOptimizer(Optimizer):
    """Zeiler's Adadelta."""

    _slots = (("accum", 0.0), ("accum_update", 0.0))

    def __init__(self, learning_rate: Any = 0.001, rho: Any = 0.95, epsilon: Any = 1e-8, use_locking: bool = False, name: str = "Adadelta"):
        super().__init__(use_locking, name)
        self._settings = {"lr": learning_rate, "rho": rho, "eps": epsilon}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        rho, eps = s["rho"], s["eps"]
        a = slots[0] * rho + g * g * (1 - rho)
        step = (slots[1] + eps).sqrt() * (a + eps).rsqrt() * g
        return v - s["lr"] * step, [a, slots[1] * rho + step * step * (1 - rho)]


class RMSPropOptimizer(Optimizer):
    """Hinton's RMSProp with momentum; the mean square begins with 1."""

    def __init__(self, learning_rate: Any, decay: Any = 0.9, momentum: Any = 0.0, epsilon: Any = 1e-10, use_locking: bool = False, centered: bool = False, name: str = "RMSProp"):
        super().__init__(use_locking, name)
        self._slots = (("rms", 1.0), ("momentum", 0.0)) + ((("mg", 0.0),) if centered else ())
        self._settings = {"lr": learning_rate, "decay": decay, "momentum": momentum, "eps": epsilon}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        d = s["decay"]
        ms = slots[0] * d + g * g * (1 - d)
        after = [ms]
        denominator = ms
        if len(slots) == 3:
            mg = slots[2] * d + g * (1 - d)
            denominator = ms - mg * mg
        mom = slots[1] * s["momentum"] + s["lr"] * g * (denominator + s["eps"]).rsqrt()
        after.append(mom)
        return v - mom, after + ([mg] if len(slots) == 3 else [])


class AdamOptimizer(Optimizer):
    """Kingma and Ba's Adam; ``epsilon`` is added to the root of the uncorrected second moment."""

    _slots = (("m", 0.0), ("v", 0.0))

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8, use_locking: bool = False, name: str = "Adam"):
        super().__init__(use_locking, name)
        self._hyper = {"lr": learning_rate, "beta1": beta1, "beta2": beta2, "eps": epsilon}
        self._powers: list[Variable] = []

    def _prepare(self) -> None:
        if not self._powers:
            graph = get_default_graph()
            with graph.outside(), graph.name_scope(None):
                first = [self._hyper[k]() if callable(self._hyper[k]) else self._hyper[k] for k in ("beta1", "beta2")]
                names = ["beta1_power", "beta2_power"]
                self._powers = [Variable(convert_to_tensor(b, "float32"), False, name=n) for b, n in zip(first, names)]
        self._settings = {**self._hyper, "power1": self._powers[0], "power2": self._powers[1]}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        rate = s["lr"] * (1 - s["power2"]).sqrt() / (1 - s["power1"])
        m = slots[0] + (g - slots[0]) * (1 - s["beta1"])
        u = slots[1] + (g * g - slots[1]) * (1 - s["beta2"])
        return v - rate * m / (u.sqrt() + s["eps"]), [m, u]

    def _finish(self) -> list[Any]:
        betas = (self._hyper["beta1"], self._hyper["beta2"])
        return [assign(p, p * (b() if callable(b) else b)) for p, b in zip(self._powers, betas)]

    def variables(self) -> list[Variable]:
        """All state."""
        return self._powers + super().variables()

    def _get_beta_accumulators(self) -> tuple[Variable, ...]:
        return tuple(self._powers)


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader, proximally."""

    def __init__(self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False, name: str = "Ftrl", accum_name: Any = None, linear_name: Any = None, l2_shrinkage_regularization_strength: float = 0.0):
        super().__init__(use_locking, name)
        self._slots = (("accum", initial_accumulator_value), ("linear", 0.0))
        self._power = -learning_rate_power
        self._settings = {"lr": learning_rate, "l1": l1_regularization_strength, "l2": l2_regularization_strength, "shrink": l2_shrinkage_regularization_strength}

    def _step(self, v: Any, g: Any, slots: Any, s: Any) -> Any:
        def power(x: Any) -> Any:
            return x.sqrt() if self._power == 0.5 else x**self._power

        a = slots[0] + g * g
        linear = slots[1] + g + 2 * s["shrink"] * v - (power(a) - power(slots[0])) / s["lr"] * v
        quadratic = power(a) / s["lr"] + 2 * s["l2"]
        new = (linear.sign() * s["l1"] - linear) / quadratic
        return tw.where(linear.abs() > s["l1"], new, v * 0), [a, linear]


def get_global_step(graph: Any = None) -> Variable | None:
    """The variable that counts steps, or ``None``."""
    found = get_collection(GraphKeys.GLOBAL_STEP) if graph is None else graph.get_collection(GraphKeys.GLOBAL_STEP)
    return found[0] if found else None


def create_global_step(graph: Any = None) -> Variable:
    """A new variable that counts steps."""
    from .variables import get_variable

    if get_global_step(graph) is not None:
        raise invalid("there is a global step already")
    g = graph or get_default_graph()
    with g.as_default(), g.outside():
        keys = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP]
        return get_variable("global_step", [], "int64", Constant(0, "int64"), trainable=False, collections=keys)


def get_or_create_global_step(graph: Any = None) -> Variable:
    """The variable that counts steps."""
    found = get_global_step(graph)
    return found if found is not None else create_global_step(graph)


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The count in a session."""
    return int(sess.run(global_step_tensor))


class SyncReplicasOptimizer:
    """Not there: `talweg launch` runs the same script on several processes with synchronous steps."""

    def __init__(self, *_: Any, **__: Any):
        from .errors import unimplemented

        raise unimplemented("SyncReplicasOptimizer: use talweg.train.Trainer under `talweg launch`")


