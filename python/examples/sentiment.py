"""A GRU classifies the sentiment of sentences: variable-length sequences, and a custom data set.

The sentences come from a small grammar with "not", "but" and "although", so counting words does not help.

python sentiment.py "the plot was not bad but the acting was dull"
"""

import os
import random
import sys

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, Dataset

THINGS = "plot acting music ending cast camera".split()
DEGREES = "very rather really quite".split()
DENIALS = "not never hardly".split()
KIND = "good great lovely clever moving funny".split()
UNKIND = "bad awful dull clumsy boring silly".split()
WORDS = [*THINGS, *DEGREES, *DENIALS, *KIND, *UNKIND, "the", "was", "but", "although"]
LENGTH = 16
QUICK = "TALWEG_QUICK" in os.environ


def clause(draw):
    is_kind, is_denied, has_degree = (draw.random() < 0.5 for _ in range(3))
    words = ["the", draw.choice(THINGS), "was"]
    words += [draw.choice(DENIALS)] * is_denied + [draw.choice(DEGREES)] * has_degree
    return words + [draw.choice(KIND if is_kind else UNKIND)], is_kind != is_denied


def tokens(words):
    """A word's token is its place, counted from 1; 0 fills up."""
    codes = [WORDS.index(w) + 1 for w in words]
    return tw.tensor(codes + [0] * (LENGTH - len(codes)))


class Reviews(Dataset):
    """Reviews that are made up when they are asked for, each by its number."""

    def __init__(self, seed, count):
        self.seed, self.count = seed, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        draw = random.Random(f"{self.seed} {i}")
        (a, a_kind), (b, b_kind) = clause(draw), clause(draw)
        kinds = [(a, a_kind), ([*a, "but", *b], b_kind), ([*a, "although", *b], a_kind), (["although", *a, *b], b_kind)]
        words, is_kind = draw.choice(kinds)
        return tokens(words), is_kind


class Critic(nn.Module):
    def __init__(self):
        self.words = nn.Embedding(len(WORDS) + 1, 16)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, tokens):
        _, state = self.gru(self.words(tokens), lengths=(tokens != 0).sum(1))
        return self.out(state[-1]).squeeze(-1)


tw.manual_seed(0)
model = Critic()
train, test = Reviews(0, 320 if QUICK else 5_000), Reviews(1, 100 if QUICK else 500)


def loss(tokens, kind):
    return nn.functional.binary_cross_entropy_with_logits(model(tokens), kind.float())


def evaluate():
    auc, right = tw.metrics.Auc(), 0
    for tokens, kind in DataLoader(test, batch_size=100):
        logits = model(tokens)
        auc.update(logits, kind.long())
        right += ((logits > 0) == kind).sum().item()
    return {"accuracy": right / len(test), "auc": auc.value()}


tw.train.Trainer(
    model,
    tw.optim.Adam(model.parameters(), lr=5e-3),
    DataLoader(train, batch_size=32, shuffle=True, drop_last=True),
    epochs=1 if QUICK else 3,
    evaluate=evaluate,
    jit=True,
).fit(loss)
for sentence in sys.argv[1:]:
    print(f"{sentence}: {100 * model(tokens(sentence.split()).unsqueeze(0)).sigmoid().item():.1f} % kind")
