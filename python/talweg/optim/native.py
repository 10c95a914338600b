"""Optimizers whose steps run in Rust: built-in rules, and rules in tensor code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from .._checked import type_error, value_error, warn
from .._graph import Parameter, has_grad
from .._native import Tensor
from ..errors import GradientError
from ..nn.state import _host
from .optimizer import Optimizer, load_flat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .. import Update

# Settings that a group of a custom rule may have for itself.
_PER_GROUP = ("lr", "weight_decay")
# Settings that say how PyTorch computes a step, and the direction, which is no matter of the rule.
HINTS = ("foreach", "fused", "capturable", "differentiable", "maximize")


class Engine:
    """The Rust side's optimizer for parameters with the same number of steps."""

    def __init__(self, native, key, group, params):
        self.native, self.key, self.parts = native, key, [(group, params)]

    def params(self):
        return [p for _, params in self.parts for p in params]

    def state(self) -> Any:
        """Variables by parameter and name."""
        out = [{} for _ in self.params()]
        for name, variable in self.native.state():
            kind, _, rest = name.partition(".")
            if kind == "state":
                number, _, slot = rest.partition(".")
                out[int(number)][slot] = variable
        return out

    def steps(self):
        """How many steps were made, a variable."""
        return next(v for n, v in self.native.state() if n == "step")


