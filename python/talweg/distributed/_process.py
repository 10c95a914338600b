"""Ranks, process groups, and joining and leaving a job."""

import datetime
import os
from collections.abc import Iterable
from typing import Any

from .. import _native
from .._checked import type_error, value_error
from .._native import Group

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "new_group",
    "rank",
    "split_group",
    "world_size",
]

ProcessGroup = Group


class ReduceOp(str):
    """How a collective combines the tensors of all ranks.

    >>> tw.distributed.ReduceOp.AVG
    ReduceOp.AVG
    """

    SUM: "ReduceOp"
    AVG: "ReduceOp"
    PRODUCT: "ReduceOp"
    MIN: "ReduceOp"
    MAX: "ReduceOp"
    BAND: "ReduceOp"
    BOR: "ReduceOp"
    BXOR: "ReduceOp"

    def __new__(cls, name: str) -> "ReduceOp":
        if name not in _OPS:
            raise value_error(f"ReduceOp: expected one of {', '.join(_OPS)}, not {name!r:.40}")
        return super().__new__(cls, name)

    def __repr__(self) -> str:
        return f"ReduceOp.{_OPS.get(str(self), str(self))}"


_OPS = {"sum": "SUM", "mean": "AVG", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "and": "BAND", "or": "BOR", "xor": "BXOR"}
for _value, _name in _OPS.items():
    setattr(ReduceOp, _name, ReduceOp(_value))


class Backend(str):
    """The name of a back end, as PyTorch spells it. ``TALWEG_COLLECTIVES`` selects the transport of collectives.

    >>> tw.distributed.Backend("NCCL") == tw.distributed.Backend.NCCL
    True
    """

    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"
    UNDEFINED = "undefined"

    def __new__(cls, name: str) -> "Backend":
        if not isinstance(name, str):
            raise type_error(f"Backend: expected a name, not {type(name).__name__}")
        return super().__new__(cls, name.lower())


class GroupMember:
    """``WORLD`` is the group of all processes; ``NON_GROUP_MEMBER`` is what ``new_group`` returns to the others."""

    WORLD: Group | None = None
    NON_GROUP_MEMBER = -100


class _WorldOf(type):
    @property
    def WORLD(cls) -> Group:
        return _native.group_world()


class group(metaclass=_WorldOf):
    """``group.WORLD`` is the group of all processes."""


_backend: str | None = None


def rank() -> int:
    """The rank of this worker; 0 in a single process."""
    return _native.worker_rank()


def world_size() -> int:
    """The number of workers; 1 in a single process."""
    return _native.worker_count()


def is_available() -> bool:
    """True: collectives are always available.

    >>> tw.distributed.is_available()
    True
    """
    return True


def is_gloo_available() -> bool:
    """True: the embedded links carry collectives between hosts, as Gloo does."""
    return True


def is_nccl_available() -> bool:
    """True where there is a GPU: NCCL is loaded when ``TALWEG_COLLECTIVES=nccl`` asks for it."""
    return any(d.startswith("cuda") for d in _native.devices())


def is_mpi_available() -> bool:
    """True in a process that MPI started."""
    return os.environ.get("TALWEG_COLLECTIVES") == "mpi"


def is_torchelastic_launched() -> bool:
    """True under ``talweg launch`` and other launchers that set PyTorch's variables."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Joins the processes of a job, with PyTorch's division of labor: ``DistributedDataParallel`` and collectives
    average gradients, and an optimizer steps with the gradients of its own process.

    Under ``talweg launch``, torchrun and other launchers the environment says which process this is. Without one
    ``world_size``, ``rank`` and ``init_method="tcp://HOST:PORT"`` (or ``MASTER_ADDR`` and ``MASTER_PORT``) do. A program
    that does not call this needs nothing: its optimizers average gradients by themselves. ``backend`` changes
    nothing: ``TALWEG_COLLECTIVES`` chooses what carries collectives.

    >>> tw.distributed.init_process_group("gloo")
    >>> tw.distributed.get_world_size(), tw.distributed.is_initialized()
    (1, True)
    >>> tw.distributed.destroy_process_group()
    """
    global _backend
    if _backend is not None:
        raise value_error("init_process_group: it was called before; call destroy_process_group first")
    if store is not None:
        raise value_error("init_process_group: there is no store to meet at; give init_method='tcp://HOST:PORT'")
    _place(init_method, world_size, rank)
    if timeout is not None:
        os.environ["TALWEG_TIMEOUT"] = str(max(1, int(timeout.total_seconds())))
    for name, asked, found in (("world_size", world_size, _native.worker_count()), ("rank", rank, _native.worker_rank())):
        if asked not in (-1, found):
            how = f"start the script with `talweg launch --workers {world_size if world_size > 0 else 'N'} SCRIPT`"
            raise value_error(f"init_process_group: {name}={asked}, but this process has {name} {found}; {how}")
    _native.worker_set_local(True)
    _backend = Backend(backend or "gloo")


