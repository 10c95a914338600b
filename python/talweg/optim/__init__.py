"""Optimizers with PyTorch's names and signatures; the rules are the Rust side's."""

from .. import _native
from .._native import Tensor
from .._checked import check, key_error, type_error, value_error
from . import lr_scheduler

__all__ = ["Optimizer", "Rule", "lr_scheduler"]


class Optimizer:
    """A rule applied to parameters.

    ``step`` uses the gradients that ``backward`` has collected, and forgets them; ``minimize`` makes the
    update of a graph instead, for a session.
    """

    _kind = ""
    defaults = {}

    def __init__(self, params, **settings):
        unknown = set(settings) - set(self.defaults)
        if unknown:
            name = type(self).__name__
            raise type_error(f"{name} has no setting {sorted(unknown)[0]!r}; it has {sorted(self.defaults)}")
        self._settings = {**self.defaults, **settings}
        if isinstance(params, Tensor):
            raise type_error(f"{type(self).__name__}: params is a tensor; give a list of them")
        params = list(params)
        if not params:
            raise value_error(f"{type(self).__name__}: there are no parameters to train")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.param_groups = []
        for g in groups:
            self.add_param_group(g)

    def add_param_group(self, group):
        """Adds parameters with a learning rate or weight decay of their own."""
        own = set(group) - {"params", "lr", "weight_decay"}
        if own:
            raise type_error(f"a group may have params, lr and weight_decay, not {sorted(own)[0]!r}")
        params = list(group["params"])
        lr = float(group.get("lr", self._settings["lr"]))
        decay = float(group.get("weight_decay", self._settings.get("weight_decay", 0.0)))
        if self.param_groups:
            self._native.add_group(params, lr, decay)
        else:
            settings = {**self._settings, "lr": lr}
            if "weight_decay" in self.defaults:
                settings["weight_decay"] = decay
            self._native = self._made(params, settings)
        self.param_groups.append(_Group(self, len(self.param_groups), params, lr, decay))

    def _made(self, params, settings):
        return _native.Optimizer(self._kind, params, settings)

    def step(self, closure=None):
        """One step with the collected gradients, which are then forgotten."""
        loss = closure() if closure is not None else None
        self._native.step()
        return loss

    def zero_grad(self, set_to_none=True):
        """Forgets the collected gradients."""
        if not set_to_none:
            raise value_error("zero_grad: gradients are always forgotten, never filled with zeros")
        self._native.zero_grad()

    def minimize(self, loss):
        """The update that makes a loss smaller, for ``Session.run`` or ``apply``."""
        return self._native.minimize(loss)

    @property
    def lr(self):
        """Learning rate of the first group."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value):
        for g in self.param_groups:
            g["lr"] = value

    def state_dict(self):
        """Step count, learning rates and the state of each parameter, by name."""
        return {name: v.detach() for name, v in self._native.state()}

    def load_state_dict(self, state):
        """Takes a state; nothing changes if a part is missing."""
        _load(self._native.state(), state)
        for i, g in enumerate(self.param_groups):
            dict.__setitem__(g, "lr", float(state[f"group.{i}.lr"]))

    def __reduce_ex__(self, protocol):
        raise type_error(
            f"{type(self).__name__} cannot be pickled or copied, as its parameters belong to a model: keep its state_dict(), "
            "make an optimizer for the other model's parameters, and load_state_dict() it there"
        )

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self._settings.items())})"


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
    store; there it may use numbers and other tensors as they are when the optimizer is made, but no variables.
    """

    defaults = {"lr": 1e-3}
    slots = {}

    @property
    def settings(self):
        """What it was made with."""
        return dict(self._settings)

    def update(self, param, grad, state, lr, step, weight_decay):
        """One step of one parameter: ``(parameter, state)``. A subclass says it."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _made(self, params, settings):
        decay = float(settings.get("weight_decay", 0.0))
        return _native.Optimizer.of_rule(self, params, settings["lr"], decay, list(self.slots.items()))


def _load(mine, state):
    missing = [n for n, _ in mine if n not in state]
    if missing:
        raise key_error(f"load_state_dict: missing {missing}")
    for name, variable in mine:
        variable.assign(state[name])


class _Group(dict):
    """A group's settings; setting ``lr`` changes it."""

    def __init__(self, optimizer, number, params, lr, decay):
        super().__init__(params=params, lr=lr, weight_decay=decay)
        self._optimizer, self._number = optimizer, number

    def __setitem__(self, key, value):
        if key not in ("lr", "initial_lr"):
            raise key_error(f"only lr can be changed after the optimizer was made, not {key!r}")
        if key == "lr":
            self._optimizer._native.set_group_lr(self._number, float(value))
        super().__setitem__(key, value)


def _optimizer(name, kind, doc, **defaults):
    def __init__(self, params, *args, **settings):
        if len(args) > 1:
            raise type_error(f"{name} takes the parameters and lr by place, the rest by name")
        if args:
            settings["lr"] = args[0]
        Optimizer.__init__(self, params, **settings)

    body = {"_kind": kind, "defaults": defaults, "__init__": __init__, "__doc__": doc, "__module__": __name__}
    __all__.append(name)
    return type(name, (Optimizer,), body)


SGD = _optimizer(
    "SGD", "Sgd", "Gradient descent, with momentum.",
    lr=1e-3, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0,
)  # fmt: skip
Adagrad = _optimizer(
    "Adagrad", "Adagrad", "Adagrad (Duchi and others 2011).",
    lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator=0.0, eps=1e-10,
)  # fmt: skip
Adam = _optimizer("Adam", "Adam", "Adam (Kingma and Ba 2014).", lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
AdamW = _optimizer(
    "AdamW", "AdamW", "Adam with decay apart from the gradient.",
    lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2,
)  # fmt: skip
RMSprop = _optimizer(
    "RMSprop", "RmsProp", "RMSProp (Tieleman and Hinton 2012).",
    lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
)  # fmt: skip
Adadelta = _optimizer("Adadelta", "Adadelta", "Adadelta (Zeiler 2012).", lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0)
NAdam = _optimizer(
    "NAdam", "NAdam", "Adam with Nesterov's momentum.",
    lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
)  # fmt: skip
Lion = _optimizer("Lion", "Lion", "Lion (Chen and others 2023).", lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0)
Adafactor = _optimizer(
    "Adafactor", "Adafactor", "Adafactor (Shazeer and Stern 2018).",
    lr=1e-2, beta2_decay=-0.8, scale_min=1e-3, clip=1.0, weight_decay=0.0,
)  # fmt: skip


class LBFGS:
    """Limited-memory BFGS: ``step`` asks ``closure`` for the loss several times."""

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
    ):
        if line_search_fn not in (None, "strong_wolfe"):
            raise value_error(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        settings = dict(
            lr=lr,
            iterations=max_iter,
            evaluations=max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history=history_size,
            strong_wolfe=line_search_fn is not None,
        )
        self._params = list(params)
        self._native = _native.Lbfgs(self._params, settings)

    __reduce_ex__ = Optimizer.__reduce_ex__

    def step(self, closure):
        """One step; the loss at its begin. ``closure`` need not call ``backward``."""
        return self._native.step(closure)

    def zero_grad(self):
        """Forgets collected gradients."""
        for p in self._params:
            p.grad = None

    def state_dict(self):
        """Everything a checkpoint needs, by name."""
        return {name: v.detach() for name, v in self._native.state()}

    def load_state_dict(self, state):
        """Takes a state; nothing changes if a part is missing."""
        _load(self._native.state(), state)


__all__.append("LBFGS")

check(globals(), [n for n in __all__ if n != "lr_scheduler"])
