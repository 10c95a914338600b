"""Functions of functions: gradients, batching, compilation."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

def checkpoint(f: Callable[..., Any], *args: Any) -> Any:
    """``f(*args)``, whose inner values are computed again for the gradient instead of being kept.

    >>> import talweg as tw
    >>> x = tw.tensor([1.0, 1.0], requires_grad=True)
    >>> tw.checkpoint(lambda x: x.exp().sum(), x).backward()
    >>> x.grad.shape
    (2,)"""
def custom_gradient(f: Callable[..., Any], rule: Callable[[list[Tensor], list[Tensor], list[Tensor]], Sequence[Tensor]] | None = None) -> Callable[..., Any]:
    """A function with a gradient of its own.

    ``rule(inputs, outputs, gradients)`` gets lists of tensors and returns a gradient for each input.

    >>> clip = custom_gradient(lambda x: x.clamp(-1.0, 1.0), lambda xs, ys, gs: gs)"""
def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns ``f``'s gradient with respect to the chosen arguments.

    >>> import talweg as tw
    >>> tw.grad(lambda x: x**3)(tw.tensor(2.0)).item()
    12.0"""
def hessian(f: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    """A function that returns the Hessian of ``f``, a scalar function of one tensor.

    >>> import talweg as tw
    >>> tw.hessian(lambda x: (x**3).sum())(tw.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]"""
def jacobian(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function that returns the Jacobian of ``f``, a function of one tensor.

    >>> import talweg as tw
    >>> tw.jacobian(lambda x: x * x)(tw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]"""
def jit(f: Callable[..., Any] | None = None, **settings: Any) -> Any:
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
    ([2.0, 2.0], 1)"""
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``f``'s result, and how it changes as its arguments move along ``tangents``.

    >>> import talweg as tw
    >>> y, dy = tw.jvp(lambda x: x * x, (tw.tensor(3.0),), (tw.tensor(1.0),))
    >>> y.item(), dy.item()
    (9.0, 6.0)"""
def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function that returns ``f``'s value and its gradient with respect to the chosen arguments.

    Arguments may be tensors or containers of them; gradients have the same form. With ``has_aux``,
    ``f`` returns a pair of which only the first part is differentiated.

    >>> import talweg as tw
    >>> value, slope = tw.value_and_grad(lambda x: (x * x).sum())(tw.tensor([1.0, 2.0]))
    >>> value.item(), slope.tolist()
    (5.0, [2.0, 4.0])"""
def vmap(f: Callable[..., Any], in_axes: int | Sequence[int | None] | None = 0, out_axes: int = 0) -> Callable[..., Any]:
    """A function that applies ``f`` to each member of a batch at once.

    ``in_axes`` says which axis of each argument counts the members, ``None`` that all share it.

    >>> import talweg as tw
    >>> tw.vmap(lambda x: x.sum())(tw.ones(3, 4)).tolist()
    [4.0, 4.0, 4.0]"""
