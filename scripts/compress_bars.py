"""What compression costs in accuracy, and what it gains, for networks that are trained here on real data.

    python scripts/compress_bars.py mobilenet            # MobileNet v2 on Fashion-MNIST, static int8
    python scripts/compress_bars.py resnet18             # ResNet-18 on Fashion-MNIST, static int8
    python scripts/compress_bars.py gpt --text FILE      # a small GPT of characters, int4 weights
    python scripts/compress_bars.py prune                # half the FLOPs of a convolutional network, fine-tuned

Fashion-MNIST is read where Debian's package `dataset-fashion-mnist` puts it. Accuracy is that on the 10,000 unseen
images, perplexity that of the last tenth of the text. Times are the least of several runs with weights compiled in.
"""

import argparse
import math
import time

import numpy as np

import talweg as tw
from talweg import nn
from talweg.nn import functional as F
from talweg.utils.data import DataLoader, fashion_mnist
from vision_blocks import Basic, Inverted, unit


def mobilenet(width):
    """MobileNet v2 for images of 28 × 28: the first two strides are 1."""
    size = lambda c: max(8, int(c * width + 4) // 8 * 8)  # noqa: E731
    parts, inputs = unit(1, size(32), 3), size(32)
    kinds = [(1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, outputs, count, stride in kinds:
        for i in range(count):
            parts.append(Inverted(inputs, size(outputs), stride if i == 0 else 1, expand))
            inputs = size(outputs)
    last = max(1280, size(1280)) if width > 1 else size(1280)
    return nn.Sequential(*parts, *unit(inputs, last), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10))


def resnet18(width):
    """ResNet-18 for small images: the first layer has a kernel of 3, and no pooling follows."""
    w = int(64 * width)
    sizes = [(w, w, 1), (w, w, 1), (w, 2 * w, 2), (2 * w, 2 * w, 1), (2 * w, 4 * w, 2), (4 * w, 4 * w, 1), (4 * w, 8 * w, 2), (8 * w, 8 * w, 1)]
    first = [nn.Conv2d(1, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU()]
    return nn.Sequential(*first, *(Basic(*s) for s in sizes), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, 10))


def plain(width):
    """Six convolutions in a row."""
    w = int(64 * width)
    parts, inputs = [], 1
    for outputs, pool in [(w, 0), (w, 1), (2 * w, 0), (2 * w, 1), (4 * w, 0), (4 * w, 0)]:
        parts += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if pool else []
        inputs = outputs
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


class Block(nn.Module):
    def __init__(self, d, heads):
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, d=128, heads=4, layers=4):
        self.tokens, self.places = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(tw.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def images(count, train):
    images, labels = fashion_mnist(train)
    return images[:count].float().unsqueeze(1) / 255, labels[:count]


def accuracy(unseen):
    def measure(net):
        net.eval()
        f = tw.jit(net).frozen()
        with tw.no_grad():
            right = [(f(x).argmax(1) == y).float().sum().item() for x, y in DataLoader(unseen, batch_size=250, drop_last=True)]
        return 100 * sum(right) / (len(right) * 250)

    return measure


def fit(net, data, epochs, rate):
    start = time.perf_counter()
    batches = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    optimizer = tw.optim.AdamW(net.train().parameters(), lr=rate)
    schedule = tw.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))

    @tw.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(epochs):
        for x, y in batches:
            loss = step(x, y)
            schedule.step()
    print(f"trained {epochs} epochs in {time.perf_counter() - start:.0f} s, loss {loss.item():.3f}", flush=True)
    return net.eval()


def flops(net, shape):
    """Multiplications of convolutions and linear layers, twice."""
    count, hooks = [0], []

    def hook(m, args, y):
        count[0] += 2 * m.weight.numel() * (y.numel() // y.shape[1] if y.ndim > 2 else len(y))

    for m in net.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            hooks.append(m.register_forward_hook(hook))
    with tw.no_grad():
        net.eval()(tw.zeros(*shape))
    for h in hooks:
        h.remove()
    return count[0]


def quantize(given):
    train, unseen = images(given.count, True), images(10_000, False)
    net = fit(globals()[given.what](given.width), train, given.epochs, 2e-3)
    calibrate = [train[0][i : i + 32] for i in range(0, 512, 32)]
    _, report = tw.compress(net, "static", calibrate=calibrate, evaluate=accuracy(unseen), min_gain=given.min_gain)
    print(report)


def prune(given):
    train, unseen = images(given.count, True), images(10_000, False)
    net = fit(plain(given.width), train, given.epochs, 2e-3)
    small = tw.compression.prune_channels(net, given.share, multiple=16)
    fit(small, train, max(1, given.epochs // 2), 1e-3)
    before, after = flops(net, (1, 1, 28, 28)), flops(small, (1, 1, 28, 28))
    print(f"FLOPs {before / 1e6:.1f} → {after / 1e6:.1f} million ({after / before:.2f})")
    print(tw.compression.compare(net, small, calibrate=[train[0][:32]], evaluate=accuracy(unseen), method="pruned"))


def gpt(given):
    text = open(given.text, encoding="utf-8").read()
    letters = sorted(set(text))
    ids = np.array([letters.index(c) for c in text[: given.count * 50]], np.int64)
    seen, unseen = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    length, rng = 64, np.random.default_rng(0)
    net = Gpt(len(letters), length)
    optimizer = tw.optim.AdamW(net.parameters(), lr=1e-3)

    @tw.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x).reshape(-1, len(letters)), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    start = time.perf_counter()
    for i in range(given.epochs * 300):
        at = rng.integers(0, len(seen) - length - 1, 16)[:, None] + np.arange(length)
        loss = step(tw.tensor(seen[at]), tw.tensor(seen[at + 1]))
    print(f"trained {given.epochs * 300} steps in {time.perf_counter() - start:.0f} s, loss {loss.item():.3f}", flush=True)
    rows = unseen[: (len(unseen) - 1) // (16 * length) * 16 * length + 1]
    xs, ys = rows[:-1].reshape(-1, 16, length), rows[1:].reshape(-1, 16, length)

    def perplexity(m):
        f = tw.jit(lambda x, y: F.cross_entropy(m(x).reshape(-1, len(letters)), y.reshape(-1))).frozen()
        with tw.no_grad():
            return math.exp(np.mean([f(tw.tensor(x), tw.tensor(y)).item() for x, y in zip(xs, ys)]))

    at = rng.integers(0, len(seen) - length, 16)[:, None] + np.arange(length)
    _, report = tw.compress(net.eval(), "int4", calibrate=[tw.tensor(seen[at])], evaluate=perplexity, min_gain=given.min_gain)
    print(report)
    print(f"perplexity {100 * (report.figure_after / report.figure_before - 1):+.2f} %")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["mobilenet", "resnet18", "gpt", "prune"])
    p.add_argument("--text", help="a text for gpt")
    p.add_argument("--width", type=float, default=0.5, help="channels, as a share of the published ones")
    p.add_argument("--count", type=int, default=20_000, help="images to train with")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--share", type=float, default=0.3, help="channels to prune")
    p.add_argument("--min-gain", type=float, default=1.0, help="how many times as fast a layer must become")
    given = p.parse_args()
    tw.manual_seed(0)
    {"mobilenet": quantize, "resnet18": quantize, "gpt": gpt, "prune": prune}[given.what](given)


main()
