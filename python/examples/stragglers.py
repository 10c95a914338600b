"""What a straggler costs under each consistency model: a training loop whose steps take ``PAUSE_MS`` milliseconds, four
times as long on one worker.

    talweg launch --workers 4 --servers 1 --consistency ssp:3 python stragglers.py

``SLOW=turns`` slows a different worker in each step; ``SLOW=always`` slows the last worker in every step. The first worker
prints the loss on held-out images with the elapsed time.
"""

import os
import time

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

SLOWER = 4  # how many times longer a slow step takes
steps = int(os.environ.get("STEPS", 10 if "TALWEG_QUICK" in os.environ else 300))
pause = int(os.environ.get("PAUSE_MS", 5)) / 1000
is_always = os.environ.get("SLOW") == "always"
rank, world = tw.distributed.rank(), tw.distributed.world_size()
# Where steps are not averaged, each worker's gradient makes its own step: a smaller one.
rule = os.environ.get("TALWEG_CONSISTENCY", "")
averages = not (rule.startswith("ssp") or rule == "async")

tw.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
(unseen,) = DataLoader(digits(256, seed=1), batch_size=256)


def loss(images, labels):
    return nn.functional.cross_entropy(model(images.float() / 255), labels)


class Slow(tw.train.Callback):
    """Pauses between two steps. All workers draw the same straggler for a step."""

    def on_begin(self, trainer):
        self.began = time.monotonic()
        self.on_step(trainer, None)

    def on_step(self, trainer, value):
        turn = (trainer.step * 0x9E3779B97F4A7C15 % 2**64) >> 33
        is_slow = rank + 1 == world if is_always else turn % world == rank
        time.sleep(pause * SLOWER if is_slow else pause)
        if rank == 0 and trainer.step % 10 == 0:
            with tw.no_grad():
                print(f"{time.monotonic() - self.began:.3f} {trainer.step} {loss(*unseen).item():.4f}")


slow = Slow()
trainer = tw.train.Trainer(
    model,
    tw.optim.SGD(model.parameters(), lr=0.2 if averages else 0.2 / world),
    DataLoader(digits(4_000), batch_size=64, shuffle=True, drop_last=True),
    steps=steps,
    callbacks=[slow],
    progress=False,
)
trainer.fit(loss)
print(f"did {trainer.step} steps in {time.monotonic() - slow.began:.3f} s")
