"""``talweg.distributions`` alone: stored values, integrals, divergences by samples, gradients and tracing."""

import json
import math

import numpy as np
import pytest

import talweg as tw
from distributions_cases import CASES, IDS, VALUES, grid

D = tw.distributions
EXPECTED = json.loads(VALUES.read_text())


def made(name, params):
    return getattr(D, name)(**{k: tw.tensor(v) if isinstance(v, np.ndarray) else v for k, v in params.items()})


@pytest.mark.parametrize("key, case", zip(IDS, CASES), ids=IDS)
def test_stored_values(key, case):
    d, want = made(*case), EXPECTED[key]
    x = tw.tensor(np.array(want["x"]))
    x = x.to("int64") if case[0] == "Categorical" else x
    np.testing.assert_allclose(d.log_prob(x).numpy(), want["log_prob"], rtol=1e-5, atol=1e-6)
    if "cdf" in want:
        np.testing.assert_allclose(d.cdf(x).numpy(), want["cdf"], rtol=1e-5, atol=1e-6)
    if "entropy" in want:
        np.testing.assert_allclose(d.entropy().numpy(), want["entropy"], rtol=1e-5, atol=1e-6)
    for what in ("mean", "variance"):
        if what in want:
            np.testing.assert_allclose(getattr(d, what).numpy(), want[what], rtol=1e-3 if case[0] == "VonMises" else 1e-5, atol=1e-7)


LINES = {"Normal": (-30, 30), "Laplace": (-80, 80), "Gumbel": (-30, 90), "StudentT": (-3000, 3000), "Uniform": (-3, 4), "VonMises": (-math.pi, math.pi)}
POSITIVE = ["HalfNormal", "Exponential", "Gamma", "Chi2", "InverseGamma", "LogNormal", "Weibull", "FisherSnedecor", "Pareto"]
UNIT = ["Kumaraswamy", "ContinuousBernoulli", "Beta", "RelaxedBernoulli"]


@pytest.mark.parametrize("name", [*LINES, *POSITIVE, *UNIT])
def test_densities_integrate_to_one(name):
    d = made(name, next(p for n, p in CASES if n == name))
    unchecked = made(name, next(p for n, p in CASES if n == name))
    unchecked._validate_args = getattr(unchecked, "base_dist", unchecked)._validate_args = False
    n = 200001
    if name in LINES:
        x, width = np.linspace(*LINES[name], n), 1.0
    elif name in UNIT:
        z = np.linspace(-30, 30, n)
        x, width = 1 / (1 + np.exp(-z)), None
        width = x * (1 - x)
        step = z[1] - z[0]
    else:
        z = np.linspace(-40, 16, n)
        x, width, step = np.exp(z), np.exp(z), z[1] - z[0]
    step = x[1] - x[0] if name in LINES else step
    inside = d.support.check(tw.tensor(x).unsqueeze(1)) if name in ("Pareto", "Uniform") else None
    density = unchecked.log_prob(tw.tensor(x).unsqueeze(1)).exp()
    density = density if inside is None else tw.where(inside, density, density * 0)
    total = (density.numpy() * np.reshape(width, (-1, 1) if np.ndim(width) else ())).sum(0) * step
    np.testing.assert_allclose(total, 1, rtol=3e-3)


@pytest.mark.parametrize("name", ["Bernoulli", "Binomial", "Poisson", "Geometric", "NegativeBinomial", "Categorical"])
def test_masses_sum_to_one(name):
    d = made(name, next(p for n, p in CASES if n == name))
    d._validate_args = False
    every = d.enumerate_support() if d.has_enumerate_support else tw.arange(400).to("float64").reshape(-1, 1)
    np.testing.assert_allclose(d.log_prob(every).exp().sum(0).numpy(), 1, rtol=1e-5)


PAIRS = [
    ("Normal", dict(loc=0.3, scale=1.2), "Normal", dict(loc=-0.4, scale=0.9)),
    ("Gamma", dict(concentration=2.0, rate=1.5), "Gamma", dict(concentration=1.4, rate=1.0)),
    ("Beta", dict(concentration1=2.0, concentration0=1.5), "Beta", dict(concentration1=1.2, concentration0=2.5)),
    ("Laplace", dict(loc=0.0, scale=1.0), "Normal", dict(loc=0.5, scale=1.5)),
    ("Gamma", dict(concentration=2.0, rate=1.5), "Exponential", dict(rate=0.8)),
    ("Poisson", dict(rate=3.0), "Poisson", dict(rate=4.0)),
    ("Gumbel", dict(loc=0.0, scale=1.0), "Gumbel", dict(loc=0.5, scale=1.5)),
    ("Uniform", dict(low=0.2, high=0.9), "Beta", dict(concentration1=2.0, concentration0=1.5)),
    ("Dirichlet", dict(concentration=[1.5, 2.0, 0.8]), "Dirichlet", dict(concentration=[1.0, 1.0, 1.0])),
]


