"""Gradients cut off before a step, parameters as one vector, weights with a norm of their own."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from ... import Tensor
from ... import dtype
from ... import DTypeLike
from ... import Update
from ...nn import Module
from ...train import Callback
from ...train import History
from ...train import Silent
from ...train import Trainer
from ...utils.data import Subset
from . import fusion as fusion
from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import rnn as rnn
from . import stateless as stateless

def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """PyTorch's old name of ``clip_grad_norm_``, which changes gradients as well.

    >>> import talweg as tw
    >>> tw.nn.utils.clip_grad_norm([], 1.0).item()
    0.0"""
def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scales gradients so that their common norm is at most ``max_norm``; returns the norm before. ``foreach`` says how
    PyTorch computes it, and changes nothing.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_norm_([w], 1.0).item(), w.grad.tolist()
    (5.0, [0.6, 0.8])"""
def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float | None, foreach: bool | None = None) -> None:
    """Cuts gradients off at ±``clip_value``.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 0.5], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.5]"""
def clip_grads_with_norm_(parameters: Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scales gradients by ``max_norm / total_norm`` where that is less than 1.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grads_with_norm_([w], 1.0, tw.tensor(5.0))
    >>> w.grad.tolist()
    [0.6, 0.8]"""
def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A convolution that does what ``bn(conv(x))`` does in inference.

    >>> import talweg as tw
    >>> conv, bn = tw.nn.Conv2d(1, 2, 3).eval(), tw.nn.BatchNorm2d(2).eval()
    >>> x = tw.ones(1, 1, 4, 4)
    >>> bool((tw.nn.utils.fuse_conv_bn_eval(conv, bn)(x) - bn(conv(x))).abs().amax() < 1e-5)
    True"""
def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution that does what a convolution and the batch norm after it do.

    >>> import talweg as tw
    >>> zero, one = tw.zeros(1), tw.ones(1)
    >>> tw.nn.utils.fuse_conv_bn_weights(tw.ones(1, 1, 1), None, one, one, 0.0, one * 2, zero)[0].item()
    2.0"""
def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A linear layer that does what ``bn(linear(x))`` does in inference.

    >>> import talweg as tw
    >>> linear, bn = tw.nn.Linear(3, 2).eval(), tw.nn.BatchNorm1d(2).eval()
    >>> x = tw.ones(4, 3)
    >>> bool((tw.nn.utils.fuse_linear_bn_eval(linear, bn)(x) - bn(linear(x))).abs().amax() < 1e-5)
    True"""
def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear layer that does what a linear layer and the batch norm after it do.

    >>> import talweg as tw
    >>> zero, one = tw.zeros(1), tw.ones(1)
    >>> tw.nn.utils.fuse_linear_bn_weights(tw.ones(1, 2), None, zero, one, 0.0, one * 3, zero)[0].tolist()
    [[3.0, 3.0]]"""
def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The norm of all tensors as if they were one vector.

    >>> import talweg as tw
    >>> tw.nn.utils.get_total_norm([tw.tensor([3.0]), tw.tensor([4.0])]).item()
    5.0"""
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after the other.

    >>> import talweg as tw
    >>> tw.nn.utils.parameters_to_vector(tw.nn.Linear(2, 3).parameters()).shape
    (9,)"""
def remove_spectral_norm(module: Module, name: str = 'weight') -> Module:
    """The weight is an ordinary parameter again.

    >>> import talweg as tw
    >>> list(tw.nn.utils.remove_spectral_norm(tw.nn.utils.spectral_norm(tw.nn.Linear(2, 3))).state_dict())
    ['bias', 'weight']"""
def remove_weight_norm(module: Module, name: str = 'weight') -> Module:
    """The weight is an ordinary parameter again.

    >>> import talweg as tw
    >>> list(tw.nn.utils.remove_weight_norm(tw.nn.utils.weight_norm(tw.nn.Linear(2, 3))).state_dict())
    ['bias', 'weight']"""
def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters will be set later. Initial values are lazy, so those that are
    replaced cost nothing.

    >>> import talweg as tw
    >>> tw.nn.utils.skip_init(tw.nn.Linear, 2, 3).weight.shape
    (3, 2)"""
def spectral_norm(module: Module, name: str = 'weight', n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """The weight divided by its largest singular value; newer programs use ``nn.utils.parametrizations.spectral_norm``.

    >>> import talweg as tw
    >>> sorted(tw.nn.utils.spectral_norm(tw.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']"""
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """The parameters take their values from a vector.

    >>> import talweg as tw
    >>> layer = tw.nn.Linear(1, 1)
    >>> tw.nn.utils.vector_to_parameters(tw.tensor([2.0, 3.0]), layer.parameters())
    >>> layer.weight.item(), layer.bias.item()
    (2.0, 3.0)"""
def weight_norm(module: Module, name: str = 'weight', dim: int | None = 0) -> Module:
    """The weight as a length ``weight_g`` and a direction ``weight_v``; newer programs use
    ``nn.utils.parametrizations.weight_norm``.

    >>> import talweg as tw
    >>> list(tw.nn.utils.weight_norm(tw.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_g', 'weight_v']"""
