"""The optimizers, with PyTorch's signatures.

``foreach``, ``fused`` and ``capturable`` say how PyTorch computes a step: here a step is one compiled program anyway, and
they change nothing. ``differentiable=True`` is refused.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING

from .. import _native
from .._checked import check, type_error, value_error
from .._native import Tensor
from .native import HINTS, NativeOptimizer, TensorRule, where

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "Muon", "NAdam", "RAdam",
    "RMSprop", "Rprop", "SGD", "SparseAdam",
]  # fmt: skip


class _BuiltIn(NativeOptimizer):
    """A built-in rule: in Rust, or in tensor code where the settings need more."""

    _kind = ""  # its row in ``_native.OPTIMIZERS``
    _only_here = ()  # settings that only rules in tensor code have
    _cycled_rule = None
    _momentum = None

    def __init__(self, params: Iterable[Any], settings: Any) -> None:
        settings = {k: v for k, v in settings.items() if k not in ("self", "params", "__class__")}
        self._check(settings)
        super().__init__(params, settings)

    def _check(self, settings):
        name = type(self).__name__
        if settings.get("differentiable"):
            raise value_error(f"{name}: differentiable=True is not supported: differentiate a function of the parameters by tw.grad")
        for key in ("lr", "eps", "weight_decay", "momentum", "lr_decay", "initial_accumulator_value"):
            value = settings.get(key)
            if value is not None and not isinstance(value, tuple) and not float(value) >= 0.0:
                raise value_error(f"{name}: {key} must be at least 0, not {value}")
        for beta in settings.get("betas", ()):
            if not 0.0 <= float(beta) < 1.0:
                raise value_error(f"{name}: betas must be at least 0 and less than 1, not {settings['betas']}")

    def _settings_of(self, group):
        return {k: v for k, v in super()._settings_of(group).items() if k not in HINTS}

    def cycle_momentum(self) -> Tensor:
        """The momentum becomes a variable, which a schedule may set at each step."""
        if self._cycled_rule is None:
            raise value_error(f"{type(self).__name__}: its momentum cannot be cycled: give the schedule cycle_momentum=False")
        if self._momentum is None:
            self._momentum = Tensor(0.0, variable=True, trainable=False)
            self._betas = {id(g): tuple(g.get("betas", ())[1:]) for g in self.param_groups}
            self._rebuild()

    def _first_moment(self, group):
        return float(group["betas"][0] if "betas" in group else group["momentum"])

    def _changed(self, group, key):
        if self._momentum is not None and key in ("momentum", "betas"):
            self._momentum.assign(_native.tensor(self._first_moment(group)))
            others = tuple(group.get("betas", ())[1:])
            if others == self._betas.setdefault(id(group), others):
                return
            self._betas[id(group)] = others
        super()._changed(group, key)

    def _own_attributes(self):
        return {k: v for k, v in super()._own_attributes().items() if k not in ("_momentum", "_betas")}

    def _rule(self, settings):
        """A rule in tensor code for settings that the Rust rule lacks, or None."""

    def _made(self, params, settings):
        rule = self._rule(settings)
        if self._momentum is not None:
            self._momentum.assign(_native.tensor(self._first_moment(settings)))
            rule = self._cycled_rule(settings, self._momentum)
        if rule is not None:
            return rule.made(params, settings["lr"], float(settings.get("weight_decay", 0.0)))
        settings = {k: _plain(v) for k, v in settings.items() if k not in self._only_here}
        return _native.Optimizer(self._kind, params, settings)


def _plain(value):
    """Numbers as the Rust side takes them."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return value if value is None or isinstance(value, bool) else float(value)


def _decayed(param, grad, weight_decay):
    return grad + weight_decay * param if weight_decay else grad


def _shrunk(param, lr, weight_decay):
    return param * (1.0 - lr * weight_decay) if weight_decay else param


def _filled(step, beta):
    """The bias correction of a running average that started at zero."""
    return -(step * math.log(beta)).expm1() if beta > 0 else 1.0


