"""Gradients of several small batches make one step; some layers are frozen, then trained at a smaller rate."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

from start import pictures, seeded


class Pictures(Dataset):
    def __init__(self, transform=None):
        self.x, self.y = pictures(60)
        self.transform = transform

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        image = torch.from_numpy(self.x[idx])
        if self.transform:
            image = self.transform(image)
        return {"image": image, "label": int(self.y[idx])}


loader = DataLoader(Pictures(transform=lambda t: (t - 0.5) / 0.5), batch_size=8, drop_last=True)
model = seeded(torch, nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 4)))
for param in model[1].parameters():
    param.requires_grad = False
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.2, momentum=0.9)
criterion, accumulation_steps, losses = nn.CrossEntropyLoss(), 3, []
for epoch in range(4):
    if epoch == 2:
        for param in model[1].parameters():
            param.requires_grad = True
        optimizer.add_param_group({"params": model[1].parameters(), "lr": 0.05})
    optimizer.zero_grad()
    for i, sample in enumerate(loader):
        loss = criterion(model(sample["image"]), sample["label"]) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
