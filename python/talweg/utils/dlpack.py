"""Tensors of other libraries over the same memory, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from .. import Tensor, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that another library's ``from_dlpack`` takes, once.

    >>> type(tw.utils.dlpack.to_dlpack(tw.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()
