"""Probability distributions with PyTorch's names: sampling, densities, divergences, all differentiable.

>>> import talweg as tw
>>> d = tw.distributions.Normal(tw.tensor([0.0, 1.0]), 2.0)
>>> d.batch_shape, d.sample((3,)).shape == (3, 2)
((2,), True)
"""

from . import constraints, kl, transforms
from .compound import Independent, MixtureSameFamily, TransformedDistribution
from .continuous import (
    Cauchy,
    ContinuousBernoulli,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Kumaraswamy,
    Laplace,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
    Weibull,
)
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from .distribution import Distribution, ExponentialFamily
from .gammas import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, InverseGamma, StudentT, VonMises, Wishart
from .kl import kl_divergence, register_kl
from .multivariate import LogisticNormal, LowRankMultivariateNormal, MultivariateNormal
from .registry import biject_to, transform_to
from .relaxed import LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical
from .transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [n for n in globals() if not n.startswith("_") and n not in ("compound", "continuous", "discrete", "distribution", "gammas", "multivariate", "registry", "relaxed", "special")]
