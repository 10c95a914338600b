"""Functions of functions: gradients, batching, compilation.

Functions are called with stand-ins for their tensors, so that Python's ``if`` and ``while`` cannot
look at values; use ``cond``, ``while_loop`` and ``scan``, or ``backward()``, which needs no stand-ins.
"""

import functools

from . import _native
from ._checked import check, type_error, value_error


def value_and_grad(f, argnums=0, has_aux=False):
    """A function that returns ``f``'s value and its gradient with respect to the chosen arguments.

    Arguments may be tensors or containers of them; gradients have the same form. With ``has_aux``,
    ``f`` returns a pair of which only the first part is differentiated.

    >>> import talweg as tw
    >>> value, slope = tw.value_and_grad(lambda x: (x * x).sum())(tw.tensor([1.0, 2.0]))
    >>> value.item(), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    single = isinstance(argnums, int)
    numbers = [argnums] if single else list(argnums)

    @functools.wraps(f)
    def both(*args, **kwargs):
        value, grads = _native.value_and_grad(f, args, kwargs, numbers, has_aux)
        return value, grads[0] if single else tuple(grads)

    return both


def grad(f, argnums=0, has_aux=False):
    """A function that returns ``f``'s gradient with respect to the chosen arguments.

    >>> import talweg as tw
    >>> tw.grad(lambda x: x**3)(tw.tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def jvp(f, primals, tangents):
    """``f``'s result, and how it changes as its arguments move along ``tangents``.

    >>> import talweg as tw
    >>> y, dy = tw.jvp(lambda x: x * x, (tw.tensor(3.0),), (tw.tensor(1.0),))
    >>> y.item(), dy.item()
    (9.0, 6.0)
    """
    return _native.jvp(f, tuple(primals), tuple(tangents))


def jacobian(f):
    """A function that returns the Jacobian of ``f``, a function of one tensor.

    >>> import talweg as tw
    >>> tw.jacobian(lambda x: x * x)(tw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return functools.wraps(f)(lambda x: _native.jacobian(f, x, False))


def hessian(f):
    """A function that returns the Hessian of ``f``, a scalar function of one tensor.

    >>> import talweg as tw
    >>> tw.hessian(lambda x: (x**3).sum())(tw.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return functools.wraps(f)(lambda x: _native.jacobian(f, x, True))


def vmap(f, in_axes=0, out_axes=0):
    """A function that applies ``f`` to each member of a batch at once.

    ``in_axes`` says which axis of each argument counts the members, ``None`` that all share it.

    >>> import talweg as tw
    >>> tw.vmap(lambda x: x.sum())(tw.ones(3, 4)).tolist()
    [4.0, 4.0, 4.0]
    """

    @functools.wraps(f)
    def mapped(*args):
        axes = [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
        if len(axes) != len(args):
            raise value_error(f"vmap: {len(args)} arguments, but in_axes has {len(axes)}")
        return _native.vmap(f, args, axes, out_axes)

    return mapped


def jit(f=None, **settings):
    """A function that is traced once for each key, compiled and replayed.

    The key is what it reads from its environment: types and structure of the arguments, numbers and strings
    among them, the mode of each module it asks (``train``, ``eval``), ``autocast``, ``no_grad``, the ``device``
    scope and ``requires_grad`` of the variables it reads. Variables are read at each call, those it assigns are
    assigned, random numbers are drawn anew. Everything else is frozen as it was when traced: other tensors of
    a closure, attributes, Python's control flow.

    Gradients flow through the results of a function that assigns nothing; ``backward`` then runs it once more. In
    inference, ``no_grad`` saves that record.

    >>> import talweg as tw
    >>> double = tw.jit(lambda x: x * 2)
    >>> double(tw.ones(2)).tolist(), double.traces
    ([2.0, 2.0], 1)
    """
    if settings:
        raise type_error(f"jit has no setting {next(iter(settings))!r}")
    if f is None:
        return jit
    return functools.update_wrapper(_native.Jit(f), f)


def checkpoint(f, *args):
    """``f(*args)``, whose inner values are computed again for the gradient instead of being kept.

    >>> import talweg as tw
    >>> x = tw.tensor([1.0, 1.0], requires_grad=True)
    >>> tw.checkpoint(lambda x: x.exp().sum(), x).backward()
    >>> x.grad.shape
    (2,)
    """
    return _native.checkpoint(f, *args)


def custom_gradient(f, rule=None):
    """A function with a gradient of its own.

    ``rule(inputs, outputs, gradients)`` gets lists of tensors and returns a gradient for each input.

    >>> clip = custom_gradient(lambda x: x.clamp(-1.0, 1.0), lambda xs, ys, gs: gs)
    """
    if rule is None:
        return lambda rule: custom_gradient(f, rule)
    return functools.wraps(f)(lambda *args: _native.custom_gradient(f, rule, args))


check(globals(), ["checkpoint", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vmap"])
