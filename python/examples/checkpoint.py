"""How long a checkpoint keeps training waiting.

Values are never overwritten while somebody holds them, so a checkpoint holds them and a thread writes them; what changes
meanwhile is made anew instead of in place, in memory that the trainer holds ready.

``python checkpoint.py`` trains half a gigabyte of parameters, saves every 110 steps and prints how much longer than
the others the steps were before which a checkpoint was taken.
"""

import os
import statistics
import tempfile
import time

import talweg as tw
from talweg import nn

quick = "TALWEG_QUICK" in os.environ
# Each is on disk when the next is taken: otherwise that one would wait for it.
width, saves, every = (256, 3, 20) if quick else (8192, 3, 110)


class Watch(tw.train.Callback):
    """Takes the time from step to step, which is when a checkpoint is taken."""

    def __init__(self):
        self.times = []

    def on_step(self, trainer, loss):
        self.times.append(time.perf_counter())


tw.manual_seed(0)
model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
batch = tw.ones(1, width)
watch = Watch()
with tempfile.TemporaryDirectory() as folder:
    trainer = tw.train.Trainer(
        model,
        tw.optim.SGD(model.parameters()),
        [batch] * every,
        # The last is not looked at: a run waits until it is on disk.
        epochs=saves + 1,
        checkpoints=folder,
        keep_last=1,
        callbacks=[watch],
        progress=False,
        jit=True,
    )
    trainer.fit(lambda x: model(x).square().mean())

steps = [b - a for a, b in zip(watch.times, watch.times[1:])]
usual = statistics.median(steps)
gigabytes = 4 * 2 * width * width / 1e9
pauses = [max(0.0, steps[i] - usual) / gigabytes * 1e3 for i in range(every - 1, len(steps), every)]
print(f"{gigabytes:.2f} GB, a step takes {usual * 1e3:.2f} ms")
print(f"pause: {statistics.median(pauses):.1f} ms per GB, median of {saves}; of the first checkpoint {pauses[0]:.1f}")