def _place(init_method: str | None, world_size: int, rank: int) -> None:
    """Sets the rank in the environment, unless our launcher has set it."""
    if "TALWEG_COORDINATOR" in os.environ or "TALWEG_PARALLEL" in os.environ:
        return
    if world_size > 1 and rank >= 0:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    if init_method is not None and init_method.startswith("tcp://"):
        host, _, port = init_method.removeprefix("tcp://").rpartition(":")
        os.environ.update(MASTER_ADDR=host, MASTER_PORT=port)
    elif init_method not in (None, "env://"):
        raise value_error(f"init_process_group: init_method is 'env://' or 'tcp://HOST:PORT', not {init_method!r}")
    if "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        os.environ["TALWEG_PARALLEL"] = "1"


def destroy_process_group(group: Group | None = None) -> None:
    """Ends what ``init_process_group`` began. The links stay until the process ends."""
    global _backend
    if group is None:
        _backend = None


def is_initialized() -> bool:
    """True after ``init_process_group``.

    >>> tw.distributed.is_initialized()
    False
    """
    return _backend is not None


def get_backend(group: Group | None = None) -> str:
    """The back end that ``init_process_group`` named."""
    return _backend or Backend("gloo")


def get_rank(group: Group | None = None) -> int:
    """The rank of this process, globally or in a group; -1 if it is not in the group.

    >>> tw.distributed.get_rank()
    0
    """
    if group is None:
        return rank()
    return group.rank if isinstance(group, Group) else -1


def get_world_size(group: Group | None = None) -> int:
    """The world size, or the size of a group; -1 if this process is not in the group.

    >>> tw.distributed.get_world_size()
    1
    """
    if group is None:
        return world_size()
    return group.size if isinstance(group, Group) else -1


def get_process_group_ranks(group: Group | None) -> list[int]:
    """The global ranks of a group's members."""
    return (_native.group_world() if group is None else group).ranks


def get_global_rank(group: Group, group_rank: int) -> int:
    """The global rank of a member of a group."""
    ranks = group.ranks
    if not 0 <= group_rank < len(ranks):
        raise value_error(f"get_global_rank: there is no rank {group_rank} in a group of {len(ranks)}")
    return ranks[group_rank]


def get_group_rank(group: Group, global_rank: int) -> int:
    """The group rank of a process."""
    ranks = group.ranks
    if global_rank not in ranks:
        raise value_error(f"get_group_rank: process {global_rank} is not in the group of {ranks}")
    return ranks.index(global_rank)


def new_group(
    ranks: Iterable[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    *,
    group: Group | None = None,
) -> Any:
    """The group of some processes, or of some ranks of ``group``; for a process that is not one of them
    ``GroupMember.NON_GROUP_MEMBER``. Only members have to call it.

    >>> tw.distributed.new_group([0]).ranks
    [0]
    """
    outer = _native.group_world() if group is None else group
    inner = list(range(outer.size)) if ranks is None else sorted(ranks)
    if inner and outer.rank not in inner and max(inner) < outer.size:
        return GroupMember.NON_GROUP_MEMBER
    return _native.group_part(outer, inner)


def split_group(color: int, key: int = 0, group: Group | None = None) -> Group:
    """The group of all ranks with the same ``color``, ordered by ``key``, then by rank; all ranks must call it."""
    return _native.group_split(_native.group_world() if group is None else group, color, key)
