"""Distributions over integers and classes."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native, where
from .._native import Tensor
from .._state import no_grad
from . import constraints
from .distribution import INT64, Distribution, ExponentialFamily, broadcast_all, error, sizes, uniform, unsupported
from .special import binomial, clamp_probs, logits_to_probs, poisson, probs_to_logits, xlogy


def _softplus(x: Tensor) -> Tensor:
    return x.relu() + (-x.abs()).exp().log1p()


class _Weighted(Distribution):
    """A distribution with ``probs`` or ``logits``; the other one is computed when it is read."""

    _is_binary = True
    _own = 0

    def _given(self, probs: Any, logits: Any) -> Tensor:
        if (probs is None) == (logits is None):
            raise error(f"{type(self).__name__}: give probs or logits, not both")
        (value,) = broadcast_all(probs if probs is not None else logits)
        self.__dict__["probs" if probs is not None else "logits"] = value
        return value

    def __getattr__(self, name: str) -> Any:
        made = self.__dict__
        if name == "probs" and "logits" in made:
            return logits_to_probs(made["logits"], self._is_binary)
        if name == "logits" and "probs" in made:
            return probs_to_logits(made["probs"], self._is_binary)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        return tuple(self._param.shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Not there: events are discrete."""
        raise unsupported(f"{type(self).__name__} has no rsample: use sample and log_prob")


