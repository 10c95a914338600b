"""Training on several processes, under ``talweg launch`` or another launcher.

There are two ways to write a program for several processes. In the first, optimizers average gradients over the
workers, or take their step in the parameter store, by themselves; a script only has to give each worker its part of
the data:

>>> import talweg as tw
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
    """This worker's part of a batch: its share of the first axis.

    Shares differ by one row at most. The optimizer's next step counts this worker's gradients, those of a mean over its
    rows, by their number, so that workers with unequal shares take the step of one process. A worker for which
    there is no row gets the first one, and its gradients count nothing. Dropout of a tensor with these rows draws what
    one process draws for them.
    """
    first, end = _native.worker_part(len(batch))
    return batch[first:end]


def meet(give: Callable[[], bytes]) -> bytes | None:
    """Before each step: hands over what a worker that replaces a lost one has to know.

    ``give`` returns, as bytes, everything that decides the next step. A replacement gets these bytes from its first
    call and must take them over; everybody else gets ``None``.

    Under all-reduce ``give`` is called only when somebody waits to be let in, and a loop that never calls ``meet``
    does without replacements. With a parameter store the bytes are kept in the store with the step: ``give`` is
    called each time, and need not give what the store holds. The replacement does the newest step again that the
    store has of its predecessor (``step()`` says which), from what that one gave before it. A loop without ``meet``
    goes on at the step after, and knows nothing but what the store holds.
    """
    if not callable(give):
        raise type_error(f"meet: expected a function that gives bytes, not {type(give).__name__}")
    return _native.worker_meet(give)


__all__ = ["Group", "functional", "meet", "shard", *_collectives.__all__, *_process.__all__, *_store.__all__]

# A program without a Trainer says how far it has come when it ends.
atexit.register(_native.worker_leave)

check(globals(), ["meet", "shard", *_process.__all__, *_store.__all__])
