"""Normalizations that return their statistics, and samplers of images, by the names of PyTorch's operators."""

from collections.abc import Sequence
from typing import Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import tensor
from .register import public
from .._native import Tensor


def _scaled(y: Tensor, weight: Any, bias: Any, shape: Sequence[int]) -> Tensor:
    y = y if weight is None else y * tensor(weight).reshape(shape)
    return y if bias is None else y + tensor(bias).reshape(shape)


def _moments(x: Tensor, axes: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The variance, the mean, and one over the root of the variance plus eps."""
    mean = _ops.mean(x, list(axes), True)
    off = x - mean
    var = _ops.mean(off * off, list(axes), True)
    return var, mean, _ops.rsqrt(var + eps)


@public(method=False)
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Tensor, ...]:
    """Layer normalization, with the mean and one over the standard deviation of each row.

    >>> y, mean, rstd = tw.native_layer_norm(tw.tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    >>> y.tolist(), mean.tolist(), rstd.tolist()
    ([[-1.0, 1.0]], [[2.0]], [[1.0]])
    """
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    axes = list(range(input.ndim - len(shape), input.ndim))
    _, mean, rstd = _moments(input, axes, eps)
    return _scaled((input - mean) * rstd, weight, bias, shape), mean, rstd


@public(method=False)
def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, ...]:
    """Group normalization, with the mean and one over the standard deviation of each group.

    >>> y, mean, rstd = tw.native_group_norm(tw.tensor([[[1.0], [3.0]]]), None, None, 1, 2, 1, 1, 0.0)
    >>> y.tolist(), mean.tolist(), rstd.tolist()
    ([[[-1.0], [1.0]]], [[2.0]], [[1.0]])
    """
    x = input.reshape(N, group, C // group * HxW)
    _, mean, rstd = _moments(x, [2], eps)
    y = ((x - mean) * rstd).reshape(input.shape)
    shape = [1, C, *[1] * (input.ndim - 2)]
    return _scaled(y, weight, bias, shape), mean.reshape(N, group), rstd.reshape(N, group)


@public(method=False)
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Batch normalization, with the mean and one over the standard deviation of each channel in training.

    >>> y, mean, rstd = tw.native_batch_norm(tw.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)
    >>> y.tolist(), mean.tolist(), rstd.tolist()
    ([[-1.0], [1.0]], [2.0], [1.0])
    """
    channels = input.shape[1]
    shape = [1, channels, *[1] * (input.ndim - 2)]
    axes = [i for i in range(input.ndim) if i != 1]
    if not training:
        if running_mean is None or running_var is None:
            raise value_error("native_batch_norm: in inference running_mean and running_var are needed")
        rstd = _ops.rsqrt(running_var + eps)
        y = (input - running_mean.reshape(shape)) * rstd.reshape(shape)
        nothing = _native.zeros(0, dtype=input.dtype)
        return _scaled(y, weight, bias, shape), nothing, nothing
    var, mean, rstd = _moments(input, axes, eps)
    count = input.numel() // max(channels, 1)
    for running, new in ((running_mean, mean), (running_var, var * (count / max(count - 1, 1)))):
        if running is not None:
            moved = running.detach() * (1.0 - momentum) + new.detach().reshape(-1).astype(running.dtype) * momentum
            running.detach().copy_(moved)
    return _scaled((input - mean) * rstd, weight, bias, shape), mean.reshape(-1), rstd.reshape(-1)


_MODES = ["bilinear", "nearest", "bicubic"]
_PADDINGS = ["zeros", "border", "reflection"]


@public(method=False)
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``nn.functional.grid_sample`` with numbers for its modes: 0, 1, 2 for bilinear, nearest, bicubic, and for zeros,
    border, reflection.

    >>> tw.grid_sampler(tw.ones(1, 1, 2, 2), tw.zeros(1, 1, 1, 2), 0, 0, False).tolist()
    [[[[1.0]]]]
    """
    return _ops.grid_sample(input, tensor(grid), _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@public(method=False)
def grid_sampler_2d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``grid_sampler`` of images.

    >>> tw.grid_sampler_2d(tw.ones(1, 1, 2, 2), tw.zeros(1, 1, 1, 2), 0, 0, False).tolist()
    [[[[1.0]]]]
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@public(method=False)
def grid_sampler_3d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """``grid_sampler`` of volumes.

    >>> tw.grid_sampler_3d(tw.ones(1, 1, 2, 2, 2), tw.zeros(1, 1, 1, 1, 3), 0, 0, False).tolist()
    [[[[[1.0]]]]]
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
