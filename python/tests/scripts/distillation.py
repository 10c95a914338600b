"""A small network learns from a larger one: softened targets, frozen teacher, features by a forward hook."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from start import pictures, seeded

x, y = pictures(64)
x, y = torch.from_numpy(x).flatten(start_dim=1), torch.from_numpy(y)
teacher = seeded(torch, nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)))
student = seeded(torch, nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4)), 1)
losses = []

optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for step in range(20):
    optimizer.zero_grad()
    loss = F.cross_entropy(teacher(x), y)
    loss.backward()
    optimizer.step()
losses.append(loss.item())

features = {}
handle = teacher[1].register_forward_hook(lambda module, args, output: features.update(hidden=output.detach()))
teacher.eval()
for p in teacher.parameters():
    p.requires_grad_(False)
T, soft_weight, hard_weight = 2.0, 0.25, 0.75
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
student.train()
for step in range(15):
    optimizer.zero_grad()
    with torch.no_grad():
        teacher_logits = teacher(x)
    student_logits = student(x)
    soft_targets = F.softmax(teacher_logits / T, dim=-1)
    soft_prob = F.log_softmax(student_logits / T, dim=-1)
    soft_loss = torch.sum(soft_targets * (soft_targets.log() - soft_prob)) / soft_prob.size()[0] * (T**2)
    kl = nn.KLDivLoss(reduction="batchmean")(soft_prob, soft_targets) * (T**2)
    loss = soft_weight * soft_loss + hard_weight * F.cross_entropy(student_logits, y)
    loss.backward()
    optimizer.step()
    losses += [loss.item(), kl.item()]
handle.remove()
assert features["hidden"].shape == (64, 64)
losses.append((student(x).argmax(dim=1) == y).float().mean().item())
