"""Gradient clipping, parameters as one vector, weight normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, type_error, value_error
from ..._graph import has_grad
from ..._native import Tensor
from ..._state import no_grad
from ...errors import GradientError
from . import fusion, parametrizations, parametrize, prune, rnn, stateless
from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from .old_norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm",
    "parameters_to_vector", "remove_spectral_norm", "remove_weight_norm", "skip_init", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip


def _listed(parameters):
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The norm of all tensors as if they were one vector.

    >>> tw.nn.utils.get_total_norm([tw.tensor([3.0]), tw.tensor([4.0])]).item()
    5.0
    """
    tensors = _listed(tensors)
    if not tensors:
        return _native.tensor(0.0)
    p = float(norm_type)
    norms = Tensor.stack([t.vector_norm(p) if t.ndim else t.abs() for t in tensors])
    total = norms.vector_norm(p)
    if error_if_nonfinite and not bool(total.is_finite()):
        raise GradientError(_native.located(f"the norm of order {p} of the gradients is {total.item()}"))
    return total


def clip_grads_with_norm_(parameters: Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scales gradients by ``max_norm / total_norm`` where that is less than 1.

    >>> w = tw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grads_with_norm_([w], 1.0, tw.tensor(5.0))
    >>> w.grad.tolist()
    [0.6, 0.8]
    """
    with no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for p in _listed(parameters):
            if has_grad(p):
                p.grad = (p.grad * scale).astype(p.grad.dtype)


def clip_grad_norm_(
    parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scales gradients so that their common norm is at most ``max_norm``; returns the norm before. ``foreach`` says how
    PyTorch computes it, and changes nothing.

    >>> w = tw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_norm_([w], 1.0).item(), w.grad.tolist()
    (5.0, [0.6, 0.8])
    """
    parameters = _listed(parameters)
    if float(norm_type) == 2.0 and not error_if_nonfinite:
        if not any(map(has_grad, parameters)):
            return _native.tensor(0.0)
        return _native.clip_grad_norm(parameters, max_norm)
    _native.mean_gradients(parameters)
    total = get_total_norm([p.grad for p in parameters if has_grad(p)], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """PyTorch's old name of ``clip_grad_norm_``, which changes gradients as well.

    >>> tw.nn.utils.clip_grad_norm([], 1.0).item()
    0.0
    """
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float | None, foreach: bool | None = None) -> None:
    """Clips gradients to ±``clip_value``.

    >>> w = tw.tensor([3.0, 0.5], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.5]
    """
    _native.clip_grad_value(_listed(parameters), clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters concatenated into one vector.

    >>> tw.nn.utils.parameters_to_vector(tw.nn.Linear(2, 3).parameters()).shape
    talweg.Size([9])
    """
    return Tensor.concat([p.reshape(-1) for p in _listed(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Sets the parameters from one vector.

    >>> layer = tw.nn.Linear(1, 1)
    >>> tw.nn.utils.vector_to_parameters(tw.tensor([2.0, 3.0]), layer.parameters())
    >>> layer.weight.item(), layer.bias.item()
    (2.0, 3.0)
    """
    if not isinstance(vec, Tensor):
        raise type_error(f"vector_to_parameters: expected a tensor, not {type(vec).__name__}")
    parameters = _listed(parameters)
    total = sum(p.numel() for p in parameters)
    if tuple(vec.shape) != (total,):
        raise value_error(f"vector_to_parameters: the parameters have {total} elements, but the vector is {tuple(vec.shape)}")
    at = 0
    with no_grad():
        for p in parameters:
            p.copy_(vec[at : at + p.numel()].reshape(p.shape))
            at += p.numel()


def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters will be set later. Initial values are lazy, so those that are
    replaced cost nothing.

    >>> tw.nn.utils.skip_init(tw.nn.Linear, 2, 3).weight.shape
    talweg.Size([3, 2])
    """
    return module_cls(*args, **kwargs)


check(globals(), __all__)
