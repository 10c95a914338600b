"""NVIDIA GPUs: devices, memory, synchronization, timing.

>>> tw.cuda.is_available() == (tw.cuda.device_count() > 0)
True

A GPU has one stream, in program order. Evaluation is lazy: nothing is launched until you read a value.
``synchronize`` waits for launched work, and runs and awaits pending assignments.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from . import _native
from ._checked import type_error, value_error
from ._device import GPU
from ._functions.random import default_generator
from .errors import DeviceError


def device_count() -> int:
    """How many there are.

    >>> tw.cuda.device_count() >= 0
    True
    """
    return sum(name.startswith("cuda:") for name in _native.devices())


def is_available() -> bool:
    """True if there is one.

    >>> tw.cuda.is_available() == (tw.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def __getattr__(name: str) -> Any:
    # PyTorch's older place of ``tw.amp``.
    if name == "amp":
        from . import amp

        return amp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_initialized() -> bool:
    """True if there is one: it is opened when it is first used."""
    return is_available()


def init() -> None:
    """Opens the current GPU, which happens by itself when it is first used."""
    _native.device_memory(_name(None))


def _number(device: Any) -> int:
    """The number of a device: ``None`` (the current one), ``1``, ``"cuda:1"``, ``"cuda"``, ``tw.device("cuda", 1)``."""
    if device is None:
        return current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        number = device
    else:
        text = device if isinstance(device, str) else str(device)
        kind, _, rest = text.partition(":")
        if kind != "cuda" or (rest and not rest.isdigit()):
            raise value_error(f"expected a GPU such as 'cuda:0' or its number, not {text!r}")
        if not rest:
            return current_device()
        number = int(rest)
    if number < 0:
        return current_device()
    return number


def _name(device: Any) -> str:
    number = _number(device)
    count = device_count()
    if number >= count:
        raise DeviceError(_native.located(f"there is no cuda:{number}: this machine has {count} GPUs"))
    return f"cuda:{number}"


def current_device() -> int:
    """The number of the GPU that ``"cuda"`` is for this thread.

    >>> tw.cuda.current_device()
    0
    """
    return GPU.number


def set_device(device: Any) -> None:
    """Says which GPU ``"cuda"`` is for this thread. Tensors are made on the host unless a device is given; to make them
    on a GPU, call ``set_default_device``."""
    if isinstance(device, int) and device < 0:
        return
    GPU.number = int(_name(device)[5:])


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """A scope in which ``"cuda"`` is another GPU."""
    before = GPU.number
    set_device(device)
    try:
        yield
    finally:
        GPU.number = before


def synchronize(device: Any = None) -> None:
    """Waits until a GPU has done what was asked of it, and reports what failed."""
    _native.synchronize(_name(device))


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """What the driver says: ``name``, ``major``, ``minor``, ``total_memory``, ``multi_processor_count``, ``warp_size``,
    ``max_threads_per_multi_processor``, ``shared_memory_per_multiprocessor``, ``L2_cache_size``."""
    return SimpleNamespace(**_native.device_properties(_number_here(device)))


def _number_here(device: Any) -> int:
    return int(_name(device)[5:])


def get_device_name(device: Any = None) -> str:
    """The product's name."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, such as ``(9, 0)``."""
    p = get_device_properties(device)
    return p.major, p.minor


def is_bf16_supported() -> bool:
    """True if there is a GPU: products of bfloat16 run on all of them, on tensor cores from compute capability 8.0 on."""
    return is_available()


def _memory(device: Any) -> tuple[int, int, int]:
    memory = _native.device_memory(_name(device))
    assert memory is not None
    return memory


def memory_allocated(device: Any = None) -> int:
    """Bytes of a GPU's memory that values and programs use."""
    return _memory(device)[0]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes in use at once, since the beginning or ``reset_peak_memory_stats``."""
    return _memory(device)[1]


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver, in use or kept for later."""
    return _memory(device)[2]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Counts ``max_memory_allocated`` from now on."""
    _native.reset_peak(_name(device))


def memory_stats(device: Any = None) -> dict[str, int]:
    """The three counts under PyTorch's keys."""
    used, peak, held = _memory(device)
    return {
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": peak,
        "reserved_bytes.all.current": held,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counts as text."""
    used, peak, held = (n / 2**20 for n in _memory(device))
    return f"{_name(device)}: {used:.1f} MiB in use, {peak:.1f} MiB at most, {held:.1f} MiB held"


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU, counting all processes."""
    found = _native.free_and_total(_name(device))
    assert found is not None
    return found


def empty_cache() -> None:
    """Gives memory that is kept for later back to the driver; without a GPU there is none."""
    gc.collect()
    for name in _native.devices():
        if name.startswith("cuda:"):
            _native.release_kept(name)


def manual_seed(seed: int) -> None:
    """Seeds the generator, which all devices share: as ``tw.manual_seed``."""
    default_generator.manual_seed(seed)


manual_seed_all = manual_seed


class Event:
    """A moment in the work of a GPU: ``record()`` waits until everything before it is done and notes the time.

    >>> if tw.cuda.is_available():
    ...     start, end = tw.cuda.Event(enable_timing=True), tw.cuda.Event(enable_timing=True)
    ...     start.record()
    ...     y = (tw.ones(64, 64, device="cuda:0") @ tw.ones(64, 64, device="cuda:0")).eval()
    ...     end.record()
    ...     assert start.elapsed_time(end) > 0
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise value_error("Event: interprocess=True: events are not shared by processes")
        self._at: float | None = None
        self._device = _name(None)

    def record(self, stream: Any = None) -> None:
        """Notes this moment."""
        import time

        if stream is not None:
            raise value_error("Event.record: a GPU has one stream, which cannot be chosen")
        _native.synchronize(self._device)
        self._at = time.perf_counter()

    def query(self) -> bool:
        """Whether it has come: always, once recorded."""
        return True

    def synchronize(self) -> None:
        """Waits for it, which ``record`` has done."""

    def wait(self, stream: Any = None) -> None:
        """Lets the stream wait for it, which ``record`` has done."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        if self._at is None or end_event._at is None:
            raise value_error("Event.elapsed_time: both events must be recorded first")
        return (end_event._at - self._at) * 1e3


class Stream:
    """Refused: a GPU has one stream. What does not depend on each other runs side by side in a captured graph."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        e = "cuda.Stream: a GPU works in one stream, in program order; jit captures a step as one graph, in which what "
        raise value_error(e + "does not depend on each other runs side by side: leave streams out")


def stream(stream: Any) -> Any:
    """Refused, as ``Stream`` is; ``None`` is the scope that changes nothing."""
    if stream is None:
        return contextlib.nullcontext()
    raise type_error("cuda.stream: a GPU works in one stream, in program order: leave streams out")


__all__ = [
    "Event",
    "Stream",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_device",
    "stream",
    "synchronize",
]
