"""What the functions share: conversion of arguments, in-place forms, refused settings."""

from ... import _native
from ..._checked import type_error, value_error
from ..._native import Tensor


def tensor(x):
    """A tensor, also of what can become one."""
    return x if isinstance(x, Tensor) else _native.tensor(x)


def in_place(input, result, inplace):
    """The result; with ``inplace`` the input has it as its value."""
    if not inplace:
        return result
    if not isinstance(input, Tensor):
        raise type_error(f"inplace=True needs a tensor, not {type(input).__name__}")
    return input.copy_(result)


def refuse_old(name, size_average, reduce):
    """Fails for the arguments that PyTorch has replaced by ``reduction``."""
    if size_average is not None or reduce is not None:
        raise value_error(f"{name}: size_average and reduce are PyTorch's old names: use reduction='mean', 'sum' or 'none'")


def probability(name, p):
    """Fails for what is no probability."""
    if not 0.0 <= p <= 1.0:
        raise value_error(f"{name}: p must lie between 0 and 1, not {p}")


def reduced(x, reduction, name):
    """The elements of a loss, their mean or their sum."""
    if reduction == "none":
        return x
    if reduction == "mean":
        return x.mean()
    if reduction == "sum":
        return x.sum()
    raise value_error(f"{name}: reduction is 'none', 'mean' or 'sum', not {reduction!r}")


def sizes(x, count):
    """A number for each dimension."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,) * count
