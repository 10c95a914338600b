"""Image captioning: a convolutional encoder and a transformer decoder. The images hold one or two of the built-in
digits; captions are of the kind "a seven and a two", "a pair of sevens", "an eight alone"."""

import os

import numpy as np

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

QUICK = "TALWEG_QUICK" in os.environ
LENGTH, WIDTH = 6, 64
# The first ends a caption, fills it up and stands before it.
NAMES = "zero one two three four five six seven eight nine".split()
WORDS = ["", "a", "an", "pair", "of", "and", "alone", *NAMES, *(n + ("es" if n == "six" else "s") for n in NAMES)]


def scenes(count, seed):
    """Images of 28 rows and 56 columns, and what is in them."""
    images, labels = (np.array(t) for t in digits(2 * count, seed))
    images, captions = np.concatenate([images[::2], images[1::2]], axis=2), []
    for i, (left, right) in enumerate(zip(labels[::2], labels[1::2])):
        first, second = (f"{'an' if d == 8 else 'a'} {NAMES[d]}" for d in (left, right))
        if i % 3 == 0:
            images[i, :, 28:] = 0
            captions.append(f"{first} alone")
        else:
            captions.append(f"a pair of {WORDS[17 + left]}" if left == right else f"{first} and {second}")
    return tw.tensor(images), captions


def numbers(caption):
    codes = [0, *(WORDS.index(w) for w in caption.split())]
    return codes + [0] * (LENGTH + 1 - len(codes))


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
    )


class Captioner(nn.Module):
    def __init__(self):
        self.eye = nn.Sequential(block(1, 16), block(16, 32), block(32, WIDTH))
        self.places = nn.Parameter(tw.randn(3 * 7, WIDTH) * 0.02)  # where in the image something was seen
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.positions = nn.Parameter(tw.randn(LENGTH, WIDTH) * 0.02)  # where in the caption a word stands
        layer = nn.TransformerDecoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.out = nn.Linear(WIDTH, len(WORDS))

    def forward(self, images, words):
        seen = self.eye(images.float().unsqueeze(1) / 255).flatten(2).transpose(1, 2) + self.places
        return self.out(self.decoder(self.words(words) + self.positions, seen, tgt_is_causal=True))

    def write(self, images):
        """Captions, each word the likeliest after those before it."""
        words = np.zeros((len(images), LENGTH), "int64")
        for i in range(1, LENGTH):
            words[:, i] = np.asarray(self(images, tw.tensor(words))[:, i - 1].argmax(-1))
        return [" ".join(WORDS[w] for w in row[1:] if w) for row in words]


tw.manual_seed(0)
model = Captioner()
images, captions = scenes(128 if QUICK else 15_000, seed=0)
codes = tw.tensor([numbers(c) for c in captions])
loader = DataLoader((images, codes[:, :-1], codes[:, 1:]), batch_size=64, shuffle=True, drop_last=True)
epochs = 1 if QUICK else 6
optimizer = tw.optim.AdamW(model.parameters())


def loss(images, words, following):
    return nn.functional.cross_entropy(model(images, words).flatten(0, 1), following.flatten(0, 1))


tw.train.Trainer(
    model,
    optimizer,
    loader,
    epochs=epochs,
    schedule=tw.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * len(loader)),
    jit=True,
).fit(loss)
model.eval()
unseen, answers = scenes(20 if QUICK else 500, seed=1)
with tw.no_grad():
    written = model.write(unseen)
print(f"{sum(a == b for a, b in zip(written, answers))} of {len(answers)} captions are right in every word")
for caption, answer in list(zip(written, answers))[:3]:
    print(f"{caption!r}, which is {answer!r}")
