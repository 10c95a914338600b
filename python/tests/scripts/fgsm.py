"""Adversarial pictures by the sign of the gradient, saliency, and a straight-through custom estimator."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from start import pictures, seeded


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, levels):
        ctx.save_for_backward(input)
        return torch.round(input * levels) / levels

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 1] = 0
        return grad_input, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(64, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = torch.tanh(self.fc1(x.reshape(x.shape[0], -1)))
        return F.log_softmax(self.fc2(Quantize.apply(x, 8)), dim=1)


def fgsm_attack(image, epsilon, data_grad):
    return torch.clamp(image + epsilon * data_grad.sign(), 0, 1)


x, y = pictures(48)
x, y = torch.from_numpy(x).clamp(0, 1), torch.from_numpy(y)
model = seeded(torch, Net())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for step in range(15):
    optimizer.zero_grad()
    loss = F.nll_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()
for epsilon in [0, 0.1, 0.3]:
    data = x.clone().detach()
    data.requires_grad = True
    loss = F.nll_loss(model(data), y)
    model.zero_grad()
    loss.backward()
    perturbed = fgsm_attack(data, epsilon, data.grad.data)
    losses.append(F.nll_loss(model(perturbed), y).item())
image = x[:1].clone().requires_grad_()
scores = model(image)
scores[0, scores.argmax()].backward()
saliency, _ = image.grad.data.abs().max(dim=1)
losses.append(saliency.sum().item())
