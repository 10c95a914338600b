"""Training on several processes, under ``talweg launch`` or another launcher.

There are two ways to write a program for several processes. In the first, optimizers average gradients over the
workers, or take their step in the parameter store, by themselves; a script only has to give each worker its part of
the data:

>>> tw.distributed.rank(), tw.distributed.world_size()
(0, 1)
>>> tw.distributed.shard(tw.arange(4)).shape
talweg.Size([4])

The second is PyTorch's: a program calls ``init_process_group``, and ``nn.parallel.DistributedDataParallel`` or the
collectives of this module, which write to the tensors they are given, average gradients:

>>> x = tw.tensor([1.0, 2.0])
>>> tw.distributed.all_reduce(x)
>>> x.tolist()
[1.0, 2.0]

Model, tensor and pipeline parallelism differentiate through collectives: those of ``tw.distributed.functional`` return
new tensors and have gradients.

Every rank of a group must call the same collectives in the same order. One that does something else, is lost
or keeps the others waiting for longer than ``TALWEG_TIMEOUT`` seconds is an error for all.

Under ``talweg launch --servers`` there is the parameter store as well: ``Table``, ``clock``, ``wait``.
"""

import atexit
from collections.abc import Callable
from typing import Any

from .. import _native
from .._checked import check, type_error
from .._native import Group
from . import _collectives, _process, _store, functional
from ._collectives import *  # noqa: F403
from ._process import *  # noqa: F403
from ._store import *  # noqa: F403


def shard(batch: Any) -> Any:
    """This worker's shard of a batch: a slice of the first axis.

    Shards differ by at most one row. The optimizer's next step weights this worker's gradients by its number of rows, so
    that workers with unequal shards take the step of one process. A worker without a row gets the first one, with
    weight 0. Dropout of a tensor with these rows draws the numbers that one process would draw for them.
    """
    first, end = _native.worker_part(len(batch))
    return batch[first:end]


def meet(give: Callable[[], bytes]) -> bytes | None:
    """Hands the training state to a replacement worker; call it before each step.

    ``give`` returns, as bytes, everything that decides the next step. A replacement receives these bytes from its first
    call and must restore them; every other worker receives ``None``.

    Under all-reduce ``give`` is called only when a replacement waits to be admitted; a loop that never calls ``meet``
    has no replacements. With a parameter store ``give`` is called at each step, and the store keeps the bytes; they
    need not contain the store's own values. The replacement repeats the newest step that the store has of its
    predecessor (``step()`` returns it). A loop without ``meet`` continues at the next step, with the store's values only.
    """
    if not callable(give):
        raise type_error(f"meet: expected a function that returns bytes, not {type(give).__name__}")
    return _native.worker_meet(give)


__all__ = ["Group", "functional", "meet", "shard", *_collectives.__all__, *_process.__all__, *_store.__all__]

# A program without a Trainer says how far it has come when it ends.
atexit.register(_native.worker_leave)

check(globals(), ["meet", "shard", *_process.__all__, *_store.__all__])
