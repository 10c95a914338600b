"""``kl_divergence`` and the table of its formulas."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any, Callable

from .. import where
from .._native import Tensor
from .compound import Independent, TransformedDistribution
from .continuous import Cauchy, ContinuousBernoulli, Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Pareto, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, tail_sum, unsupported
from .gammas import Beta, Dirichlet, Gamma
from .multivariate import LowRankMultivariateNormal, MultivariateNormal
from .special import solve_triangular, xlogy

_EULER = 0.57721566490153286061
_TABLE: dict[tuple[type, type], Callable[..., Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[..., Any]:
    """A decorator: the function computes the divergence of two types, and of their subclasses.

    >>> class Mine(tw.distributions.Normal): ...
    >>> @tw.distributions.register_kl(Mine, Mine)
    ... def between(p, q): return tw.zeros(())
    >>> float(tw.distributions.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0)))
    0.0
    """
    if not (isinstance(type_p, type) and issubclass(type_p, Distribution) and isinstance(type_q, type) and issubclass(type_q, Distribution)):
        raise TypeError("register_kl: two classes of distributions are wanted")

    def register(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _TABLE[type_p, type_q] = f
        return f

    return register


def _found(p: type, q: type) -> Callable[..., Tensor] | None:
    """The formula of the nearest base classes."""
    for a in p.__mro__:
        for b in q.__mro__:
            if (a, b) in _TABLE:
                return _TABLE[a, b]
    return None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence ``E_p[log p - log q]``.

    >>> d = tw.distributions
    >>> float(d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0)))
    0.5
    """
    f = _found(type(p), type(q))
    if f is None:
        raise unsupported(f"there is no formula for kl_divergence({type(p).__name__}, {type(q).__name__}): use register_kl or samples")
    return f(p, q)


def _formula(a: type, b: type) -> Callable[..., Any]:
    return register_kl(a, b)


def _outside(value: Tensor, is_outside: Tensor) -> Tensor:
    return where(is_outside, value * 0 + math.inf, value)


@_formula(Normal, Normal)
def _(p: Any, q: Any) -> Tensor:
    ratio, off = (p.scale / q.scale) ** 2, ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + off - 1 - ratio.log())


@_formula(Laplace, Laplace)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    ratio, off = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + off / q.scale + ratio * (-off / p.scale).exp() - 1


@_formula(Cauchy, Cauchy)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@_formula(Gumbel, Gumbel)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a, b, c = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    return -a.log() - b + c + a * _EULER + (b + (1 + a).lgamma() - c).exp() - (1 + _EULER)


