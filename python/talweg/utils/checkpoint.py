"""Values that are computed again for the gradient instead of being kept, with PyTorch's names.

>>> from talweg.utils.checkpoint import checkpoint
>>> x = tw.tensor([1.0, 1.0], requires_grad=True)
>>> checkpoint(lambda x: x.exp().sum(), x, use_reentrant=False).backward()
>>> x.grad.shape
talweg.Size([2])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _native
from .._checked import check, type_error, value_error

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, whose inner values are computed again for the gradient instead of being kept.

    The function is traced: Python's ``if`` cannot look at values in it. Random numbers are the same both times.
    ``use_reentrant``, ``determinism_check``, ``debug`` and ``early_stop`` change nothing: there is one way to do it.
    """
    if not callable(function):
        raise type_error(f"checkpoint: expected a function, not {type(function).__name__}")
    if context_fn is not None:
        raise value_error("checkpoint: context_fn is not supported; open the scope inside of the function")
    if not preserve_rng_state:
        raise value_error("checkpoint: preserve_rng_state=False is not supported: both runs draw the same numbers")
    return _native.checkpoint(functools.partial(function, **kwargs) if kwargs else function, *args)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """A sequence of functions, or an ``nn.Sequential``, in so many segments that are checkpointed, all but the last.

    >>> model = tw.nn.Sequential(tw.nn.Linear(2, 3), tw.nn.ReLU(), tw.nn.Linear(3, 1))
    >>> tw.utils.checkpoint.checkpoint_sequential(model, 2, tw.ones(4, 2)).shape
    talweg.Size([4, 1])
    """
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= len(functions):
        raise value_error(f"checkpoint_sequential: {segments} segments of {len(functions)} functions")
    size = len(functions) // segments

    def run(part):
        def inside(x):
            for f in part:
                x = f(x)
            return x

        return inside

    for i in range(segments - 1):
        input = checkpoint(run(functions[i * size : (i + 1) * size]), input, use_reentrant=use_reentrant, **kwargs)
    return run(functions[(segments - 1) * size :])(input)


check(globals(), __all__)