class NativeOptimizer(Optimizer):
    """A rule applied to parameters.

    ``step`` uses the gradients that ``backward`` has collected, and forgets those of parameters; ``minimize`` makes
    the update of a graph instead, for a session.
    """

    _has_steps = True

    def _prepare(self):
        super()._prepare()
        self._engines = []
        self._cohorts = {}  # of parameters whose steps are counted apart from the others'
        self._trained = set()
        self._is_handed_out = False  # to code that knows one engine only
        self._has_warned = False

    # Engines.

    def _made(self, params, settings):
        """An engine of the Rust side for parameters with the settings of their group."""
        raise NotImplementedError(f"{type(self).__name__} has no rule")

    def _settings_of(self, group):
        """The settings of a group by which its rule is made."""
        return {k: group[k] for k in self.defaults}

    def _changed(self, group, key):
        if key == "lr":
            for engine in self._engines:
                for i, (g, _) in enumerate(engine.parts):
                    if g is group:
                        engine.native.set_group_lr(i, float(group["lr"]))
        elif key == "params":
            self._rebuild()
        elif key in self.defaults and key not in HINTS:
            self._tune(group)

    def _tune(self, group):
        """The settings of a group apply from the next step on."""
        for engine in self._engines:
            for i, (g, _) in enumerate(engine.parts):
                if g is group and not engine.native.tune(i, float(g.get("weight_decay", 0.0)), self._made([], self._given(g))):
                    self._rebuild()
                    return

    def _given(self, group):
        """The settings of a group as its rule is given them."""
        given = {**self._settings_of(group), "lr": float(group.get("lr", 0.0))}
        if "weight_decay" in self.defaults:
            given["weight_decay"] = float(group["weight_decay"])
        return given

    def _added(self, group):
        cohorts = {}
        for p in group["params"]:
            cohorts.setdefault(self._cohorts.get(p.variable_id), []).append(p)
        for cohort, params in cohorts.items():
            self._add_part(group, params, cohort)

    def _add_part(self, group, params, cohort):
        given, decay = self._given(group), float(group.get("weight_decay", 0.0))
        for engine in self._engines:
            if engine.key == cohort:
                engine.native.add_group(params, given["lr"], decay, self._made([], given))
                engine.parts.append((group, params))
                return
        self._engines.append(Engine(self._made(params, given), cohort, group, params))

    def _rebuild(self, fresh=()):
        """Recreates the engines; those of ``fresh`` parameters begin at step 0, the others go on."""
        if any(int(e.steps().item()) for e in self._engines) and _native.worker_has_store():
            raise value_error(
                f"{type(self).__name__}: servers keep the state with which it was made: what a setting adds to it, or a "
                "parameter that is trained later, must be there from the first step on"
            )
        old = [(dict(zip((p.variable_id for p in e.params()), e.state())), e.steps()) for e in self._engines]
        self._engines = []
        for g in self.param_groups:
            self._added(g)
        for engine in self._engines:
            for p, own in zip(engine.params(), engine.state()):
                for states, steps in old if p.variable_id not in fresh else ():
                    if p.variable_id in states:
                        engine.steps().assign(steps.detach())
                    for name, v in states.get(p.variable_id, {}).items():
                        if name in own and own[name].shape == v.shape:
                            own[name].assign(v.detach())

    def _count_late_ones_apart(self):
        """Parameters that get their first gradient after others have made steps begin at step 1, as in PyTorch."""
        for engine in self._engines:
            with_gradient = [p for p in engine.params() if has_grad(p)]
            late = {p.variable_id for p in with_gradient if p.variable_id not in self._trained}
            if late and any(p.variable_id in self._trained for p in engine.params()) and not with_gradient[0].grad.is_symbolic:
                number = len(self._cohorts) + 1
                self._cohorts.update(dict.fromkeys(late, number))
                self._rebuild(late)
                return

    @property
    def _native(self):
        """The one engine, for those who know no others: trainers, scalers of gradients."""
        first, *rest = self._engines
        self._is_handed_out = True
        if rest:
            raise value_error(
                f"{type(self).__name__}: parameters that were trained later than others work with step() only: not with "
                "Trainer, GradScaler and launch"
            )
        if self._is_ascending():
            raise value_error(f"{type(self).__name__}: maximize=True works with step() and minimize() only: return -loss instead")
        return first.native

    def _is_ascending(self):
        return any(g.get("maximize") for g in self.param_groups)

    # Steps.

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the collected gradients. Gradients of parameters are then cleared; parameters without one stay as
        they are."""
        for hook in list(self._pre_hooks.values()):
            hook(self, (closure,), {})
        loss = closure() if closure is not None else None
        if not self._is_handed_out and 0 < len(self._trained) < len(self._numbered()):
            self._count_late_ones_apart()
        for engine in self._engines:
            self._step_of(engine)
        for hook in list(self._post_hooks.values()):
            hook(self, (closure,), {})
        return loss

    def _step_of(self, engine):
        """One step of the parameters of an engine that have gradients."""
        trained = [(p, g) for g, params in engine.parts for p in params if has_grad(p)]
        if not trained:
            if any(isinstance(p, Parameter) and "_is_replaced" in p.__dict__ for p in engine.params()):
                e = "step: the parameters have another type since the optimizer was made: make the optimizer after module.to(dtype)"
                raise GradientError(_native.located(e))
            return
        if not self._has_warned and isinstance(trained[0][0], Parameter) and trained[0][0].__dict__.get("_is_used_up"):
            self._has_warned = True
            warn(
                "step: zero_grad() was not called since the last step, which used its gradients up; PyTorch would add "
                "to them. Call optimizer.zero_grad() before backward()"
            )
        kept = []
        for p, g in trained:
            if not isinstance(p, Parameter) and not p.grad.is_symbolic:
                kept.append((p, p.grad.detach()))
            if g.get("maximize"):
                p.grad = -p.grad
        engine.native.step()
        for p, _ in trained:
            self._trained.add(p.variable_id)
            if isinstance(p, Parameter):
                p.__dict__["_is_used_up"] = True
        for p, grad in kept:
            p.grad = grad

    def minimize(self, loss: Tensor) -> Update:
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
        engines = self._engines
        if len(engines) > 1:
            raise value_error("minimize: some parameters were trained later than others: use step()")
        return engines[0].native.minimize(-loss if self._is_ascending() else loss)

    # State.

    @property
    def state(self) -> Any:
        """The state of each parameter, by name: variables, which may be written to."""
        out = {}
        for engine in self._engines:
            steps = engine.steps()
            if int(steps.item()) == 0:
                continue
            for p, own in zip(engine.params(), engine.state()):
                out[p] = {**({"step": steps} if self._has_steps else {}), **own}
        return out

    def _take_state(self, state):
        params = self._numbered()
        counts = {p.variable_id: float(state[i].get("step", 1.0)) for i, p in enumerate(params) if state.get(i)}
        if len(set(counts.values())) > 1:
            self._cohorts = {i: f"after {n} steps" for i, n in counts.items()}
            self._rebuild()
        self._trained = set(counts)
        plan = []
        for engine in self._engines:
            steps = 0.0
            for p, own in zip(engine.params(), engine.state()):
                given = state.get(next(i for i, q in enumerate(params) if q is p), {})
                for name, variable in own.items():
                    value = given.get(name)
                    if value is None:
                        value = _absent(name, p, variable)
                    value = _host(value) if hasattr(value, "shape") else _native.tensor(value)
                    if value.ndim == 0:
                        value = value.broadcast_to(variable.shape)
                    if value.shape != variable.shape:
                        raise value_error(f"load_state_dict: {name} is {tuple(variable.shape)}, but the value is {tuple(value.shape)}")
                    plan.append((variable, value))
                if given:
                    steps = max(steps, float(given.get("step", 1.0)))
            plan.append((engine.steps(), _native.tensor(steps)))
        for variable, value in plan:
            variable.assign(value.astype(variable.dtype))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` returned, here or in PyTorch, or the ``"optimizer"`` part of a checkpoint; nothing
        changes if it does not fit."""
        if "param_groups" in state_dict:
            super().load_state_dict(state_dict)
            return
        load_flat(self._native.state(), state_dict)
        for i, g in enumerate(self.param_groups):
            dict.__setitem__(g, "lr", float(state_dict[f"group.{i}.lr"]))

    def _own_attributes(self):
        return {k: v for k, v in super()._own_attributes().items() if k not in ("_engines", "_cohorts", "_trained")}


