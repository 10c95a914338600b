"""Functions of functions under JAX's names, compilation, and gradients of one's own. PyTorch's are in ``func``."""

import functools

from . import _native, func
from ._checked import check, type_error
from .func import grad, hessian, jvp, vjp, vmap


def value_and_grad(f, argnums=0, has_aux=False):
    """A function that returns ``f``'s value and its gradient with respect to the chosen arguments.

    Arguments may be tensors or containers of them; gradients have the same form. With ``has_aux``,
    ``f`` returns a pair of which only the first part is differentiated.

    >>> import talweg as tw
    >>> value, slope = tw.value_and_grad(lambda x: (x * x).sum())(tw.tensor([1.0, 2.0]))
    >>> value.item(), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    both = func._grad_and_value("value_and_grad", f, argnums, has_aux)

    @functools.wraps(f)
    def swapped(*args, **kwargs):
        slope, value = both(*args, **kwargs)
        return value, slope

    return swapped


def jacobian(f):
    """A function that returns the Jacobian of ``f``.

    >>> import talweg as tw
    >>> tw.jacobian(lambda x: x * x)(tw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return func.jacrev(f)


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


check(globals(), ["checkpoint", "value_and_grad"])