class Bernoulli(_Weighted, ExponentialFamily):
    """1 with probability ``probs``, else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _params = {"probs": 0, "logits": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        value = self._given(probs, logits)
        super().__init__(value.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN where both are as likely."""
        p = self.probs
        return where(p == 0.5, p * math.nan, (p >= 0.5).to(p.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            p = self.probs.detach()
            return (_native.rand(list(self._extended_shape(sample_shape)), dtype=p.dtype) < p).to(p.dtype)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        return x * self.logits - _softplus(self.logits)

    def entropy(self) -> Tensor:
        return _softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        both = _native.tensor([0.0, 1.0]).to(self._param.dtype).reshape([2] + [1] * len(self.batch_shape))
        return both.broadcast_to([2, *self.batch_shape]) if expand else both


class Geometric(_Weighted):
    """The failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _params = {"probs": 0, "logits": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        value = self._given(probs, logits)
        super().__init__(value.shape, (), validate_args)
        if self._validate_args and probs is not None and not value.is_symbolic and not bool((value > 0).all().item()):
            raise error("Geometric: probs must be positive")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            p = self.probs.detach()
            return (uniform(self._extended_shape(sample_shape), p).log() / (-p).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        x, p = self._value(value), self.probs
        log_fail = (-clamp_probs(p)).log1p()
        return where((p == 1) & (x == 0), x * 0 + p * 0, x * log_fail) + p.log()

    def entropy(self) -> Tensor:
        return (_softplus(self.logits) - self.probs * self.logits) / self.probs


class Categorical(_Weighted):
    """A class with probabilities ``probs`` along the last dimension.

    >>> float(tw.distributions.Categorical(tw.tensor([1.0, 3.0])).log_prob(tw.tensor(1)).exp())
    0.75
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _params = {"probs": 1, "logits": 1}
    _is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        value = self._given(probs, logits)
        if len(value.shape) < 1:
            raise error("Categorical: the parameters have at least one dimension")
        if probs is not None:
            self.__dict__["probs"] = value / value.sum(-1, True)
        else:
            self.__dict__["logits"] = value.log_softmax(-1)
        self._count = value.shape[-1]
        super().__init__(value.shape[:-1], (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The classes."""
        return constraints.integer_interval(0, self._count - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no mean."""
        return _native.full(list(self.batch_shape), math.nan, dtype=self._param.dtype)

    @property
    def variance(self) -> Tensor:
        """NaN: classes have no variance."""
        return self.mean

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self._param.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            logits = self.logits.detach()
            u = uniform((*sizes(sample_shape), *logits.shape), logits)
            return (logits - (-u.log()).log()).argmax(-1)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value).to(INT64)
        shape = list(_joined(tuple(x.shape), self.batch_shape))
        logits = self.logits.broadcast_to([*shape, self._count])
        return logits.gather(len(shape), x.broadcast_to(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp_min(-3.4028235e38)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The classes."""
        every = _native.arange(self._count).reshape([-1] + [1] * len(self.batch_shape))
        return every.broadcast_to([self._count, *self.batch_shape]) if expand else every


def _joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    from .distribution import broadcast_shapes

    return broadcast_shapes(a, b)


class OneHotCategorical(_Weighted):
    """A class as a vector with one 1."""

    arg_constraints = Categorical.arg_constraints
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        n = self._categorical._count
        super().__init__(self._categorical.batch_shape, (n,), validate_args)

    def __getattr__(self, name: str) -> Any:
        if name in ("probs", "logits", "param_shape"):
            return getattr(self.__dict__["_categorical"], name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = object.__new__(type(self)) if _instance is None else _instance
        made.__dict__.update(self.__dict__)
        made._categorical, made._batch_shape = self._categorical.expand(batch_shape), sizes(batch_shape)
        return made

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self._hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        p = self._categorical.probs
        return p * (1 - p)

    def _hot(self, classes: Tensor) -> Tensor:
        every = _native.arange(self._categorical._count)
        return (classes.unsqueeze(-1) == every).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        return self._categorical.log_prob(self._value(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The classes."""
        n = self._categorical._count
        every = _native.eye(n, dtype=self._param.dtype).reshape([n, *[1] * len(self.batch_shape), n])
        return every.broadcast_to([n, *self.batch_shape, n]) if expand else every

    def __repr__(self) -> str:
        return f"{type(self).__name__}(probs: {tuple(self._categorical._param.shape)})"


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """``OneHotCategorical`` whose ``rsample`` passes gradients to the probabilities unchanged."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Events with the gradient of the probabilities."""
        p = self._categorical.probs
        return self.sample(sample_shape) + (p - p.stop_gradient())


class _Counted(_Weighted):
    """``total_count`` beside probabilities."""

    _params = {"probs": 0, "logits": 0, "total_count": 0}

    def __init__(self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None):
        if (probs is None) == (logits is None):
            raise error(f"{type(self).__name__}: give probs or logits, not both")
        name = "probs" if probs is not None else "logits"
        count, value = broadcast_all(total_count, probs if probs is not None else logits)
        self.__dict__[name] = value
        self.total_count = count.to(value.dtype)
        Distribution.__init__(self, value.shape, (), validate_args)


class Binomial(_Counted):
    """The successes of ``total_count`` trials."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to ``total_count``."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = list(self._extended_shape(sample_shape))
            return binomial(self.total_count.broadcast_to(shape), self.probs.detach().broadcast_to(shape))

    def log_prob(self, value: Any) -> Tensor:
        x, n, logits = self._value(value), self.total_count, self.logits
        choose = (n + 1).lgamma() - (x + 1).lgamma() - (n - x + 1).lgamma()
        return choose + x * logits - n * _softplus(logits)

    def entropy(self) -> Tensor:
        """The entropy; one ``total_count`` for the whole batch."""
        n = _one_count(self, self.total_count)
        self = self if self._validate_args is False else _unchecked(self)
        log_p = self.log_prob(self.enumerate_support(False))
        del n
        return -(log_p.exp() * log_p).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to ``total_count``, which is one for the whole batch."""
        n = _one_count(self, self.total_count)
        every = _native.arange(n + 1).to(self._param.dtype).reshape([-1] + [1] * len(self.batch_shape))
        return every.broadcast_to([n + 1, *self.batch_shape]) if expand else every


def _unchecked(d: Any) -> Any:
    made = object.__new__(type(d))
    made.__dict__.update(d.__dict__, _validate_args=False)
    return made


def _one_count(d: Any, count: Tensor) -> int:
    most, least = int(count.amax().item()), int(count.amin().item())
    if most != least:
        raise unsupported(f"{type(d).__name__}: total_count differs within the batch")
    return most


class NegativeBinomial(_Counted):
    """The successes before ``total_count`` failures."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp_min(0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean * (1 + self.logits.exp())

    def sample(self, sample_shape: Any = ()) -> Tensor:
        from .gammas import Gamma

        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), False).sample(sample_shape)
            return poisson(rate)

    def log_prob(self, value: Any) -> Tensor:
        x, n, logits = self._value(value), self.total_count, self.logits
        mass = -n * _softplus(logits) - x * _softplus(-logits)
        norm = -(n + x).lgamma() + (1 + x).lgamma() + n.lgamma()
        return mass - where(n + x == 0, norm * 0, norm)


class Poisson(ExponentialFamily):
    """Arrivals at a rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _params = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.detach().broadcast_to(list(self._extended_shape(sample_shape))))

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        x = x if str(x.dtype) == str(self.rate.dtype) else x.to(self.rate.dtype)
        return xlogy(x + self.rate * 0, self.rate + x * 0) - self.rate - (x + 1).lgamma()


class Multinomial(_Weighted):
    """Counts of classes in ``total_count`` draws."""

    arg_constraints = Categorical.arg_constraints

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        if not isinstance(total_count, int):
            raise unsupported("Multinomial: total_count is one int for the whole batch")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, (self._categorical._count,), validate_args)

    __getattr__ = OneHotCategorical.__getattr__
    _param = OneHotCategorical._param
    expand = OneHotCategorical.expand
    __repr__ = OneHotCategorical.__repr__

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts up to ``total_count``."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            classes = self._categorical.sample((self.total_count, *sizes(sample_shape)))
            hot = classes.unsqueeze(-1) == _native.arange(self._categorical._count)
            return hot.to(self._categorical._param.dtype).sum(0)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        logits = self.logits + x * 0
        logits = where((x == 0) & (logits == -math.inf), x * 0, logits)
        return (x.sum(-1) + 1).lgamma() - (x + 1).lgamma().sum(-1) + (x * logits).sum(-1)

    def entropy(self) -> Tensor:
        n, p = self.total_count, self.probs
        counts = _native.arange(n + 1)[1:].to(p.dtype).reshape([-1] + [1] * len(p.shape))
        one = Binomial(n, p, validate_args=False)
        mass = one.log_prob(counts).exp()
        term = (mass * (counts + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - math.lgamma(n + 1) + term
