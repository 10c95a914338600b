"""Looking at values inside of graphs.

>>> @tw.jit
... def f(x):
...     tw.debug.print("sum {} of {x}", x.sum(), x=x)
...     return x * 2
>>> y = f(tw.ones(2))
sum 2.0 of [1.0, 1.0]
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

from ._callbacks import io_callback
from ._native import Tensor


@functools.lru_cache(maxsize=256)
def _printer(text: str, names: tuple[str, ...], count: int) -> Callable[..., None]:
    def show(*values: Tensor) -> None:
        shown = [v.item() if v.ndim == 0 else v.tolist() for v in values]
        builtins.print(text.format(*shown[:count], **dict(zip(names, shown[count:]))), flush=True)

    return show


def print(fmt: str, *args: Any, **kwargs: Any) -> None:
    """Prints when the graph runs: ``fmt.format`` of the values of tensors.

    >>> tw.debug.print("x = {}", tw.arange(3))
    x = [0, 1, 2]
    """
    io_callback(_printer(fmt, tuple(kwargs), len(args)), None, *args, *kwargs.values())


def callback(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Calls a function with the values when the graph runs; what it returns is dropped.

    >>> tw.debug.callback(lambda x: builtins.print(x.shape), tw.ones(2, 3))
    talweg.Size([2, 3])
    """
    io_callback(f, None, *args, **kwargs)


__all__ = ["callback", "print"]
