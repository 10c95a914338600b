"""Learning to learn: a gradient step inside the loss, by `create_graph` and by `torch.func`."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

from start import seeded

net = seeded(torch, nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1)), scale=0.5)
meta = torch.optim.Adam(net.parameters(), lr=1e-2)
rng = np.random.RandomState(0)


def task():
    amplitude, phase = rng.uniform(0.5, 2), rng.uniform(0, np.pi)
    x = rng.uniform(-2, 2, (20, 1)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy((amplitude * np.sin(x + phase)).astype(np.float32))


losses = []
for it in range(5):
    outer = 0.0
    for _ in range(3):
        x, y = task()
        fast = {k: v for k, v in net.named_parameters()}
        inner = F.mse_loss(functional_call(net, fast, (x[:10],)), y[:10])
        grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
        fast = {k: v - 0.1 * g for (k, v), g in zip(fast.items(), grads)}
        outer = outer + F.mse_loss(functional_call(net, fast, (x[10:],)), y[10:])
    meta.zero_grad()
    outer.backward()
    meta.step()
    losses.append(outer.item())

params = {k: v.detach() for k, v in net.named_parameters()}


def loss_of_one(params, x, y):
    return F.mse_loss(functional_call(net, params, (x.unsqueeze(0),)), y.unsqueeze(0))


x, y = task()
per_sample = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(params, x, y)
losses += [per_sample["0.weight"].norm(2, dim=(1, 2)).max().item(), per_sample["2.bias"].shape[0]]
