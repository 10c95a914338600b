"""Normal distributions of vectors."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native
from .._native import Tensor
from . import constraints
from .compound import TransformedDistribution
from .continuous import Normal
from .distribution import Distribution, broadcast_shapes, error, normal
from .special import solve_triangular
from .transforms import StickBreakingTransform


def lower_factor(what: str, covariance: Any, precision: Any, lower: Any) -> Tensor:
    """The Cholesky factor of the one matrix that is given."""
    if sum(m is not None for m in (covariance, precision, lower)) != 1:
        raise error(f"{what}: give exactly one of covariance_matrix, precision_matrix and scale_tril")
    given = covariance if covariance is not None else precision if precision is not None else lower
    if len(given.shape) < 2:
        raise error(f"{what}: the matrix has at least two dimensions")
    if lower is not None:
        return lower
    return given.cholesky() if covariance is not None else precision_to_lower(precision)


def precision_to_lower(p: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix."""
    n = p.shape[-1]
    flipped = p.flip([-2, -1]).cholesky()
    lower = flipped.flip([-2, -1]).mT
    return solve_triangular(lower, _native.eye(n, dtype=p.dtype).broadcast_to(list(p.shape)))


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by covariance, precision or Cholesky factor.

    >>> d = tw.distributions.MultivariateNormal(tw.zeros(2), tw.eye(2))
    >>> float(d.log_prob(tw.zeros(2)))
    -1.837877
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    _params = {"loc": 1, "scale_tril": 2}
    has_rsample = True

    def __init__(self, loc: Tensor, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None, validate_args: bool | None = None):
        if len(loc.shape) < 1:
            raise error("MultivariateNormal: loc has at least one dimension")
        low = lower_factor("MultivariateNormal", covariance_matrix, precision_matrix, scale_tril)
        n = loc.shape[-1]
        batch = broadcast_shapes(tuple(low.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc, self.scale_tril = loc.broadcast_to([*batch, n]), low.broadcast_to([*batch, n, n])
        super().__init__(batch, (n,), validate_args)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self.covariance_matrix.inv()

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return (self.scale_tril**2).sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        eps = normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self.scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Tensor:
        off = self._value(value) - self.loc
        white = solve_triangular(self.scale_tril, off.unsqueeze(-1)).squeeze(-1)
        half = self.scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return -0.5 * (off.shape[-1] * math.log(2 * math.pi) + (white * white).sum(-1)) - half

    def entropy(self) -> Tensor:
        half = self.scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + half


class LowRankMultivariateNormal(Distribution):
    """A normal distribution with covariance ``cov_factor cov_factorᵀ + diag(cov_diag)``."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    _params = {"loc": 1, "cov_factor": 2, "cov_diag": 1}
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None):
        n = loc.shape[-1]
        if len(cov_factor.shape) < 2 or cov_factor.shape[-2] != n or cov_diag.shape[-1] != n:
            raise error(f"LowRankMultivariateNormal: cov_factor {tuple(cov_factor.shape)} and cov_diag {tuple(cov_diag.shape)} for loc of size {n}")
        batch = broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        self.loc, self.cov_diag = (t.broadcast_to([*batch, n]) for t in (loc, cov_diag))
        self.cov_factor = cov_factor.broadcast_to([*batch, *cov_factor.shape[-2:]])
        super().__init__(batch, (n,), validate_args)

    def _capacitance(self) -> Tensor:
        """The Cholesky factor of ``I + Wᵀ D⁻¹ W``."""
        w = self.cov_factor
        scaled = w.mT / self.cov_diag.unsqueeze(-2)
        return (scaled @ w + _native.eye(w.shape[-1], dtype=w.dtype)).cholesky()

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by Woodbury's identity."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        white = solve_triangular(self._capacitance(), scaled)
        return (1 / self.cov_diag).diag_embed() - white.mT @ white

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self.covariance_matrix.cholesky()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        return self.loc + (self.cov_factor @ few.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * normal(shape, self.loc)

    def _log_det(self, capacitance: Tensor) -> Tensor:
        return 2 * capacitance.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def _mahalanobis(self, off: Tensor, capacitance: Tensor) -> Tensor:
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        inner = solve_triangular(capacitance, scaled @ off.unsqueeze(-1)).squeeze(-1)
        return (off * off / self.cov_diag).sum(-1) - (inner * inner).sum(-1)

    def log_prob(self, value: Any) -> Tensor:
        off, c = self._value(value) - self.loc, self._capacitance()
        return -0.5 * (off.shape[-1] * math.log(2 * math.pi) + self._log_det(c) + self._mahalanobis(off, c))

    def entropy(self) -> Tensor:
        return 0.5 * (self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._log_det(self._capacitance()))


class LogisticNormal(TransformedDistribution):
    """Points of the simplex: a normal vector through ``StickBreakingTransform``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)
