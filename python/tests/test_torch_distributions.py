"""``talweg.distributions`` beside ``torch.distributions``."""

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributions as td  # noqa: E402

import talweg as tw  # noqa: E402
from distributions_cases import CASES, IDS, grid, matrix, simplex  # noqa: E402

D = tw.distributions


def both(name, params):
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in params.items()}
    ours = {k: tw.tensor(v) if isinstance(v, np.ndarray) else v for k, v in params.items()}
    return getattr(D, name)(**ours), getattr(td, name)(**theirs), ours, theirs


def close(a, b, rtol=1e-6, atol=1e-8):
    np.testing.assert_allclose(a.detach().numpy() if isinstance(a, tw.Tensor) else a, b.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_densities_and_moments(name, params):
    torch.manual_seed(0)
    p, q, ours, theirs = both(name, params)
    assert (tuple(p.batch_shape), tuple(p.event_shape)) == (tuple(q.batch_shape), tuple(q.event_shape))
    assert (p.has_rsample, p.has_enumerate_support) == (q.has_rsample, q.has_enumerate_support)
    for k, v in ours.items():
        if isinstance(v, tw.Tensor):
            v.requires_grad_(True)
            theirs[k].requires_grad_(True)
    p, q = getattr(D, name)(**ours), getattr(td, name)(**theirs)
    x = q.sample((5,))
    found, wanted = p.log_prob(tw.tensor(x.numpy())), q.log_prob(x)
    close(found, wanted, 1e-5, 1e-6)
    found.sum().backward()
    wanted.sum().backward()
    for k, v in ours.items():
        if isinstance(v, tw.Tensor) and theirs[k].grad is not None and name != "Wishart":
            want = theirs[k].grad
            if k in ("covariance_matrix", "precision_matrix"):
                want = (want + want.mT) / 2
                close(((v.grad + v.grad.mT) / 2), want, 1e-4, 1e-5)
            else:
                close(v.grad, want, 1e-4, 1e-5)
    for what in ("mean", "variance", "stddev", "mode"):
        try:
            wanted = getattr(q, what)
        except NotImplementedError:
            continue
        if (name, what) != ("Kumaraswamy", "mode"):  # PyTorch's is NaN where there is one
            close(getattr(p, what), wanted, 1e-3 if name == "VonMises" else 1e-5, 1e-7)  # and its Bessel functions are rougher
    try:
        wanted = q.entropy()
    except NotImplementedError:
        return
    close(p.entropy(), wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_cumulative_functions(name, params):
    p, q, _, _ = both(name, params)
    torch.manual_seed(1)
    x = q.sample((6,))
    try:
        wanted = q.cdf(x)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            p.cdf(tw.tensor(x.numpy()))
    else:
        close(p.cdf(tw.tensor(x.numpy())), wanted, 1e-5, 1e-7)
    if not q.event_shape:
        u = torch.rand(6, *q.batch_shape, dtype=torch.float64)
        try:
            wanted = q.icdf(u)
        except NotImplementedError:
            return
        close(p.icdf(tw.tensor(u.numpy())), wanted, 1e-4, 1e-6)


@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_shapes_expansion_and_samples(name, params):
    tw.manual_seed(3)
    p, q, _, _ = both(name, params)
    wide, want = p.expand((2, *p.batch_shape)), q.expand((2, *q.batch_shape))
    assert tuple(wide.batch_shape) == tuple(want.batch_shape)
    assert tuple(wide.sample((3,)).shape) == tuple(want.sample((3,)).shape)
    x = want.sample()
    close(wide.log_prob(tw.tensor(x.numpy())), want.log_prob(x), 1e-5, 1e-6)
    drawn = p.sample((20000,))
    assert not drawn.requires_grad and drawn.dtype == tw.float64 or p.support.is_discrete
    if name in ("Cauchy", "HalfCauchy", "Categorical", "LogisticNormal", "RelaxedBernoulli", "RelaxedOneHotCategorical"):
        ref = q.sample((20000,)).double()
        if name != "Cauchy" and name != "HalfCauchy":
            close(drawn.to("float64").mean(0), ref.mean(0), 0.05, 0.03)
        else:
            np.testing.assert_allclose(np.median(drawn.numpy(), 0), np.median(ref.numpy(), 0), rtol=0.1, atol=0.1)
        return
    error = 6 * q.stddev.numpy() / np.sqrt(20000)
    if name == "VonMises":
        np.testing.assert_allclose(np.angle(np.exp(1j * drawn.numpy()).mean(0)), q.mean.numpy(), atol=0.05)
        np.testing.assert_allclose(1 - np.abs(np.exp(1j * drawn.numpy()).mean(0)), q.variance.numpy(), rtol=0.05, atol=0.01)
        return
    assert (np.abs(drawn.numpy().mean(0) - q.mean.numpy()) <= error + 1e-9).all()
    if name not in ("Pareto", "InverseGamma", "StudentT", "FisherSnedecor"):
        np.testing.assert_allclose(drawn.numpy().var(0), q.variance.numpy(), rtol=0.12, atol=1e-3)


def test_enumerations():
    for name, params in CASES:
        p, q, _, _ = both(name, params)
        if q.has_enumerate_support:
            for expand in (True, False):
                close(p.enumerate_support(expand), q.enumerate_support(expand))


PAIRS = [
    ("Normal", dict(loc=grid(3), scale=grid(3, seed=4))),
    ("Laplace", dict(loc=grid(3), scale=grid(3, seed=4))),
    ("Cauchy", dict(loc=grid(3), scale=grid(3, seed=4))),
    ("Gumbel", dict(loc=grid(3), scale=grid(3, seed=4))),
    ("Exponential", dict(rate=grid(3))),
    ("Gamma", dict(concentration=grid(3, low=0.7), rate=grid(3, seed=4))),
    ("Beta", dict(concentration1=grid(3), concentration0=grid(3, seed=4))),
    ("Pareto", dict(scale=grid(3), alpha=grid(3, low=2.5, high=4, seed=4))),
    ("Uniform", dict(low=grid(3, low=0.1, high=0.3), high=grid(3, low=0.5, high=0.9))),
    ("ContinuousBernoulli", dict(probs=np.array([0.2, 0.5, 0.8]))),
    ("Bernoulli", dict(probs=np.array([0.2, 0.5, 1.0]))),
    ("Binomial", dict(total_count=5, probs=np.array([0.2, 0.5, 0.8]))),
    ("Categorical", dict(probs=simplex(3, 4))),
    ("OneHotCategorical", dict(probs=simplex(3, 4))),
    ("Geometric", dict(probs=np.array([0.2, 0.5, 0.8]))),
    ("Poisson", dict(rate=grid(3))),
    ("HalfNormal", dict(scale=grid(3))),
    ("LogNormal", dict(loc=grid(3), scale=grid(3, seed=4))),
    ("Dirichlet", dict(concentration=grid(3, 4))),
    ("MultivariateNormal", dict(loc=grid(3, 4), covariance_matrix=matrix(4))),
    ("LowRankMultivariateNormal", dict(loc=grid(3, 4), cov_factor=grid(4, 2), cov_diag=grid(4))),
]


def test_every_divergence_that_torch_has():
    count = 0
    for a, first in PAIRS:
        for b, second in PAIRS:
            shifted = {k: v * 1.05 if isinstance(v, np.ndarray) and k not in ("probs",) else v for k, v in second.items()}
            p, tp, _, _ = both(a, first)
            q, tq, _, _ = both(b, shifted)
            try:
                wanted = td.kl_divergence(tp, tq)
            except NotImplementedError:
                with pytest.raises(NotImplementedError):
                    D.kl_divergence(p, q)
                continue
            try:
                close(D.kl_divergence(p, q), wanted, 1e-5, 1e-6)
            except AssertionError as e:
                raise AssertionError(f"{a} and {b}: {e}") from None
            count += 1
    assert count > 80, count


def test_independent_and_mixtures():
    loc, scale, weights = grid(2, 3, low=-1), grid(2, 3, seed=1), simplex(2, 3)
    t = lambda x: torch.tensor(x)  # noqa: E731
    p = D.MixtureSameFamily(D.Categorical(tw.tensor(weights)), D.Normal(tw.tensor(loc), tw.tensor(scale)))
    q = td.MixtureSameFamily(td.Categorical(t(weights)), td.Normal(t(loc), t(scale)))
    x = q.sample((5,))
    for what in ("log_prob", "cdf"):
        close(getattr(p, what)(tw.tensor(x.numpy())), getattr(q, what)(x))
    close(p.mean, q.mean), close(p.variance, q.variance)
    many = p.sample((20000,)).numpy()
    np.testing.assert_allclose(many.mean(0), q.mean.numpy(), atol=6 * q.stddev.numpy().max() / 140)
    p = D.Independent(D.Normal(tw.tensor(loc), tw.tensor(scale)), 1)
    q = td.Independent(td.Normal(t(loc), t(scale)), 1)
    assert (p.batch_shape, p.event_shape) == ((2,), (3,))
    x = q.sample((4,))
    close(p.log_prob(tw.tensor(x.numpy())), q.log_prob(x)), close(p.entropy(), q.entropy())
    close(D.kl_divergence(p, p.expand((2,))), td.kl_divergence(q, q))
    mix = D.MixtureSameFamily(D.Categorical(tw.ones(3)), D.MultivariateNormal(tw.zeros(3, 2), tw.eye(2)))
    assert mix.sample((5,)).shape == (5, 2) and mix.log_prob(mix.sample((5,))).shape == (5,)


TRANSFORMS = [
    (lambda m, t: m.ExpTransform(), (4,)),
    (lambda m, t: m.SigmoidTransform(), (4,)),
    (lambda m, t: m.TanhTransform(), (4,)),
    (lambda m, t: m.SoftplusTransform(), (4,)),
    (lambda m, t: m.AffineTransform(t([1.0, 2.0, 3.0, 4.0]), t([2.0, -1.0, 0.5, 3.0])), (4,)),
    (lambda m, t: m.AffineTransform(1.0, 2.0, event_dim=1), (2, 4)),
    (lambda m, t: m.ComposeTransform([m.AffineTransform(0.5, 2.0), m.ExpTransform(), m.PowerTransform(t(0.5))]), (4,)),
    (lambda m, t: m.StickBreakingTransform(), (2, 3)),
    (lambda m, t: m.ReshapeTransform((4,), (2, 2)), (3, 4)),
    (lambda m, t: m.IndependentTransform(m.ExpTransform(), 1), (2, 3)),
    (lambda m, t: m.CorrCholeskyTransform(), (2, 6)),
    (lambda m, t: m.StackTransform([m.ExpTransform(), m.TanhTransform()], dim=1), (3, 2)),
    (lambda m, t: m.CatTransform([m.ExpTransform(), m.TanhTransform()], dim=0, lengths=[1, 2]), (3,)),
    (lambda m, t: m.ExpTransform().inv, None),
]


@pytest.mark.parametrize("make, shape", TRANSFORMS)
def test_transforms(make, shape):
    ours = make(D, lambda v: tw.tensor(v, dtype=tw.float64))
    theirs = make(td, lambda v: torch.tensor(v, dtype=torch.float64))
    x = grid(4) if shape is None else grid(*shape, low=-1, high=1)
    y, want = ours(tw.tensor(x)), theirs(torch.tensor(x))
    close(y, want, 1e-6, 1e-7)
    close(ours.log_abs_det_jacobian(tw.tensor(x), y), theirs.log_abs_det_jacobian(torch.tensor(x), want), 1e-5, 1e-6)
    close(ours.inv(y), torch.tensor(x), 1e-4, 1e-5)
    assert ours.bijective == theirs.bijective and ours.domain.event_dim == theirs.domain.event_dim
    assert ours.codomain.event_dim == theirs.codomain.event_dim


def test_transformed_distributions():
    for m, t in ((D, tw.tensor), (td, torch.tensor)):
        d = m.TransformedDistribution(m.Normal(t([0.0, 1.0]), t([1.0, 2.0])), [m.AffineTransform(1.0, -2.0), m.ExpTransform()])
        x = t([0.3, 2.0])
        got = [np.asarray(v) for v in (d.log_prob(x), d.cdf(x), d.icdf(t([0.2, 0.7])))]
        if m is D:
            ours = got
    np.testing.assert_allclose(ours, got, rtol=1e-4)


@pytest.mark.parametrize("name", ["real", "positive", "unit_interval", "simplex", "lower_cholesky", "corr_cholesky", "positive_definite", "real_vector", "nonnegative"])
def test_registries(name):
    c, theirs = getattr(D.constraints, name), getattr(td.constraints, name)
    x = grid(6 if name == "corr_cholesky" else 3, low=-1, high=1) if c.event_dim < 2 or name == "corr_cholesky" else grid(3, 3, low=-1, high=1)
    for ours, other in ((D.transform_to, td.transform_to), (D.biject_to, td.biject_to)):
        if other is td.biject_to and name in ("lower_cholesky", "positive_definite"):
            with pytest.raises(NotImplementedError):
                ours(c)
            continue
        y = ours(c)(tw.tensor(x))
        close(y, other(theirs)(torch.tensor(x)), 1e-6, 1e-7)
        assert bool(c.check(y).all())


def test_gradients_of_gamma_samples():
    a = np.concatenate([np.geomspace(0.05, 5, 12), [10, 25, 29, 31, 60, 200, 1000]])
    torch.manual_seed(0)
    for _ in range(20):
        z = torch._standard_gamma(torch.tensor(a))
        want = torch._standard_gamma_grad(torch.tensor(a), z)
        got = tw.distributions.special.gamma_slope(tw.tensor(a), tw.tensor(z.numpy()))
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "StudentT", "Chi2", "Normal", "Weibull", "Gumbel", "Uniform", "LogNormal"])
def test_gradients_of_expectations(name):
    """The slope of E[x] by rsample is the slope of the mean."""
    params = next(p for n, p in CASES if n == name)
    tw.manual_seed(1)
    ours = {k: tw.tensor(v, requires_grad=True) for k, v in params.items()}
    d = getattr(D, name)(**ours)
    first = d.rsample((40000,)).mean(0)
    weights = tw.tensor(grid(*first.shape, low=0.5, high=1))
    (first * weights).sum().backward()
    found = {k: v.grad.numpy() for k, v in ours.items() if v.grad is not None}
    theirs = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    (getattr(td, name)(**theirs).mean * torch.tensor(weights.numpy())).sum().backward()
    for k, g in found.items():
        want = theirs[k].grad
        np.testing.assert_allclose(g, np.zeros_like(g) if want is None else want.numpy(), atol=0.06, rtol=0.06)


def test_names_and_keywords():
    here = {n for n in td.__all__} - {"GeneralizedPareto"}
    assert not [n for n in sorted(here) if not hasattr(D, n)]
    for n in here:
        theirs = getattr(td, n)
        if inspect.isclass(theirs) and issubclass(theirs, td.Distribution) and n not in ("Distribution", "ExponentialFamily"):
            wanted = [k for k in inspect.signature(theirs.__init__).parameters if k != "self"]
            found = [k for k in inspect.signature(getattr(D, n).__init__).parameters if k != "self"]
            assert found == wanted, (n, found, wanted)
