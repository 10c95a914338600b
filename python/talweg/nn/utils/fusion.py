"""Batch norms folded into the layer before them, for inference."""

import copy
from typing import TypeVar

from ..._checked import check, value_error
from ..._native import Tensor
from ..._state import no_grad
from ..module import Module
from ..parameter import Parameter

__all__ = "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights".split()

_M = TypeVar("_M", bound=Module)


def _folded(
    weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, scale: Tensor | None, shift: Tensor | None, axis: int
) -> tuple[Parameter, Parameter]:
    with no_grad():
        factor = (var + eps).rsqrt() * (1.0 if scale is None else scale)
        shape = [1] * weight.ndim
        shape[axis] = -1
        start = -mean if bias is None else bias - mean
        moved = start * factor if shift is None else start * factor + shift
        return Parameter((weight * factor.reshape(shape)).astype(weight.dtype)), Parameter(moved.astype(weight.dtype))


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that does what a convolution and the batch norm after it do.

    >>> zero, one = tw.zeros(1), tw.ones(1)
    >>> tw.nn.utils.fuse_conv_bn_weights(tw.ones(1, 1, 1), None, one, one, 0.0, one * 2, zero)[0].item()
    2.0
    """
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that does what a linear layer and the batch norm after it do.

    >>> zero, one = tw.zeros(1), tw.ones(1)
    >>> tw.nn.utils.fuse_linear_bn_weights(tw.ones(1, 2), None, zero, one, 0.0, one * 3, zero)[0].tolist()
    [[3.0, 3.0]]
    """
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused(name: str, layer: _M, bn: Module, transpose: bool) -> _M:
    if layer.training or bn.training:
        raise value_error(f"{name}: both modules must be in inference: call eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise value_error(f"{name}: the batch norm has no running mean and variance: make it with track_running_stats=True")
    made = copy.deepcopy(layer)
    parts = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    made.weight, made.bias = _folded(made.weight, made.bias, *parts, 1 if transpose else 0)
    return made


def fuse_conv_bn_eval(conv: _M, bn: Module, transpose: bool = False) -> _M:
    """A convolution that does what ``bn(conv(x))`` does in inference.

    >>> conv, bn = tw.nn.Conv2d(1, 2, 3).eval(), tw.nn.BatchNorm2d(2).eval()
    >>> x = tw.ones(1, 1, 4, 4)
    >>> bool((tw.nn.utils.fuse_conv_bn_eval(conv, bn)(x) - bn(conv(x))).abs().amax() < 1e-5)
    True
    """
    return _fused("fuse_conv_bn_eval", conv, bn, transpose)


def fuse_linear_bn_eval(linear: _M, bn: Module) -> _M:
    """A linear layer that does what ``bn(linear(x))`` does in inference.

    >>> linear, bn = tw.nn.Linear(3, 2).eval(), tw.nn.BatchNorm1d(2).eval()
    >>> x = tw.ones(4, 3)
    >>> bool((tw.nn.utils.fuse_linear_bn_eval(linear, bn)(x) - bn(linear(x))).abs().amax() < 1e-5)
    True
    """
    return _fused("fuse_linear_bn_eval", linear, bn, False)


check(globals(), __all__)
