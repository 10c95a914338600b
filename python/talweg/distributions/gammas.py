"""The gamma distribution and what is made of it: beta, Dirichlet, Student's t, and others of directions."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native, stack, where
from .._native import Tensor
from .._state import no_grad
from . import constraints
from .compound import TransformedDistribution
from .distribution import FLOAT64, Distribution, ExponentialFamily, broadcast_all, normal, uniform
from .special import gammainc, log_i0, log_i1, solve_triangular, standard_gamma, xlogy
from .transforms import PowerTransform


class Gamma(ExponentialFamily):
    """The gamma distribution. ``rsample`` has implicit gradients by the concentration."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    _params = {"concentration": 0, "rate": 0}
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp_min(0.0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = list(self._extended_shape(sample_shape))
        return standard_gamma(self.concentration.broadcast_to(shape)) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        x, a, r = self._value(value), self.concentration, self.rate
        return xlogy(a + x * 0, r + x * 0) + xlogy(a - 1 + x * 0, x + a * 0) - r * x - a.lgamma()

    def cdf(self, value: Any) -> Tensor:
        """The cumulative distribution function. It has no gradient by the concentration."""
        x = self._value(value)
        return gammainc(self.concentration + x * 0, self.rate * x)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of ``df`` squared normal variables."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        (given,) = broadcast_all(df)
        super().__init__(0.5 * given, given * 0 + 0.5, validate_args)

    df = property(lambda self: self.concentration * 2)

    def __repr__(self) -> str:
        return f"Chi2(df: {self.df.item() if not self.batch_shape else self.batch_shape})"


class InverseGamma(TransformedDistribution):
    """One over a gamma variable."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-(base.rate * 0 + 1)), validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = list(batch_shape)
        return InverseGamma(self.concentration.broadcast_to(shape), self.rate.broadcast_to(shape), False)

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for concentrations up to 1."""
        found = self.rate / (self.concentration - 1)
        return where(self.concentration > 1, found, found * 0 + math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for concentrations up to 2."""
        a = self.concentration
        found = self.rate**2 / ((a - 1) ** 2 * (a - 2))
        return where(a > 2, found, a * 0 + math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """Points of the simplex."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    _params = {"concentration": 1}
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None):
        (self.concentration,) = broadcast_all(concentration)
        if len(self.concentration.shape) < 1:
            from .distribution import error

            raise error("Dirichlet: the concentration has at least one dimension")
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The most likely point; the first corner where the density grows towards all of them."""
        rest = (self.concentration - 1).clamp_min(0.0)
        found = rest / rest.sum(-1, True)
        corner = (self.concentration < 1).all(-1, True)
        best = _native.arange(self.concentration.shape[-1]) == 0
        return where(corner, best.to(found.dtype), found)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        g = standard_gamma(self.concentration.broadcast_to(list(self._extended_shape(sample_shape))))
        return g / g.sum(-1, True)

    def log_prob(self, value: Any) -> Tensor:
        x, a = self._value(value), self.concentration
        return xlogy(a - 1 + x * 0, x + a * 0).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    _params = {"concentration1": 0, "concentration0": 0}
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        pair = stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(pair, False).mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = list(self._extended_shape(sample_shape))
        a = standard_gamma(self.concentration1.broadcast_to(shape))
        b = standard_gamma(self.concentration0.broadcast_to(shape))
        eps = 1.2e-7 if not str(a.dtype).endswith("float64") else 2.3e-16
        return (a / (a + b)).clamp(eps / 2, 1 - eps / 2)

    def log_prob(self, value: Any) -> Tensor:
        x, a, b = self._value(value), self.concentration1, self.concentration0
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return xlogy(a - 1 + x * 0, x + a * 0) + xlogy(b - 1 + x * 0, 1 - x + a * 0) + norm

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return log_beta - (a - 1) * a.digamma() - (b - 1) * b.digamma() + (a + b - 2) * (a + b).digamma()


class StudentT(Distribution):
    """Student's t distribution."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    _params = {"df": 0, "loc": 0, "scale": 0}
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, NaN for ``df`` up to 1."""
        return where(self.df > 1, self.loc, self.loc * math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance: infinite for ``df`` up to 2, NaN up to 1."""
        found = self.scale**2 * self.df / (self.df - 2)
        wide = where(self.df > 1, self.df * 0 + math.inf, self.df * math.nan)
        return where(self.df > 2, found, wide)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = list(self._extended_shape(sample_shape))
        z = Chi2(self.df, False).rsample(sample_shape)
        return self.loc + self.scale * normal(shape, self.df) * (self.df / z).sqrt()

    def log_prob(self, value: Any) -> Tensor:
        y, df = (self._value(value) - self.loc) / self.scale, self.df
        norm = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()
        return -0.5 * (df + 1) * (y * y / df).log1p() - norm

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = (0.5 * df).lgamma() + math.lgamma(0.5) - (0.5 * (df + 1)).lgamma()
        return self.scale.log() + 0.5 * (df + 1) * ((0.5 * (df + 1)).digamma() - (0.5 * df).digamma()) + 0.5 * df.log() + log_beta


class FisherSnedecor(Distribution):
    """The ratio of two chi-square variables, each over its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    _params = {"df1": 0, "df2": 0}
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, NaN for ``df2`` up to 2."""
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), self.df2 * math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely value, NaN for ``df1`` up to 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, found, found * math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance, NaN for ``df2`` up to 4."""
        a, b = self.df1, self.df2
        found = 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4))
        return where(b > 4, found, b * math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        top = Gamma(self.df1 / 2, self.df1 / 2, False).rsample(sample_shape)
        bottom = Gamma(self.df2 / 2, self.df2 / 2, False).rsample(sample_shape)
        return top / bottom.clamp_min(1e-30)

    def log_prob(self, value: Any) -> Tensor:
        x, a, b = self._value(value), self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return norm + a * ratio.log() + (a - 1) * x.log() - (a + b) * (ratio * x).log1p()


class VonMises(Distribution):
    """Angles around ``loc``."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _params = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest angle."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance."""
        return 1 - (log_i1(self.concentration) - log_i0(self.concentration)).exp()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Events, by Best and Fisher's rejection."""
        with no_grad():
            shape = list(self._extended_shape(sample_shape))
            kind, loc = self.loc.dtype, self.loc.detach()
            k = self.concentration.detach().to(FLOAT64).broadcast_to(shape)
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
            found, angle = k != k, k * 0
            for _ in range(40):  # each round accepts at least 65 percent
                u1, u2, u3 = (uniform(shape, k) for _ in range(3))
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                ok = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = where(ok & ~found, (u3 - 0.5).sign() * f.clamp(-1.0, 1.0).acos(), angle)
                found = found | ok
            return ((angle + math.pi + loc.to(FLOAT64)) % (2 * math.pi) - math.pi).to(kind)

    def log_prob(self, value: Any) -> Tensor:
        x = self._value(value)
        return self.concentration * (x - self.loc).cos() - math.log(2 * math.pi) - log_i0(self.concentration)


