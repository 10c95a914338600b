"""Continuous relaxations of discrete distributions."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .._native import Tensor
from . import constraints
from .compound import TransformedDistribution
from .discrete import Categorical, _Weighted
from .distribution import as_tensor, sizes, uniform
from .transforms import ExpTransform, SigmoidTransform


def _softplus(x: Tensor) -> Tensor:
    return x.relu() + (-x.abs()).exp().log1p()


class LogitRelaxedBernoulli(_Weighted):
    """The logit of a ``RelaxedBernoulli``."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _params = {"probs": 0, "logits": 0}
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        value = self._given(probs, logits)
        self.temperature = as_tensor(temperature, value)
        super().__init__(value.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        logits = self.logits
        u = uniform(self._extended_shape(sample_shape), logits)
        return (u.log() - (-u).log1p() + logits) / self.temperature

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.rsample(sample_shape).detach()

    def log_prob(self, value: Any) -> Tensor:
        d = self.logits - self._value(value) * self.temperature
        return self.temperature.log() + d - 2 * _softplus(d)


class RelaxedBernoulli(TransformedDistribution):
    """Between 0 and 1; the colder, the nearer to them."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits, validate_args), SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class ExpRelaxedCategorical(_Weighted):
    """The logarithm of a ``RelaxedOneHotCategorical``."""

    arg_constraints = Categorical.arg_constraints
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = as_tensor(temperature, self._categorical._param)
        super().__init__(self._categorical.batch_shape, (self._categorical._count,), validate_args)

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

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform(self._extended_shape(sample_shape), self._param)
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.rsample(sample_shape).detach()

    def log_prob(self, value: Any) -> Tensor:
        x, k = self._value(value), self._categorical._count
        score = self.logits - x * self.temperature
        score = (score - score.logsumexp(-1, True)).sum(-1)
        return score + math.lgamma(k) + (k - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex; the colder, the nearer to its corners."""

    arg_constraints = Categorical.arg_constraints
    support = constraints.simplex

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


