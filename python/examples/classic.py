"""Classic algorithms on tables of the parameter store: logistic regression, lasso, a mixture of Gaussians, k-means,
matrix factorization, topics of documents (LDA) and a random forest.

``python classic.py`` runs all of them, ``python classic.py kmeans forest`` some, with the tables in its own memory.
Launched, servers hold the tables and workers share the data; each worker ends with the same result:

    talweg launch --workers 2 --servers 1 python classic.py

Data are made from seeds, but for the forest's: it reads the built-in digits.
"""

import os
import sys

import numpy as np
import talweg as tw
from talweg import distributed as dist
from talweg.utils.data import digits

QUICK = "TALWEG_QUICK" in os.environ
RANK, WORKERS = dist.rank(), dist.world_size()


def mine(n):
    """The numbers of this worker's samples."""
    return np.arange(RANK, n, WORKERS)


class Sums:
    """What all workers push in a step, added up: whole tables are, and the sum replaces what was there."""

    def __init__(self, *shape):
        self.table = dist.Table(tw.zeros(*shape), lambda values, pushed: pushed)

    def reduce(self, part):
        self.table.push(tw.tensor(np.asarray(part, "float32")))
        dist.clock()
        return self.table.pull().numpy()


def logistic():
    """Sparse logistic regression: a worker reads and changes only the weights of the features that its samples have;
    Adagrad runs on the servers."""
    features, samples, active, batch, steps = 500, 1200, 12, 16, 40 if QUICK else 200
    random = np.random.default_rng(1)
    truth = random.normal(size=features)
    which = np.array([random.choice(features, active, replace=False) for _ in range(samples)])
    values = random.normal(size=(samples, active)).astype("float32")
    labels = ((values * truth[which]).sum(1) > 0).astype("float32")

    def adagrad(weights, gradient, squares):
        squares = squares + gradient.square()
        return weights - 0.5 * gradient / (squares.sqrt() + 1e-8), squares

    def probability(values, weights):
        return 1 / (1 + np.exp(-(values * weights).sum(1)))

    table, own = dist.Table(tw.zeros(features), adagrad, state=[0], by_rows=True), mine(samples)
    for step in range(steps):
        some = own[np.arange(step * batch, (step + 1) * batch) % len(own)]
        rows = np.unique(which[some])
        at = np.searchsorted(rows, which[some])
        error = probability(values[some], table.pull(rows).numpy()[at]) - labels[some]
        gradient = np.zeros(len(rows), "float32")
        np.add.at(gradient, at, error[:, None] * values[some])
        table.push(gradient / batch, rows)
        dist.clock()
    weights = table.pull().numpy()
    right = ((probability(values, weights[which]) > 0.5) == (labels > 0.5)).mean()
    assert right > 0.8
    return f"{100 * right:.1f} % of {samples} samples on the right side"


def lasso():
    """Coordinate descent: each worker owns some coordinates, and the residual is shared."""
    samples, coordinates, penalty, steps = 200, 60, 0.1, 300
    random = np.random.default_rng(2)
    x = random.normal(size=(samples, coordinates)).astype("float32")
    planted = np.arange(0, coordinates, 10)
    truth = np.zeros(coordinates, "float32")
    truth[planted] = [1, -2, 3, -4, 5, -6]
    y = x @ truth + 0.1 * random.normal(size=samples).astype("float32")
    table, own = dist.Table(tw.tensor(y)), mine(coordinates)
    weights = np.zeros(coordinates, "float32")
    for step in range(steps):
        residual, j = table.pull().numpy(), own[step % len(own)]
        size = x[:, j] @ x[:, j] / samples
        slope = x[:, j] @ residual / samples + size * weights[j]
        new = np.sign(slope) * max(abs(slope) - penalty, 0) / size
        table.push((weights[j] - new) * x[:, j])
        weights[j] = new
        dist.clock()
    weights = Sums(coordinates).reduce(weights)
    found = np.flatnonzero(weights)
    assert list(found) == list(planted), found
    return f"planted {planted.tolist()}, found {found.tolist()}"


