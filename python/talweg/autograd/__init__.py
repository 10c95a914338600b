"""Gradients of what a program has computed, with PyTorch's names.

>>> x = tw.tensor(3.0, requires_grad=True)
>>> (slope,) = tw.autograd.grad(x**3, x, create_graph=True)
>>> (curvature,) = tw.autograd.grad(slope, x)
>>> slope.item(), curvature.item()
(27.0, 18.0)
"""

from collections.abc import Sequence

from .. import _native
from .._checked import check, type_error, value_error
from .._native import Tensor
from .._state import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from ..errors import GradientError
from . import forward_ad, function, functional, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .grad_mode import inference_mode
from .hooks import register_hook as _register_hook
from .hooks import register_post_accumulate_grad_hook as _register_post_accumulate_grad_hook

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def Variable(data: Tensor, requires_grad: bool = False) -> Tensor:
    """The tensor itself, as PyTorch's since 0.4; with ``requires_grad`` a leaf of its value.

    >>> tw.autograd.Variable(tw.ones(2), requires_grad=True).requires_grad
    True
    """
    found = (data if isinstance(data, Tensor) else _native.tensor(data)).detach()
    return found.clone().requires_grad_() if requires_grad else found


def _several(what, tensors):
    """A list of tensors from one or several."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise type_error(f"{what}: expected a tensor or a sequence of tensors, not {type(t).__name__}")
    return tensors


def _seeds(what, outputs, grads):
    if grads is None:
        return [None] * len(outputs)
    grads = [grads] if isinstance(grads, Tensor) else list(grads)
    if len(grads) != len(outputs):
        raise value_error(f"{what}: {len(outputs)} outputs, but {len(grads)} gradients for them")
    return grads


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of outputs with respect to inputs: leaves, computed tensors, parameters of modules.

    Outputs that are no scalars need ``grad_outputs``. With ``create_graph`` the gradients can be differentiated again.
    An input that the outputs do not depend on is an error, unless ``allow_unused`` (its gradient is ``None``) or
    ``materialize_grads`` (zeros). Without ``retain_graph``, which is ``create_graph`` unless given, the outputs cannot
    be differentiated again. ``is_grads_batched``: ``grad_outputs`` have a batch dimension first, and so have the results.

    >>> x = tw.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * x
    >>> tw.autograd.grad(y.sum(), [x, y])
    (tensor([2., 4.]), tensor([1., 1.]))
    """
    if not only_inputs:
        raise value_error("autograd.grad: only_inputs=False is not there, in PyTorch neither; use backward()")
    if allow_unused is False and materialize_grads:
        raise value_error("autograd.grad: materialize_grads=True needs allow_unused=True or None")
    outputs, inputs = _several("autograd.grad", outputs), _several("autograd.grad", inputs)
    seeds = _seeds("autograd.grad", outputs, grad_outputs)
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        if any(s is None for s in seeds):
            raise value_error("autograd.grad: is_grads_batched=True needs grad_outputs for every output")

        def one(*rows):
            found = _native.autograd_grad(outputs, list(rows), inputs, True, create_graph)
            _check_used(found, allow_unused or materialize_grads)
            return [_native.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]

        return tuple(_native.vmap(one, tuple(seeds), [0] * len(seeds), 0))
    found = _native.autograd_grad(outputs, seeds, inputs, retain, create_graph)
    _check_used(found, allow_unused or materialize_grads)
    if materialize_grads:
        found = [_native.zeros_like(x.detach()) if g is None else g for g, x in zip(found, inputs)]
    return tuple(found)


def _check_used(found, may_be_unused):
    for i, g in enumerate(found):
        if g is None and not may_be_unused:
            e = (
                f"autograd.grad: the outputs do not depend on input {i}: pass allow_unused=True for None in its place, or "
                "materialize_grads=True for zeros"
            )
            raise GradientError(_native.located(e))


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradients of tensors to the leaves they depend on, or to ``inputs``.

    >>> x = tw.tensor([1.0, 2.0], requires_grad=True)
    >>> tw.autograd.backward([x.sum(), (x * x).sum()])
    >>> x.grad
    tensor([3., 5.])
    """
    tensors = _several("autograd.backward", tensors)
    if inputs is not None:
        inputs = _several("autograd.backward", inputs)
        if not inputs:
            raise value_error("autograd.backward: inputs is empty")
    retain = create_graph if retain_graph is None else retain_graph
    _native.autograd_backward(tensors, _seeds("autograd.backward", tensors, grad_tensors), inputs, retain, create_graph)


Tensor.register_hook = _register_hook
Tensor.register_post_accumulate_grad_hook = _register_post_accumulate_grad_hook

check(globals(), ["backward", "grad"])
