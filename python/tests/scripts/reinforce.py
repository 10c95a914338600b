"""Policy gradient and an actor-critic with `torch.distributions`."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical, Normal

from start import seeded

policy = seeded(torch, nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)))
value = seeded(torch, nn.Linear(4, 1), 1)
optimizer = torch.optim.Adam(list(policy.parameters()) + list(value.parameters()), lr=1e-2)
rng = np.random.RandomState(0)
eps, losses = np.finfo(np.float32).eps.item(), []
for episode in range(8):
    log_probs, rewards, values, entropies = [], [], [], []
    for t in range(6):
        state = torch.from_numpy(rng.randn(4)).float().unsqueeze(0)
        dist = Categorical(logits=policy(state))
        assert dist.sample().shape == (1,)
        action = torch.tensor([rng.randint(3)])
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        values.append(value(state).squeeze())
        rewards.append(1.0 if action.item() == int(state[0].argmax()) else 0.0)
    R, returns = 0, []
    for r in rewards[::-1]:
        R = r + 0.9 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = [-log_prob * (R - v.item()) for log_prob, R, v in zip(log_probs, returns, values)]
    value_loss = torch.stack([F.smooth_l1_loss(v, R) for v, R in zip(values, returns)]).sum()
    optimizer.zero_grad()
    loss = torch.cat(policy_loss).sum() + 0.5 * value_loss - 0.01 * torch.cat(entropies).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

mean, log_std = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
dist = Normal(mean, log_std.exp())
dist.log_prob(torch.tensor([0.5, -1.0])).sum().backward()
losses += [*mean.grad.tolist(), *log_std.grad.tolist()]
