"""Parameters and buffers: the tensors that modules own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from .._graph import Parameter
from .._native import Tensor

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Buffer", "Parameter", "UninitializedParameter"]


def Buffer(data: Any = None, *, persistent: bool = True) -> Tensor:
    """A tensor that a module registers as a buffer when it is assigned to one of its attributes.

    >>> m = tw.nn.Module()
    >>> m.mean = tw.nn.Buffer(tw.zeros(2))
    >>> [name for name, _ in m.named_buffers()]
    ['mean']
    """
    return _Buffer(data, persistent)


class _Buffer(Tensor):
    """A variable that is not trained, and whether ``state_dict`` has it."""

    def __new__(cls, data, persistent):
        made = Tensor.__new__(cls, _native.zeros(0) if data is None else data, variable=True, trainable=False)
        made.persistent = persistent
        return made

    __deepcopy__ = Tensor.__deepcopy__


class UninitializedParameter(Parameter):
    """A parameter of a lazy module, whose shape is not known before the first call.

    >>> isinstance(tw.nn.LazyLinear(3).weight, tw.nn.UninitializedParameter)
    True
    """

    def __new__(cls, data=None, requires_grad=True):
        return super().__new__(cls, _native.zeros(0), requires_grad)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


def is_lazy(parameter):
    """True for a parameter whose shape is not known yet."""
    return isinstance(parameter, UninitializedParameter)


def as_variable(tensor):
    """A buffer's variable: the tensor itself if it is one that is not trained, else one of its value."""
    if isinstance(tensor, Tensor) and tensor.is_variable and not tensor.requires_grad:
        return tensor
    return Tensor(tensor, variable=True, trainable=False)
