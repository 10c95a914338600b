"""Functions with a custom backward pass."""

import functools

from .. import _native
from .._checked import type_error, value_error
from .._native import Tensor
from .._state import enable_grad, no_grad
from ..errors import GradientError

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What ``forward`` leaves for ``backward``; attributes may be added."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self._saved, self._outputs, self._plain = (), None, ()
        self._fills = True

    def save_for_backward(self, *tensors):
        """Keeps tensors, or ``None``, for ``saved_tensors``."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise type_error(
                    f"save_for_backward: expected tensors or None, not {type(t).__name__}; other objects are attributes of ctx"
                )
        self._saved = tensors

    save_for_forward = save_for_backward

    @property
    def saved_tensors(self):
        """The tensors that were saved."""
        # Results are numbers: the record of a result must not keep itself alive.
        return tuple(self._outputs[t] if type(t) is int else t for t in self._saved)

    def mark_non_differentiable(self, *tensors):
        """Says that results have no gradient."""
        self._plain = tensors

    def mark_dirty(self, *tensors):
        """Not there: values never change, so a function returns what it computes."""
        raise GradientError(_native.located("mark_dirty: return a new tensor from forward instead of changing an argument in place"))

    def set_materialize_grads(self, value):
        """Whether ``backward`` gets zeros (the default) or ``None`` for results without a gradient."""
        self._fills = value


BackwardCFunction = FunctionCtx


def _is_in(x, tensors):
    return any(x is t for t in tensors)


def _fitted(name, g, x):
    """A gradient in the type of its tensor: summed over what was broadcast."""
    if g is None:
        return None
    g = _native.tensor(g) if not isinstance(g, Tensor) else g
    if tuple(g.shape) != tuple(x.shape):
        extra = len(g.shape) - len(x.shape)
        fits = extra >= 0 and all(a == b or b == 1 for a, b in zip(tuple(g.shape)[extra:], x.shape))
        if not fits:
            raise GradientError(
                _native.located(f"{name}: backward returned a gradient of shape {list(g.shape)} for a tensor of shape {list(x.shape)}")
            )
        axes = [*range(extra), *(i + extra for i, b in enumerate(x.shape) if b == 1 and g.shape[i + extra] != 1)]
        g = g.sum(axis=axes).reshape(tuple(x.shape))
    return g if g.dtype == x.dtype else g.astype(x.dtype)


class Function:
    """A function with a custom backward pass: subclasses define ``forward`` and ``backward``.

    ``forward(ctx, *args)`` computes without a record, on real values; or ``forward(*args)`` and
    ``setup_context(ctx, inputs, output)``. ``backward(ctx, *grads)`` returns a gradient, or ``None``, for each argument;
    its ops can be differentiated again. Inside ``jit``, ``vmap`` and the like both are traced, and ``forward`` once more
    for ``backward``.

    >>> class Exp(tw.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = tw.tensor(0.0, requires_grad=True)
    >>> Exp.apply(x).backward()
    >>> x.grad
    tensor(1.)
    """

    def __init__(self, *_args, **_kwargs):
        raise type_error(f"{type(self).__name__}: call {type(self).__name__}.apply(...), not the class")

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the results."""
        raise NotImplementedError("forward of an autograd.Function is not defined")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Leaves in ``ctx`` what ``backward`` needs, where ``forward`` takes no ``ctx``."""
        raise NotImplementedError("setup_context of an autograd.Function is not defined")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Computes the gradients of the arguments from those of the results."""
        raise NotImplementedError("backward of an autograd.Function is not defined")

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Not used: products with the Jacobian are derived from ``backward``."""
        raise NotImplementedError("jvp of an autograd.Function is not used: it is derived from backward")

    @classmethod
    def _run(cls, args, needs):
        """``forward``: the context and the results."""
        ctx = FunctionCtx(needs)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                return ctx, cls.forward(ctx, *args)
            out = cls.forward(*args)
            cls.setup_context(ctx, args, out)
            return ctx, out

    @classmethod
    def _back(cls, ctx, args, types, grads):
        """``backward``: a gradient or ``None`` for each argument that is a tensor. ``types``: those of the results."""
        if ctx._fills:
            grads = [_native.zeros(t[0], dtype=t[1]) if g is None and t else g for g, t in zip(grads, types)]
        rule = cls.backward if cls.backward is not Function.backward else getattr(cls, "vjp", cls.backward)
        found = rule(ctx, *grads)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(found) < len(args) or any(g is not None for g in found[len(args) :]):
            e = f"{cls.__name__}: backward returned {len(found)} gradients for {len(args)} arguments"
            raise GradientError(_native.located(e))
        return [_fitted(cls.__name__, g, x) for g, x in zip(found, args) if isinstance(x, Tensor)]

    @classmethod
    def apply(cls, *args):
        """Calls the function."""
        if _native.autograd_is_tracing() or any(isinstance(a, Tensor) and a.is_symbolic for a in args):
            return cls._traced(args)
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx, out = cls._run(args, needs)
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        has_grad = [_has_gradient(ctx, y) for y in outs]
        if not (_native.is_grad_enabled() and any(needs) and any(has_grad)):
            return out
        positions = [i for i, g in enumerate(has_grad) if g]
        numbers = {id(outs[i]): i for i in positions if not _is_in(outs[i], args)}
        ctx._saved = tuple(numbers.get(id(t), t) for t in ctx._saved)
        types = [_type(y) for y in outs]
        # Results must not be kept alive by their own record.
        ctx._plain = ()

        def backward(results, grads):
            given = [None] * len(types)
            ctx._outputs = dict(zip(positions, results))
            for i, g in zip(positions, grads):
                given[i] = g
            try:
                return cls._back(ctx, args, types, given)
            finally:
                ctx._outputs = None

        made = _native.autograd_function([outs[i] for i in positions], [a for a in args if isinstance(a, Tensor)], backward)
        for i, y in zip(positions, made):
            if _is_in(outs[i], args):
                outs[i] = y
            else:
                outs[i]._become(y)
        return _like(out, outs)

    @classmethod
    def _traced(cls, args):
        """The same in a graph: both passes are traced."""
        at = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        inexact = [_is_inexact(args[i]) for i in at]
        needs = tuple(isinstance(a, Tensor) and _is_inexact(a) for a in args)
        seen = {}

        def filled(tensors):
            every = list(args)
            for i, t in zip(at, tensors):
                every[i] = t
            return tuple(every)

        def forward(*tensors):
            ctx, out = cls._run(filled(tensors), needs)
            outs = list(out) if isinstance(out, (tuple, list)) else [out]
            seen.update(out=out, rest=[None if isinstance(y, Tensor) else y for y in outs])
            seen["at"] = [i for i, y in enumerate(outs) if isinstance(y, Tensor)]
            seen["plain"] = [not _has_gradient(ctx, y) for y in outs]
            return [outs[i] for i in seen["at"]]

        def rule(tensors, results, grads):
            every = filled(tensors)
            ctx, out = cls._run(every, needs)
            outs = list(out) if isinstance(out, (tuple, list)) else [out]
            given, grads = [None] * len(outs), iter(grads)
            for i, y in zip(seen["at"], results):
                given[i] = next(grads) if _is_inexact(y) else None
            found = cls._back(ctx, every, [_type(y) for y in outs], given)
            return [_native.zeros_like(x) if g is None else g for g, x, is_float in zip(found, tensors, inexact) if is_float]

        made = _native.custom_gradient(forward, rule, tuple(args[i] for i in at))
        outs = list(seen["rest"])
        for i, y in zip(seen["at"], made):
            outs[i] = y.detach() if seen["plain"][i] else y
        return _like(seen["out"], outs)


def _type(y):
    """What zeros for a result are made of."""
    return (tuple(y.shape), y.dtype) if isinstance(y, Tensor) and _is_inexact(y) else None


def _has_gradient(ctx, y):
    return isinstance(y, Tensor) and _is_inexact(y) and not _is_in(y, ctx._plain)


def _is_inexact(t):
    return t.dtype.is_floating_point or t.dtype.is_complex


def _like(out, outs):
    """Results in the form in which ``forward`` returned them."""
    if isinstance(out, (tuple, list)):
        return tuple(outs)
    return outs[0]


def once_differentiable(backward):
    """A ``backward`` whose gradients cannot be differentiated again: that is an error.

    >>> class Twice(tw.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @tw.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = tw.tensor(1.0, requires_grad=True)
    >>> Twice.apply(x).backward()
    >>> x.grad
    tensor(2.)
    """

    @functools.wraps(backward)
    def once(ctx, *grads):
        with no_grad():
            found = backward(ctx, *grads)
        causes = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not _native.is_grad_enabled() or not causes:
            return found
        several = list(found) if isinstance(found, (tuple, list)) else [found]
        with enable_grad():
            made = [_refusing(g, causes) if isinstance(g, Tensor) else g for g in several]
        return tuple(made) if isinstance(found, (tuple, list)) else made[0]

    return once


def _refusing(g, causes):
    def refuse(_results, _grads):
        e = "the backward pass of this function is marked once_differentiable: it cannot be differentiated again"
        raise GradientError(_native.located(e))

    return _native.autograd_function([g], causes, refuse)[0]
