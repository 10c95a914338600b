"""PyTorch's collectives write to the tensors they are given."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
said = []


def tell(*tensors):
    said.append([t.tolist() if isinstance(t, torch.Tensor) else t for t in tensors])


x = torch.tensor([1.0 + rank, 2.0])
tell(dist.all_reduce(x), x)
for op in (dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
    x = torch.tensor([[1 + rank, 5 - rank]])
    work = dist.all_reduce(x, op=op, async_op=True)
    work.wait()
    tell(x, work.is_completed())
x = torch.tensor([6 + rank])
dist.all_reduce(x, dist.ReduceOp.BAND)
tell(x)
x = torch.zeros(2, 3)
dist.all_reduce(x[0].add_(rank + 1))
dist.all_reduce(x[1:])
tell(x)
w = torch.full((2,), float(rank), requires_grad=True)
tell(dist.broadcast(w, src=1), w.detach(), w.requires_grad)
(w * (rank + 1)).sum().backward()
dist.all_reduce(w.grad)
w.grad /= world
tell(w.grad)
x = torch.tensor([rank + 1])
dist.reduce(x, dst=1)
tell(x if rank == 1 else None)
parts = [torch.zeros(2) for _ in range(world)]
dist.all_gather(parts, torch.tensor([rank, 10.0 * rank]))
tell(*parts)
both = torch.zeros(4)
dist.all_gather_into_tensor(both, torch.tensor([rank, 10.0 * rank]))
tell(both)
out = torch.zeros(2)
dist.reduce_scatter(out, [torch.arange(2.0) + 10 * i + rank for i in range(world)])
tell(out)
dist.reduce_scatter_tensor(out, torch.arange(4.0) * (rank + 1))
tell(out)
x = torch.zeros(2)
dist.scatter(x, [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])] if rank == 0 else None, src=0)
tell(x)
gathered = [torch.zeros(1) for _ in range(world)] if rank == 1 else None
dist.gather(torch.tensor([5.0 + rank]), gathered, dst=1)
tell(*(gathered or []))
out = torch.zeros(2, dtype=torch.int64)
dist.all_to_all_single(out, torch.arange(2) + 10 * rank)
tell(out)
out = torch.zeros(2 + rank, dtype=torch.int64)
dist.all_to_all_single(out, torch.arange(3 - rank) + 10 * rank, [1, 1] if rank == 0 else [2, 1], [1, 2] if rank == 0 else [1, 1])
tell(out)
if rank == 0:
    x = torch.tensor([7.0, 8.0])
    tell(dist.send(x, 1))
else:
    x = torch.zeros(2)
    tell(dist.recv(x, 0), x)
for n in (3, 100_000):
    mine, other = torch.full((n,), 1.0 + rank), torch.zeros(n)
    works = [dist.isend(mine, 1 - rank), dist.irecv(other, 1 - rank)]
    for work in works:
        work.wait()
    tell(other.sum())
    other.zero_()
    ops = [dist.P2POp(dist.irecv, other, 1 - rank), dist.P2POp(dist.isend, mine, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    tell(other.mean())
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank, "text": "a" * (rank + 1)})
tell(objects)
things = ["of the first", 3] if rank == 0 else [None, None]
dist.broadcast_object_list(things, src=0)
tell(things)
mine = [None]
dist.scatter_object_list(mine, ["for 0", ("for", 1)] if rank == 0 else None, src=0)
tell(mine)
group = dist.new_group([1])
x = torch.tensor([3.0])
if rank == 1:
    dist.all_reduce(x, group=group)
    dist.broadcast(x, src=1, group=group)
tell(x, dist.get_rank(group), dist.get_world_size(group))
everyone = dist.new_group([1, 0])
tell(dist.get_process_group_ranks(everyone), dist.get_world_size(dist.group.WORLD), dist.is_initialized())
dist.barrier()
print("said", said, flush=True)
dist.destroy_process_group()
