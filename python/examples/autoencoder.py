"""An autoencoder compresses images of 784 pixels to 16 numbers and reconstructs them."""

import os

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits

QUICK = "TALWEG_QUICK" in os.environ
CODE = 16


class Autoencoder(nn.Module):
    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 256), nn.ReLU(), nn.Linear(256, 784), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


tw.manual_seed(0)
model = Autoencoder()
images, _ = digits(500 if QUICK else 20_000)
loader = DataLoader((images,), batch_size=100, shuffle=True)
epochs = 1 if QUICK else 20
optimizer = tw.optim.Adam(model.parameters())


def loss(images):
    x = images.float().reshape(-1, 784) / 255
    return (model(x) - x).square().mean()


tw.train.Trainer(
    model,
    optimizer,
    loader,
    epochs=epochs,
    schedule=tw.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, epochs * len(loader)),
    jit=True,
).fit(loss)
x = digits(500, seed=1)[0].float().reshape(-1, 784) / 255
error, mean = (model(x) - x).square().mean().item(), (x.mean(0) - x).square().mean().item()
print(f"{CODE} numbers an image: error {error:.4f} on 500 digits it has never seen; the mean image: {mean:.4f}")
