"""Define, then run: variables, sessions, control flow."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update as Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

class Session:
    """Runs graphs: ``run(fetches, feed_dict)`` computes tensors and carries out updates.

    All reads of variables see the values from before the run. Each combination of fetches and feeds
    is compiled once.

    >>> import talweg as tw
    >>> x = tw.placeholder("float32", [2])
    >>> tw.Session().run(x.sum(), {x: [1.0, 2.0]}).item()
    3.0"""
    def __init__(self) -> None: ...
    def __enter__(self) -> Self:
        ...
    def __exit__(self, *_exception: Any) -> None:
        ...
    def close(self) -> None:
        """Forgets what was compiled."""
    def run(self, fetches: Any, feed_dict: Mapping[Tensor, Any] | None = None) -> Any:
        """The values of ``fetches``, in their form; an update gives ``None``."""

class Variable:
    """A tensor that changes by assignment.

    ``Variable(initial)`` is a trained ``nn.Parameter``; ``trainable=False`` makes a counter or a running mean.

    >>> import talweg as tw
    >>> w = tw.Variable([1.0, 2.0])
    >>> w = w.assign(w * 2)
    >>> w.tolist()
    [2.0, 4.0]"""
    def __init__(self, initial_value: Any, trainable: bool = True, name: str = '', dtype: DTypeLike | None = None) -> None: ...

def cond(pred: Tensor, then: Any, otherwise: Callable[..., Any], *operands: Any) -> Any:
    """``then(*operands)`` where the scalar ``pred`` holds, else ``otherwise(*operands)``.

    >>> import talweg as tw
    >>> x = tw.tensor(-2.0)
    >>> tw.cond(x > 0, lambda x: x, lambda x: -x, x).item()
    2.0"""
def fori_loop(lower: int, upper: int, body: Callable[..., Any], init: Any) -> Any:
    """``value = body(i, value)`` for ``i`` from ``lower`` up to but not including ``upper``.

    >>> import talweg as tw
    >>> tw.fori_loop(0, 3, lambda i, x: x + i, tw.tensor(0)).item()
    3"""
def scan(f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` along the first axis of ``xs``: the last carry and all results.

    >>> import talweg as tw
    >>> last, all = tw.scan(lambda c, x: (c + x, c + x), tw.tensor(0), tw.arange(4))
    >>> last.item(), all.tolist()
    (6, [0, 1, 3, 6])"""
def while_loop(test: Callable[..., Any], body: Callable[..., Any], init: Any, max_trips: int = 0) -> Any:
    """Repeats ``value = body(value)`` while ``test(value)`` holds.

    Gradients flow through it: they save the value of each trip and compute the body again on the way back. More than
    ``max_trips`` trips are an error; 0 is no bound.

    >>> import talweg as tw
    >>> tw.while_loop(lambda i: i < 10, lambda i: i * 2, tw.tensor(1)).item()
    16"""
