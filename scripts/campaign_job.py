"""The Python programs of the fault campaign: a small `Trainer` run whose every piece of state matters.

`RECIPE` names what is added to the plain run, `STEPS` how long it is, `CHECKPOINTS` where it saves, `PAUSE_MS` how
long a step lasts at least. SIGUSR1 makes the process hang in its own code while its heartbeats go on. Each rank ends
with one line `result {...}`: the step, why the run stopped, the best score, the learning rate, and hashes of parameters and
buffers.
"""

import hashlib
import json
import os
import signal
import time

import talweg as tw
from talweg import nn, optim
from talweg.utils.data import DataLoader, digits

RECIPES = ("plain", "onecycle", "cosine", "plateau", "patience", "batchnorm", "dropout", "uneven")


def hang(*_):
    """A worker whose own code does not return."""
    print("hangs", flush=True)
    while True:
        time.sleep(1)


def digest(tensors):
    data = b"".join(tensor.numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(data).hexdigest()[:16]


class Paced(tw.train.Callback):
    """Makes steps long enough for something to happen in them, and says how far the run is."""

    def __init__(self, seconds):
        self.seconds = seconds

    def on_step(self, trainer, loss):
        time.sleep(self.seconds)
        if trainer.step % 10 == 0:
            print(f"did step {trainer.step}, lr {trainer.optimizer.param_groups[0]['lr']:.6g}", flush=True)


def main():
    recipe, steps = os.environ.get("RECIPE", "plain"), int(os.environ.get("STEPS", 200))
    if recipe not in RECIPES:
        raise SystemExit(f"there is no recipe {recipe!r}: {', '.join(RECIPES)}")
    signal.signal(signal.SIGUSR1, hang)
    tw.manual_seed(7)
    layers = [nn.Flatten(), nn.Linear(784, 24)]
    layers += [nn.BatchNorm1d(24)] if recipe == "batchnorm" else []
    layers += [nn.ReLU()]
    layers += [nn.Dropout(0.2)] if recipe == "dropout" else []
    model = nn.Sequential(*layers, nn.Linear(24, 10))
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    schedule = {
        "onecycle": lambda: optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps),
        "cosine": lambda: optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps),
        "plateau": lambda: optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1),
    }.get(recipe, lambda: None)()
    images, labels = digits(640)
    held_out = images[:128].float() / 255, labels[:128]
    # 640 examples in batches of 57 leave 13 for the last: nothing divides either.
    loader = DataLoader((images, labels), batch_size=57 if recipe == "uneven" else 64, shuffle=True)

    def evaluate():
        return {"loss": nn.functional.cross_entropy(model(held_out[0]), held_out[1]).item()}

    watches = recipe in ("plateau", "patience")
    folder = os.environ.get("CHECKPOINTS")
    trainer = tw.train.Trainer(
        model,
        optimizer,
        loader,
        steps=steps,
        schedule=schedule,
        evaluate=evaluate if watches else None,
        evaluate_every=10 if watches else 0,
        watch="loss" if watches else None,
        patience=6 if recipe == "patience" else None,
        checkpoints=folder,
        save_every=20,
        callbacks=[Paced(int(os.environ.get("PAUSE_MS", "0")) / 1000)],
        progress=False,
        jit=recipe in ("plain", "batchnorm", "dropout"),
    )
    if folder:
        trainer.resume()
    history = trainer.fit(lambda x, y: nn.functional.cross_entropy(model(x.float() / 255), y))
    result = {
        "rank": tw.distributed.rank(),
        "step": trainer.step,
        "stop": history.stop,
        "best": history.best,
        "lr": optimizer.param_groups[0]["lr"],
        "loss": history.losses[-1][1] if history.losses else None,
        "weights": digest(model.parameters()),
        "buffers": digest(model.buffers()),
    }
    print("result", json.dumps(result), flush=True)


main()
