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
    tables in its own memory."""
    def __init__(self, values: Any, update: Callable[..., Tensor | tuple[Tensor, ...]] | None = None, state: Sequence[float] = ..., by_rows: bool = False) -> None: ...
    def pull(self, rows: Sequence[int] | Tensor | None = None) -> Tensor:
        """Its values, or those of the rows that are named, as fresh as the job's consistency demands."""
    def push(self, x: Any, rows: Sequence[int] | Tensor | None = None) -> None:
        """Adds to this step's updates: ``x`` is like the whole table, or like the rows that are named."""
    @property
    def shape(self) -> tuple[int, ...]: ...

def all_gather(x: Tensor, axis: int | None = 0, group: Group | None = None, wire: str = 'exact') -> Tensor:
    """Everybody's tensors one after the other along ``axis``, for everybody; ``wire`` as in ``all_reduce``."""
def all_reduce(x: Tensor, op: str = 'sum', group: Group | None = None, wire: str = 'exact') -> Tensor:
    """The sum, ``mean``, ``prod``, ``max`` or ``min`` of everybody's tensor, for everybody.

    ``wire="bf16"`` or ``"int8"`` sends sums and means of float32 tensors in two or one byte an element; everybody
    ends with the same bits."""
def all_to_all(x: Tensor, split_axis: int = 0, concat_axis: int = 0, group: Group | None = None) -> Tensor:
    """Part ``i`` along ``split_axis`` goes to rank ``i``; what comes is joined along ``concat_axis``."""
def barrier(group: Group | None = None) -> None:
    """Nobody leaves before everybody has come."""
def broadcast(x: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor of rank ``src``, for everybody; the others' give the type."""
def clock() -> None:
    """Ends this worker's step: what it has pushed counts from now on. An optimizer's step in the store ends one too."""
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
    """True: collectives are always there.

    >>> import talweg as tw
    >>> tw.distributed.is_available()
    True"""
def is_initialized() -> bool:
    """True in a process of a job with several workers.

    >>> import talweg as tw
    >>> tw.distributed.is_initialized()
    False"""
def meet(give: Callable[[], bytes]) -> bytes | None:
    """Before each step: hands over what a worker that replaces a lost one has to know.

    ``give`` returns, as bytes, everything that decides the next step. A replacement gets these bytes from its first
    call and must take them over; everybody else gets ``None``.

    Under all-reduce ``give`` is called only when somebody waits to be let in, and a loop that never calls ``meet``
    does without replacements. With a parameter store the bytes are kept in the store with the step: ``give`` is
    called each time, and need not give what the store holds. The replacement does the newest step again that the
    store has of its predecessor (``step()`` says which), from what that one gave before it. A loop without ``meet``
    goes on at the step after, and knows nothing but what the store holds."""
def new_group(ranks: Sequence[int], group: Group | None = None) -> Group:
    """The group of some ranks of a group (all workers without one), of which this worker must be one.

    Only members have to call it."""
def rank() -> int:
    """Number of this worker; 0 if the process is alone."""
def recv(like: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor that rank ``src`` sends; ``like`` gives the type.

    If ``like`` collects a gradient, that of the result is sent back, and the sender must ask for it."""
def reduce(x: Tensor, dst: int, op: str = 'sum', group: Group | None = None) -> Tensor:
    """The combination of everybody's tensor, for rank ``dst``; zeros for the others."""
def reduce_scatter(x: Tensor, op: str = 'sum', axis: int | None = 0, group: Group | None = None, wire: str = 'exact') -> Tensor:
    """Of the combination of everybody's tensor, part ``i`` along ``axis`` for rank ``i``; ``wire`` as in ``all_reduce``."""
def send(x: Tensor, dst: int, group: Group | None = None) -> Tensor:
    """Sends a tensor to rank ``dst``, which must receive it.

    The result is a zero that stands for it: added to a loss, it brings the gradient that comes back."""
def shard(batch: Any) -> Any:
    """This worker's part of a batch: its share of the first axis.

    Shares differ by one row at most. The optimizer's next step counts this worker's gradients, those of a mean over its
    rows, by their number, so that workers with unequal shares take the step of one process. A worker for which
    there is no row gets the first one, and its gradients count nothing. Dropout of a tensor with these rows draws what
    one process draws for them."""
def split_group(color: int, key: int = 0, group: Group | None = None) -> Group:
    """The group of all ranks that say the same ``color``, ordered by ``key``, then by rank; all must call it."""
def staleness() -> list[int]:
    """How many reads of the store were 0, 1, 2… steps ahead of the slowest worker in what they saw; the last counts all
    beyond. Empty if the process is alone."""
def step() -> int:
    """The step of the parameter store that this worker is in: 0 at first, more if it takes the place of one that was lost.

    A loop of one's own begins there: ``for step in range(tw.distributed.step(), steps)``."""
def wait() -> None:
    """Waits until every step so far would survive the loss of a server."""
def world_size() -> int:
    """How many workers were started; 1 if the process is alone."""