def _absent(name, param, variable):
    """The initial state of entries that a file lacks."""
    if name == "master":  # the value that a 16-bit parameter is rounded from
        return param.detach()
    return _native.ones_like(variable) if name == "mu_product" else _native.zeros_like(variable)


class Rule(NativeOptimizer):
    """A custom optimizer: a subclass defines, in tensor code, the update of one parameter.

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
    store; there it may read variables that are single numbers, and other tensors as they are when the optimizer is made.
    """

    defaults = {"lr": 1e-3}
    slots = {}

    def __init__(self, params: Iterable[Any], **settings: Any) -> None:
        known = type(self).defaults
        unknown = set(settings) - set(known)
        if unknown:
            name = type(self).__name__
            raise type_error(f"{name} has no setting {sorted(unknown)[0]!r}; it has {sorted(known)}")
        super().__init__(params, {**known, **settings})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings it was created with."""
        return dict(self.defaults)

    def update(
        self, param: Tensor, grad: Tensor, state: dict[str, Tensor], lr: Tensor, step: Tensor, weight_decay: float,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of one parameter: ``(parameter, state)``. A subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _settings_of(self, group):
        # ``update`` asks for the optimizer's settings, not for a group's.
        for k in self.defaults:
            if k not in _PER_GROUP and group.get(k) != self.defaults[k]:
                raise value_error(f"{type(self).__name__}: a group of a Rule may have its own lr and weight_decay, not {k!r}")
        return {}

    def _made(self, params, settings):
        decay = float(settings.get("weight_decay", 0.0))
        return _native.Optimizer.of_rule(self, params, settings.get("lr", 0.0), decay, list(self.slots.items()))


class TensorRule:
    """A built-in rule in tensor code, with the settings of one group: what ``Optimizer.of_rule`` calls."""

    slots = {}

    def __init__(self, settings):
        self.settings = settings

    def made(self, params, lr, weight_decay):
        """The engine for parameters."""
        slots = [(k, float(v)) for k, v in self.slots.items()]
        return _native.Optimizer.of_rule(self, params, lr, weight_decay, slots)


def where(condition, a, b):
    """``a`` where a condition holds, else ``b``."""
    return Tensor.where(condition, a, b)