class Wishart(ExponentialFamily):
    """Positive definite matrices: sums of outer products of normal vectors."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    _params = {"scale_tril": 2, "df": 0}
    has_rsample = True

    def __init__(self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None, validate_args: bool | None = None):
        from .distribution import as_tensor, broadcast_shapes, error
        from .multivariate import lower_factor

        low = lower_factor("Wishart", covariance_matrix, precision_matrix, scale_tril)
        n = low.shape[-1]
        given = as_tensor(df, low)
        batch = broadcast_shapes(tuple(given.shape), tuple(low.shape[:-2]))
        self.df, self.scale_tril = given.broadcast_to(list(batch)), low.broadcast_to([*batch, n, n])
        super().__init__(batch, (n, n), validate_args)
        if self._validate_args and not self.df.is_symbolic and not bool((self.df > n - 1).all().item()):
            raise error(f"Wishart: df must be greater than {n - 1}")

    @property
    def covariance_matrix(self) -> Tensor:
        """The scale."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the scale."""
        return self.covariance_matrix.inv()

    def _df(self) -> Tensor:
        return self.df.reshape([*self.df.shape, 1, 1])

    @property
    def mean(self) -> Tensor:
        return self._df() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The most likely matrix, NaN for few degrees of freedom."""
        left = self._df() - self.scale_tril.shape[-1] - 1
        return where(left > 0, left, left * math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self._df() * (v * v + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Differentiable events, by Bartlett's decomposition."""
        n = self.scale_tril.shape[-1]
        shape = self._extended_shape(sample_shape)
        df = self.df.unsqueeze(-1) - _native.arange(n).to(self.df.dtype)
        diagonal = (2 * standard_gamma((df / 2).broadcast_to(list(shape[:-1])))).sqrt()
        below = normal(shape, self.scale_tril).tril(-1) + diagonal.diag_embed()
        root = self.scale_tril @ below
        return root @ root.mT

    def _log_det(self) -> Tensor:
        return 2 * self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Any) -> Tensor:
        x, n = self._value(value), self.scale_tril.shape[-1]
        root = x.cholesky()
        log_det = 2 * root.diagonal(0, -2, -1).log().sum(-1)
        white = solve_triangular(self.scale_tril, root)
        norm = 0.5 * self.df * (n * math.log(2) + self._log_det()) + (self.df / 2).mvlgamma(n)
        return 0.5 * (self.df - n - 1) * log_det - 0.5 * (white * white).sum([-1, -2]) - norm

    def entropy(self) -> Tensor:
        n, df = self.scale_tril.shape[-1], self.df
        parts = (df.unsqueeze(-1) - _native.arange(n).to(df.dtype)) / 2
        psi = parts.digamma().sum(-1)
        return 0.5 * (n + 1) * (self._log_det() + n * math.log(2)) + (df / 2).mvlgamma(n) - 0.5 * (df - n - 1) * psi + 0.5 * df * n
