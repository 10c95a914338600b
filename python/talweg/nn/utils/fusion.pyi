"""Batch norms folded into the layer before them, for inference."""

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
