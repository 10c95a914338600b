"""Logistic regression by gradient descent: p = 1 / (1 + exp(-xw)), L(w) = mean l(y, p) + λ‖w‖², w ← w − η ∇L(w)."""

import talweg as tw

tw.manual_seed(3)
n = 200
side = (tw.arange(n).reshape(n, 1) % 2).float()  # 0 or 1
x = tw.randn(n, 2) + (2 * side - 1) * 2.5
penalty, eta = 1e-3, 0.5


def loss(w):
    p = (x @ w).sigmoid()
    likelihood = side * p.log() + (1 - side) * (1 - p).log()
    return -likelihood.mean() + penalty * w.square().sum()


@tw.jit
def step(w):
    value, slope = tw.value_and_grad(loss)(w)
    return value, w - eta * slope


w = tw.zeros(2, 1)
for i in range(100):
    value, w = step(w)
    if i % 20 == 0:
        print(f"step {i:3}  loss {value.item():.4f}")
accuracy = ((x @ w > 0) == (side > 0)).float().mean().item()
print(f"accuracy {accuracy:.2f}, w = {w.tolist()}")
assert accuracy > 0.99