class _CycledSGD(TensorRule):
    """SGD whose momentum is a variable."""

    slots = {"momentum_buffer": 0.0}

    def __init__(self, settings, momentum):
        super().__init__(settings)
        self._momentum = momentum

    def update(self, param, grad, state, lr, step, weight_decay):
        grad = _decayed(param, grad, weight_decay)
        damped = grad * where(step > 1.0, 1.0 - self.settings["dampening"], 1.0)
        m = state["momentum_buffer"] * self._momentum + damped
        moved = grad + m * self._momentum if self.settings["nesterov"] else m
        return param - lr * moved, {"momentum_buffer": m}


class SGD(_BuiltIn):
    """Stochastic gradient descent, with momentum.

    >>> w = tw.nn.Parameter([1.0])
    >>> optimizer = tw.optim.SGD([w], lr=0.5, momentum=0.9, nesterov=True)
    """

    _kind, _has_steps, _cycled_rule = "Sgd", False, _CycledSGD

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise value_error("SGD: nesterov needs a momentum and no dampening")
        super().__init__(params, locals())


class Adagrad(_BuiltIn):
    """Adagrad (Duchi and others 2011)."""

    _kind = "Adagrad"

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())


class _AmsGrad(TensorRule):
    """AMSGrad: Adam whose second moment never decreases (Reddi and others 2018)."""

    slots = {"exp_avg": 0.0, "exp_avg_sq": 0.0, "max_exp_avg_sq": 0.0}

    def __init__(self, settings, is_decoupled):
        super().__init__(settings)
        self._is_decoupled = is_decoupled

    def update(self, param, grad, state, lr, step, weight_decay):
        (b1, b2), eps = self.settings["betas"], self.settings["eps"]
        grad = grad if self._is_decoupled else _decayed(param, grad, weight_decay)
        param = _shrunk(param, lr, weight_decay) if self._is_decoupled else param
        m = state["exp_avg"] * b1 + grad * (1 - b1)
        v = state["exp_avg_sq"] * b2 + grad * grad * (1 - b2)
        most = state["max_exp_avg_sq"].maximum(v)
        root = (most / _filled(step, b2)).sqrt() + eps
        return param - lr / _filled(step, b1) * m / root, {"exp_avg": m, "exp_avg_sq": v, "max_exp_avg_sq": most}


class _CycledAdam(TensorRule):
    """Adam whose first beta is a variable."""

    slots = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def __init__(self, settings, momentum):
        super().__init__(settings)
        self._momentum = momentum
        if settings["amsgrad"]:
            raise value_error("Adam: with amsgrad the momentum cannot be cycled: give the schedule cycle_momentum=False")

    def update(self, param, grad, state, lr, step, weight_decay):
        b1, b2, eps = self._momentum, self.settings["betas"][1], self.settings["eps"]
        if self.settings["decoupled_weight_decay"]:
            param = _shrunk(param, lr, weight_decay)
        else:
            grad = _decayed(param, grad, weight_decay)
        m = state["exp_avg"] * b1 + grad * (1.0 - b1)
        v = state["exp_avg_sq"] * b2 + grad * grad * (1 - b2)
        root = (v / _filled(step, b2)).sqrt() + eps
        return param - lr / -(step * b1.log()).expm1() * m / root, {"exp_avg": m, "exp_avg_sq": v}


class Adam(_BuiltIn):
    """Adam (Kingma and Ba 2014).

    >>> w = tw.nn.Parameter([1.0])
    >>> optimizer = tw.optim.Adam([{"params": [w], "lr": 0.1}], betas=(0.9, 0.95))
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> sorted(optimizer.state_dict()["state"][0])
    ['exp_avg', 'exp_avg_sq', 'step']
    """

    _only_here, _cycled_rule = ("amsgrad", "decoupled_weight_decay"), _CycledAdam

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _made(self, params, settings):
        self._kind = "AdamW" if settings["decoupled_weight_decay"] else "Adam"
        return super()._made(params, settings)

    def _rule(self, settings):
        return _AmsGrad(settings, settings["decoupled_weight_decay"]) if settings["amsgrad"] else None


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        given = dict(foreach=foreach, maximize=maximize, capturable=capturable, differentiable=differentiable, fused=fused)
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **given, decoupled_weight_decay=True)


class RMSprop(_BuiltIn):
    """RMSProp (Tieleman and Hinton 2012)."""

    _kind = "RmsProp"

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())


