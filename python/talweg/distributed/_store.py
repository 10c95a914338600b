"""The parameter store of ``talweg launch --servers``: tables that all workers share, and the steps they are in."""

from collections.abc import Callable, Sequence
from typing import Any

from .. import _native
from .._checked import checked, type_error, value_error
from .._native import Tensor

__all__ = ["Table", "clock", "staleness", "step", "wait"]


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

    def __init__(
        self, values: Any, update: Callable[..., Any] | None = None, state: Sequence[float] = (), by_rows: bool = False
    ) -> None:
        if update is not None and not callable(update):
            raise type_error(f"Table: update is {type(update).__name__}, not a function of the values and what was pushed")
        if update is None and len(state):
            raise value_error("Table: without an update nothing keeps a state")
        self._native = _native.Table(values, update, list(state), by_rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape; the first axis counts the rows."""
        return self._native.shape()

    @checked
    def push(self, x: Any, rows: Any = None) -> None:
        """Adds to this step's updates: ``x`` is like the whole table, or like the rows that are named."""
        self._native.push(x, _listed(rows))

    @checked
    def pull(self, rows: Any = None) -> Tensor:
        """Its values, or those of the rows that are named, as fresh as the job's consistency demands."""
        return self._native.pull(_listed(rows))

    def __repr__(self) -> str:
        return f"Table(shape={self.shape})"


def _listed(rows: Any) -> Any:
    return rows.tolist() if hasattr(rows, "tolist") else rows


def clock() -> None:
    """Ends this worker's step: what it has pushed counts from now on. An optimizer's step in the store ends one too."""
    _native.store_clock()


def wait() -> None:
    """Waits until every step so far would survive the loss of a server."""
    _native.store_wait()


def step() -> int:
    """The step of the parameter store that this worker is in: 0 at first, more if it takes the place of one that was lost.

    A loop of one's own begins there: ``for step in range(tw.distributed.step(), steps)``.
    """
    return _native.store_step()


def staleness() -> list[int]:
    """How many reads of the store were 0, 1, 2… steps ahead of the slowest worker in what they saw; the last counts all
    beyond. Empty if the process is alone."""
    return _native.store_staleness()
