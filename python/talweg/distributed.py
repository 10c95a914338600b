"""Training on several processes, under ``talweg launch`` or another launcher.

Optimizers average gradients over the workers, or take their step in the parameter store, by
themselves; a script only has to give each worker its part of the data:

>>> import talweg as tw
>>> tw.distributed.rank(), tw.distributed.world_size()
(0, 1)
>>> tw.distributed.shard(tw.arange(4)).shape
(4,)
"""

from . import _native


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
        raise ValueError(f"a batch of {count} cannot be shared equally by {parts} workers")
    size = count // parts
    return batch[rank() * size : (rank() + 1) * size]


def meet(give):
    """Between two steps, under all-reduce: lets in workers that replace lost ones.

    ``give`` is called if somebody waits and answers, as bytes, everything that decides the next
    step. A worker that is such a replacement gets these bytes and must take them over before its
    first step; everybody else gets ``None``. A loop that never calls it does without replacements.
    """
    return _native.worker_meet(give)


__all__ = ["rank", "world_size", "shard", "meet"]
