"""A perceptron that knows nothing of other devices. Its train step is jitted, so that it can be cut over a mesh:

talweg launch --mesh data=2,tensor=2 --plan megatron mesh.py
talweg launch --mesh pipe=2 --plan data,microbatches=5 mesh.py
"""

import os

import talweg as tw
from talweg import nn

STEPS = 3 if "TALWEG_QUICK" in os.environ else 20


class Mlp(nn.Module):
    def __init__(self):
        self.up = nn.Linear(12, 64)
        self.down = nn.Linear(64, 5)

    def forward(self, x):
        return self.down(self.up(x).gelu())


tw.manual_seed(0)
model = Mlp()
optimizer = tw.optim.Adam(model.parameters(), lr=1e-2)


@tw.jit
def step(x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


x, y = tw.randn(15, 12), tw.randint(0, 5, (15,))
for i in range(STEPS):
    print(f"step {i:2}  loss {step(x, y).item():.6f}")
