"""A convolutional network classifies handwritten digits: two convolutions and two linear layers."""

import os

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

QUICK = "TALWEG_QUICK" in os.environ


class Net(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, images):
        x = images.float().unsqueeze(1) / 255
        x = self.pool(self.conv1(x).relu())
        x = self.pool(self.conv2(x).relu())
        return self.fc2(self.dropout(self.fc1(x.flatten(1)).relu()))


tw.manual_seed(0)
model = Net()
optimizer = tw.optim.AdamW(model.parameters(), lr=1e-3)
images, labels = digits(256 if QUICK else 10_000)
unseen, answers = digits(100 if QUICK else 1_000, seed=1)


def evaluate():
    return {"accuracy": (model(unseen).argmax(1) == answers).float().mean()}


trainer = tw.train.Trainer(
    model,
    optimizer,
    DataLoader((images, labels), batch_size=64, shuffle=True, drop_last=True),
    epochs=1 if QUICK else 3,
    evaluate=evaluate,
    jit=True,
)
print(trainer.fit(lambda x, y: nn.functional.cross_entropy(model(x), y)))