def mixture():
    """Expectation and maximization: each worker sums over its points, the store over the workers."""
    truth, points, steps = np.array([(0.5, -4, 0.7), (0.3, 0, 0.5), (0.2, 3, 1)]), 3000, 40
    random = np.random.default_rng(3)
    kind = random.choice(3, points, p=truth[:, 0])
    x = (truth[kind, 1] + truth[kind, 2] * random.normal(size=points))[mine(points)]
    weight, mean, deviation = np.array([0.4, 0.3, 0.3]), np.array([-2, 0.5, 2.0]), np.array([2.0, 2, 2])
    sums = Sums(3, 3)
    for _ in range(steps):
        z = (x[:, None] - mean) / deviation
        density = weight * np.exp(-z * z / 2) / deviation
        share = density / density.sum(1, keepdims=True)
        n, s, q = sums.reduce(np.stack([share.sum(0), share.T @ x, share.T @ (x * x)])).astype("float64")
        weight, mean = n / points, s / n
        deviation = np.sqrt(np.maximum(q / n - mean**2, 1e-4))
    found = np.stack([weight, mean, deviation], 1)[np.argsort(mean)]
    assert np.abs(found - truth).max() < 0.2, found
    return ", ".join(f"{w:.2f} of N({m:.2f}, {d:.2f})" for w, m, d in found)


def kmeans():
    """Each worker sums the points nearest to each center, the store over the workers."""
    truth, points = np.array([[0, 0], [5, 0], [0, 5], [5, 5.0]]), 2000
    random = np.random.default_rng(4)
    x = (truth[np.arange(points) % 4] + 0.6 * random.normal(size=(points, 2)))[mine(points)]
    centers = np.array([[1, 1], [3, 1], [1, 3], [3, 3.5]])
    sums = Sums(4, 3)
    for _ in range(12):
        nearest = ((x[:, None] - centers) ** 2).sum(2).argmin(1)
        one = np.eye(4)[nearest]
        total = sums.reduce(np.concatenate([one.T @ x, one.sum(0)[:, None]], 1))
        centers = total[:, :2] / np.maximum(total[:, 2:], 1)
    off = np.sqrt(((centers[:, None] - truth) ** 2).sum(2).min(1).max())
    assert off < 0.2, centers
    return f"centers within {off:.3f} of the true ones"


def factors():
    """Matrix factorization by stochastic gradients: a worker keeps its users, the items are shared."""
    users, items, width, rate, steps = 90, 60, 3, 0.02, 60 if QUICK else 200
    random = np.random.default_rng(5)
    u, v = random.normal(size=(users, width)), random.normal(size=(items, width))
    ratings = u @ v.T + 0.05 * random.normal(size=(users, items))
    known, held = random.random((2, users, items)) < np.array([0.5, 0.1])[:, None, None]
    held &= ~known
    own = mine(users)
    ratings, known, held = ratings[own], known[own], held[own]
    mine_u = 0.3 * random.normal(size=(users, width))[own]
    table = dist.Table(tw.tensor((0.3 * random.normal(size=(items, width))).astype("float32")))
    for _ in range(steps):
        v = table.pull().numpy().astype("float64")
        miss = known * (ratings - mine_u @ v.T)
        change = rate * miss.T @ mine_u
        mine_u += rate * miss @ v
        table.push(change.astype("float32"))
        dist.clock()
    error = held * (ratings - mine_u @ table.pull().numpy().T)
    squares, count = Sums(2).reduce([(error**2).sum(), held.sum()])
    root = float(np.sqrt(squares / count))
    assert root < (0.9 if QUICK else 0.3), root
    return f"error {root:.3f} on ratings held back (noise 0.05)"


