"""One way to make a function of the package and a method of tensors."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .._checked import _PLAIN, _translated

if TYPE_CHECKING:
    from .. import Tensor
else:
    from .._native import Tensor

# The functions of the package by name.
PUBLIC: dict[str, Any] = {}
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "axes": "dims"}


def public(
    f: Any = None, /, *, function: bool = True, method: bool = True, names: Sequence[str] = ()
) -> Callable[..., Any]:
    """Makes a function one of the package and a method of ``Tensor``, under its name and others."""
    if f is None:
        return functools.partial(public, function=function, method=method, names=names)
    call = spelled(f)
    for name in (f.__name__, *names):
        if function:
            PUBLIC[name] = call
        if method:
            setattr(Tensor, name, call)
    return f


def spelled(f: Any) -> Any:
    """The function with a first argument that becomes a tensor, ``axis`` for ``dim``, and ``out=``."""
    parameters = inspect.signature(f).parameters
    first = next(iter(parameters), None)
    has_out = "out" not in parameters

    @functools.wraps(f)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            if first == "input" and args and not isinstance(args[0], Tensor):
                args = (_native.tensor(args[0]), *args[1:])
            if not settings:
                return f(*args)
            out = settings.pop("out", None) if has_out else None
            for old, new in _SPELLINGS.items():
                if old in settings and old not in parameters and new in parameters:
                    settings[new] = settings.pop(old)
            result = f(*args, **settings)
            return result if out is None else written(out, result)
        except _PLAIN as e:
            raise _translated(f, args, e)

    return call


def written(out: Any, result: Any) -> Any:
    """The result, as the value of ``out``."""
    if isinstance(result, tuple):
        for o, r in zip(out, result):
            o.copy_(r)
        return out
    return out.copy_(result)
