"""An optimizer of one's own is ordinary tensor code: AdaBelief (Zhuang and others 2020) beside Adam on the digits."""

import os

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

STEPS = 10 if "TALWEG_QUICK" in os.environ else 1000


class AdaBelief:
    """Adam, but divided by how far gradients stray from their mean instead of by their size: long steps where the
    gradient is as expected, short ones where it surprises."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params, self.lr, self.betas, self.eps = list(params), lr, betas, eps
        kept = [tw.Variable(tw.zeros_like(p), trainable=False) for p in self.params for _ in range(2)]
        self.means, self.spreads = kept[::2], kept[1::2]
        self.count = tw.Variable(0.0, trainable=False)

    def step(self):
        b1, b2 = self.betas
        with tw.no_grad():
            self.count.assign(self.count + 1)
            full1, full2 = 1 - b1**self.count, 1 - b2**self.count
            for p, mean, spread in zip(self.params, self.means, self.spreads):
                mean.assign(b1 * mean + (1 - b1) * p.grad)
                spread.assign(b2 * spread + (1 - b2) * (p.grad - mean).square() + self.eps)
                p.assign(p - self.lr * (mean / full1) / ((spread / full2).sqrt() + self.eps))
                p.grad = None


def train(name, make):
    tw.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = make(model.parameters())

    @tw.jit
    def step(images, labels):
        loss = nn.functional.cross_entropy(model(images.float().flatten(1) / 255), labels)
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
