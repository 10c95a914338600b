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

Under ``talweg launch --servers`` there is the parameter store as well: ``Table``, ``clock``, ``wait``.
"""

import atexit

from . import _native
from ._native import Group
from ._checked import check, checked, type_error, value_error


def rank():
    """The rank of this worker; 0 in a single process."""
    return _native.worker_rank()


def world_size():
    """The number of workers; 1 in a single process."""
    return _native.worker_count()


def is_available():
    """True: collectives are always available.

    >>> import talweg as tw
    >>> tw.distributed.is_available()
    True
    """
    return True


def is_initialized():
    """True in a process of a job with several workers.

    >>> import talweg as tw
    >>> tw.distributed.is_initialized()
    False
    """
    return world_size() > 1


def get_rank(group=None):
    """The number of this process among all, or in a group.

    >>> import talweg as tw
    >>> tw.distributed.get_rank()
    0
    """
    return rank() if group is None else group.rank


def get_world_size(group=None):
    """The number of processes, or of those in a group.

    >>> import talweg as tw
    >>> tw.distributed.get_world_size()
    1
    """
    return world_size() if group is None else group.size


def shard(batch):
    """This worker's shard of a batch: a slice of the first axis.

    Shards differ by at most one row. The optimizer's next step weights this worker's gradients by its number of rows, so
    that workers with unequal shards take the step of one process. A worker without a row gets the first one, with
    weight 0. Dropout of a tensor with these rows draws the numbers that one process would draw for them.
    """
    first, end = _native.worker_part(len(batch))
    return batch[first:end]


def meet(give):
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


def new_group(ranks, group=None):
    """The group of some ranks of a group (default: all workers); this worker must be one of them.

    Only members have to call it.
    """
    return _native.group_part(_of(group), list(ranks))


def split_group(color, key=0, group=None):
    """The group of all ranks with the same ``color``, ordered by ``key``, then by rank; all ranks must call it."""
    return _native.group_split(_of(group), color, key)


def all_reduce(x, op="sum", group=None, wire="exact"):
    """The sum, ``mean``, ``prod``, ``max`` or ``min`` over ranks, on every rank.

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
    """The tensors of all ranks, concatenated along ``axis``, on every rank; ``wire`` as in ``all_reduce``."""
    return _native.group_all_gather(_of(group), x, axis, wire)


def broadcast(x, src, group=None):
    """The tensor of rank ``src``, on every rank; the other ranks' tensors state the type."""
    return _native.group_broadcast(_of(group), x, src)


def all_to_all(x, split_axis=0, concat_axis=0, group=None):
    """Part ``i`` along ``split_axis`` goes to rank ``i``; received parts are concatenated along ``concat_axis``."""
    return _native.group_all_to_all(_of(group), x, split_axis, concat_axis)


def send(x, dst, group=None):
    """Sends a tensor to rank ``dst``, which must receive it.

    The result is a scalar zero. Add it to the loss to receive the gradient of the sent tensor.
    """
    return _native.group_send(_of(group), x, dst)


def recv(like, src, group=None):
    """The tensor that rank ``src`` sends; ``like`` states the type.

    If ``like`` requires a gradient, the gradient of the result is sent back, and the sender must request it.
    """
    return _native.group_recv(_of(group), like, src)


def barrier(group=None):
    """Returns when every rank of the group has called it."""
    _native.group_barrier(_of(group))


class Table:
    """Values in the parameter store that all workers share: rows of float32, of which any can be read and changed.

    >>> import talweg as tw
    >>> counts = tw.distributed.Table(tw.zeros(3, 2))
    >>> counts.push([[1, 2], [3, 4.0]], rows=[2, 0])
    >>> tw.distributed.clock()
    >>> counts.pull(rows=[1, 2]).tolist()
    [[0.0, 0.0], [1.0, 2.0]]

    Every worker creates the same tables in the same order; the first one sets the initial ``values``. Pushed values
    count when their step ends (``clock``); a read is as fresh as the job's consistency model demands.

    Pushed values are added, or go through ``update(values, pushed, *state)``. It returns the new values, or a tuple of
    the new values and state arrays, which start with the numbers of ``state``. It is traced once and runs on the servers,
    so it may close over numbers and tensors, but not over variables. It sees the whole table, or with ``by_rows`` some
    rows at a time; then rows can be pushed:

    >>> def adagrad(values, pushed, squares):
    ...     squares = squares + pushed.square()
    ...     return values - 0.5 * pushed / squares.sqrt(), squares
    >>> weights = tw.distributed.Table(tw.ones(4), adagrad, state=[0], by_rows=True)
    >>> weights.push([2.0], rows=[1])
    >>> tw.distributed.clock()
    >>> weights.pull().tolist()
    [1.0, 0.5, 1.0, 1.0]

    Under ``bsp`` and ``backup:B``, whole tables pushed in one step are summed over the workers and make one update. Rows
    make one update per worker. A single process keeps its tables in its own memory.
    """

    def __init__(self, values, update=None, state=(), by_rows=False):
        if update is not None and not callable(update):
            raise type_error(f"Table: update is {type(update).__name__}, not a function of the values and what was pushed")
        if update is None and len(state):
            raise value_error("Table: without an update nothing keeps a state")
        self._native = _native.Table(values, update, list(state), by_rows)

    @property
    def shape(self):
        """Its shape; the first axis counts the rows."""
        return self._native.shape()

    @checked
    def push(self, x, rows=None):
        """Adds to this step's updates; ``x`` has the shape of the whole table, or of the given rows."""
        self._native.push(x, _listed(rows))

    @checked
    def pull(self, rows=None):
        """The values, or those of the given rows, as fresh as the job's consistency model demands."""
        return self._native.pull(_listed(rows))

    def __repr__(self):
        return f"Table(shape={self.shape})"


def _listed(rows):
    return rows.tolist() if hasattr(rows, "tolist") else rows


def clock():
    """Ends this worker's step: its pushed values count from now on. An optimizer step in the store also ends one."""
    _native.store_clock()


def wait():
    """Waits until every step so far would survive the loss of a server."""
    _native.store_wait()


def step():
    """This worker's step in the parameter store: 0 at first, more for a replacement worker.

    A custom loop starts there: ``for step in range(tw.distributed.step(), steps)``.
    """
    return _native.store_step()


def staleness():
    """The number of store reads that were 0, 1, 2… steps ahead of the slowest worker; the last entry counts all beyond.
    Empty in a single process."""
    return _native.store_staleness()


def _of(group):
    return _native.group_world() if group is None else group


__all__ = [
    "Group",
    "Table",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "clock",
    "get_rank",
    "get_world_size",
    "is_available",
    "is_initialized",
    "meet",
    "new_group",
    "rank",
    "recv",
    "reduce",
    "reduce_scatter",
    "send",
    "shard",
    "split_group",
    "staleness",
    "step",
    "wait",
    "world_size",
]

# A program without a Trainer says how far it has come when it ends.
atexit.register(_native.worker_leave)

check(globals(), __all__)
