"""PyTorch's collectives: they write their results to the tensors they are given."""

import functools
import inspect
import pickle
from collections.abc import Sequence
from typing import Any

from .. import _native
from .._checked import check, checked, type_error, value_error, warn
from .._native import Group, Tensor
from .._state import no_grad
from . import functional
from ._process import GroupMember, ReduceOp

__all__ = [
    "P2POp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]

# Messages up to so many bytes fit the buffers of a link: sending them does not wait for the receiver.
_BUFFERED_BYTES = 1 << 14
_BITS = {ReduceOp.BAND: Tensor.bitwise_and, ReduceOp.BOR: Tensor.bitwise_or, ReduceOp.BXOR: Tensor.bitwise_xor}


class Work:
    """The result of ``async_op=True``. The communication is complete, except for ``isend`` and ``irecv``.

    >>> x = tw.ones(2)
    >>> tw.distributed.all_reduce(x, async_op=True).wait()
    True
    """

    _pending: list["Work"] = []

    def __init__(self, run: Any = None, message: tuple[int, int] = (0, 0)) -> None:
        self._run, self._message = run, message
        if run is not None:
            Work._pending.append(self)

    def wait(self, timeout: Any = None) -> bool:
        """Waits until the operation is complete."""
        if self._run is not None:
            _finish()
        return True

    def is_completed(self) -> bool:
        """True if the operation is complete."""
        return self._run is None

    def is_success(self) -> bool:
        """True if the operation succeeded; one that fails raises."""
        return self._run is None


def _finish() -> None:
    """Completes pending ``isend`` and ``irecv`` in an order that all ranks agree on, without deadlock."""
    pending, Work._pending = Work._pending, []
    for work in sorted(pending, key=lambda w: (min(w._message), max(w._message), w._message[0])):
        work._run()
        work._run = None


def _collective(f: Any) -> Any:
    """A collective: it communicates detached values, and returns a ``Work`` with ``async_op``."""
    names = list(inspect.signature(f).parameters)

    @functools.wraps(f)
    def call(*args: Any, **settings: Any) -> Any:
        given = {**dict(zip(names, args)), **settings}
        if type(given.get("group")) is int:
            if given["group"] != GroupMember.NON_GROUP_MEMBER:
                raise type_error(f"{f.__name__}: group must be a Group, not the number {given['group']}")
            warn(f"{f.__name__}: this process is not in the group: nothing happens")
            return None
        if Work._pending:
            _finish()
        with no_grad():
            f(*args, **settings)
        return Work() if given.get("async_op") else None

    return checked(call)


def _group(group: Group | None) -> Group:
    return _native.group_world() if group is None else group


def _place(name: str, group: Group | None, of_job: int | None, of_group: int | None, role: str) -> int:
    """The group rank of the process that a call names."""
    if (of_job is None) == (of_group is None):
        raise value_error(f"{name}: give {role} or group_{role}")
    if of_group is not None:
        return of_group
    ranks = _group(group).ranks
    if of_job in ranks:
        return ranks.index(of_job)
    if group is None or not isinstance(of_job, int):
        return of_job  # type: ignore[return-value]
    raise value_error(f"{name}: process {of_job} is not in the group of {ranks}")


def _written(name: str, tensor: Tensor, y: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise type_error(f"{name}: expected a tensor to write to, not {type(tensor).__name__}")
    if tuple(tensor.shape) != tuple(y.shape):
        if tensor.numel() != y.numel():
            raise value_error(f"{name}: the result has shape {tuple(y.shape)}, but is to be written to {tuple(tensor.shape)}")
        y = y.reshape(tensor.shape)
    tensor.copy_(y)


def _parted(x: Tensor) -> Tensor:
    """Complex numbers as pairs, which is how they are sent."""
    return x.view_as_real() if x.is_complex() else x


def _joined(y: Tensor, like: Tensor) -> Tensor:
    y = y.view_as_complex() if like.is_complex() else y
    return y.bool() if like.dtype.name == "bool" else y


def _combined(x: Tensor, op: Any, group: Group | None) -> Tensor:
    if op in _BITS:
        parts = functional.all_gather(x.unsqueeze(0), group=group)
        return functools.reduce(_BITS[op], list(parts))
    return _joined(functional.all_reduce(_parted(x), op, group), x)


@_collective
def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Group | None = None, async_op: bool = False) -> Any:
    """All-reduce: the tensor of every rank becomes the sum, or another ``ReduceOp``, of all.

    >>> x = tw.ones(2)
    >>> tw.distributed.all_reduce(x)
    >>> x.tolist()
    [1.0, 1.0]
    """
    _written("all_reduce", tensor, _combined(tensor, op, group))


@_collective
def broadcast(tensor: Tensor, src: int | None = None, group: Group | None = None, async_op: bool = False, group_src: int | None = None) -> Any:
    """Broadcast: the tensor of every rank becomes that of rank ``src``."""
    place = _place("broadcast", group, src, group_src, "src")
    _written("broadcast", tensor, _joined(functional.broadcast(_parted(tensor), place, group), tensor))


@_collective
def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Group | None = None, async_op: bool = False, group_dst: int | None = None
) -> Any:
    """Reduce: the tensor of rank ``dst`` becomes the combination of all; the others keep theirs."""
    place = _place("reduce", group, dst, group_dst, "dst")
    if op in _BITS:
        y = _combined(tensor, op, group)
    else:
        y = _joined(functional.reduce(_parted(tensor), place, op, group), tensor)
    if _group(group).rank == place:
        _written("reduce", tensor, y)


