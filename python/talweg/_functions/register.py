"""One way to make a function of the package and a method of tensors.

    @public                      # tw.twice(x), x.twice()
    def twice(input): ...

    @public(method=False)        # tw.twice(x)
    @public(function=False)      # x.twice()
    @public(names=["double"])    # under two names

The stubs of the package read these decorators: each stands on one line.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from .._checked import spelled, tensor_first, written
from .._native import Tensor

F = TypeVar("F", bound=Callable[..., Any])

# The functions of the package by name.
PUBLIC: dict[str, Any] = {}


@overload
def public(f: F, /) -> F: ...
@overload
def public(*, function: bool = True, method: bool = True, name: str = "", names: Sequence[str] = ()) -> Callable[[F], F]: ...
def public(f: Any = None, /, *, function: bool = True, method: bool = True, name: str = "", names: Sequence[str] = ()) -> Any:
    """Makes a function one of the package and a method of ``Tensor``, under its name and others.

    Its first argument becomes a tensor, ``axis`` and ``keepdims`` are other spellings of ``dim`` and ``keepdim``, and
    ``out=`` is written in place.
    """
    if f is None:
        return functools.partial(public, function=function, method=method, name=name, names=names)
    call = tensor_first(f) if method or _takes_tensor(f) else spelled(f)
    if name:
        call.__name__ = call.__qualname__ = name
    for n in (name or f.__name__, *names):
        if function:
            PUBLIC[n] = call
        if method:
            setattr(Tensor, n, call)
    return f


def _takes_tensor(f: Any) -> bool:
    return next(iter(inspect.signature(f).parameters), None) == "input"


def alias(name: str, of: str) -> None:
    """Another spelling of a function and method that are there."""
    PUBLIC[name] = PUBLIC.get(of) or written(of)
    # A staticmethod of the class must stay one.
    setattr(Tensor, name, Tensor.__dict__[of])
