"""Four models that know nothing of other devices. Their train step is jitted, so that it can be cut over a mesh:

talweg launch --mesh data=2,tensor=2 --plan megatron mesh.py
talweg launch --mesh data=2,context=2 mesh.py gpt
talweg launch --mesh pipe=2 --plan data,microbatches=4 mesh.py gpt
talweg launch --mesh data=2 --plan fsdp mesh.py cnn
talweg launch --mesh expert=2 mesh.py moe

It prints losses and the sum of all weights, which are those of one device but for rounding.
"""

import os
import sys

import talweg as tw
from talweg import nn

STEPS = 3 if "TALWEG_QUICK" in os.environ else 20
WIDTH, HEADS, WORDS, LENGTH, BATCH, EXPERTS = 32, 4, 23, 16, 8, 4


class Mlp(nn.Module):
    """A perceptron."""

    def __init__(self):
        self.up = nn.Linear(12, 64)
        self.down = nn.Linear(64, 5)

    def forward(self, x):
        return self.down(self.up(x).gelu())


class Cnn(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self):
        self.first = nn.Conv2d(1, 8, 3)
        self.second = nn.Conv2d(8, 8, 3)
        self.last = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).relu().flatten(1))


class Experts(nn.Module):
    """Each token goes to two experts, and none is dropped. Plans know the weights by the name `experts`."""

    def __init__(self):
        self.widen = nn.Parameter(tw.randn(EXPERTS, WIDTH, 2 * WIDTH) / WIDTH**0.5)
        self.narrow = nn.Parameter(tw.randn(EXPERTS, 2 * WIDTH, WIDTH) / (2 * WIDTH) ** 0.5)

    def forward(self, x):
        return (x.unsqueeze(0) @ self.widen).gelu() @ self.narrow


class Mixture(nn.Module):
    """A router and its experts."""

    def __init__(self):
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = Experts()

    def forward(self, x):
        rows = x.flatten(0, 1)
        scores = self.router(rows)
        chosen = scores >= scores.topk(2, -1)[0][:, 1:]
        share = scores.softmax(-1) * chosen
        share = share / share.sum(-1, keepdim=True)
        answers = self.experts(rows)
        return (answers * share.t().unsqueeze(-1)).sum(0).reshape(x.shape)


class Feed(nn.Module):
    """The second half of a block."""

    def __init__(self):
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(self.up(x).gelu())


class Block(nn.Module):
    """Attention, and a perceptron or a mixture of experts."""

    def __init__(self, second):
        self.norm1 = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm2 = nn.LayerNorm(WIDTH)
        self.second = second()

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (p(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(-2, -1))
        return x + self.second(self.norm2(x))


class Gpt(nn.Module):
    """Two blocks between a table of tokens that is used twice."""

    def __init__(self, second=Feed):
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(second) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, words):
        x = self.tokens(words)
        for block in self.blocks:
            x = block(x)
        return self.norm(x).linear(self.tokens.weight).flatten(0, 1)


def batch(name):
    """Inputs and targets."""
    if name == "mlp":
        return tw.randn(15, 12), tw.randint(0, 5, (15,))
    if name == "cnn":
        return tw.randn(BATCH, 1, 8, 8), tw.randint(0, 5, (BATCH,))
    words = tw.tensor([[(i * i * 7 + i * 3 + 5 * row) % WORDS for i in range(LENGTH + 1)] for row in range(BATCH)])
    return words[:, :-1], words[:, 1:]


MODELS = {"mlp": Mlp, "cnn": Cnn, "gpt": Gpt, "moe": lambda: Gpt(Mixture)}


def main(name):
    tw.manual_seed(0)
    model = MODELS[name]()
    optimizer = tw.optim.Adam(model.parameters(), lr=1e-2 if name == "mlp" else 3e-3)

    @tw.jit
    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = batch(name)
    for i in range(STEPS):
        print(f"step {i:2}  loss {step(x, y).item():.6f}")
    print(f"weights {sum(p.sum().item() for p in model.parameters()):.4f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mlp")
