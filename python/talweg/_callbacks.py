"""Python functions that a graph calls while it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import _native
from ._checked import type_error
from ._native import Tensor


class ShapeDtypeStruct(NamedTuple):
    """Shape and element type of a tensor that does not exist yet.

    >>> tw.ShapeDtypeStruct((2, 3), tw.float32).shape
    (2, 3)
    """

    shape: tuple[int, ...]
    dtype: Any


_Types = tuple[tuple[Any, tuple[int, ...]], ...]


def _type(of: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    if not (hasattr(of, "shape") and hasattr(of, "dtype")):
        e = f"{name}: a result is described by something with shape and dtype, such as ShapeDtypeStruct or a tensor"
        raise type_error(f"{e}, not {type(of).__name__}")
    return _native.dtype(of.dtype), tuple(int(n) for n in of.shape)


def _form(result: Any, name: str) -> tuple[_Types, Callable[[list[Tensor]], Any]]:
    """Types of the results, and how a call returns them."""
    if result is None:
        return (), lambda outs: None
    if isinstance(result, (list, tuple)) and not isinstance(result, ShapeDtypeStruct):
        kind = type(result)
        return tuple(_type(r, name) for r in result), lambda outs: kind(outs)
    return (_type(result, name),), lambda outs: outs[0]


@functools.lru_cache(maxsize=256)
def _op(
    f: Callable[..., Any], types: _Types, gradient: Callable[..., Any] | None, vmap_method: str, named: str
) -> _native.CustomOp:
    kernel = f
    if not types:
        # A run has results: that it happened is one.
        def kernel(*args: Tensor) -> int:
            f(*args)
            return 0

        types = ((_native.dtype("uint8"), ()),)
    return _native.CustomOp(named, kernel, list(types), None, gradient, None, vmap_method)


def _called(
    of: str,
    f: Callable[..., Any],
    result: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    gradient: Callable[..., Any] | None,
    vmap_method: str | None,
    ordered: bool,
) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    if not callable(f):
        raise type_error(f"{of}: expected a function, not {type(f).__name__}")
    if kwargs:
        f = functools.partial(f, **kwargs)
    types, back = _form(result, of)
    name = getattr(f, "__name__", None) or type(f).__name__
    method = "sequential" if vmap_method is None else vmap_method
    return _op(f, types, gradient, method, f"{of}({name})")(list(args), ordered), back


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str | None = None,
    gradient: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Any:
    """The result of a Python function, as part of a graph: in eager code, ``jit``, ``grad``, ``vmap``, sessions.

    The function gets a tensor on the host for each of ``args`` (NumPy takes them as they are) and returns arrays of
    the announced shapes and types. It must be pure: it may run once for several equal calls, or not at
    all if the result is unused. Its exceptions are raised where the value is read.

    ``vmap_method`` says how ``vmap`` calls it: ``"sequential"`` (the default) once for each example,
    ``"expand_dims"`` once with the batch dimension first (of size 1 where an argument has none), ``"broadcast_all"``
    once with the batch dimension of every argument.

    Without ``gradient`` differentiating it is an error. ``gradient(inputs, outputs, gradients)`` gets lists of tensors
    and returns a gradient for each input, ``None`` for zero; it may use tensor code and other callbacks.

    Calls with one function object share a compiled plan: define the function outside of the loop.

    >>> import numpy as np
    >>> def sinc(x):
    ...     return np.sinc(x)
    >>> x = tw.tensor([0.0, 0.5])
    >>> tw.jit(lambda x: tw.pure_callback(sinc, x, x) * 2)(x)
    tensor([2.0000, 1.2732])
    """
    outs, back = _called("pure_callback", callback, result_shape_dtypes, args, kwargs, gradient, vmap_method, False)
    return back(outs)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    ordered: bool = True,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function for its side effect: once per execution, in program order.

    In eager code it is called at once, in a jitted function each time that runs, whether or not the result is used.
    A ``Session`` calls it where its result is fetched; in the body of ``cond``, ``scan`` or ``while_loop`` the result
    must be used, or it is an error. It has no gradient; values that only it uses need none. ``ordered=False`` is accepted: the order is kept all the same.

    >>> seen = []
    >>> step = tw.jit(lambda x: (tw.io_callback(lambda v: seen.append(v.item()), None, x.sum()), x * 2)[1])
    >>> step(tw.ones(2)), step(tw.ones(2) * 2), seen
    (tensor([2., 2.]), tensor([4., 4.]), [2.0, 4.0])
    """
    outs, back = _called("io_callback", callback, result_shape_dtypes, args, kwargs, None, vmap_method, True)
    return back(outs)


__all__ = ["ShapeDtypeStruct", "io_callback", "pure_callback"]
