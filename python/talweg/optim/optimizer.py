"""The base of optimizers: groups of parameters with settings, and a state for each parameter, as PyTorch's."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from .. import _native
from .._checked import key_error, type_error, value_error
from .._graph import has_grad
from .._native import Tensor
from ..nn import hooks
from ..nn.parameter import is_lazy
from ..nn.state import _host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


class Group(dict):
    """A group's parameters and settings. The optimizer is notified of every change."""

    def __init__(self, optimizer, settings):
        super().__init__(settings)
        self._optimizer = optimizer

    def __setitem__(self, key, value):
        is_same = key in self and self[key] is value
        super().__setitem__(key, value)
        if not is_same:
            self._optimizer._changed(self, key)

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other):
        self.update(other)
        return self

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def __reduce__(self):
        return dict, (dict(self),)


class Optimizer:
    """The base class of optimizers. A custom one is a subclass with ``step``, as in PyTorch. To run in graphs, under
    ``launch`` and on servers, subclass ``Rule`` instead.

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
    1.0
    """

    def __init__(self, params: Iterable[Any], defaults: Any = None) -> None:
        self.defaults = dict(defaults or {})
        self._prepare()
        for g in _groups(type(self).__name__, params):
            self.add_param_group(g)

    def _prepare(self):
        self.param_groups = []
        self._pre_hooks, self._post_hooks = OrderedDict(), OrderedDict()
        self._state_hooks = defaultdict(OrderedDict)
        self._state = defaultdict(dict)

    @property
    def state(self) -> Any:
        """The state of each parameter."""
        return self._state

    def _changed(self, group, key):
        """A setting of a group was changed."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with their own settings."""
        if not isinstance(param_group, dict):
            raise type_error(f"add_param_group: expected a dict, not {type(param_group).__name__}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, (set, frozenset)):
            raise type_error("add_param_group: parameters need an order, which a set has not: give a list")
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and isinstance(params[0], tuple):
            group["param_names"], params = [n for n, _ in params], [p for _, p in params]
        seen = {p.variable_id for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor) or not p.is_variable:
                kind = "a tensor that collects no gradients" if isinstance(p, Tensor) else type(p).__name__
                raise type_error(f"an optimizer trains tensors made with requires_grad=True, Parameters and Variables, not {kind}")
            if is_lazy(p):
                raise value_error("a parameter of a lazy module has no shape yet: call the module once before making the optimizer")
            if p.variable_id in seen:
                raise value_error("a parameter is in the optimizer twice")
            seen.add(p.variable_id)
        group["params"] = params
        for name, value in self.defaults.items():
            if value is _needed and name not in group:
                raise value_error(f"add_param_group: the group has no {name!r}, which has no default")
            group.setdefault(name, value)
        self.param_groups.append(Group(self, group))
        self._added(self.param_groups[-1])

    def _added(self, group):
        """A group was added."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the accumulated gradients."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the accumulated gradients, or sets them to zero."""
        for g in self.param_groups:
            for p in g["params"]:
                p.grad = None if set_to_none or not has_grad(p) else _native.zeros_like(p.grad)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(optimizer, args, kwargs)`` is called before each step."""
        return hooks.register(self._pre_hooks, hook, False)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(optimizer, args, kwargs)`` is called after each step."""
        return hooks.register(self._post_hooks, hook, False)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer)`` is called before ``state_dict``."""
        return hooks.register(self._state_hooks["before"], hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer, state_dict)`` is called after ``state_dict`` and may return another."""
        return hooks.register(self._state_hooks["after"], hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer, state_dict)`` is called before ``load_state_dict`` and may return another state."""
        return hooks.register(self._state_hooks["before load"], hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Tensor:
        """``hook(optimizer)`` is called after ``load_state_dict``."""
        return hooks.register(self._state_hooks["after load"], hook, prepend)

    @property
    def lr(self) -> float:
        """Learning rate of the first group."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: Any) -> float:
        for g in self.param_groups:
            g["lr"] = value

    # State.

    def _numbered(self):
        """Every parameter, in the order of their numbers in files."""
        return [p for g in self.param_groups for p in g["params"]]

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: {name: tensor}}, "param_groups": [settings]}``, as PyTorch's."""
        for hook in list(self._state_hooks["before"].values()):
            hook(self)
        groups, at = [], 0
        for g in self.param_groups:
            count = len(g["params"])
            groups.append({**{k: v for k, v in g.items() if k != "params"}, "params": list(range(at, at + count))})
            at += count
        state = {}
        for i, p in enumerate(self._numbered()):
            own = self.state.get(p)
            if own:
                state[i] = {k: v.detach() if isinstance(v, Tensor) else v for k, v in own.items()}
        made = {"state": state, "param_groups": groups}
        for hook in list(self._state_hooks["after"].values()):
            made = hook(self, made) or made
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Loads what ``state_dict`` returned, here or in PyTorch; nothing changes if it does not fit."""
        for hook in list(self._state_hooks["before load"].values()):
            state_dict = hook(self, state_dict) or state_dict
        groups = state_dict["param_groups"]
        mine = [len(g["params"]) for g in self.param_groups]
        if [len(g["params"]) for g in groups] != mine:
            theirs = [len(g["params"]) for g in groups]
            raise value_error(f"load_state_dict: the groups have {mine} parameters, but those of the state {theirs}")
        numbers = [n for g in groups for n in g["params"]]
        state = {i: state_dict["state"][n] for i, n in enumerate(numbers) if n in state_dict["state"]}
        self._take_state(state)
        for g, given in zip(self.param_groups, groups):
            g.update({k: v for k, v in given.items() if k != "params"})
        for hook in list(self._state_hooks["after load"].values()):
            hook(self)

    def _take_state(self, state):
        params = self._numbered()
        self._state.clear()
        for i, own in state.items():
            self._state[params[i]] = {k: _host(v) if hasattr(v, "shape") else v for k, v in own.items()}

    def __getstate__(self):
        groups = [dict(g) for g in self.param_groups]
        return {"defaults": self.defaults, "groups": groups, "state": self.state_dict(), "own": self._own_attributes()}

    def _own_attributes(self):
        """Attributes of a subclass."""
        hidden = {"defaults", "param_groups", "_state", "_pre_hooks", "_post_hooks", "_state_hooks"}
        return {k: v for k, v in self.__dict__.items() if k not in hidden}

    def __setstate__(self, saved):
        self.defaults = saved["defaults"]
        self._prepare()
        self.__dict__.update(saved["own"])
        for g in saved["groups"]:
            self.add_param_group(g)
        self.load_state_dict(saved["state"])

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, g in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {g[k]}" for k in sorted(g) if k != "params"]
        return "\n".join([*lines, ")"])


_needed = object()


def _groups(name, params):
    """The parameter groups of the first argument of an optimizer."""
    if isinstance(params, Tensor):
        raise type_error(f"{name}: params is a tensor; give a list of them")
    if hasattr(params, "parameters") and callable(params.parameters):
        raise type_error(f"{name}: params is a module; give module.parameters()")
    try:
        params = list(params)
    except TypeError:
        raise type_error(f"{name}: params is {type(params).__name__}; give a list of tensors or of groups") from None
    if not params:
        raise value_error(f"{name}: there are no parameters to train")
    return params if isinstance(params[0], dict) else [{"params": params}]


def load_flat(mine, state):
    """Loads the state of a checkpoint: variables by name."""
    missing = [n for n, _ in mine if n not in state]
    if missing:
        raise key_error(f"load_state_dict: missing {missing}")
    for name, variable in mine:
        variable.assign(state[name])
