"""Transforms under JAX's names, compilation, and custom gradients. PyTorch's are in ``func``."""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from . import _native, func
from ._checked import check, type_error, value_error
from .errors import TraceError
from .func import grad, hessian, jvp, vjp, vmap

__all__ = [
    "checkpoint", "compile", "custom_gradient", "grad", "hessian", "jacobian", "jit", "jvp", "value_and_grad", "vjp", "vmap",
]  # fmt: skip


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns ``f``'s value and its gradient with respect to the chosen arguments.

    Arguments may be tensors or containers of them; gradients have the same form. With ``has_aux``,
    ``f`` returns a pair of which only the first part is differentiated.

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


def jacobian(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``.

    >>> tw.jacobian(lambda x: x * x)(tw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return func.jacrev(f)


def jit(f: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """A function that is traced once for each key, compiled and replayed.

    The key is what it reads from its environment: types and structure of the arguments, numbers and strings
    among them, the mode of each module it asks (``train``, ``eval``), ``autocast``, ``no_grad``, the ``device``
    scope and ``requires_grad`` of the variables it reads. Variables are read at each call, those it assigns are
    assigned, random numbers are drawn again. Everything else is frozen as it was when traced: other tensors of
    a closure, attributes, Python's control flow.

    A tensor among the arguments that the function changes in place is changed for the caller. What would be lost is an
    error: a change in place of another tensor from outside that is no variable, a list or dict among the arguments that
    is changed. A tensor that is stored outside instead of being returned has no value.

    Gradients flow through the results of a function that assigns nothing; ``backward`` then runs it once more. In
    inference, ``no_grad`` saves that record.

    >>> double = tw.jit(lambda x: x * 2)
    >>> double(tw.ones(2)).tolist(), double.traces
    ([2.0, 2.0], 1)
    """
    if settings:
        raise type_error(f"jit has no setting {next(iter(settings))!r}")
    if f is None:
        return jit
    return functools.update_wrapper(_native.Jit(f), f)


def _trace(func: Any, example_inputs: Any = None, **settings: Any) -> Any:
    """PyTorch's ``torch.jit.trace`` and ``torch.jit.script``: ``jit`` of a function, ``compile`` of a module. It traces
    by itself what it is called with."""
    return compile(func) if hasattr(func, "state_dict") else jit(func)


def _as_it_is(f: Any = None, **_settings: Any) -> Any:
    """``torch.jit.ignore``, ``unused`` and ``export``: marks for a compiler of source code, which ``jit`` is not."""
    return (lambda g: g) if f is None or isinstance(f, bool) else f


jit.trace = jit.script = _trace  # type: ignore[attr-defined]
jit.ignore = jit.unused = jit.export = jit.script_if_tracing = _as_it_is  # type: ignore[attr-defined]
jit.is_scripting = lambda: False  # type: ignore[attr-defined]
jit.is_tracing = _native.autograd_is_tracing  # type: ignore[attr-defined]


def checkpoint(f: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """``f(*args)``, whose inner values are computed again for the gradient instead of being kept: PyTorch's
    ``utils.checkpoint.checkpoint``.

    >>> x = tw.tensor([1.0, 1.0], requires_grad=True)
    >>> tw.checkpoint(lambda x: x.exp().sum(), x).backward()
    >>> x.grad.shape
    talweg.Size([2])
    """
    from .utils import checkpoint as module

    return module.checkpoint(f, *args, **settings)


def custom_gradient(f: Callable[..., Any], rule: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function with a custom gradient.

    ``rule(inputs, outputs, gradients)`` gets lists of tensors and returns a gradient for each input.

    >>> clip = custom_gradient(lambda x: x.clamp(-1.0, 1.0), lambda xs, ys, gs: gs)
    """
    if rule is None:
        return lambda rule: custom_gradient(f, rule)
    return functools.wraps(f)(lambda *args: _native.custom_gradient(f, rule, args))


_BACKENDS = ("inductor", "talweg", "eager", "aot_eager", "cudagraphs")
_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class _Compiled:
    """A jitted function that runs as plain Python where a call cannot be traced."""

    def __init__(self, f, fullgraph):
        self._jitted, self._f, self._fullgraph, self._is_plain = jit(f), f, fullgraph, False
        functools.update_wrapper(self, f)

    def __call__(self, *args, **kwargs):
        if self._is_plain:
            return self._f(*args, **kwargs)
        try:
            return self._jitted(*args, **kwargs)
        except TraceError:
            if self._fullgraph or _native.autograd_is_tracing():
                raise
        # PyTorch would break the graph here.
        self._is_plain = True
        return self._f(*args, **kwargs)

    def __get__(self, obj, _class=None):
        return self if obj is None else types.MethodType(self, obj)


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function or module that is traced, compiled and replayed: ``jit`` with PyTorch's name and settings.

    A module becomes a module that shares its parameters. A function that looks at values (``if``, ``item()``, a mask as
    an index) runs as plain Python from then on, all of it; with ``fullgraph=True`` that is an error. It is called once
    more for that: what it does beside tensors, such as appending to a list, has happened already when it was traced.
    ``dynamic`` changes nothing: each shape is compiled once. ``mode`` changes nothing either. ``backend`` may be
    ``"inductor"`` or ``"talweg"``, which are the same, or ``"eager"``, which compiles nothing.

    >>> model = tw.compile(tw.nn.Linear(2, 3))
    >>> model(tw.ones(4, 2)).shape, sorted(model.state_dict())
    (talweg.Size([4, 3]), ['_orig_mod.bias', '_orig_mod.weight'])
    """
    if backend not in _BACKENDS:
        raise value_error(f"compile: there is no backend {backend!r}: expected one of {', '.join(map(repr, _BACKENDS))}")
    if mode not in _MODES:
        raise value_error(f"compile: there is no mode {mode!r}: expected one of {', '.join(map(repr, _MODES[1:]))}")
    if options:
        raise value_error(f"compile: there is no option {next(iter(options))!r}")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise type_error(f"compile takes a function or a module, not {type(model).__name__}")
    if disable or backend in ("eager", "aot_eager"):
        return model
    from . import nn

    if isinstance(model, nn.Module):
        from ._compiled import OptimizedModule

        return OptimizedModule(model, lambda f: _Compiled(f, fullgraph))
    return _Compiled(model, fullgraph)


check(globals(), ["checkpoint", "compile", "value_and_grad"])
