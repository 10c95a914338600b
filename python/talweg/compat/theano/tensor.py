"""``theano.tensor``: symbolic inputs and functions of expressions.

>>> import talweg.compat.theano.tensor as T
>>> x = T.dmatrix("x")
>>> T.dot(x, x.T).eval({x: [[1.0, 2.0]]}).tolist()
[[5.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import _native
from ..._native import Tensor
from .expression import Expression, Input, apply, grad

__all__ = ["Expression", "arange", "concatenate", "dot", "eq", "grad", "neq", "nnet", "stack", "switch"]

_KINDS = {"b": "int8", "i": "int32", "l": "int64", "f": "float32", "d": "float64", "": "float64"}
_RANKS = {"scalar": 0, "vector": 1, "matrix": 2, "row": 2, "col": 2, "tensor3": 3, "tensor4": 4}


def _input(kind: str, rank: int) -> Callable[..., Input]:
    def make(name: str | None = None, dtype: str | None = None) -> Input:
        return Input(dtype or _KINDS[kind], rank, name)

    return make


for _prefix in _KINDS:
    for _name, _rank in _RANKS.items():
        globals()[_prefix + _name] = _input(_prefix, _rank)
        __all__.append(_prefix + _name)


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else _native.tensor(np.asarray(x))


def _elementwise(method: str) -> Callable[..., Expression]:
    def f(*args: Any) -> Expression:
        return apply(lambda *t: getattr(Tensor, method)(*map(_tensor, t)), *args)

    return f


# Theano's name, and the method of tensors.
_ELEMENTWISE = dict.fromkeys("exp log log1p expm1 sqrt tanh sin cos tan abs sign floor ceil round maximum minimum erf".split())
_ELEMENTWISE |= {"sqr": "square", "abs_": "abs", "sgn": "sign", "inv": "reciprocal", "isnan": "is_nan", "pow": "pow"}
_ELEMENTWISE |= {"zeros_like": "zeros_like", "ones_like": "ones_like", "clip": "clamp"}
for _name, _method in _ELEMENTWISE.items():
    globals()[_name] = _elementwise(_method or _name)
    __all__.append(_name)


def _reduction(method: str) -> Callable[..., Expression]:
    def f(x: Any, axis: Any = None, keepdims: bool = False) -> Expression:
        def rule(t: Tensor) -> Tensor:
            axes = tuple(range(t.ndim)) if axis is None else axis
            return getattr(t, method)(axes, keepdims)

        return apply(rule, x)

    return f


_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}
for _name, _method in _REDUCTIONS.items():
    globals()[_name] = _reduction(_method)
    setattr(Expression, _name, globals()[_name])
    __all__.append(_name)


def argmax(x: Any, axis: int | None = None) -> Expression:
    """The index of the largest element."""
    return apply(lambda t: t.flatten().argmax(0) if axis is None else t.argmax(axis), x)


def dot(a: Any, b: Any) -> Expression:
    """The product of matrices and vectors."""

    def rule(a: Any, b: Any) -> Tensor:
        a, b = _tensor(a), _tensor(b)
        if a.ndim == 0 or b.ndim == 0:
            return a * b
        left, right = (a.unsqueeze(0) if a.ndim == 1 else a), (b.unsqueeze(1) if b.ndim == 1 else b)
        out = left.matmul(right)
        out = out.squeeze(-1) if b.ndim == 1 else out
        return out.squeeze(0) if a.ndim == 1 else out

    return apply(rule, a, b)


def eq(a: Any, b: Any) -> Expression:
    """1 where two expressions are equal."""
    return apply(lambda a, b: _tensor(a) == b, a, b)


def neq(a: Any, b: Any) -> Expression:
    """1 where two expressions differ."""
    return apply(lambda a, b: _tensor(a) != b, a, b)


def switch(condition: Any, a: Any, b: Any) -> Expression:
    """``a`` where a condition holds, else ``b``."""
    return apply(lambda c, a, b: Tensor.where(c != 0, _tensor(a), _tensor(b)), condition, a, b)


def arange(*args: Any) -> Expression:
    """Numbers in steps; the bounds may be expressions."""
    return apply(lambda *a: _native.arange(*(int(k) for k in a)), *args)


def concatenate(parts: Sequence[Any], axis: int = 0) -> Expression:
    """Expressions one after the other."""
    return apply(lambda *t: Tensor.concat([_tensor(p) for p in t], axis), *parts)


def stack(parts: Sequence[Any], axis: int = 0) -> Expression:
    """Expressions along a new axis."""
    return apply(lambda *t: Tensor.stack([_tensor(p) for p in t], axis), *parts)


def _method(name: str, rule: Callable[..., Any]) -> None:
    setattr(Expression, name, lambda self, *args, **kwargs: apply(lambda t: rule(t, *args, **kwargs), self))


_method("flatten", lambda t, ndim=1: t.reshape((*t.shape[: ndim - 1], -1)))
_method("reshape", lambda t, shape, ndim=None: t.reshape(tuple(shape)))
_method("ravel", lambda t: t.flatten())
setattr(Expression, "argmax", argmax)
setattr(Expression, "dot", dot)


class nnet:
    """``theano.tensor.nnet``."""

    sigmoid = staticmethod(_elementwise("sigmoid"))
    softplus = staticmethod(_elementwise("softplus"))
    ultra_fast_sigmoid = hard_sigmoid = staticmethod(lambda x: apply(lambda t: (t * 0.2 + 0.5).clamp(0.0, 1.0), x))

    @staticmethod
    def relu(x: Any, alpha: float = 0.0) -> Expression:
        """The positive part, and ``alpha`` times the negative one."""
        return apply(lambda t: t.maximum(t * alpha), x)

    @staticmethod
    def softmax(x: Any) -> Expression:
        """Each row as probabilities."""
        return apply(lambda t: t.softmax(-1), x)

    @staticmethod
    def binary_crossentropy(output: Any, target: Any) -> Expression:
        """The loss of probabilities, for each element."""
        return apply(lambda p, t: -(t * p.log() + (1.0 - t) * (1.0 - p).log()), output, target)

    @staticmethod
    def categorical_crossentropy(output: Any, target: Any) -> Expression:
        """The loss of rows of probabilities; targets are class numbers or probabilities."""

        def rule(p: Tensor, t: Tensor) -> Tensor:
            if t.ndim == p.ndim:
                return -(t * p.log()).sum(-1)
            return -p.log().gather(1, t.astype("int64").unsqueeze(1)).squeeze(1)

        return apply(rule, output, target)
