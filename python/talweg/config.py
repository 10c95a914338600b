"""Logical devices: the host, divided."""

from __future__ import annotations

from typing import NamedTuple

from . import _native
from ._checked import type_error, value_error
from ._device import forget_names


class LogicalDevice(NamedTuple):
    """A logical device: its name, the bytes that programs on it may use, its threads."""

    name: str
    memory_limit: int | None
    threads: int | None


def set_logical_devices(
    kind: str,
    count: int,
    *,
    memory_limit: int | list[int | None] | None = None,
    threads: int | list[int | None] | None = None,
) -> None:
    """Divides the host into ``cpu:0`` … ``cpu:count - 1``; 0 undoes it. Jitted functions are placed on them.

    ``memory_limit`` is in bytes and ``threads`` a number, of each device or as a list by device; without, memory is not
    limited and threads are shared equally. ``TALWEG_LOGICAL_CPUS`` and ``TALWEG_LOGICAL_CPU_MEMORY`` say the same.

    >>> tw.config.set_logical_devices("cpu", 2, memory_limit=64 << 20)
    >>> tw.devices()[:3]
    ['cpu', 'cpu:0', 'cpu:1']
    >>> tw.config.set_logical_devices("cpu", 0)
    """
    if not isinstance(count, int) or count < 0:
        raise value_error(f"set_logical_devices: count is a number of devices, not {count!r}")
    limits, shares = _each("memory_limit", memory_limit, count), _each("threads", threads, count)
    _native.set_logical_devices(kind, list(zip(limits, shares, strict=True)))
    forget_names()


def _each(name: str, value, count: int) -> list[int | None]:
    if value is None or isinstance(value, int):
        value = [value] * count
    if not isinstance(value, (list, tuple)) or not all(v is None or isinstance(v, int) for v in value):
        raise type_error(f"set_logical_devices: {name} is a number, or a list of numbers, not {value!r}")
    if len(value) != count:
        raise value_error(f"set_logical_devices: {name} has {len(value)} numbers for {count} devices")
    if any(v is not None and v <= 0 for v in value):
        raise value_error(f"set_logical_devices: {name} is greater than 0, not {value!r}")
    return list(value)


def logical_devices() -> list[LogicalDevice]:
    """The logical devices.

    >>> tw.config.logical_devices()
    []
    """
    return [LogicalDevice(*d) for d in _native.logical_devices()]
