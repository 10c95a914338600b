"""The parameter store of ``talweg launch --servers``: tables that all workers share, and the steps they are in."""

from collections.abc import Callable, Sequence
from typing import Any

from .. import _native
from .._checked import checked, type_error, value_error
from .._native import Tensor

__all__ = ["Table", "clock", "staleness", "step", "wait"]


class Table:
    """Values in the parameter store that all workers share: rows of float32, of which any can be read and changed.

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
        """Adds to this step's updates; ``x`` has the shape of the whole table, or of the given rows."""
        self._native.push(x, _listed(rows))

    @checked
    def pull(self, rows: Any = None) -> Tensor:
        """The values, or those of the given rows, as fresh as the job's consistency model demands."""
        return self._native.pull(_listed(rows))

    def __repr__(self) -> str:
        return f"Table(shape={self.shape})"


def _listed(rows: Any) -> Any:
    return rows.tolist() if hasattr(rows, "tolist") else rows


def clock() -> None:
    """Ends this worker's step: its pushed values count from now on. An optimizer step in the store also ends one."""
    _native.store_clock()


def wait() -> None:
    """Waits until every step so far would survive the loss of a server."""
    _native.store_wait()


def step() -> int:
    """This worker's step in the parameter store: 0 at first, more for a replacement worker.

    A custom loop starts there: ``for step in range(tw.distributed.step(), steps)``.
    """
    return _native.store_step()


def staleness() -> list[int]:
    """The number of store reads that were 0, 1, 2… steps ahead of the slowest worker; the last entry counts all beyond.
    Empty in a single process."""
    return _native.store_staleness()
