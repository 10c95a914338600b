"""The usual `DistributedDataParallel` script: sampler, clipping, accumulation in `no_sync`, sums of results."""

import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group(backend="gloo")
rank, world = dist.get_rank(), dist.get_world_size()
rng = np.random.RandomState(0)
x = torch.from_numpy(rng.normal(size=(48, 6)).astype(np.float32))
y = torch.from_numpy(rng.randint(0, 3, 48))
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
with torch.no_grad():
    for p in net.parameters():
        # Other values on each rank: those of the first count.
        p.copy_(torch.from_numpy(rng.normal(size=tuple(p.shape)).astype(np.float32)) + rank)
model = DDP(net)
data = TensorDataset(x, y)
sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=False)
loader = DataLoader(data, batch_size=16 // world, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
losses, norms = [], []
for epoch in range(3):
    sampler.set_epoch(epoch)
    for i, (a, b) in enumerate(loader):
        if epoch == 2 and i == 0:
            # Gradients of two batches, averaged once.
            with model.no_sync():
                (nn.functional.cross_entropy(model(a), b) / 2).backward()
            (nn.functional.cross_entropy(model(a), b) / 2).backward()
        else:
            loss = nn.functional.cross_entropy(model(a), b)
            loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        losses.append(total.item() / world)
correct = (model(x[rank::world]).argmax(1) == y[rank::world]).sum()
dist.all_reduce(correct)
# One that is not wrapped steps alone.
own = torch.ones(1, requires_grad=True)
alone = torch.optim.SGD([own], lr=1.0)
(own * (rank + 1)).sum().backward()
alone.step()
if rank == 0:
    torch.save(model.module.state_dict(), "ddp.pt")
dist.barrier()
print("said", [rank, losses, norms, correct.item(), own.item(), [round(v, 5) for p in net.parameters() for v in p.detach().flatten().tolist()]], flush=True)
dist.destroy_process_group()
