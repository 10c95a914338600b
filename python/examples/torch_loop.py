"""The loop of every PyTorch program: a module, a loader, an optimizer. Classifies points in two rings."""

import math

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader


class Rings(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(2, 32)
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        return self.out(self.hidden(x).relu())


tw.manual_seed(0)
label = tw.randint(0, 2, (512,))
angle, radius = tw.rand(512) * 2 * math.pi, 1.0 + label + tw.randn(512) * 0.1
points = tw.stack([radius * angle.cos(), radius * angle.sin()], axis=1)

model = Rings()
optimizer = tw.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    for x, y in DataLoader((points, label), batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")

accuracy = (model(points).argmax(1) == label).float().mean().item()
print(f"accuracy {accuracy:.3f}")
assert accuracy > 0.95
