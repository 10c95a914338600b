"""A small residual network in 8-bit integers: trained on Fashion-MNIST (the built-in digits without it), compressed with
calibrated ranges, and its accuracy on unseen images before and after.

python quantize.py [small.onnx]      (the file receives the compressed model)
"""

import os
import sys

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits, fashion_mnist

QUICK = "TALWEG_QUICK" in os.environ


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs, outputs, stride):
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        is_same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if is_same else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        y = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(y)) + self.around(x)).relu()


class ResNet(nn.Module):
    def __init__(self, width=16):
        self.first = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        sizes = [(width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)]
        self.blocks = nn.Sequential(*(Block(*s) for s in sizes))
        self.classes = nn.Linear(4 * width, 10)

    def forward(self, x):
        return self.classes(self.blocks(self.norm(self.first(x)).relu()).mean((2, 3)))


def images(count, train):
    """Images ``[N, 1, 28, 28]`` in 0..1, and their classes."""
    try:
        if QUICK:
            raise FileNotFoundError
        images, labels = fashion_mnist(train)
        images, labels = images[:count], labels[:count]
    except (OSError, tw.Error):
        images, labels = digits(count, seed=0 if train else 1)
    return images.float().unsqueeze(1) / 255, labels


def accuracy(net):
    net.eval()
    f = tw.jit(net).frozen()
    with tw.no_grad():
        right = [(f(x).argmax(1) == y).float().sum().item() for x, y in DataLoader(unseen, batch_size=500, drop_last=True)]
    return 100 * sum(right) / (len(right) * 500)


tw.manual_seed(0)
model = ResNet(8 if QUICK else 16)
train, unseen = images(256 if QUICK else 20_000, True), images(500 if QUICK else 10_000, False)
optimizer = tw.optim.AdamW(model.parameters(), lr=3e-3)
batches = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
trainer = tw.train.Trainer(model, optimizer, batches, epochs=1 if QUICK else 3, jit=True)
print(trainer.fit(lambda x, y: nn.functional.cross_entropy(model(x), y)))

calibrate = [train[0][i : i + 32] for i in range(0, 256, 32)]
small, report = tw.compress(model, "static", calibrate=calibrate, evaluate=accuracy)
print(report)
if len(sys.argv) > 1:
    tw.onnx.save(small, sys.argv[1], (train[0][:1],), dynamic_shapes=[{0: "batch"}])