@pytest.mark.parametrize("a, first, b, second", PAIRS)
def test_divergences_by_samples(a, first, b, second):
    tw.manual_seed(0)
    p, q = (getattr(D, n)(**{k: tw.tensor(v, dtype=tw.float64) for k, v in s.items()}) for n, s in ((a, first), (b, second)))
    x = p.sample((60000,))
    each = (p.log_prob(x) - q.log_prob(x)).numpy()
    assert abs(D.kl_divergence(p, q).item() - each.mean()) < 5 * each.std() / np.sqrt(60000) + 1e-6


def test_parameters_and_values_are_checked():
    with pytest.raises(ValueError, match="Normal: parameter scale"):
        D.Normal(0.0, -1.0)
    with pytest.raises(tw.Error, match="support"):
        D.Exponential(1.0).log_prob(tw.tensor(-1.0))
    with pytest.raises(ValueError, match="events of shape"):
        D.Dirichlet(tw.ones(3)).log_prob(tw.ones(2) / 2)
    with pytest.raises(ValueError, match="probs or logits"):
        D.Bernoulli(0.5, 0.5)
    with pytest.raises(ValueError, match="low must be less"):
        D.Uniform(1.0, 0.0)
    with pytest.raises(NotImplementedError, match="no rsample"):
        D.Poisson(1.0).rsample()
    with pytest.raises(NotImplementedError, match="no formula"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Exponential(1.0).log_prob(tw.tensor(-1.0)).item() == 1.0
    finally:
        D.Distribution.set_default_validate_args(True)


def test_numbers_become_float32():
    d = D.Normal(0, 1)
    assert d.sample((2,)).dtype == tw.float32 and d.batch_shape == ()
    assert D.Normal(tw.zeros(3, dtype=tw.float64), 1).scale.dtype == tw.float64


def test_gradients_inside_transforms_of_functions():
    """A variational step under ``jit`` and ``grad``."""
    tw.manual_seed(0)

    def loss(params, x):
        q = D.Normal(params[0], params[1].exp())
        z = q.rsample((64,))
        return -(D.Normal(z, 1.0).log_prob(x)).mean() + D.kl_divergence(q, D.Normal(0.0, 1.0))

    step = tw.jit(tw.value_and_grad(loss))
    params = [tw.tensor(0.0), tw.tensor(0.0)]
    for _ in range(300):
        value, slopes = step(params, tw.tensor(2.0))
        params = [p - 0.05 * g for p, g in zip(params, slopes)]
    assert abs(params[0].item() - 1.0) < 0.15 and abs(params[1].exp().item() - math.sqrt(0.5)) < 0.15


def test_a_policy_gradient():
    tw.manual_seed(0)
    logits = tw.tensor([0.0] * 4, requires_grad=True)
    optimizer = tw.optim.SGD([logits], lr=0.5)
    for _ in range(60):
        d = D.Categorical(logits=logits)
        action = d.sample((32,))
        reward = (action == 2).to("float32")
        optimizer.zero_grad()
        (-(d.log_prob(action) * (reward - reward.mean())).mean()).backward()
        optimizer.step()
    assert D.Categorical(logits=logits).probs[2].item() > 0.8


def test_gamma_samples_have_the_slope_of_their_quantile():
    """F(z(a), a) stays the same: checked by differences of the incomplete gamma function."""
    from talweg.distributions.special import gamma_slope, gammainc

    a = tw.tensor(np.repeat([0.2, 0.9, 3.0, 20.0, 29.0, 40.0, 300.0], 3))
    z = a * tw.tensor(np.tile([0.7, 1.0, 1.2], 7))
    h = 1e-5 * a
    slope = gamma_slope(a, z)
    moved = (gammainc(a + h, z + slope * h) - gammainc(a - h, z - slope * h)) / (2 * h)
    density = D.Gamma(a, tw.ones(21, dtype=tw.float64)).log_prob(z).exp()
    np.testing.assert_allclose((moved / density).numpy(), 0, atol=2e-4)


def test_straight_through_and_relaxed_samples():
    tw.manual_seed(0)
    logits = tw.tensor([[0.2, -0.3, 1.0]], requires_grad=True)
    hot = D.OneHotCategoricalStraightThrough(logits=logits).rsample((5,))
    assert set(hot.round().reshape(-1).tolist()) == {0.0, 1.0} and hot.shape == (5, 1, 3)
    (hot * tw.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum().item() > 0.1
    soft = D.RelaxedOneHotCategorical(tw.tensor(0.5), logits=logits).rsample((7,))
    np.testing.assert_allclose(soft.sum(-1).detach().numpy(), 1, rtol=1e-5)


def test_repr_and_perplexity():
    size = repr(tw.Size([3]))
    assert repr(D.Normal(tw.zeros(3), tw.ones(3))) == f"Normal(loc: {size}, scale: {size})"
    assert abs(D.Categorical(tw.ones(8)).perplexity().item() - 8) < 1e-4
    assert grid(2).shape == (2,)