def topics():
    """Latent Dirichlet allocation by Gibbs sampling: how often each word has each topic is shared, a worker keeps the
    topics of its documents' words."""
    count, words, documents, length, alpha, beta = 3, 30, 60, 50, 0.1, 0.02
    sweeps = 20 if QUICK else 80
    random = np.random.default_rng(600)
    kind = np.where(random.random((documents, length)) < 0.9, np.arange(documents)[:, None] % count, random.integers(count, size=(documents, length)))
    text = (kind * (words // count) + random.integers(words // count, size=(documents, length)))[mine(documents)]
    random = np.random.default_rng(7 + RANK)
    topic = random.integers(count, size=text.shape)
    table = dist.Table(tw.zeros(words, count))
    first = np.zeros((words, count), "float32")
    np.add.at(first, (text, topic), 1)
    table.push(first)
    dist.clock()
    for _ in range(sweeps):
        now = table.pull().numpy().copy()
        before, total = now.copy(), now.sum(0)
        for d in range(len(text)):
            here = np.bincount(topic[d], minlength=count).astype("float64")
            for i, word in enumerate(text[d]):
                old = topic[d, i]
                now[word, old] -= 1
                total[old] -= 1
                here[old] -= 1
                weight = (here + alpha) * (np.maximum(now[word], 0) + beta) / (np.maximum(total, 0) + beta * words)
                new = min(int((np.cumsum(weight) < random.random() * weight.sum()).sum()), count - 1)
                topic[d, i] = new
                now[word, new] += 1
                total[new] += 1
                here[new] += 1
        table.push(now - before)
        dist.clock()
    counts = table.pull().numpy().reshape(count, words // count, count).sum(1)
    purity = counts.max(1).sum() / counts.sum()
    assert counts.sum() == documents * length and purity > 0.8, counts
    return f"{100 * purity:.1f} % of {documents * length} words are in the topic of their kind"


def forest():
    """Trees grown level by level: each worker adds up how the labels of its samples are distributed over the bins of
    each feature, the store adds over the workers, and all choose the same splits (PLANET, Panda and others 2009)."""
    trees, depth, samples = (6, 8, 2000) if QUICK else (24, 10, 6000)
    bins, classes, tried, held = 4, 10, 14, 1000

    def load(n, seed):
        images, labels = digits(n, seed=seed)
        # 2 × 2 pixels become one, of few values.
        small = images.numpy().reshape(n, 14, 2, 14, 2).sum((2, 4), dtype="int64").reshape(n, 196)
        return small * bins // 1024, labels.numpy()

    (x, y), own = load(samples, 1), mine(samples)
    x, y = x[own], y[own]
    sums = Sums(2**depth, tried * bins * classes)
    grown = []
    for t in range(trees):
        feature = np.zeros(2 ** (depth + 1) - 1, int)  # children of node i are 2 i + 1 and 2 i + 2
        limit = np.full(len(feature), -1)  # where a leaf is: its answer is in `label`
        label = np.zeros(len(feature), int)
        # How often a sample counts follows from its number, so that no worker needs the samples of the others.
        often = np.random.default_rng(1000 + t).poisson(1, samples)[own]
        at, open_ = np.zeros(len(x), int), np.ones(len(x), bool)
        for level in range(depth + 1):
            first, nodes = 2**level - 1, 2**level
            choice = np.random.default_rng((t, level)).integers(x.shape[1], size=(nodes, tried))
            counts = np.zeros((2**depth, tried, bins, classes), "float32")
            node = at[open_] - first
            cell = (node[:, None], np.arange(tried), x[open_][np.arange(len(node))[:, None], choice[node]], y[open_][:, None])
            np.add.at(counts, cell, often[open_][:, None])
            counts = sums.reduce(counts.reshape(2**depth, -1)).reshape(counts.shape)[:nodes]
            left = counts.cumsum(2)[:, :, :-1]
            right = counts.sum(2, keepdims=True) - left
            whole = counts[:, 0].sum(1)
            pure = sum((side**2).sum(-1) / np.maximum(side.sum(-1), 1e-9) for side in (left, right))
            best = pure.reshape(nodes, -1).argmax(1)
            gain = pure.reshape(nodes, -1).max(1) - (whole**2).sum(1) / np.maximum(whole.sum(1), 1e-9)
            here = np.arange(first, first + nodes)
            label[here] = whole.argmax(1)
            if level < depth:
                splits = gain > 1e-3
                feature[here] = choice[np.arange(nodes), best // (bins - 1)]
                limit[here] = np.where(splits, best % (bins - 1), -1)
                open_ &= limit[at] >= 0
                at = np.where(open_, 2 * at + 1 + (x[np.arange(len(x)), feature[at]] > limit[at]), at)
        grown.append((feature, limit, label))
    x, y = load(held, 2)
    votes = np.zeros((held, classes))
    for feature, limit, label in grown:
        at = np.zeros(held, int)
        for _ in range(depth):
            at = np.where(limit[at] >= 0, 2 * at + 1 + (x[np.arange(held), feature[at]] > limit[at]), at)
        votes[np.arange(held), label[at]] += 1
    right = (votes.argmax(1) == y).mean()
    assert right > (0.5 if QUICK else 0.8), right
    return f"{100 * right:.1f} % of {held} held-out digits"


ALL = [logistic, lasso, mixture, kmeans, factors, topics, forest]
for name in sys.argv[1:] or [f.__name__ for f in ALL]:
    found = next(f for f in ALL if f.__name__ == name)()
    if RANK == 0:
        print(f"{name}: {found}", flush=True)
