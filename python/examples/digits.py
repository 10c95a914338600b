"""A training script without any code for distribution, for one process or many.

``python digits.py`` trains in one process. The same program becomes data parallel when it is launched:

    talweg launch --workers 2 python digits.py
    talweg launch --workers 2 --servers 2 --consistency ssp:3 python digits.py

``STEPS`` is the number of steps, ``PAUSE_MS`` lengthens each, and ``CHECKPOINTS`` names a folder to save to and to resume
from.
"""

import hashlib
import os
import time

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

steps = int(os.environ.get("STEPS", 20 if "TALWEG_QUICK" in os.environ else 500))
pause = int(os.environ.get("PAUSE_MS", 0)) / 1000
folder = os.environ.get("CHECKPOINTS")

tw.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))


def loss(images, labels):
    return nn.functional.cross_entropy(model(images.float() / 255), labels)


class Pause(tw.train.Callback):
    def on_step(self, trainer, loss):
        time.sleep(pause)


trainer = tw.train.Trainer(
    model,
    tw.optim.Adam(model.parameters()),
    DataLoader(digits(4_000), batch_size=64, shuffle=True, drop_last=True),
    steps=steps,
    callbacks=[Pause()],
    checkpoints=folder,
    save_every=20,
    jit=True,
)
if folder:
    trainer.resume()
history = trainer.fit(loss)
if history.losses:  # there is nothing left to do for a run that was over
    print(f"step {trainer.step}, loss {history.losses[-1][1]:.4f}")
weights = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
print("weights", hashlib.sha256(weights).hexdigest()[:16])
