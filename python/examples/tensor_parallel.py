"""Tensor parallelism: two linear layers sharded over the workers, the first by columns, the second by rows, so that a
step needs one ``all_reduce`` in the forward pass. No process holds the whole model:
``talweg launch --workers 2 python/examples/tensor_parallel.py``. In one process it is an ordinary perceptron that learns
the same."""

import os

import talweg as tw
from talweg import distributed as dist
from talweg.nn import functional as F
from talweg.utils.data import DataLoader, digits

HIDDEN = 64
STEPS = 20 if "TALWEG_QUICK" in os.environ else 500


def part(rows, columns, axis):
    """This rank's part of a matrix that all ranks draw alike, along an axis."""
    whole = tw.randn(rows, columns) * (2 / rows) ** 0.5
    size = whole.shape[axis] // dist.world_size()
    return whole.narrow(axis, dist.rank() * size, size).requires_grad_()


tw.manual_seed(0)
w1, b1 = part(784, HIDDEN, 1), tw.zeros(HIDDEN // dist.world_size()).requires_grad_()
w2, b2 = part(HIDDEN, 10, 0), tw.zeros(10).requires_grad_()


@tw.jit
def step(x, y):
    hidden = tw.relu(x @ w1 + b1)
    # Each rank has a part of the sum over hidden units.
    scores = dist.functional.all_reduce(hidden @ w2) + b2
    loss = F.cross_entropy(scores, y)
    # Gradients are those of the sum of all ranks' losses: each brings its share of the one loss.
    (loss / dist.world_size()).backward()
    # Every rank has the last one, and a share of its gradient.
    grads = [w1.grad, b1.grad, w2.grad, dist.functional.all_reduce(b2.grad)]
    for p, g in zip([w1, b1, w2, b2], grads):
        p.assign(p - 0.1 * g)
    return loss


for i, (x, y) in enumerate(DataLoader(digits(STEPS * 50), batch_size=50)):
    loss = step(x.float().reshape(-1, 784) / 256, y).item()
    if i % 100 == 0 or i + 1 == STEPS:
        print(f"step {i:3}  loss {loss:.4f}")
