"""Distributions of distributions: independent dimensions, transformed variables, mixtures."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

from .._native import Tensor
from .._state import no_grad
from . import constraints
from .distribution import INT64, Distribution, error, sizes, tail_sum, unsupported
from .transforms import ComposeTransform, Transform


class Independent(Distribution):
    """A distribution whose last batch dimensions are part of the event.

    >>> d = tw.distributions.Independent(tw.distributions.Normal(tw.zeros(3), tw.ones(3)), 1)
    >>> d.batch_shape, d.event_shape
    (talweg.Size([]), talweg.Size([3]))
    """

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None):
        shape = base_distribution.batch_shape + base_distribution.event_shape
        n = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise error(f"Independent: {reinterpreted_batch_ndims} dimensions of a batch of shape {base_distribution.batch_shape}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[: len(shape) - n], shape[len(shape) - n :], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    has_enumerate_support = property(lambda self: self.base_dist.has_enumerate_support if not self.reinterpreted_batch_ndims else False)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, for all dimensions of an event."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand(sizes(batch_shape) + own), self.reinterpreted_batch_ndims, False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        """The sum over the event's dimensions."""
        return tail_sum(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The sum over the event's dimensions."""
        return tail_sum(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All events."""
        if self.reinterpreted_batch_ndims > 0:
            raise unsupported("Independent: the support of several dimensions cannot be enumerated")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """A variable of a distribution after invertible transforms."""

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise error(f"TransformedDistribution: transforms must be a Transform or a list of them, not {transforms!r}")
        chain = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        need = chain.domain.event_dim
        if len(base_shape) < need:
            raise error(f"TransformedDistribution: the base has {len(base_shape)} dimensions, the transforms want {need}")
        forward = chain.forward_shape(base_shape)
        wide = chain.inverse_shape(forward)
        if wide != base_shape:
            base_distribution = base_distribution.expand(wide[: len(wide) - len(base_distribution.event_shape)])
        more = need - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, more, False) if more > 0 else base_distribution
        n = chain.codomain.event_dim + max(len(base_distribution.event_shape) - need, 0)
        super().__init__(forward[: len(forward) - n], forward[len(forward) - n :], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @constraints.dependent_property
    def support(self) -> Any:
        """Where the last transform leads."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = sizes(batch_shape) + self.event_shape
        wide = ComposeTransform(self.transforms).inverse_shape(shape)
        made = object.__new__(type(self)) if _instance is None else _instance
        made.__dict__.update(self.__dict__)
        made.base_dist = self.base_dist.expand(wide[: len(wide) - len(self.base_dist.event_shape)])
        made._batch_shape = sizes(batch_shape)
        return made

    def _apply(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._apply(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._apply(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        """The base's density, over the Jacobian's determinant."""
        y = self._value(value)
        event_dim = len(self.event_shape)
        total: Any = 0.0
        for t in reversed(self.transforms):
            x = t._inverse(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            total = total - tail_sum(t.log_abs_det_jacobian(x, y), event_dim - t.domain.event_dim)
            y = x
        return total + tail_sum(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _flipped(self, p: Tensor) -> Tensor:
        """Probabilities of the base for those of the whole: decreasing transforms exchange the ends."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        if not isinstance(sign, Tensor):
            return p if sign == 1 else 1 - p
        return sign.to(p.dtype) * (p - 0.5) + 0.5

    def cdf(self, value: Any) -> Tensor:
        y = self._value(value)
        for t in reversed(self.transforms):
            y = t._inverse(y)
        return self._flipped(self.base_dist.cdf(y))

    def icdf(self, value: Any) -> Tensor:
        return self._apply(self.base_dist.icdf(self._flipped(value)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}: {tuple(getattr(self, k).shape)}" for k in self.arg_constraints)
        return f"{type(self).__name__}({shown})"


class MixtureSameFamily(Distribution):
    """A mixture: the last batch dimension of ``component_distribution`` counts the components."""

    has_rsample = False

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None):
        from .discrete import Categorical

        if not isinstance(mixture_distribution, Categorical):
            raise error("MixtureSameFamily: the mixture is a Categorical")
        k = mixture_distribution.logits.shape[-1]
        if not component_distribution.batch_shape or component_distribution.batch_shape[-1] != k:
            raise error(f"MixtureSameFamily: {k} weights for components of batch shape {component_distribution.batch_shape}")
        self.mixture_distribution, self.component_distribution, self._count = mixture_distribution, component_distribution, k
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = sizes(batch_shape)
        return MixtureSameFamily(self.mixture_distribution.expand(shape), self.component_distribution.expand((*shape, self._count)), False)

    def _weights(self) -> Tensor:
        p = self.mixture_distribution.probs
        return p.reshape([*p.shape, *[1] * len(self.event_shape)])

    def _over(self, x: Tensor) -> Tensor:
        return x.sum(len(x.shape) - 1 - len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return self._over(self._weights() * self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        w, at = self._weights(), -1 - len(self.event_shape)
        off = self.component_distribution.mean - self.mean.unsqueeze(at)
        return self._over(w * self.component_distribution.variance) + self._over(w * off * off)

    def _wide(self, value: Tensor) -> Tensor:
        return value.unsqueeze(len(value.shape) - len(self.event_shape))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the mixed density."""
        x = self._value(value)
        each = self.component_distribution.log_prob(self._wide(x))
        return (each + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Any) -> Tensor:
        """The mixed cumulative distribution function."""
        x = self._value(value)
        return (self.component_distribution.cdf(self._wide(x)) * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            n = len(self.event_shape)
            which = self.mixture_distribution.sample(sample_shape)
            every = self.component_distribution.sample(sample_shape)
            at = len(every.shape) - 1 - n
            index = which.to(INT64).reshape([*which.shape, 1, *[1] * n])
            index = index.broadcast_to([*every.shape[:at], 1, *self.event_shape])
            return every.gather(at, index).squeeze(at)

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture_distribution!r}, {self.component_distribution!r})"