class Adadelta(_BuiltIn):
    """Adadelta (Zeiler 2012)."""

    _kind = "Adadelta"

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())


class _DecoupledNAdam(TensorRule):
    slots = {"exp_avg": 0.0, "exp_avg_sq": 0.0, "mu_product": 1.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        (b1, b2), eps, decay = self.settings["betas"], self.settings["eps"], self.settings["momentum_decay"]
        momentum = lambda t: b1 - (t * (decay * math.log(0.96))).exp() * (0.5 * b1)  # noqa: E731
        mu, ahead = momentum(step), momentum(step + 1.0)
        product = state["mu_product"] * mu
        m = state["exp_avg"] * b1 + grad * (1 - b1)
        v = state["exp_avg_sq"] * b2 + grad * grad * (1 - b2)
        root = (v / _filled(step, b2)).sqrt() + eps
        moved = (grad * ((1.0 - mu) / (1.0 - product)) + m * (ahead / (1.0 - product * ahead))) / root
        return _shrunk(param, lr, weight_decay) - lr * moved, {"exp_avg": m, "exp_avg_sq": v, "mu_product": product}


class NAdam(_BuiltIn):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    _kind, _only_here = "NAdam", ("decoupled_weight_decay",)

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _rule(self, settings):
        return _DecoupledNAdam(settings) if settings["decoupled_weight_decay"] else None


class Lion(_BuiltIn):
    """Lion (Chen and others 2023)."""

    _kind = "Lion"

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())


class Adafactor(_BuiltIn):
    """Adafactor (Shazeer and Stern 2018): ``eps`` are the smallest second moment's root and the smallest size that a
    parameter counts with, ``d`` is the root mean square above which a step is scaled down."""

    _kind = "Adafactor"

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())