@_collective
def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Group | None = None, async_op: bool = False) -> Any:
    """All-gather: writes the tensor of rank ``i`` to ``tensor_list[i]``, on every rank."""
    _check_count("all_gather", "tensor_list", tensor_list, group)
    parts = _joined(functional.all_gather(_parted(tensor).unsqueeze(0), group=group), tensor)
    for out, part in zip(tensor_list, parts):
        _written("all_gather", out, part)


@_collective
def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Group | None = None, async_op: bool = False) -> Any:
    """All-gather: writes the tensors of all ranks concatenated, or stacked, by the shape of the output."""
    y = functional.all_gather(_parted(input_tensor).unsqueeze(0), group=group)
    _written("all_gather_into_tensor", output_tensor, _joined(y, input_tensor))


@_collective
def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Group | None = None, async_op: bool = False) -> Any:
    """Reduce-scatter: writes the combination of every rank's ``input_list[i]`` to the output of rank ``i``."""
    _check_count("reduce_scatter", "input_list", input_list, group)
    _written("reduce_scatter", output, _scattered(Tensor.stack(list(input_list)), op, group)[0])


@_collective
def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Group | None = None, async_op: bool = False) -> Any:
    """Reduce-scatter: writes part ``i`` of the combination of every rank's input to the output of rank ``i``."""
    size = _group(group).size
    if input.numel() != size * output.numel():
        raise value_error(f"reduce_scatter_tensor: an input of {input.numel()} elements is not {size} times the output")
    _written("reduce_scatter_tensor", output, _scattered(input.reshape(size, *output.shape), op, group)[0])


def _scattered(x: Tensor, op: Any, group: Group | None) -> Tensor:
    if op in _BITS:
        rank = _group(group).rank
        return _combined(x, op, group)[rank : rank + 1]
    return _joined(functional.reduce_scatter(_parted(x), op, group=group), x)


@_collective
def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group | None = None, async_op: bool = False) -> Any:
    """All-to-all: sends ``input_tensor_list[i]`` to rank ``i``, and writes what rank ``i`` sends to ``output_tensor_list[i]``."""
    _check_count("all_to_all", "output_tensor_list", output_tensor_list, group)
    _check_count("all_to_all", "input_tensor_list", input_tensor_list, group)
    came = _dealt([_parted(x).reshape(-1) for x in input_tensor_list], [_parted(y).numel() for y in output_tensor_list], group)
    for out, part in zip(output_tensor_list, came):
        _written("all_to_all", out, _joined(part.reshape(_parted(out).shape), out))


