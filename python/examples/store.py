"""Sparse logistic regression on the parameter store: a worker reads and updates only the weights of the features that
its samples have. The update is a function that runs on the servers, here Adagrad.

``python store.py`` keeps the weights in its own memory. Launched, servers hold them and workers share the samples:

    talweg launch --workers 2 --servers 2 --consistency ssp:2 python store.py
"""

import os

import numpy as np
import talweg as tw
from talweg import distributed as dist

FEATURES, SAMPLES, ACTIVE, BATCH = 500, 1200, 12, 16
STEPS = 20 if "TALWEG_QUICK" in os.environ else 200

random = np.random.default_rng(1)
truth = random.normal(size=FEATURES)
features = np.array([random.choice(FEATURES, ACTIVE, replace=False) for _ in range(SAMPLES)])
values = random.normal(size=(SAMPLES, ACTIVE)).astype("float32")
labels = ((values * truth[features]).sum(1) > 0).astype("float32")


def adagrad(weights, gradient, squares):
    squares = squares + gradient.square()
    return weights - 0.5 * gradient / (squares.sqrt() + 1e-8), squares


def probability(values, weights):
    return 1 / (1 + np.exp(-(values * weights).sum(1)))


table = dist.Table(tw.zeros(FEATURES), adagrad, state=[0], by_rows=True)
mine = np.arange(dist.rank(), SAMPLES, dist.world_size())
for step in range(dist.step(), STEPS):  # one that replaces a lost worker goes on where that was
    batch = mine[np.arange(step * BATCH, (step + 1) * BATCH) % len(mine)]
    rows = np.unique(features[batch])
    weights = table.pull(rows).numpy()
    at = np.searchsorted(rows, features[batch])
    error = probability(values[batch], weights[at]) - labels[batch]
    gradient = np.zeros(len(rows), "float32")
    np.add.at(gradient, at, error[:, None] * values[batch])
    table.push(gradient / BATCH, rows)
    dist.clock()
dist.wait()
weights = table.pull().numpy()
right = ((probability(values, weights[features]) > 0.5) == (labels > 0.5)).mean()
print(f"{100 * right:.1f} % of {SAMPLES} samples on the right side")