class _Adamax(TensorRule):
    slots = {"exp_avg": 0.0, "exp_inf": 0.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        (b1, b2), eps = self.settings["betas"], self.settings["eps"]
        grad = _decayed(param, grad, weight_decay)
        m = state["exp_avg"] * b1 + grad * (1 - b1)
        most = (state["exp_inf"] * b2).maximum(grad.abs() + eps)
        return param - lr / _filled(step, b1) * m / most, {"exp_avg": m, "exp_inf": most}


class Adamax(_BuiltIn):
    """Adam by the largest gradient (Kingma and Ba 2014)."""

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _rule(self, settings):
        return _Adamax(settings)


class _RAdam(TensorRule):
    slots = {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        (b1, b2), eps = self.settings["betas"], self.settings["eps"]
        if self.settings["decoupled_weight_decay"]:
            param = _shrunk(param, lr, weight_decay)
        else:
            grad = _decayed(param, grad, weight_decay)
        m = state["exp_avg"] * b1 + grad * (1 - b1)
        v = state["exp_avg_sq"] * b2 + grad * grad * (1 - b2)
        filled, full = _filled(step, b2), 2.0 / (1.0 - b2) - 1.0
        length = full - 2.0 * step * (1.0 - filled) / filled
        # Below 5 the variance is not known well enough to divide by.
        safe = length.maximum(5.0)
        rect = ((safe - 4.0) * (safe - 2.0) * full / ((full - 4.0) * (full - 2.0) * safe)).sqrt()
        adapted = rect * filled.sqrt() / (v.sqrt() + eps)
        moved = m / _filled(step, b1) * where(length > 5.0, adapted, 1.0)
        return param - lr * moved, {"exp_avg": m, "exp_avg_sq": v}


class RAdam(_BuiltIn):
    """Adam with a rectified variance (Liu and others 2019)."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _rule(self, settings):
        return _RAdam(settings)


class _ASGD(TensorRule):
    slots = {"ax": 0.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        lambd, alpha, t0 = (self.settings[k] for k in ("lambd", "alpha", "t0"))
        grad, before = _decayed(param, grad, weight_decay), step - 1.0
        eta = lr / (1.0 + lambd * lr * before) ** alpha
        param = param * (1.0 - lambd * eta) - eta * grad
        mu = 1.0 / (before - t0).maximum(1.0)
        return param, {"ax": where(mu == 1.0, param, state["ax"] + (param - state["ax"]) * mu)}


class ASGD(_BuiltIn):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992); the average is the state ``ax``."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _rule(self, settings):
        return _ASGD(settings)


class _Rprop(TensorRule):
    def __init__(self, settings):
        super().__init__(settings)
        self.slots = {"prev": 0.0, "step_size": settings["lr"]}

    def update(self, param, grad, state, lr, step, weight_decay):
        (slower, faster), (least, most) = self.settings["etas"], self.settings["step_sizes"]
        agree = grad * state["prev"]
        factor = where(agree > 0, faster, where(agree < 0, slower, 1.0))
        size = (state["step_size"] * factor).clamp(least, most)
        grad = where(agree < 0, 0.0, grad)
        return param - grad.sign() * size, {"prev": grad, "step_size": size}


class Rprop(_BuiltIn):
    """Resilient backpropagation (Riedmiller and Braun 1993): the signs of gradients alone count."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _rule(self, settings):
        return _Rprop(settings)


class _Muon(TensorRule):
    slots = {"momentum_buffer": 0.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        momentum = self.settings["momentum"]
        m = state["momentum_buffer"] * momentum + grad * (1 - momentum)
        x = grad * (1 - momentum) + m * momentum if self.settings["nesterov"] else m
        rows, columns = param.shape
        rate = lr * self._ratio(rows, columns)
        return _shrunk(param, lr, weight_decay) - rate * self._orthogonal(x, rows > columns), {"momentum_buffer": m}

    def _ratio(self, rows, columns):
        if self.settings["adjust_lr_fn"] == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1, rows / columns))

    def _orthogonal(self, x, is_tall):
        """The nearest matrix with orthogonal rows or columns, about, by Newton's and Schulz's iteration in bfloat16."""
        a, b, c = self.settings["ns_coefficients"]
        x = (x.transpose(0, 1) if is_tall else x).astype("bfloat16")
        x = x / x.vector_norm(2.0).clamp_min(self.settings["eps"])
        for _ in range(self.settings["ns_steps"]):
            gram = x @ x.transpose(0, 1)
            x = x * a + (gram * b + (gram @ gram) * c) @ x
        return (x.transpose(0, 1) if is_tall else x).astype("float32")


class Muon(_BuiltIn):
    """Momentum made orthogonal (Jordan and others 2024), for matrices."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7,
        ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise value_error(f"Muon: adjust_lr_fn is None, 'original' or 'match_rms_adamw', not {adjust_lr_fn!r}")
        super().__init__(params, locals())

    def _rule(self, settings):
        return _Muon(settings)

    def _added(self, group):
        for p in group["params"]:
            if p.ndim != 2:
                raise value_error(f"Muon: expected matrices, not a parameter of {p.ndim} dimensions; train others with AdamW")
        super()._added(group)


class SparseAdam(_BuiltIn):
    """PyTorch's Adam for sparse gradients, which there are none of here: refused."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        raise type_error("SparseAdam: gradients are dense here, also those of embeddings: use Adam")


def of_row(name: str, row: Any) -> type[_BuiltIn]:
    """The class of a rule that is described in Rust alone: its constructor is that of the row's settings."""
    doc, settings = row
    kinds = inspect.Parameter
    parts = [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in ("self", "params")]
    parts += [kinds(n, kinds.POSITIONAL_OR_KEYWORD, default=d, annotation=t) for n, t, d, _ in settings]
    signature = inspect.Signature([*parts, kinds("maximize", kinds.KEYWORD_ONLY, default=False, annotation="bool")])

    def __init__(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        _BuiltIn.__init__(self, given.arguments["params"], given.arguments)

    __init__.__signature__ = signature
    about = "".join(f"- ``{n}``: {text}\n" for n, _, _, text in settings)
    body = {"_kind": name, "__init__": __init__, "__doc__": f"{doc}\n\n{about}", "__module__": __name__}
    return type(name, (_BuiltIn,), body)


_known = {c._kind for c in list(vars().values()) if isinstance(c, type) and issubclass(c, _BuiltIn)} | {"Adam", "AdamW"}
for _name, _row in _native.OPTIMIZERS.items():
    if _name not in _known:
        globals()[_name] = of_row(_name, _row)
        __all__.append(_name)

check(globals(), __all__)
