"""Training on several processes, under ``talweg launch`` or another launcher.

Optimizers average gradients over the workers, or take their step in the parameter store, by
themselves; a script only has to give each worker its part of the data:

>>> import talweg as tw
>>> tw.distributed.rank(), tw.distributed.world_size()
(0, 1)
>>> tw.distributed.shard(tw.arange(4)).shape
(4,)

For model, tensor and pipeline parallelism there are collectives on tensors. They give new tensors, have
gradients (those of the sum of all ranks' losses), and are carried out where they are called; in a function
that is traced by ``tw.jit`` they run at each call of it, in the order of the program:

>>> tw.distributed.all_reduce(tw.tensor([1.0, 2.0])).tolist()
[1.0, 2.0]

Every rank of a group must call the same collectives in the same order. One that does something else, is lost
or keeps the others waiting for longer than ``TALWEG_TIMEOUT`` seconds is an error for all.
"""

from . import _native
from ._native import Group
from ._checked import check, value_error


def rank():
    """Number of this worker; 0 if the process is alone."""
    return _native.worker_rank()


def world_size():
    """How many workers were started; 1 if the process is alone."""
    return _native.worker_count()


def shard(batch):
    """This worker's part of a batch: an equal share of its first axis."""
    count, parts = len(batch), world_size()
    if count % parts:
        raise value_error(f"a batch of {count} cannot be shared equally by {parts} workers")
    size = count // parts
    return batch[rank() * size : (rank() + 1) * size]


def meet(give):
    """Between two steps, under all-reduce: lets in workers that replace lost ones.

    ``give`` is called if somebody waits and answers, as bytes, everything that decides the next
    step. A worker that is such a replacement gets these bytes and must take them over before its
    first step; everybody else gets ``None``. A loop that never calls it does without replacements.
    """
    return _native.worker_meet(give)


def new_group(ranks, group=None):
    """The group of some ranks of a group (all workers without one), of which this worker must be one.

    Only members have to call it.
    """
    return _native.group_part(_of(group), list(ranks))


def split_group(color, key=0, group=None):
    """The group of all ranks that say the same ``color``, ordered by ``key``, then by rank; all must call it."""
    return _native.group_split(_of(group), color, key)


def all_reduce(x, op="sum", group=None, wire="exact"):
    """The sum, ``mean``, ``prod``, ``max`` or ``min`` of everybody's tensor, for everybody.

    ``wire="bf16"`` or ``"int8"`` sends sums and means of float32 tensors in two or one byte an element; everybody
    ends with the same bits.
    """
    return _native.group_all_reduce(_of(group), x, op, wire)


def reduce(x, dst, op="sum", group=None):
    """The combination of everybody's tensor, for rank ``dst``; zeros for the others."""
    return _native.group_reduce(_of(group), x, dst, op)


def reduce_scatter(x, op="sum", axis=0, group=None, wire="exact"):
    """Of the combination of everybody's tensor, part ``i`` along ``axis`` for rank ``i``; ``wire`` as in ``all_reduce``."""
    return _native.group_reduce_scatter(_of(group), x, op, axis, wire)


def all_gather(x, axis=0, group=None, wire="exact"):
    """Everybody's tensors one after the other along ``axis``, for everybody; ``wire`` as in ``all_reduce``."""
    return _native.group_all_gather(_of(group), x, axis, wire)


def broadcast(x, src, group=None):
    """The tensor of rank ``src``, for everybody; the others' give the type."""
    return _native.group_broadcast(_of(group), x, src)


def all_to_all(x, split_axis=0, concat_axis=0, group=None):
    """Part ``i`` along ``split_axis`` goes to rank ``i``; what comes is joined along ``concat_axis``."""
    return _native.group_all_to_all(_of(group), x, split_axis, concat_axis)


def send(x, dst, group=None):
    """Sends a tensor to rank ``dst``, which must receive it.

    The result is a zero that stands for it: added to a loss, it brings the gradient that comes back.
    """
    return _native.group_send(_of(group), x, dst)


def recv(like, src, group=None):
    """The tensor that rank ``src`` sends; ``like`` gives the type.

    If ``like`` collects a gradient, that of the result is sent back, and the sender must ask for it.
    """
    return _native.group_recv(_of(group), like, src)


def barrier(group=None):
    """Nobody leaves before everybody has come."""
    _native.group_barrier(_of(group))


def _of(group):
    return _native.group_world() if group is None else group


__all__ = [
    "Group",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "meet",
    "new_group",
    "rank",
    "recv",
    "reduce",
    "reduce_scatter",
    "send",
    "shard",
    "split_group",
    "world_size",
]

check(globals(), __all__)
