"""The usual guard around `DataParallel`, and names of weights with and without `module.`."""

from collections import OrderedDict

import torch
import torch.nn as nn

from start import pictures, seeded

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
x, y = pictures(32)
x, y = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
model = seeded(torch, nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4)))
if torch.cuda.device_count() > 1:
    print("Let's use", torch.cuda.device_count(), "GPUs!")
    model = nn.DataParallel(model)
model.to(device)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
losses = []
for step in range(10):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
net = model.module if isinstance(model, nn.DataParallel) else model
torch.save(net.state_dict(), "net.pt")
wrapped = nn.DataParallel(seeded(torch, nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4)), 5), device_ids=None)
state = OrderedDict(("module." + k, v) for k, v in torch.load("net.pt").items())
print(wrapped.load_state_dict(state))
losses.append(nn.functional.cross_entropy(wrapped(x.cpu()), y.cpu()).item())
