"""A multilayer perceptron: 784-256-128-10 on Fashion-MNIST, or on the built-in digits if that is not installed. A run
stopped with Ctrl-C resumes where it was.

python mlp.py [folder for checkpoints]
"""

import os
import sys

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits, fashion_mnist

QUICK = "TALWEG_QUICK" in os.environ


def images(train):
    try:
        if QUICK:
            raise FileNotFoundError
        return fashion_mnist(train)
    except (OSError, tw.Error):
        return digits(20_000 if train and not QUICK else 1_000, seed=0 if train else 1)


tw.manual_seed(0)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
)
train, test = images(True), images(False)
epochs = 1 if QUICK else 12


def scores(images):
    return model(images.float() / 255)


def evaluate():
    accuracy = tw.metrics.Accuracy()
    for images, labels in DataLoader(test, batch_size=500):
        accuracy.update(scores(images), labels)
    return {"accuracy": accuracy.value()}


loader = DataLoader(train, batch_size=100, shuffle=True)
optimizer = tw.optim.Adam(model.parameters())
trainer = tw.train.Trainer(
    model,
    optimizer,
    loader,
    epochs=epochs,
    schedule=tw.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, epochs * len(loader)),
    evaluate=evaluate,
    watch="accuracy",
    maximize=True,
    checkpoints=sys.argv[1] if len(sys.argv) > 1 else None,
    jit=True,
)
if len(sys.argv) > 1:
    trainer.resume()
history = trainer.fit(lambda images, labels: nn.functional.cross_entropy(scores(images), labels))
print(history)
