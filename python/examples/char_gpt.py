"""A small GPT trained on characters: nanoGPT's configuration for a laptop (4 layers, 4 heads, width 128, context 64,
batch 12, 2000 steps).

python char_gpt.py input.txt       (without a text it reads this program)
"""

import os
import sys

import talweg as tw
from talweg import nn

QUICK = "TALWEG_QUICK" in os.environ
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = (1, 2, 32, 16, 4) if QUICK else (4, 4, 128, 64, 12)
STEPS, LETTERS = (4, 10) if QUICK else (2000, 500)


class Block(nn.Module):
    """Attention to what came before and a perceptron for each place, each with a way around it."""

    def __init__(self):
        self.norm1 = nn.LayerNorm(WIDTH, bias=False)
        self.attend = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attended = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.LayerNorm(WIDTH, bias=False)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def attention(self, x):
        q, k, v = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in self.attend(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attended(y.transpose(1, 2).flatten(-2, -1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(self.widen(self.norm2(x)).gelu())


class Gpt(nn.Module):
    def __init__(self, alphabet):
        self.tokens = nn.Embedding(alphabet, WIDTH)
        self.places = nn.Parameter(tw.zeros(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        # GPT-2's first values: what is added to the residual stream starts smaller.
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                is_residual = name.endswith(("attended.weight", "narrow.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * LAYERS) ** 0.5 if is_residual else 0.02)

    def forward(self, characters):
        x = self.tokens(characters) + self.places
        for block in self.blocks:
            x = block(x)
        # The embedding's table is used once more: a character is likely if its row is close.
        return self.norm(x).linear(self.tokens.weight)


class Windows(tw.utils.data.Dataset):
    """A text from every place on: CONTEXT characters, and the same moved by one."""

    def __init__(self, codes):
        self.codes = codes

    def __len__(self):
        return len(self.codes) - CONTEXT

    def __getitem__(self, i):
        return tw.tensor(self.codes[i : i + CONTEXT]), tw.tensor(self.codes[i + 1 : i + CONTEXT + 1])


tw.manual_seed(1337)
text = open(sys.argv[1] if len(sys.argv) > 1 else __file__, encoding="utf-8").read()
alphabet = sorted(set(text))
codes = [alphabet.index(c) for c in text]
cut = int(0.9 * len(codes))
model = Gpt(len(alphabet))
print(f"{model.num_parameters()} parameters, {len(alphabet)} different characters")

matrices = [p for p in model.parameters() if p.ndim > 1]
scales = [p for p in model.parameters() if p.ndim == 1]
groups = [{"params": matrices}, {"params": scales, "weight_decay": 0.0}]
optimizer = tw.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
warm = max(STEPS // 20, 1)
cosine = tw.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS - warm, eta_min=1e-4)


def loss(x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(0, 1))


def evaluate():
    batches = tw.utils.data.DataLoader(Windows(codes[cut:]), batch_size=BATCH, shuffle=True, drop_last=True)
    losses = [loss(x, y).item() for (x, y), _ in zip(batches, range(20))]
    return {"validation": sum(losses) / len(losses)}


tw.train.Trainer(
    model,
    optimizer,
    tw.utils.data.DataLoader(Windows(codes[:cut]), batch_size=BATCH, shuffle=True, drop_last=True),
    steps=STEPS,
    schedule=tw.optim.lr_scheduler.Warmup(cosine, warm, start=1e-5),
    clip_norm=1.0,
    evaluate=evaluate,
    evaluate_every=250,
    jit=True,
).fit(loss)


@tw.jit
@tw.no_grad
def following(context, last):
    scores = model(context)[0].index_select(0, last)
    return tw.random_categorical(tw.random_key(), scores / 0.8, 1)


# Always a whole context, filled up at the end, where causal attention does not look: one trace serves all lengths.
written = [0]
for _ in range(LETTERS):
    seen = written[-CONTEXT:]
    context = tw.tensor([seen + [0] * (CONTEXT - len(seen))])
    written.append(int(following(context, tw.tensor([len(seen) - 1]))))
print("".join(alphabet[c] for c in written))
