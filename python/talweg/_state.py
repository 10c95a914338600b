"""Gradients on and off."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING

from . import _native
from ._native import is_grad_enabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self


class _Grad:
    """A scope, and a decorator, in which results record or do not record what they depend on."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._before = []

    def __enter__(self) -> Self:
        self._before.append(_native.set_grad_enabled(self._on))
        return self

    def __exit__(self, *_exception: Any) -> None:
        _native.set_grad_enabled(self._before.pop())

    def __call__(self, f):
        if inspect.isgeneratorfunction(f):

            @functools.wraps(f)
            def parts(*args, **kwargs):
                return (yield from self._resumed(f(*args, **kwargs)))

            return parts

        @functools.wraps(f)
        def inside(*args, **kwargs):
            with _Grad(self._on):
                return f(*args, **kwargs)

        return inside

    def _resumed(self, generator):
        """The generator, which runs in the scope while what it yields is used outside of it."""
        resume, value = generator.send, None
        while True:
            try:
                with _Grad(self._on):
                    made = resume(value)
            except StopIteration as end:
                return end.value
            try:
                resume, value = generator.send, (yield made)
            except GeneratorExit:
                with _Grad(self._on):
                    generator.close()
                raise
            except BaseException as e:
                resume, value = generator.throw, e


def no_grad(f: Callable[..., Any] | None = None) -> Any:
    """A scope or decorator in which no gradient is prepared.

    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """
    scope = _Grad(False)
    return scope if f is None else scope(f)


def enable_grad(f: Callable[..., Any] | None = None) -> Any:
    """A scope or decorator in which gradients are prepared, inside of ``no_grad``.

    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad(), tw.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True
    """
    scope = _Grad(True)
    return scope if f is None else scope(f)


inference_mode = no_grad


class set_grad_enabled(_Grad):
    """Turns gradients on or off at once; as a scope, until its end.

    >>> with tw.set_grad_enabled(False):
    ...     tw.is_grad_enabled()
    False
    """

    def __init__(self, on: bool) -> None:
        super().__init__(on)
        self._before.append(_native.set_grad_enabled(on))

    def __enter__(self) -> Self:
        return self


__all__ = ["no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "is_grad_enabled"]
