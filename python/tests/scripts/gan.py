"""A GAN: two optimizers, `detach` for the discriminator's step, labels of ones and zeros."""

import numpy as np
import torch
import torch.nn as nn

from start import seeded

latent_dim = 4
generator = seeded(torch, nn.Sequential(nn.Linear(latent_dim, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 2)))
discriminator = seeded(torch, nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.0), nn.Linear(16, 1), nn.Sigmoid()), 1)
adversarial_loss = torch.nn.BCELoss()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))

rng = np.random.RandomState(0)
losses = []
for step in range(30):
    angle = rng.uniform(0, 2 * np.pi, 32)
    real = torch.tensor(np.stack([np.cos(angle), np.sin(angle)], 1), dtype=torch.float32)
    valid = torch.ones(real.size(0), 1)
    fake = torch.zeros(real.size(0), 1)

    optimizer_G.zero_grad()
    z = torch.from_numpy(rng.normal(0, 1, (real.shape[0], latent_dim)).astype(np.float32))
    gen = generator(z)
    g_loss = adversarial_loss(discriminator(gen), valid)
    g_loss.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(discriminator(real), valid)
    fake_loss = adversarial_loss(discriminator(gen.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_D.step()
    losses += [g_loss.item(), d_loss.item()]
generator.eval()
losses.append(generator(torch.zeros(1, latent_dim)).abs().sum().item())
