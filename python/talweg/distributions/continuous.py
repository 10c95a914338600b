"""Distributions over the line: normal, uniform, exponential and their kin."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import where
from .._native import Tensor
from . import constraints
from .compound import TransformedDistribution
from .distribution import Distribution, ExponentialFamily, broadcast_all, normal, uniform
from .transforms import AffineTransform, ExpTransform, PowerTransform

_EULER = 0.57721566490153286061
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class _LocScale(Distribution):
    """Two parameters, ``loc`` and ``scale``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    _params = {"loc": 0, "scale": 0}
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def _standard(self, value: Any) -> Tensor:
        return (self._value(value) - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_LocScale, ExponentialFamily):
    """The normal distribution.

    >>> float(tw.distributions.Normal(0.0, 1.0).log_prob(tw.tensor(0.0)))
    -0.9189385
    """

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        return -0.5 * z * z - self.scale.log() - _HALF_LOG_2PI

    def cdf(self, value: Any) -> Tensor:
        return 0.5 * (1 + (self._standard(value) / math.sqrt(2)).erf())

    def icdf(self, value: Any) -> Tensor:
        p = value if isinstance(value, Tensor) else broadcast_all(value)[0]
        return self.loc + self.scale * (2 * p - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + self.scale.log()


class Laplace(_LocScale):
    """The double exponential distribution."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale * self.scale

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = 2 * uniform(self._extended_shape(sample_shape), self.loc) - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Any) -> Tensor:
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: Any) -> Tensor:
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Any) -> Tensor:
        t = value - 0.5
        return self.loc - self.scale * t.sign() * (-2 * t.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """The Cauchy distribution: no mean, no variance."""

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return self.loc * math.nan

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.scale * math.inf

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform(self._extended_shape(sample_shape), self.loc)
        return self.loc + self.scale * (math.pi * (u - 0.5)).tan()

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Any) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocScale):
    """The extreme value distribution of type 1."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Tensor:
        return (math.pi**2 / 6) * self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform(self._extended_shape(sample_shape), self.loc)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Any) -> Tensor:
        y = -self._standard(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Any) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class Uniform(Distribution):
    """Evenly distributed in ``[low, high)``."""

    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}
    _params = {"low": 0, "high": 0}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)
        if self._validate_args and not self.low.is_symbolic and not self.high.is_symbolic:
            from .distribution import error

            if not bool((self.low < self.high).all().item()):
                raise error("Uniform: low must be less than high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all values are as likely."""
        return self.high * math.nan

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.low + uniform(self._extended_shape(sample_shape), self.low) * (self.high - self.low)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        inside = (x >= self.low) & (x < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Tensor:
        return ((self._value(value) - self.low) / (self.high - self.low)).clamp(0.0, 1.0)

    def icdf(self, value: Any) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """The time to the next arrival at a rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    _params = {"rate": 0}
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    stddev = mean

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return self.rate * 0

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -uniform(self._extended_shape(sample_shape), self.rate).log() / self.rate

    def log_prob(self, value: Any) -> Tensor:
        return self.rate.log() - self.rate * self._value(value)

    def cdf(self, value: Any) -> Tensor:
        return -(-self.rate * self._value(value)).expm1()

    def icdf(self, value: Any) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class LogNormal(TransformedDistribution):
    """``exp`` of a normal variable."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        s = self.scale**2
        return s.expm1() * (2 * self.loc + s).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(Distribution):
    """The absolute value of a symmetric variable around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _params = {"scale": 0}
    has_rsample = True
    _base: Any = None

    def __init__(self, scale: Any, validate_args: bool | None = None):
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, (), validate_args)

    base_dist = property(lambda self: self._base(self.scale * 0, self.scale, False))

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return self.scale * 0

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        found = self.base_dist.log_prob(x) + math.log(2)
        return where(x >= 0, found, found * 0 - math.inf)

    def cdf(self, value: Any) -> Tensor:
        return 2 * self.base_dist.cdf(self._value(value)) - 1

    def icdf(self, value: Any) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable."""

    _base = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable."""

    _base = Cauchy

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return self.scale * math.inf

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.scale * math.inf


class Weibull(Distribution):
    """``scale * E ** (1 / concentration)`` of an exponential variable."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _params = {"scale": 0, "concentration": 0}
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, (), validate_args)

    def _moment(self, n: int) -> Tensor:
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN for concentrations below 1."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        e = -uniform(self._extended_shape(sample_shape), self.scale).log()
        return self.scale * e ** (1 / self.concentration)

    def log_prob(self, value: Any) -> Tensor:
        k = self.concentration
        z = self._value(value).log() - self.scale.log()
        return k.log() - self.scale.log() + (k - 1) * z - (k * z).exp()

    def cdf(self, value: Any) -> Tensor:
        return -(-((self._value(value) / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Any) -> Tensor:
        return self.scale * (-(-value).log1p()) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        k = self.concentration
        return _EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Pareto(TransformedDistribution):
    """``scale * exp(E / alpha)`` of an exponential variable."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(self.scale * 0, self.scale)], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = list(batch_shape)
        return Pareto(self.scale.broadcast_to(shape), self.alpha.broadcast_to(shape), False)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From ``scale`` on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for ``alpha`` up to 1."""
        a = self.alpha.clamp_min(1.0)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The least value."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for ``alpha`` up to 2."""
        a = self.alpha.clamp_min(2.0)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + 1 / self.alpha)


class Kumaraswamy(TransformedDistribution):
    """``(1 - U ** (1 / b)) ** (1 / a)`` of a uniform variable."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        one = self.concentration0 * 0 + 1
        base = Uniform(one * 0, one, False)
        steps = [PowerTransform(1 / self.concentration0), AffineTransform(1.0, -1.0), PowerTransform(1 / self.concentration1)]
        super().__init__(base, steps, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = list(batch_shape)
        return Kumaraswamy(self.concentration1.broadcast_to(shape), self.concentration0.broadcast_to(shape), False)

    def _moment(self, n: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        arg = 1 + n / a
        return (b.log() + arg.lgamma() + b.lgamma() - (arg + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN where the density has no maximum inside."""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & ((a != 1) | (b != 1))
        found = ((a - 1).clamp_min(1e-30).log() - (a * b - 1).clamp_min(1e-30).log()) / a
        return where(inside, found.exp(), a * math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + _EULER) - a.log() - b.log()


class ContinuousBernoulli(ExponentialFamily):
    """Density ``p ** x (1 - p) ** (1 - x)`` on the unit interval, normalized."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _params = {"probs": 0}
    has_rsample = True

    def __init__(self, probs: Any = None, logits: Any = None, lims: Any = (0.499, 0.501), validate_args: bool | None = None):
        from .distribution import error
        from .special import clamp_probs

        if (probs is None) == (logits is None):
            raise error("ContinuousBernoulli: give probs or logits, not both")
        (given,) = broadcast_all(probs if probs is not None else logits)
        self._is_logits = probs is None
        self.probs = clamp_probs(given if probs is not None else given.sigmoid())
        self._lims = lims
        super().__init__(self.probs.shape, (), validate_args)

    @property
    def logits(self) -> Tensor:
        """The logits."""
        from .special import probs_to_logits

        return probs_to_logits(self.probs, True)

    param_shape = property(lambda self: self.probs.shape)

    def _far(self) -> tuple[Tensor, Tensor]:
        """Where the formulas are stable, and probabilities that are."""
        p = self.probs
        far = (p < self._lims[0]) | (p > self._lims[1])
        return far, where(far, p, p * 0 + self._lims[0])

    def _log_norm(self) -> Tensor:
        far, q = self._far()
        exact = ((-q).log1p() - q.log()).abs().log() - (1 - 2 * q).abs().log()
        x = (self.probs - 0.5) ** 2
        return where(far, exact, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        far, q = self._far()
        exact = q / (2 * q - 1) + 1 / ((-q).log1p() - q.log())
        x = self.probs - 0.5
        return where(far, exact, 0.5 + (1 / 3 + 16 / 45 * x * x) * x)

    @property
    def variance(self) -> Tensor:
        far, q = self._far()
        exact = q * (q - 1) / (1 - 2 * q) ** 2 + 1 / ((-q).log1p() - q.log()) ** 2
        x = (self.probs - 0.5) ** 2
        return where(far, exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        return x * self.probs.log() + (1 - x) * (-self.probs).log1p() + self._log_norm()

    def cdf(self, value: Any) -> Tensor:
        x = self._value(value)
        far, q = self._far()
        exact = (q**x * (1 - q) ** (1 - x) + q - 1) / (2 * q - 1)
        inner = where(far, exact, x)
        return where(x <= 0, x * 0, where(x >= 1, x * 0 + 1, inner))

    def icdf(self, value: Any) -> Tensor:
        far, q = self._far()
        exact = ((value * (2 * q - 1) - q).log1p() - (-q).log1p()) / (q.log() - (-q).log1p())
        return where(far, exact, value)

    def entropy(self) -> Tensor:
        low, high = (-self.probs).log1p(), self.probs.log()
        return self.mean * (low - high) - self._log_norm() - low