@_formula(Exponential, Exponential)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@_formula(HalfNormal, HalfNormal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return kl_divergence(p.base_dist, q.base_dist)


@_formula(Pareto, Pareto)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    ratio = p.scale / q.scale
    found = q.alpha * ratio.log() + (p.alpha / q.alpha).log() + q.alpha / p.alpha - 1
    return _outside(found, p.scale < q.scale)


@_formula(Uniform, Uniform)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return _outside(found, (q.low > p.low) | (q.high < p.high))


@_formula(ContinuousBernoulli, ContinuousBernoulli)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return p.mean * (p.logits - q.logits) + p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()


@_formula(Gamma, Gamma)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a, b = p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * a / p.rate


@_formula(Beta, Beta)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    total = a + b
    norm = c.lgamma() + d.lgamma() + total.lgamma() - (c + d).lgamma() - a.lgamma() - b.lgamma()
    return norm + (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - total) * total.digamma()


@_formula(Dirichlet, Dirichlet)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norm = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norm + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


def _softplus(x: Tensor) -> Tensor:
    return x.relu() + (-x.abs()).exp().log1p()


@_formula(Bernoulli, Bernoulli)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a, b = p.probs, q.probs
    t1 = a * (_softplus(-q.logits) - _softplus(-p.logits))
    t1 = _outside(t1, (b == 0) & (a != 0))
    t1 = where(a == 0, t1 * 0, t1)
    t2 = (1 - a) * (_softplus(q.logits) - _softplus(p.logits))
    t2 = _outside(t2, (b == 1) & (a != 1))
    return t1 + where(a == 1, t2 * 0, t2)


@_formula(Binomial, Binomial)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _outside(found, p.total_count > q.total_count)


@_formula(Categorical, Categorical)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    each = p.probs * (p.logits - q.logits)
    each = _outside(each, q.probs == 0)
    return where(p.probs == 0, p.probs * 0, each).sum(-1)


@_formula(OneHotCategorical, OneHotCategorical)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return kl_divergence(p._categorical, q._categorical)


@_formula(Geometric, Geometric)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@_formula(Poisson, Poisson)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@_formula(LogNormal, LogNormal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return kl_divergence(p.base_dist, q.base_dist)


@_formula(MultivariateNormal, MultivariateNormal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _normals(p, q)


@_formula(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _normals(p, q)


@_formula(LowRankMultivariateNormal, MultivariateNormal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _normals(p, q)


@_formula(MultivariateNormal, LowRankMultivariateNormal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _normals(p, q)


def _normals(p: Any, q: Any) -> Tensor:
    a, b = p.scale_tril, q.scale_tril
    half = b.diagonal(0, -2, -1).log().sum(-1) - a.diagonal(0, -2, -1).log().sum(-1)
    white = solve_triangular(b, a)
    off = solve_triangular(b, (q.loc - p.loc).unsqueeze(-1))
    return half + 0.5 * ((white * white).sum([-1, -2]) + (off * off).sum([-1, -2]) - p.loc.shape[-1])


@_formula(Independent, Independent)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise unsupported("kl_divergence: the two have different numbers of independent dimensions")
    return tail_sum(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@_formula(TransformedDistribution, TransformedDistribution)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    if p.transforms != q.transforms:
        raise unsupported("kl_divergence: the two have different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


# Between families.


def _apart(p: Any, q: Any) -> Tensor:
    """The support of ``p`` is not that of ``q``."""
    first = next(v for v in p.__dict__.values() if isinstance(v, Tensor))
    second = next(v for v in q.__dict__.values() if isinstance(v, Tensor))
    return (first * 0 + second * 0) + math.inf


for _a, _b in [
    (Beta, Pareto), (ContinuousBernoulli, Pareto), (Exponential, Beta), (Exponential, ContinuousBernoulli), (Exponential, Pareto),
    (Exponential, Uniform), (Gamma, Beta), (Gamma, ContinuousBernoulli), (Gamma, Pareto), (Gamma, Uniform), (Gumbel, Beta),
    (Gumbel, ContinuousBernoulli), (Gumbel, Exponential), (Gumbel, Gamma), (Gumbel, Pareto), (Gumbel, Uniform), (Laplace, Beta),
    (Laplace, ContinuousBernoulli), (Laplace, Exponential), (Laplace, Gamma), (Laplace, Pareto), (Laplace, Uniform), (Normal, Beta),
    (Normal, ContinuousBernoulli), (Normal, Exponential), (Normal, Gamma), (Normal, Pareto), (Normal, Uniform), (Pareto, Beta),
    (Pareto, ContinuousBernoulli), (Pareto, Uniform), (Poisson, Bernoulli), (Poisson, Binomial),
]:  # fmt: skip
    register_kl(_a, _b)(_apart)


@_formula(Bernoulli, Poisson)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


def _against_normal(p: Any, q: Any) -> Tensor:
    """``p`` with a finite variance, ``q`` normal."""
    cross = 0.5 * ((p.variance + (p.mean - q.loc) ** 2) / q.scale**2 + math.log(2 * math.pi)) + q.scale.log()
    return cross - p.entropy()


for _a in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_a, Normal)(_against_normal)


def _against_exponential(p: Any, q: Any) -> Tensor:
    """``p`` of positive numbers, ``q`` exponential."""
    return q.rate * p.mean - q.rate.log() - p.entropy()


for _a in (Beta, ContinuousBernoulli, Gamma, Pareto):
    register_kl(_a, Exponential)(_against_exponential)


@_formula(Uniform, Exponential)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _outside(_against_exponential(p, q), p.low < 0)


@_formula(Exponential, Gamma)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    ratio, a = q.rate / p.rate, q.concentration
    return -a * ratio.log() + ratio + a.lgamma() + a * _EULER - (1 + _EULER)


@_formula(Exponential, Gumbel)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    product = p.rate * q.scale
    off = q.loc / q.scale
    return product.log() - 1 + (off.exp() * product / (product + 1) - off + 1 / product)


@_formula(Beta, Gamma)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a = q.concentration
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() + a.lgamma() - a * q.rate.log() - (a - 1) * log_mean + q.rate * p.mean


@_formula(Gamma, Gumbel)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    product, off = p.rate * q.scale, q.loc / q.scale
    a = p.concentration
    return (a - 1) * a.digamma() - a.lgamma() - a + product.log() + off.exp() * (1 + 1 / product) ** -a - off + a / product


@_formula(Normal, Gumbel)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    mean, ratio, off = p.loc / q.scale, (p.scale / q.scale) ** 2, q.loc / q.scale
    return -ratio.log() * 0.5 + (mean - off) + (-mean + 0.5 * ratio + off).exp() - 0.5 * (1 + math.log(2 * math.pi))


@_formula(Normal, Laplace)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    off = p.loc - q.loc
    ratio = off / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio**2).exp() + off * (math.sqrt(0.5) * ratio).erf()
    return -(p.scale / q.scale).log() + distance / q.scale - (0.5 * math.log(0.5 * math.pi) + 0.5)


@_formula(Uniform, Gumbel)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return width.log() + 0.5 * (high + low) - width * ((-high).exp() - (-low).exp())


@_formula(Pareto, Normal)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _outside(_against_normal(p, q), p.alpha <= 2)


@_formula(Pareto, Gamma)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a = q.concentration
    log_mean = p.scale.log() + 1 / p.alpha
    found = -p.entropy() + a.lgamma() - a * q.rate.log() - (a - 1) * log_mean + q.rate * p.mean
    return _outside(found, p.alpha <= 1)


@_formula(Beta, ContinuousBernoulli)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()


@_formula(Beta, Uniform)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _outside(-p.entropy() + (q.high - q.low).log(), (q.low > 0) | (q.high < 1))


@_formula(ContinuousBernoulli, Uniform)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    return _outside(-p.entropy() + (q.high - q.low).log(), (q.low > 0) | (q.high < 1))


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """E[log x] of a uniform variable."""

    def area(x: Tensor) -> Tensor:
        return xlogy(x, x) - x

    return (area(high) - area(low)) / (high - low)


@_formula(Uniform, Gamma)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a = q.concentration
    found = -p.entropy() + a.lgamma() - a * q.rate.log() - (a - 1) * _mean_log(p.low, p.high) + q.rate * p.mean
    return _outside(found, p.low < 0)


@_formula(Uniform, Beta)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    found = -p.entropy() - logs + a.lgamma() + b.lgamma() - (a + b).lgamma()
    return _outside(found, (p.high > 1) | (p.low < 0))


@_formula(Uniform, ContinuousBernoulli)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    found = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()
    return _outside(found, (p.high >= 1) | (p.low <= 0))


@_formula(Uniform, Pareto)
def _(p: Any, q: Any) -> Tensor:  # noqa: F811
    mean_log = _mean_log(p.low, p.high)
    found = mean_log * (q.alpha + 1) - (p.high - p.low).log() - q.alpha.log() - q.alpha * q.scale.log()
    return _outside(found, p.low < q.scale)