@_collective
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    async_op: bool = False,
) -> Any:
    """All-to-all: sends part ``i`` of the input's rows to rank ``i``, and writes what arrives to the output in rank order.

    Parts are equal unless sizes are given.
    """
    size, x = _group(group).size, _parted(input)
    row = x[:1].numel() if len(x) else 0
    sent = _sizes("input", len(input), input_split_sizes, size)
    taken = _sizes("output", len(output), output_split_sizes, size)
    parts = [p.reshape(-1) for p in x.split(sent)]
    came = _dealt(parts, [n * row for n in taken], group)
    _written("all_to_all_single", output, _joined(Tensor.concat(came).reshape(_parted(output).shape), output))


def _sizes(which: str, rows: int, sizes: Sequence[int] | None, ranks: int) -> list[int]:
    if sizes:
        if len(sizes) != ranks or sum(sizes) != rows:
            raise value_error(f"all_to_all_single: {which}_split_sizes {list(sizes)} do not cut {rows} rows for {ranks} ranks")
        return list(sizes)
    if rows % ranks:
        raise value_error(f"all_to_all_single: {rows} rows are not equal parts for {ranks} ranks: give {which}_split_sizes")
    return [rows // ranks] * ranks


def _dealt(parts: list[Tensor], taken: list[int], group: Group | None) -> list[Tensor]:
    """What all ranks send to this one; parts of different sizes travel padded to the largest of all."""
    widest = max([p.numel() for p in parts] + taken)
    widest = int(functional.all_reduce(_native.tensor(widest), "max", group).item())
    rows = Tensor.stack([Tensor.concat([p, p.new_zeros(widest - p.numel())]) for p in parts])
    came = functional.all_to_all(rows, group=group)
    return [came[i, :n] for i, n in enumerate(taken)]


@_collective
def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Gather: writes the tensor of rank ``i`` to ``gather_list[i]`` of rank ``dst``, 0 by default."""
    place = _place("gather", group, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    me = _group(group).rank
    if me != place:
        functional.send(_parted(tensor), place, group)
        return
    _check_count("gather", "gather_list", gather_list, group)
    for i, out in enumerate(gather_list or ()):
        y = tensor if i == me else _joined(functional.recv(_parted(tensor), i, group), tensor)
        _written("gather", out, y)


@_collective
def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Scatter: writes ``scatter_list[i]`` of rank ``src``, 0 by default, to the tensor of rank ``i``."""
    place = _place("scatter", group, 0 if src is None and group_src is None else src, group_src, "src")
    me = _group(group).rank
    if me != place:
        _written("scatter", tensor, _joined(functional.recv(_parted(tensor), place, group), tensor))
        return
    _check_count("scatter", "scatter_list", scatter_list, group)
    for i, part in enumerate(scatter_list or ()):
        if i == me:
            _written("scatter", tensor, part)
        else:
            functional.send(_parted(part), i, group)


def _check_count(name: str, what: str, tensors: Any, group: Group | None) -> None:
    size = _group(group).size
    if not isinstance(tensors, (list, tuple)):
        raise type_error(f"{name}: {what} must be a list of {size} tensors, not {type(tensors).__name__}")
    if len(tensors) != size:
        raise value_error(f"{name}: {what} has {len(tensors)} tensors for {size} ranks")


@_collective
def barrier(group: Group | None = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Barrier: no process returns before all have called."""
    _native.group_barrier(_group(group))


@_collective
def monitored_barrier(group: Group | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
    """As ``barrier``; the error names a process that does not call."""
    _native.group_barrier(_group(group))


@_collective
def send(
    tensor: Tensor, dst: int | None = None, group: Group | None = None, tag: int = 0, group_dst: int | None = None
) -> Any:
    """Sends a tensor to process ``dst``, which must receive it."""
    functional.send(_parted(tensor), _place("send", group, dst, group_dst, "dst"), group)


@checked
def recv(
    tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Writes what process ``src`` sends to the tensor; returns ``src``."""
    if src is None and group_src is None:
        raise value_error("recv: the sender must be named: give src")
    _receive(tensor, src, group, group_src=group_src)
    return src if src is not None else _group(group).ranks[group_src]


@_collective
def _receive(tensor: Tensor, src: int | None, group: Group | None, group_src: int | None) -> Any:
    place = _place("recv", group, src, group_src, "src")
    _written("recv", tensor, _joined(functional.recv(_parted(tensor), place, group), tensor))


@checked
def isend(
    tensor: Tensor, dst: int | None = None, group: Group | None = None, tag: int = 0, group_dst: int | None = None
) -> Work:
    """Nonblocking send; ``wait()`` of the result, or the next collective, completes it."""
    place, within = _place("isend", group, dst, group_dst, "dst"), _group(group)
    x = _parted(tensor.detach())
    if x.numel() * x.element_size() <= _BUFFERED_BYTES and not Work._pending:
        functional.send(x, place, within)
        return Work()
    x = x.clone()
    return Work(lambda: functional.send(x, place, within), (within.ranks[within.rank], within.ranks[place]))


@checked
def irecv(
    tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0, group_src: int | None = None
) -> Work:
    """Nonblocking receive; ``wait()`` of the result, or the next collective, writes to the tensor."""
    place, within = _place("irecv", group, src, group_src, "src"), _group(group)

    def run() -> None:
        with no_grad():
            _written("irecv", tensor, _joined(functional.recv(_parted(tensor), place, within), tensor))

    return Work(run, (within.ranks[place], within.ranks[within.rank]))


class P2POp:
    """One operation of ``batch_isend_irecv``: ``isend`` or ``irecv``, a tensor, and the other process."""

    def __init__(
        self, op: Any, tensor: Tensor, peer: int | None = None, group: Group | None = None, tag: int = 0, group_peer: int | None = None
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise value_error("P2POp: op is tw.distributed.isend or tw.distributed.irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


@checked
def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Starts several sends and receives."""
    role = {isend: "group_dst", irecv: "group_src"}
    return [p.op(p.tensor, p.peer, p.group, p.tag, **{role[p.op]: p.group_peer}) for p in p2p_op_list]


# Objects travel as pickles between the processes of a job, whose links know each other.
def _packed(x: Any) -> Tensor:
    return _native.tensor(list(pickle.dumps(x)), dtype="uint8")


def _unpacked(x: Tensor) -> Any:
    return pickle.loads(bytes(x.tolist()))


def _gathered(x: Any, group: Group | None) -> list[Any]:
    mine = _packed(x)
    lengths = functional.all_gather(_native.tensor([mine.numel()]), group=group).tolist()
    padded = Tensor.concat([mine, mine.new_zeros(max(lengths) - mine.numel())])
    rows = functional.all_gather(padded.unsqueeze(0), group=group)
    return [_unpacked(row[:n]) for row, n in zip(rows, lengths)]


@_collective
def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> Any:
    """All-gather of objects: ``object_list[i]`` becomes that of rank ``i``, on every rank. Objects must be picklable.

    >>> all = [None]
    >>> tw.distributed.all_gather_object(all, {"a": 1})
    >>> all
    [{'a': 1}]
    """
    object_list[:] = _gathered(obj, group)


@_collective
def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Group | None = None, group_dst: int | None = None
) -> Any:  # fmt: skip
    """Gather of objects: ``object_gather_list[i]`` of rank ``dst`` becomes the object of rank ``i``."""
    place = _place("gather_object", group, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    all = _gathered(obj, group)
    if _group(group).rank == place and object_gather_list is not None:
        object_gather_list[:] = all


@_collective
def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Group | None = None, device: Any = None, group_src: int | None = None
) -> Any:  # fmt: skip
    """Broadcast of objects: the list of every rank becomes that of rank ``src``."""
    place = _place("broadcast_object_list", group, 0 if src is None and group_src is None else src, group_src, "src")
    mine = _packed(list(object_list))
    length = int(functional.broadcast(_native.tensor(mine.numel()), place, group).item())
    like = mine if _group(group).rank == place else mine.new_zeros(length)
    object_list[:] = _unpacked(functional.broadcast(like, place, group))


@_collective
def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group | None = None,
    group_src: int | None = None,
) -> Any:
    """Scatter of objects: object ``i`` of rank ``src`` becomes the first in the list of rank ``i``."""
    given = [scatter_object_input_list]
    broadcast_object_list(given, src, group, group_src=group_src)
    scatter_object_output_list[0] = given[0][_group(group).rank]  # type: ignore[index]


check(globals(), ["Work", "P2POp"])
