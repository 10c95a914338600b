"""Training on several processes, under ``talweg launch`` or another launcher."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

class Group:
    """Ranks that exchange tensors: all workers, or some of them."""
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> list[int]: ...
    @property
    def size(self) -> int: ...

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
    make one update per worker. A single process keeps its tables in its own memory."""
    def __init__(self, values: Any, update: Callable[..., Tensor | tuple[Tensor, ...]] | None = None, state: Sequence[float] = ..., by_rows: bool = False) -> None: ...
    def pull(self, rows: Sequence[int] | Tensor | None = None) -> Tensor:
        """The values, or those of the given rows, as fresh as the job's consistency model demands."""
    def push(self, x: Any, rows: Sequence[int] | Tensor | None = None) -> None:
        """Adds to this step's updates; ``x`` has the shape of the whole table, or of the given rows."""
    @property
    def shape(self) -> tuple[int, ...]: ...

def all_gather(x: Tensor, axis: int | None = 0, group: Group | None = None, wire: str = 'exact') -> Tensor:
    """The tensors of all ranks, concatenated along ``axis``, on every rank; ``wire`` as in ``all_reduce``."""
def all_reduce(x: Tensor, op: str = 'sum', group: Group | None = None, wire: str = 'exact') -> Tensor:
    """The sum, ``mean``, ``prod``, ``max`` or ``min`` over ranks, on every rank.

    ``wire="bf16"`` or ``"int8"`` sends sums and means of float32 tensors in two or one byte an element; everybody
    ends with the same bits."""
def all_to_all(x: Tensor, split_axis: int = 0, concat_axis: int = 0, group: Group | None = None) -> Tensor:
    """Part ``i`` along ``split_axis`` goes to rank ``i``; received parts are concatenated along ``concat_axis``."""
def barrier(group: Group | None = None) -> None:
    """Returns when every rank of the group has called it."""
def broadcast(x: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor of rank ``src``, on every rank; the other ranks' tensors state the type."""
def clock() -> None:
    """Ends this worker's step: its pushed values count from now on. An optimizer step in the store also ends one."""
def get_rank(group: dict[str, Any] | None = None) -> int:
    """The number of this process among all, or in a group.

    >>> import talweg as tw
    >>> tw.distributed.get_rank()
    0"""
def get_world_size(group: dict[str, Any] | None = None) -> int:
    """The number of processes, or of those in a group.

    >>> import talweg as tw
    >>> tw.distributed.get_world_size()
    1"""
def is_available() -> bool:
    """True: collectives are always available.

    >>> import talweg as tw
    >>> tw.distributed.is_available()
    True"""
def is_initialized() -> bool:
    """True in a process of a job with several workers.

    >>> import talweg as tw
    >>> tw.distributed.is_initialized()
    False"""
def meet(give: Callable[[], bytes]) -> bytes | None:
    """Hands the training state to a replacement worker; call it before each step.

    ``give`` returns, as bytes, everything that decides the next step. A replacement receives these bytes from its first
    call and must restore them; every other worker receives ``None``.

    Under all-reduce ``give`` is called only when a replacement waits to be admitted; a loop that never calls ``meet``
    has no replacements. With a parameter store ``give`` is called at each step, and the store keeps the bytes; they
    need not contain the store's own values. The replacement repeats the newest step that the store has of its
    predecessor (``step()`` returns it). A loop without ``meet`` continues at the next step, with the store's values only."""
def new_group(ranks: Sequence[int], group: Group | None = None) -> Group:
    """The group of some ranks of a group (default: all workers); this worker must be one of them.

    Only members have to call it."""
def rank() -> int:
    """The rank of this worker; 0 in a single process."""
def recv(like: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor that rank ``src`` sends; ``like`` states the type.

    If ``like`` requires a gradient, the gradient of the result is sent back, and the sender must request it."""
def reduce(x: Tensor, dst: int, op: str = 'sum', group: Group | None = None) -> Tensor:
    """The combination of everybody's tensor, for rank ``dst``; zeros for the others."""
def reduce_scatter(x: Tensor, op: str = 'sum', axis: int | None = 0, group: Group | None = None, wire: str = 'exact') -> Tensor:
    """Of the combination of everybody's tensor, part ``i`` along ``axis`` for rank ``i``; ``wire`` as in ``all_reduce``."""
def send(x: Tensor, dst: int, group: Group | None = None) -> Tensor:
    """Sends a tensor to rank ``dst``, which must receive it.

    The result is a scalar zero. Add it to the loss to receive the gradient of the sent tensor."""
def shard(batch: Any) -> Any:
    """This worker's shard of a batch: a slice of the first axis.

    Shards differ by at most one row. The optimizer's next step weights this worker's gradients by its number of rows, so
    that workers with unequal shards take the step of one process. A worker without a row gets the first one, with
    weight 0. Dropout of a tensor with these rows draws the numbers that one process would draw for them."""
def split_group(color: int, key: int = 0, group: Group | None = None) -> Group:
    """The group of all ranks with the same ``color``, ordered by ``key``, then by rank; all ranks must call it."""
def staleness() -> list[int]:
    """The number of store reads that were 0, 1, 2… steps ahead of the slowest worker; the last entry counts all beyond.
    Empty in a single process."""
def step() -> int:
    """This worker's step in the parameter store: 0 at first, more for a replacement worker.

    A custom loop starts there: ``for step in range(tw.distributed.step(), steps)``."""
def wait() -> None:
    """Waits until every step so far would survive the loss of a server."""
def world_size() -> int:
    """The number of workers; 1 in a single process."""
