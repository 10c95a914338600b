"""WGAN-GP: the norm of a gradient is part of the loss; a physics-informed network differentiates twice."""

import numpy as np
import torch
import torch.nn as nn
from torch import autograd

from start import seeded

critic = seeded(torch, nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
rng = np.random.RandomState(0)


def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = torch.tensor(rng.uniform(size=(real_samples.size(0), 1)), dtype=torch.float32)
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = torch.ones(real_samples.shape[0], 1, requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates, inputs=interpolates, grad_outputs=fake, create_graph=True, retain_graph=True, only_inputs=True
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


losses = []
for step in range(8):
    real = torch.from_numpy(rng.randn(16, 2).astype(np.float32)) + 2
    fake = torch.from_numpy(rng.randn(16, 2).astype(np.float32))
    optimizer.zero_grad()
    penalty = compute_gradient_penalty(critic, real.data, fake.data)
    loss = -torch.mean(critic(real)) + torch.mean(critic(fake)) + 10 * penalty
    loss.backward()
    optimizer.step()
    losses += [loss.item(), penalty.item()]

net = seeded(torch, nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)), 4, 0.5)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(10):
    t = torch.linspace(0, 1, 20).view(-1, 1).requires_grad_(True)
    u = net(t)
    du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    d2u = torch.autograd.grad(du, t, torch.ones_like(du), create_graph=True)[0]
    start = torch.zeros(1, 1)
    loss = torch.mean((d2u + u) ** 2) + (net(start) - 1).pow(2).squeeze()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
