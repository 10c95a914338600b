#!/usr/bin/env python3
"""Training steps of models that nothing was tuned for, beside PyTorch on one GPU.

    python scripts/bench_models.py torch            # where PyTorch is installed; add `compile` for torch.compile
    python scripts/bench_models.py talweg           # where Talweg is

One source serves both libraries: PyTorch's spelling. Prints milliseconds a step (the least of three groups of ten), the
time of the first step, the peak memory and the first loss. TF32 is allowed in both. Names of models may follow.
"""
import sys
import time

LIBRARY = sys.argv[1]
COMPILES = "compile" in sys.argv[2:]
DEVICE = "cuda:0"

if LIBRARY == "torch":
    import torch as L

    L.backends.cudnn.benchmark = True
else:
    import talweg as L
L.backends.cuda.matmul.allow_tf32 = True
L.backends.cudnn.allow_tf32 = True
nn, F = L.nn, L.nn.functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, is_causal):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (y.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary=8192, width=640, depth=6, length=384):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 10) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(L.arange(ids.shape[1], device=DEVICE))
        for block in self.blocks:
            x = block(x, True)
        return self.head(self.norm(x))


class ViT(nn.Module):
    def __init__(self, width=384, depth=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(L.zeros(1, 1, width))
        self.positions = nn.Parameter(L.zeros(1, 197, width))
        self.blocks = nn.ModuleList([Block(width, 6) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = L.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x, False)
        return self.head(self.norm(x)[:, 0])


def double_conv(inputs, outputs):
    layers = []
    for i in (inputs, outputs):
        layers += [nn.Conv2d(i, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.down = nn.ModuleList([double_conv(3, w), double_conv(w, 2 * w), double_conv(2 * w, 4 * w)])
        self.middle = double_conv(4 * w, 4 * w)
        self.up = nn.ModuleList([double_conv(8 * w, 2 * w), double_conv(4 * w, w), double_conv(2 * w, w)])
        self.out = nn.Conv2d(w, 3, 1)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for layer in self.up:
            x = layer(L.cat([F.interpolate(x, scale_factor=2, mode="nearest"), kept.pop()], 1))
        return self.out(x)


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, factor):
        super().__init__()
        inner = inputs * factor
        self.is_residual = stride == 1 and inputs == outputs
        wide = [nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()] if factor > 1 else []
        depthwise = [nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
        self.layers = nn.Sequential(*wide, *depthwise, nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


class MobileNet(nn.Module):
    STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def __init__(self):
        super().__init__()
        layers, width = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
        for factor, outputs, count, stride in self.STAGES:
            for k in range(count):
                layers.append(Inverted(width, outputs, stride if k == 0 else 1, factor))
                width = outputs
        last = [nn.Conv2d(width, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
        self.features, self.head = nn.Sequential(*layers, *last), nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def mlp(*widths):
    layers = []
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class DLRM(nn.Module):
    def __init__(self, tables=26, rows=100000, width=64):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
        self.bottom = mlp(13, 512, 256, width)
        self.top = mlp(width + (tables + 1) * tables // 2, 512, 256, 1)
        self.i, self.j = (x.to(DEVICE) for x in L.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, x, categories):
        x = self.bottom(x)
        z = L.stack([x] + [table(categories[:, k]) for k, table in enumerate(self.tables)], 1)
        pairs = L.bmm(z, z.transpose(1, 2))[:, self.i, self.j]
        return self.top(L.cat([x, pairs], 1))[:, 0]


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=8192, width=512):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.lstm(self.tokens(ids))[0])


def ids(most, *shape):
    return L.randint(0, most, shape, device=DEVICE)


def normal(*shape):
    return L.randn(*shape, device=DEVICE)


def cross_entropy(model):
    return lambda x, y: F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten())


def squares(model):
    return lambda x, y: ((model(x).float() - y) ** 2).mean()


def binary(model):
    return lambda x, c, y: F.binary_cross_entropy_with_logits(model(x, c), y)


# A model, its loss, its batch, and whether it runs in bf16.
CASES = {
    "vit_bf16": (ViT, cross_entropy, lambda: (normal(128, 3, 224, 224), ids(1000, 128)), True),
    "gpt_bf16": (GPT, cross_entropy, lambda: (ids(8192, 24, 384), ids(8192, 24, 384)), True),
    "gpt_tf32": (GPT, cross_entropy, lambda: (ids(8192, 24, 384), ids(8192, 24, 384)), False),
    "unet_bf16": (UNet, squares, lambda: (normal(16, 3, 128, 128), normal(16, 3, 128, 128)), True),
    "mobilenet_tf32": (MobileNet, cross_entropy, lambda: (normal(128, 3, 224, 224), ids(1000, 128)), False),
    "dlrm": (DLRM, binary, lambda: (normal(4096, 13), ids(100000, 4096, 26), L.rand(4096, device=DEVICE)), False),
    "lstm": (LanguageModel, cross_entropy, lambda: (ids(8192, 64, 128), ids(8192, 64, 128)), False),
}


def stepper(name):
    """A training step and its batch."""
    make, loss_of, data, is_bf16 = CASES[name]
    model = make().to(DEVICE)
    optimizer, loss = L.optim.SGD(model.parameters(), lr=1e-3), loss_of(model)
    loss = L.compile(loss) if COMPILES and LIBRARY == "torch" else loss

    def step(*batch):
        optimizer.zero_grad()
        with L.autocast("cuda", dtype=L.bfloat16, enabled=is_bf16):
            value = loss(*batch)
        value.backward()
        optimizer.step()
        return value

    return (L.jit(step) if LIBRARY == "talweg" else step), data()


def measure(name):
    L.manual_seed(0)
    step, batch = stepper(name)
    start = time.time()
    value = step(*batch).item()
    first, best = time.time() - start, float("inf")
    for _ in range(4):
        step(*batch)
    L.cuda.synchronize()
    for _ in range(3):
        start = time.time()
        for _ in range(10):
            step(*batch)
        L.cuda.synchronize()
        best = min(best, (time.time() - start) / 10)
    peak = L.cuda.max_memory_allocated() / 2**30
    L.cuda.reset_peak_memory_stats()
    print(f"{LIBRARY:7} {name:15} {best * 1e3:8.2f} ms  first {first:5.2f} s  peak {peak:5.2f} GiB  loss {value:.4f}", flush=True)


for case in [a for a in sys.argv[2:] if a in CASES] or CASES:
    measure(case)
