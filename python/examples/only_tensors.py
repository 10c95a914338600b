"""Only tensors and ``backward``: no layers, optimizer or loss from the library. A perceptron with its own initialization,
loss, Adam and accuracy, one function each; it learns the built-in digits."""

import os

import talweg as tw
from talweg.utils.data import DataLoader, digits

HIDDEN = 128
STEPS = 20 if "TALWEG_QUICK" in os.environ else 1000


def matrix(inputs, outputs):
    """A weight matrix whose signals keep their size (He and others 2015)."""
    return (tw.randn(inputs, outputs) * (2 / inputs) ** 0.5).requires_grad_()


def scores(params, x):
    w1, b1, w2, b2 = params
    return tw.maximum(x @ w1 + b1, 0.0) @ w2 + b2


def loss(scores, classes):
    """Mean of -log p(class): the largest score is taken out first, so that nothing overflows."""
    shifted = scores - scores.amax(-1, keepdims=True)
    logs = shifted - shifted.exp().sum(-1, keepdims=True).log()
    return -(logs * classes.one_hot(10, "float32")).sum(-1).mean()


def adam(p, moments, t, lr):
    """Kingma and Ba 2015: the state is two more tensors for each parameter."""
    m, v = moments
    m[...] = m * 0.9 + p.grad * 0.1
    v[...] = v * 0.999 + p.grad.square() * 0.001
    step = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    p.assign(p - lr * step)
    p.grad = None
    m.eval(), v.eval()


tw.manual_seed(0)
params = [matrix(784, HIDDEN), tw.zeros(HIDDEN).requires_grad_(), matrix(HIDDEN, 10), tw.zeros(10).requires_grad_()]
moments = [(tw.zeros_like(p), tw.zeros_like(p)) for p in params]
for i, (images, labels) in enumerate(DataLoader(digits(STEPS * 100), batch_size=100)):
    value = loss(scores(params, images.float().reshape(-1, 784) / 256), labels)
    value.backward()
    with tw.no_grad():
        for p, m in zip(params, moments):
            adam(p, m, i + 1, 1e-3)
    if i % 100 == 0 or i + 1 == STEPS:
        print(f"step {i:4}  loss {value.item():.4f}")

images, labels = digits(1000, seed=1)
right = (scores(params, images.float().reshape(-1, 784) / 256).argmax(1) == labels).float().mean().item()
print(f"{100 * right:.1f} % of 1000 digits it has never seen")
