"""A variational autoencoder: the reparameterization trick, a loss of two parts."""

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F

from start import pictures, seeded


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21, self.fc22 = nn.Linear(32, 4), nn.Linear(32, 4)
        self.fc3, self.fc4 = nn.Linear(4, 32), nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


torch.manual_seed(1)
device = torch.device("cpu")
x, _ = pictures(64)
x = torch.from_numpy(np.clip(x, 0, 1)).to(device)
noise = np.random.RandomState(3)
model = seeded(torch, VAE()).to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
losses = []
for epoch in range(15):
    total = 0
    for i in range(0, len(x), 16):
        data = x[i : i + 16]
        eps = torch.from_numpy(noise.randn(16, 4).astype(np.float32))
        optimizer.zero_grad()
        recon, mu, logvar = model(data, eps)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.step()
    losses.append(total / len(x))
with torch.no_grad():
    sample = model.decode(torch.zeros(2, 4)).cpu().view(2, 1, 8, 8)
losses.append(sample.mean().item())
assert torch.randn_like(mu).shape == mu.shape
