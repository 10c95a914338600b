"""Distributions with parameters, and values that PyTorch 2.15 computed for them.

`python distributions_cases.py` writes `distributions_values.json` where PyTorch is installed.
"""

import json
from pathlib import Path

import numpy as np

VALUES = Path(__file__).parent / "distributions_values.json"


def grid(*shape, low=0.3, high=3.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape)


def matrix(n, seed=0):
    a = np.random.default_rng(seed).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def simplex(*shape, seed=0):
    x = grid(*shape, seed=seed)
    return x / x.sum(-1, keepdims=True)


CASES = [
    ("Normal", dict(loc=grid(4, low=-2), scale=grid(4, seed=1))),
    ("Laplace", dict(loc=grid(4, low=-2), scale=grid(4, seed=1))),
    ("Cauchy", dict(loc=grid(4, low=-2), scale=grid(4, seed=1))),
    ("Gumbel", dict(loc=grid(4, low=-2), scale=grid(4, seed=1))),
    ("LogNormal", dict(loc=grid(4, low=-1, high=1), scale=grid(4, seed=1, high=1))),
    ("HalfNormal", dict(scale=grid(4))),
    ("HalfCauchy", dict(scale=grid(4))),
    ("Uniform", dict(low=grid(4, low=-2, high=0), high=grid(4, seed=1))),
    ("Exponential", dict(rate=grid(4))),
    ("Weibull", dict(scale=grid(4), concentration=grid(4, low=0.6, seed=1))),
    ("Pareto", dict(scale=grid(4), alpha=grid(4, low=2.2, high=5.0, seed=1))),
    ("Kumaraswamy", dict(concentration1=grid(4, low=0.7), concentration0=grid(4, low=0.7, seed=1))),
    ("ContinuousBernoulli", dict(probs=np.array([0.1, 0.4995, 0.5, 0.9]))),
    ("Gamma", dict(concentration=grid(4), rate=grid(4, seed=1))),
    ("Chi2", dict(df=grid(4))),
    ("InverseGamma", dict(concentration=grid(4, low=2.2, high=6), rate=grid(4, seed=1))),
    ("Beta", dict(concentration1=grid(4), concentration0=grid(4, seed=1))),
    ("Dirichlet", dict(concentration=grid(3, 4))),
    ("StudentT", dict(df=grid(4, low=2.5, high=9), loc=grid(4, low=-1), scale=grid(4, seed=1))),
    ("FisherSnedecor", dict(df1=grid(4, low=3, high=9), df2=grid(4, low=5, high=12, seed=1))),
    ("VonMises", dict(loc=grid(4, low=-1, high=1), concentration=np.array([0.5, 3.0, 30.0, 200.0]))),
    ("Wishart", dict(df=np.array([4.0, 7.0]), covariance_matrix=matrix(3))),
    ("Bernoulli", dict(probs=grid(4, low=0.1, high=0.9))),
    ("Bernoulli", dict(logits=grid(4, low=-2))),
    ("Categorical", dict(probs=simplex(3, 4))),
    ("Categorical", dict(logits=grid(3, 4, low=-2))),
    ("OneHotCategorical", dict(probs=simplex(3, 4))),
    ("OneHotCategoricalStraightThrough", dict(logits=grid(3, 4))),
    ("Binomial", dict(total_count=7, probs=grid(4, low=0.1, high=0.9))),
    ("Multinomial", dict(total_count=6, probs=simplex(2, 3))),
    ("Poisson", dict(rate=np.array([0.4, 3.0, 20.0, 60.0]))),
    ("Geometric", dict(probs=grid(4, low=0.1, high=0.9))),
    ("NegativeBinomial", dict(total_count=grid(4, high=9), probs=grid(4, low=0.1, high=0.8, seed=1))),
    ("MultivariateNormal", dict(loc=grid(2, 3, low=-1), covariance_matrix=matrix(3))),
    ("MultivariateNormal", dict(loc=grid(3, low=-1), precision_matrix=matrix(3))),
    ("MultivariateNormal", dict(loc=grid(3, low=-1), scale_tril=np.linalg.cholesky(matrix(3)))),
    ("LowRankMultivariateNormal", dict(loc=grid(2, 4, low=-1), cov_factor=grid(4, 2, low=-1), cov_diag=grid(4, seed=1))),
    ("LogisticNormal", dict(loc=grid(2, 3, low=-1, high=1), scale=grid(2, 3, seed=1, high=1))),
    ("RelaxedBernoulli", dict(temperature=np.array(0.7), probs=grid(4, low=0.1, high=0.9))),
    ("RelaxedOneHotCategorical", dict(temperature=np.array(0.7), logits=grid(2, 3, low=-1))),
]
IDS = [f"{n}-{i}" for i, (n, _) in enumerate(CASES)]


if __name__ == "__main__":
    import torch
    import torch.distributions as td

    torch.manual_seed(0)
    out = {}
    for name, (kind, params) in zip(IDS, CASES):
        q = getattr(td, kind)(**{k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in params.items()})
        x = q.sample((3,))
        found = {"x": x, "log_prob": q.log_prob(x)}
        for what, f in {"cdf": lambda: q.cdf(x), "entropy": q.entropy, "mean": lambda: q.mean, "variance": lambda: q.variance}.items():
            try:
                found[what] = f()
            except NotImplementedError:
                continue
        out[name] = {k: v.double().tolist() for k, v in found.items()}
    VALUES.write_text(json.dumps(out, separators=(",", ":")).replace('},"', '},\n"') + "\n")
