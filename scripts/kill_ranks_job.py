"""The program whose ranks `kill_ranks.py` kills: a small GPT under a `Trainer` with checkpoints, on whatever mesh.

`STEPS` says how long it is, `CHECKPOINTS` where it saves, `PAUSE_MS` how long a step lasts at least. Each rank ends with
a line `weights HASH`.
"""

import hashlib
import os
import sys
import time
from pathlib import Path

import talweg as tw
from talweg import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python/examples"))
import mesh  # noqa: E402


class Paced(tw.train.Callback):
    """Makes steps long enough for something to happen in them."""

    def on_step(self, trainer, loss):
        time.sleep(int(os.environ.get("PAUSE_MS", 0)) / 1e3)


def main():
    tw.manual_seed(7)
    model = mesh.Gpt()
    optimizer = tw.optim.Adam(model.parameters(), lr=1e-3)
    words, next_words = mesh.batch("gpt")
    loader = [((words + i) % mesh.WORDS, (next_words + i) % mesh.WORDS) for i in range(4)]
    trainer = tw.train.Trainer(
        model, optimizer, loader, steps=int(os.environ["STEPS"]), checkpoints=os.environ["CHECKPOINTS"], save_every=5,
        clip_norm=1.0, jit=True, progress=False, callbacks=[Paced()],
    )

    def loss(x, y):
        scores = nn.functional.dropout(model(x), 0.1, training=True)
        return nn.functional.cross_entropy(scores, y.flatten())

    trainer.resume()
    trainer.fit(loss)
    data = b"".join(p.numpy().tobytes() for p in model.parameters())
    print(f"step {trainer.step}, weights {hashlib.sha256(data).hexdigest()[:16]}", flush=True)


main()
