"""An LSTM classifies handwritten digits, reading one row of pixels per time step."""

import os

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

QUICK = "TALWEG_QUICK" in os.environ


class Reader(nn.Module):
    def __init__(self, hidden):
        self.lstm = nn.LSTM(28, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 10)

    def forward(self, images):
        states, _ = self.lstm(images.float() / 255)
        return self.out(states[:, -1])


tw.manual_seed(0)
model = Reader(32 if QUICK else 128)
train, test = digits(320 if QUICK else 20_000), digits(100 if QUICK else 2_000, seed=1)
loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
epochs = 1 if QUICK else 8
optimizer = tw.optim.Adam(model.parameters())


def evaluate():
    accuracy = tw.metrics.Accuracy()
    for images, labels in DataLoader(test, batch_size=500):
        accuracy.update(model(images), labels)
    return {"accuracy": accuracy.value()}


trainer = tw.train.Trainer(
    model,
    optimizer,
    loader,
    epochs=epochs,
    schedule=tw.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, epochs * len(loader)),
    clip_norm=1.0,  # 28 steps back in time: a rare long gradient must not throw the weights off
    evaluate=evaluate,
    jit=True,
)
print(trainer.fit(lambda images, labels: nn.functional.cross_entropy(model(images), labels)))
