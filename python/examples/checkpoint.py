"""How long a checkpoint pauses training.

A checkpoint holds the values, and a thread writes them. Values are never overwritten while they are held; updates in the
meantime go to memory that the trainer has reserved.

``python checkpoint.py`` trains half a gigabyte of parameters and saves now and then, each time when the previous
checkpoint is on disk. It prints how much longer the step after a checkpoint takes than those before it.
"""

import os
import statistics
import tempfile
import time

import talweg as tw
from talweg import nn

quick = "TALWEG_QUICK" in os.environ
width, saves = (256, 2) if quick else (8192, 6)
# Of the steps from one checkpoint to the next, the last few are those that it is compared with.
every, quiet = 30, 9


class Watch(tw.train.Callback):
    """Takes the time from step to step, which is when a checkpoint is taken."""

    def __init__(self, folder):
        self.folder, self.times = folder, []

    def on_step(self, trainer, loss):
        last = trainer.step // every * every
        if trainer.step % every == every - quiet - 1 and last > 0:
            until = time.perf_counter() + 60
            while not any(name.endswith(f"{last:010}.safetensors") for name in os.listdir(self.folder)):
                if time.perf_counter() > until:
                    raise TimeoutError(f"the checkpoint of step {last} is not on disk after a minute")
                time.sleep(0.01)
        self.times.append(time.perf_counter())


tw.manual_seed(0)
model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
batch = tw.ones(1, width)
with tempfile.TemporaryDirectory() as folder:
    watch = Watch(folder)
    trainer = tw.train.Trainer(
        model,
        tw.optim.SGD(model.parameters()),
        [batch] * every,
        # The first comes on top, and the last is not looked at: a run waits until it is on disk.
        epochs=saves + 2,
        checkpoints=folder,
        keep_last=1,
        callbacks=[watch],
        progress=False,
        jit=True,
    )
    trainer.fit(lambda x: model(x).square().mean())

# Step n + 1 took from the nth time to the next; a checkpoint is taken at its beginning.
steps = [b - a for a, b in zip(watch.times, watch.times[1:])]
gigabytes = 4 * 2 * width * width / 1e9
pauses = []
for i in range(every - 1, len(steps), every):
    usual = statistics.median(steps[i - quiet : i])
    pauses.append(max(0.0, steps[i] - usual) / gigabytes * 1e3)
first, rest = pauses[0], pauses[1:]
print(f"{gigabytes:.2f} GB, a step takes {usual * 1e3:.2f} ms")
print(f"pause: {statistics.median(rest):.1f} ms per GB, median of {len(rest)} ({min(rest):.1f} to {max(rest):.1f})")
print(f"the first checkpoint: {first:.1f} ms per GB")
