"""A custom optimizer is ordinary tensor code: AdaBelief (Zhuang and others 2020) beside Adam on the digits."""

import os

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

STEPS = 10 if "TALWEG_QUICK" in os.environ else 1000


class AdaBelief(tw.optim.Rule):
    """Adam, but divided by how far gradients stray from their mean instead of by their size: long steps where the
    gradient is as expected, short ones where it surprises. Under ``talweg launch`` it is as good as a built-in one."""

    defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}
    slots = {"mean": 0.0, "spread": 0.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        (b1, b2), eps = self.settings["betas"], self.settings["eps"]
        mean = b1 * state["mean"] + (1 - b1) * grad
        spread = b2 * state["spread"] + (1 - b2) * (grad - mean).square() + eps
        full1, full2 = 1 - b1**step, 1 - b2**step
        moved = param - lr * (mean / full1) / ((spread / full2).sqrt() + eps)
        return moved, {"mean": mean, "spread": spread}


def train(name, make):
    tw.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = make(model.parameters())

    @tw.jit
    def step(images, labels):
        loss = nn.functional.cross_entropy(model(images.float().flatten(1) / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for images, labels in DataLoader(digits(STEPS * 100), batch_size=100):
        step(images, labels)
    images, labels = digits(1000, seed=1)
    right = (model(images.float().flatten(1) / 255).argmax(1) == labels).float().mean().item()
    print(f"{name:10} {100 * right:.1f} % of 1000 digits it has never seen, after {STEPS} steps")


train("AdaBelief", AdaBelief)
train("Adam", tw.optim.Adam)
