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
    """Number of this worker; 0 if the process is alone."""
    return _native.worker_rank()


def world_size():
    """How many workers were started; 1 if the process is alone."""
    return _native.worker_count()


def is_available():
    """True: collectives are always there.

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
    """This worker's part of a batch: its share of the first axis.

    Shares differ by one row at most. The optimizer's next step counts this worker's gradients, those of a mean over its
    rows, by their number, so that workers with unequal shares take the step of one process. A worker for which
    there is no row gets the first one, and its gradients count nothing. Dropout of a tensor with these rows draws what
    one process draws for them.
    """
    first, end = _native.worker_part(len(batch))
    return batch[first:end]


def meet(give):
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


class Table:
    """Values in the parameter store that all workers share: rows of float32, of which any can be read and changed.

    >>> import talweg as tw
    >>> counts = tw.distributed.Table(tw.zeros(3, 2))
    >>> counts.push([[1, 2], [3, 4.0]], rows=[2, 0])
    >>> tw.distributed.clock()
    >>> counts.pull(rows=[1, 2]).tolist()
    [[0.0, 0.0], [1.0, 2.0]]

    Every worker makes the same tables in the same order; whoever is first gives the first ``values``. What is pushed
    counts when its step ends (``clock``); a read sees as much of the others' steps as the job's consistency demands.

    What is pushed is added, or goes through ``update(values, pushed, *state)``, which returns the new values, or a tuple
    of them and of the new state: arrays like the values, which begin with the numbers of ``state``. It is traced once and
    runs on the servers, so that it may use numbers and other tensors as they are then, but no variables. It is given
    the whole table, or with ``by_rows`` some rows at a time, and then rows can be pushed:

    >>> def adagrad(values, pushed, squares):
    ...     squares = squares + pushed.square()
    ...     return values - 0.5 * pushed / squares.sqrt(), squares
    >>> weights = tw.distributed.Table(tw.ones(4), adagrad, state=[0], by_rows=True)
    >>> weights.push([2.0], rows=[1])
    >>> tw.distributed.clock()
    >>> weights.pull().tolist()
    [1.0, 0.5, 1.0, 1.0]

    Whole tables that are pushed in one step are summed over the workers where these do their steps together (``bsp``,
    ``backup:B``) and update the table once; rows update it one worker's after the other's. A process that is alone has its
    tables in its own memory.
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
        """Adds to this step's updates: ``x`` is like the whole table, or like the rows that are named."""
        self._native.push(x, _listed(rows))

    @checked
    def pull(self, rows=None):
        """Its values, or those of the rows that are named, as fresh as the job's consistency demands."""
        return self._native.pull(_listed(rows))

    def __repr__(self):
        return f"Table(shape={self.shape})"


def _listed(rows):
    return rows.tolist() if hasattr(rows, "tolist") else rows


def clock():
    """Ends this worker's step: what it has pushed counts from now on. An optimizer's step in the store ends one too."""
    _native.store_clock()


def wait():
    """Waits until every step so far would survive the loss of a server."""
    _native.store_wait()


def step():
    """The step of the parameter store that this worker is in: 0 at first, more if it takes the place of one that was lost.

    A loop of one's own begins there: ``for step in range(tw.distributed.step(), steps)``.
    """
    return _native.store_step()


def staleness():
    """How many reads of the store were 0, 1, 2… steps ahead of the slowest worker in what they saw; the last counts all
    beyond. Empty if the process is alone."""
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
