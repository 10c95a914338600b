"""Jacobians, Hessians and products with them, at a point: ``f(f, inputs)``. See ``tw.func`` for functions of functions.

>>> tw.autograd.functional.jacobian(lambda x: x * x, tw.tensor([1.0, 2.0])).tolist()
[[2.0, 0.0], [0.0, 4.0]]
"""

from collections.abc import Callable
from typing import Any

from .. import _native, func
from .._checked import check, type_error, value_error
from .._native import Tensor
from .._state import enable_grad
from ..errors import GradientError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _several(what, name, given):
    """A tuple of tensors, and whether it was one tensor."""
    if isinstance(given, Tensor):
        return (given,), True
    if not isinstance(given, (tuple, list)) or not all(isinstance(x, Tensor) for x in given):
        raise type_error(f"{what}: {name} must be a tensor or a tuple of tensors, not {type(given).__name__}")
    return tuple(given), False


class _Point:
    """Inputs that a function is differentiated for, and its results there."""

    def __init__(self, what, f, inputs, create_graph):
        self.what, self.create_graph = what, create_graph
        self.inputs, self.is_one = _several(what, "inputs", inputs)
        self.xs = _native.autograd_tracked([x if create_graph else x.detach() for x in self.inputs])
        with enable_grad():
            given = [x.clone() for x in self.xs]
            out = f(*given)
        self.outs, self.is_one_out = _several(what, "the result of the function", out)

    def vector(self, name, v, like, is_one):
        """A vector in the form of other tensors."""
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise value_error(f"{self.what}: {name} may be left out only where there is one number for it")
            return [_native.ones_like(like[0].detach())]
        given, _ = _several(self.what, name, v)
        if len(given) != len(like) or any(tuple(a.shape) != tuple(b.shape) for a, b in zip(given, like)):
            shapes = [list(x.shape) for x in like]
            raise value_error(f"{self.what}: {name} has shapes {[list(x.shape) for x in given]}, but {shapes} are needed")
        return list(given)

    def pull(self, outs, cotangents, xs, strict):
        """Gradients; what nothing depends on is zeros, or an error."""
        with enable_grad():
            found = _native.autograd_pull(outs, cotangents, xs)
        if strict and None in found:
            e = f"{self.what}: with strict=True the result must depend on every input, but not on input {found.index(None)}"
            raise GradientError(_native.located(e))
        return [_native.zeros_like(x.detach()) if g is None else g for g, x in zip(found, xs)]

    def done(self, tensors, is_one):
        """Results, with a record only if it was asked for."""
        if self.create_graph:
            tensors = _native.autograd_settled(list(tensors), self.xs)
        else:
            tensors = [t.detach() for t in tensors]
        return tensors[0] if is_one else tuple(tensors)


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result of a function, and the product of a vector with its Jacobian.

    >>> y, g = tw.autograd.functional.vjp(lambda x: x * x, tw.tensor([1.0, 3.0]), tw.tensor([1.0, 10.0]))
    >>> g.tolist()
    [2.0, 60.0]
    """
    p = _Point("vjp", func, inputs, create_graph)
    found = p.pull(list(p.outs), p.vector("v", v, p.outs, p.is_one_out), p.xs, strict)
    return p.done(p.outs, p.is_one_out), p.done(found, p.is_one)


def _along(p, v, strict):
    """The product of the Jacobian with a vector: the gradient of a gradient, which is linear in its cotangent."""
    us = _native.autograd_tracked([_native.zeros_like(y.detach()) for y in p.outs])
    with enable_grad():
        found = _native.autograd_pull(list(p.outs), us, p.xs)
    pairs = [(g, t) for g, t in zip(found, v) if g is not None]
    if strict and None in found:
        p.pull(list(p.outs), us, p.xs, True)
    return p.pull([g for g, _ in pairs], [t for _, t in pairs], us, False)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result of a function, and the product of its Jacobian with a vector.

    >>> y, dy = tw.autograd.functional.jvp(lambda x: x * x, tw.tensor([1.0, 3.0]), tw.tensor([1.0, 10.0]))
    >>> dy.tolist()
    [2.0, 60.0]
    """
    p = _Point("jvp", func, inputs, create_graph)
    moved = _along(p, p.vector("v", v, p.inputs, p.is_one), strict)
    return p.done(p.outs, p.is_one_out), p.done(moved, p.is_one_out)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function: for each result and each input a tensor with the shapes of both.

    ``vectorize`` changes nothing: rows are always computed together.

    >>> tw.autograd.functional.jacobian(lambda x, y: x * y, (tw.tensor(2.0), tw.tensor(3.0)))
    (tensor(3.), tensor(2.))
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise value_error(f"jacobian: strategy must be 'reverse-mode' or 'forward-mode', not {strategy!r}")
    p = _Point("jacobian", func, inputs, create_graph)
    if strict:
        p.pull(list(p.outs), [_native.ones_like(y.detach()) for y in p.outs], p.xs, True)
    rows = [_rows(p, y) for y in p.outs]
    rows = [p.done(r, p.is_one) for r in rows]
    return rows[0] if p.is_one_out else tuple(rows)


def _rows(p, y):
    """The Jacobian of one result, for each input."""
    shapes = [(*y.shape, *x.shape) for x in p.xs]
    if not y.numel():
        return [_native.zeros(s, dtype=y.dtype) for s in shapes]
    with enable_grad():
        found = func._over(lambda c: p.pull([y], [c], p.xs, False), func._basis(y.detach()), None)
        return [Tensor.reshape(g, s) for g, s in zip(found, shapes)]


def _slopes(what, f, inputs):
    """A function that returns the gradients of a scalar function."""
    _, is_one = _several(what, "inputs", inputs)

    def slopes(*xs):
        p = _Point(what, f, xs, True)
        if not p.is_one_out or p.outs[0].numel() != 1:
            raise value_error(f"{what}: the function must return one number")
        found = p.pull(list(p.outs), [_native.ones_like(p.outs[0].detach())], p.xs, False)
        held.append(p.outs[0])
        return found[0] if is_one else tuple(found)

    held = []
    slopes.held = held
    return slopes


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a scalar function: for each pair of inputs a tensor with the shapes of both.

    >>> tw.autograd.functional.hessian(lambda x: (x**3).sum(), tw.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(_slopes("hessian", func, inputs), inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The value of a scalar function, and the product of a vector with its Hessian.

    >>> y, h = tw.autograd.functional.vhp(lambda x: (x**3).sum(), tw.tensor([1.0, 2.0]), tw.tensor([1.0, 1.0]))
    >>> h.tolist()
    [6.0, 12.0]
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict, vjp)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The value of a scalar function, and the product of its Hessian with a vector.

    >>> y, h = tw.autograd.functional.hvp(lambda x: (x**3).sum(), tw.tensor([1.0, 2.0]), tw.tensor([1.0, 1.0]))
    >>> h.tolist()
    [6.0, 12.0]
    """
    return _hessian_product("hvp", func, inputs, v, create_graph, strict, jvp)


def _hessian_product(what, f, inputs, v, create_graph, strict, product):
    slopes = _slopes(what, f, inputs)
    given, is_one = _several(what, "inputs", inputs)
    if v is None and (len(given) != 1 or given[0].numel() != 1):
        raise value_error(f"{what}: v may be left out only where there is one number for it")
    v = _native.ones_like(given[0].detach()) if v is None else v
    _, found = product(slopes, inputs, v, create_graph, strict)
    value = slopes.held[0]
    return (value if create_graph else value.detach()), found


check(globals(), __all__)
