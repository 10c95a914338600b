"""Collectives that return new tensors and have gradients: those of the sum of all ranks' losses.

They are carried out where they are called; in a function that ``tw.jit`` traces they run at each call of it, in the
order of the program. Ranks are those of the group. ``op`` is ``"sum"``, ``"mean"``, ``"prod"``, ``"max"``, ``"min"`` or a
``tw.distributed.ReduceOp``.

>>> tw.distributed.functional.all_reduce(tw.tensor([1.0, 2.0])).tolist()
[1.0, 2.0]
"""

from .. import _native
from .._checked import check
from .._native import Group, Tensor

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "recv", "reduce", "reduce_scatter", "send"]


def all_reduce(x: Tensor, op: str = "sum", group: Group | None = None, wire: str = "exact") -> Tensor:
    """The sum, ``mean``, ``prod``, ``max`` or ``min`` over ranks, on every rank.

    ``wire="bf16"`` or ``"int8"`` sends sums and means of float32 tensors in two or one byte an element; all ranks
    end with the same bits.
    """
    return _native.group_all_reduce(_of(group), x, op, wire)


def reduce(x: Tensor, dst: int, op: str = "sum", group: Group | None = None) -> Tensor:
    """The combination of all ranks' tensors, for rank ``dst``; zeros for the others."""
    return _native.group_reduce(_of(group), x, dst, op)


def reduce_scatter(x: Tensor, op: str = "sum", axis: int = 0, group: Group | None = None, wire: str = "exact") -> Tensor:
    """Of the combination of all ranks' tensors, part ``i`` along ``axis`` for rank ``i``; ``wire`` as in ``all_reduce``."""
    return _native.group_reduce_scatter(_of(group), x, op, axis, wire)


def all_gather(x: Tensor, axis: int = 0, group: Group | None = None, wire: str = "exact") -> Tensor:
    """The tensors of all ranks, concatenated along ``axis``, on every rank; ``wire`` as in ``all_reduce``."""
    return _native.group_all_gather(_of(group), x, axis, wire)


def broadcast(x: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor of rank ``src``, on every rank; the other ranks' tensors state the type."""
    return _native.group_broadcast(_of(group), x, src)


def all_to_all(x: Tensor, split_axis: int = 0, concat_axis: int = 0, group: Group | None = None) -> Tensor:
    """Part ``i`` along ``split_axis`` goes to rank ``i``; received parts are concatenated along ``concat_axis``."""
    return _native.group_all_to_all(_of(group), x, split_axis, concat_axis)


def send(x: Tensor, dst: int, group: Group | None = None) -> Tensor:
    """Sends a tensor to rank ``dst``, which must receive it.

    The result is a scalar zero. Add it to the loss to receive the gradient of the sent tensor.
    """
    return _native.group_send(_of(group), x, dst)


def recv(like: Tensor, src: int, group: Group | None = None) -> Tensor:
    """The tensor that rank ``src`` sends; ``like`` states the type.

    If ``like`` requires a gradient, the gradient of the result is sent back, and the sender must request it.
    """
    return _native.group_recv(_of(group), like, src)


def _of(group: Group | None) -> Group:
    return _native.group_world() if group is None else group


check(globals(), __all__)
