"""Adversarial examples by the fast gradient sign method (Goodfellow and others 2015): a perceptron that classifies digits
well is fooled by images that differ by at most 0.1 in each pixel, until it is trained on such images."""

import os

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

EPSILON = 0.1
STEPS = 10 if "TALWEG_QUICK" in os.environ else 1500


def network():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def loss(model, x, labels):
    return nn.functional.cross_entropy(model(x), labels)


def attacked(model, x, labels):
    """The images moved by ε in the direction that makes the loss larger, within black and white."""
    slope = tw.grad(lambda x: loss(model, x, labels))(x)
    return (x + slope.sign() * EPSILON).clamp(0.0, 1.0).detach()


def train(model, is_adversarial):
    optimizer = tw.optim.Adam(model.parameters())

    @tw.jit
    def step(images, labels):
        x = images.float().reshape(-1, 784) / 255
        if is_adversarial:
            x = tw.concat([x, attacked(model, x, labels)])
            labels = tw.concat([labels, labels])
        value = loss(model, x, labels)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value

    for images, labels in DataLoader(digits(STEPS * 100), batch_size=100):
        step(images, labels)


def accuracy(model, x, labels):
    return 100 * (model(x).argmax(1) == labels).float().mean().item()


tw.manual_seed(0)
images, labels = digits(1000, seed=1)
x = images.float().reshape(-1, 784) / 255
print("accuracy on 1000 digits it has never seen:")
for name, is_adversarial in [("trained on digits", False), ("trained against attacks", True)]:
    model = network()
    train(model, is_adversarial)
    clean, under = accuracy(model, x, labels), accuracy(model, attacked(model, x, labels), labels)
    print(f"{name:24} {clean:5.1f} % as they are, {under:5.1f} % attacked")
