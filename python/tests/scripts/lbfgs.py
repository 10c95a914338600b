"""Curve fitting without a module: leaves, LBFGS with a closure, Newton's method with a Hessian."""

import numpy as np
import torch

from start import pictures

t = torch.linspace(0, 4, steps=50, dtype=torch.float64)
target = 2.0 * torch.exp(-0.7 * t) + 0.3
a = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
k = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
c = torch.zeros((), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([a, k, c], lr=1, max_iter=5, line_search_fn="strong_wolfe")
losses = []


def closure():
    optimizer.zero_grad()
    loss = torch.mean((a * torch.exp(-k * t) + c - target) ** 2)
    loss.backward()
    return loss


for step in range(3):
    losses.append(optimizer.step(closure).item())
losses += [round(a.item(), 3), round(k.item(), 3), round(c.item(), 3)]

x, y = pictures(40)
X = torch.tensor(np.c_[x.reshape(40, -1)[:, [0, 7, 56, 63]], np.ones(40)], dtype=torch.float32)
Y = torch.tensor(y > 1, dtype=torch.float32)
w = torch.zeros(5, requires_grad=True)


def objective(w):
    return torch.nn.functional.binary_cross_entropy_with_logits(X @ w, Y) + 0.05 * w.dot(w)


for step in range(4):
    g = torch.autograd.grad(objective(w), w)[0]
    H = torch.autograd.functional.hessian(objective, w)
    with torch.no_grad():
        w -= torch.linalg.solve(H, g)
    losses.append(objective(w).item())

learning_rate = 0.1
w = torch.zeros(5, requires_grad=True)
for step in range(5):
    loss = objective(w)
    loss.backward()
    with torch.no_grad():
        w -= learning_rate * w.grad
        w.grad.zero_()
    losses.append(loss.item())
