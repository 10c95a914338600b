"""An exponential moving average of weights, by hand and by `AveragedModel`; early stopping with the best state."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from start import pictures, seeded


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: p.data.clone() for name, p in model.named_parameters() if p.requires_grad}
        self.backup = {}

    def update(self, model):
        for name, p in model.named_parameters():
            if p.requires_grad:
                assert name in self.shadow
                self.shadow[name] = ((1.0 - self.decay) * p.data + self.decay * self.shadow[name]).clone()

    def apply_shadow(self, model):
        for name, p in model.named_parameters():
            self.backup[name] = p.data
            p.data = self.shadow[name]

    def restore(self, model):
        for name, p in model.named_parameters():
            p.data = self.backup[name]
        self.backup = {}


x, y = pictures(64)
x, y = torch.from_numpy(x).flatten(1), torch.from_numpy(y)
model = seeded(torch, nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4)))
teacher = copy.deepcopy(model)
teacher.requires_grad_(False)
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
ema = EMA(model, 0.9)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
best, best_state, losses = float("inf"), None, []
for step in range(12):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(model)
    averaged.update_parameters(model)
    with torch.no_grad():
        for t, p in zip(teacher.parameters(), model.parameters()):
            t.mul_(0.9).add_(p, alpha=0.1)
    losses.append(loss.item())
    if loss.item() < best:
        best, best_state = loss.item(), copy.deepcopy(model.state_dict())

plain = F.cross_entropy(model(x), y).item()
ema.apply_shadow(model)
shadow = F.cross_entropy(model(x), y).item()
ema.restore(model)
assert F.cross_entropy(model(x), y).item() == plain and shadow != plain
losses += [plain, shadow, F.cross_entropy(teacher(x), y).item(), F.cross_entropy(averaged(x), y).item()]
model.load_state_dict(best_state)
losses.append(F.cross_entropy(model(x), y).item())
