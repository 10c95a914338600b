"""Looking inside: values that are not finite, what is compiled, names of parameters."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from . import _native
from ._checked import type_error
from ._native import Tensor


class check_numerics:
    """Checks every computed float for NaN and infinity, in the whole process: the first is a ``NumericsError`` that
    names the op and the line and column of the program that made it.

    A context manager and decorator, or a switch: ``check_numerics(True)`` counts at once, and the end of the ``with``
    block restores what was before. While it is on, programs are recompiled and run slower, because all values are kept and
    checked. A value is checked when it is computed, that is when you read it; pending assignments are computed at
    the end of the block.

    >>> try:
    ...     with tw.check_numerics():
    ...         y = tw.log(tw.zeros(1)).item()
    ... except tw.NumericsError as e:
    ...     print(str(e).split(" (")[0])
    log: the first value that is not finite is -inf
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = bool(enabled)
        self._before = _native.check_numerics(self._enabled)

    def __enter__(self) -> check_numerics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                _native.flush()
        finally:
            _native.check_numerics(self._before)

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        # As a decorator it counts while the function runs.
        _native.check_numerics(self._before)

        @functools.wraps(f)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with check_numerics(self._enabled):
                return f(*args, **kwargs)

        return inside


def _modules(f: Any, args: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """The modules that a function can see, with the names it has for them."""
    from .nn import Module

    f = getattr(f, "__wrapped__", f)
    if isinstance(f, Module):
        yield "", f
    own = getattr(f, "__self__", None)
    if isinstance(own, Module):
        yield "", own
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, f.__closure__ or ()):
            with contextlib.suppress(ValueError):  # a cell that is empty still
                if isinstance(cell.cell_contents, Module):
                    yield name, cell.cell_contents
        for name in code.co_names:
            if isinstance(found := f.__globals__.get(name), Module):
                yield name, found
    for k, a in enumerate(args):
        if isinstance(a, Module):
            yield f"argument{k}", a


def name_parameters(f: Any, args: tuple[Any, ...] = ()) -> None:
    """Names the parameters and buffers of the modules that a function uses, as ``state_dict`` does, so that graphs and
    images show ``layer1.weight``; with several modules, ``encoder.layer1.weight``."""
    found = {id(m): (name, m) for name, m in _modules(f, args)}
    for name, module in found.values():
        prefix = f"{name}." if name and len(found) > 1 else ""
        for named in (module.named_parameters, module.named_buffers):
            for path, tensor in named():
                if isinstance(tensor, Tensor):
                    _native.name_variable(tensor, prefix + path)


def explain(f: Any, stages: bool = True) -> Any:
    """What becomes of a computation: the graph as written, after each pass, and as compiled, with fused regions, the
    bytes they move, their operations, the lines of the program, and the memory.

    Of a function it is a function of the same arguments; of tensors that are not computed yet it is the text.
    ``stages=False`` leaves out the graphs before compilation.

    >>> x = tw.ones(3)
    >>> print(tw.explain((x + 1) * (x + 2), stages=False).splitlines()[0])
    == compiled for cpu
    >>> "== after" in tw.explain(lambda x: (x + 1) * 2)(x)
    True
    """
    if isinstance(f, Tensor):
        return _native.graph(f).explain(stages)
    if isinstance(f, _native.Graph):
        return f.explain(stages)
    if isinstance(f, (list, tuple)) and all(isinstance(t, Tensor) for t in f):
        return _native.graph(*f).explain(stages)
    if not callable(f):
        raise type_error(f"explain: expected a function, tensors or a graph, not {type(f).__name__}")
    from ._transforms import jit

    def explained(*args: Any, **kwargs: Any) -> str:
        name_parameters(f, args)
        traced = f if isinstance(f, _native.Jit) else jit(f)
        return traced.graph(*args, **kwargs).explain(stages)

    return explained


__all__ = ["check_numerics", "explain"]
