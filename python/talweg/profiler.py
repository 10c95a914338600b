"""Where the time goes: regions, lines and spans of a program, under PyTorch's names.

>>> x = tw.ones(64, 64)
>>> with tw.profiler.profile() as prof:
...     with tw.profiler.record_function("product"):
...         y = (x @ x).exp().sum().item()
>>> [row.key for row in prof.key_averages() if row.key == "product"]
['product']

Evaluation is lazy: a span around code that only builds a graph is short, and the time appears where
the value is read. Regions (fused loops, kernels) are counted wherever they run.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from . import _native
from ._checked import type_error, value_error

_active: list[profile] = []


class ProfilerActivity(enum.Enum):
    """Which devices are watched. All are: the choice changes nothing."""

    CPU = "cpu"
    CUDA = "cuda"


class ProfilerAction(enum.Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """A cycle of steps: ``wait`` without recording, ``warmup``, then ``active`` recorded ones, ``repeat`` times (0:
    without end), after ``skip_first``.

    >>> from talweg.profiler import schedule
    >>> plan = schedule(wait=1, warmup=1, active=1, repeat=1)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise value_error("schedule: active must be positive, and the others not negative")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat > 0 and step // length >= repeat):
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None) -> Callable[[profile], None]:
    """An ``on_trace_ready`` that writes a timeline into a folder, which TensorBoard and Perfetto read."""

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{os.uname().nodename}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return handler


class record_function(contextlib.ContextDecorator):
    """A span with a name, in tables and timelines; a context manager and a decorator.

    >>> with tw.profiler.record_function("forward"):
    ...     y = tw.ones(3).sum()
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name if args is None else f"{name} {args}"
        self._spans: list[Any] = []

    def __enter__(self) -> record_function:
        self._spans.append(_native.Span(self.name))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._spans.pop().end()


class Average:
    """All runs of a region or span together; times in microseconds."""

    __slots__ = ("key", "count", "self_time", "total_time", "bytes", "flops", "lines")

    def __init__(self, key: str) -> None:
        self.key, self.count, self.self_time, self.total_time = key, 0, 0.0, 0.0
        self.bytes, self.flops = 0, 0
        self.lines: dict[str, None] = {}

    @property
    def cpu_time_total(self) -> float:
        """Time in it and in what ran inside it."""
        return self.total_time

    @property
    def self_cpu_time_total(self) -> float:
        """Time in it alone."""
        return self.self_time

    @property
    def cpu_time(self) -> float:
        """Mean time of a run."""
        return self.total_time / max(self.count, 1)

    device_time_total = cuda_time_total = cpu_time_total
    self_device_time_total = self_cuda_time_total = self_cpu_time_total
    device_time = cuda_time = cpu_time

    def __repr__(self) -> str:
        return f"<{self.key}: {self.count} runs, {self.total_time:.1f} us>"


_SORT = {
    **dict.fromkeys(("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"), "self_time"),
    **dict.fromkeys(("cpu_time_total", "cuda_time_total", "device_time_total"), "total_time"),
    **dict.fromkeys(("cpu_time", "cuda_time", "device_time"), "cpu_time"),
    "count": "count",
    "flops": "flops",
    "bytes": "bytes",
}


class Averages(list[Average]):
    """Rows of a table."""

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The rows as text, those with the most of ``sort_by`` first: a time, ``count``, ``flops`` or ``bytes``."""
        if sort_by is not None and sort_by not in _SORT:
            raise value_error(f"table: sort_by={sort_by!r} is none of {', '.join(_SORT)}")
        if top_level_events_only:
            raise value_error("table: regions are not nested: take the rows of the spans from key_averages()")
        rows = sorted(self, key=lambda r: -getattr(r, _SORT[sort_by])) if sort_by else list(self)
        total = max(sum(r.self_time for r in self), 1e-9)
        lines = [] if header is None else [header]
        head = f"{'Name':<40} {'Self us':>10} {'Self %':>7} {'Total us':>10} {'Mean us':>9} {'Runs':>7}"
        lines += [f"{head} {'GB/s':>7} {'GFLOP/s':>8}  Lines"]
        for r in rows[: row_limit if row_limit >= 0 else None]:
            # Bytes or operations a microsecond are thousandths of so many milliards a second.
            rate = 1e-3 / max(r.self_time, 1e-9)
            where = " ".join(r.lines)
            where = where if len(where) <= max_src_column_width else where[: max_src_column_width - 1] + "…"
            name = r.key if len(r.key) <= 40 else r.key[:39] + "…"
            lines.append(
                f"{name:<40} {r.self_time:10.1f} {100 * r.self_time / total:7.1f} {r.total_time:10.1f} "
                f"{r.cpu_time:9.1f} {r.count:7} {r.bytes * rate:7.1f} {r.flops * rate:8.1f}  {where}"
            )
        return "\n".join([*lines, f"{total / 1e3:.3f} ms in all"])

    def __str__(self) -> str:
        return self.table(sort_by="self_cpu_time_total")


class profile(contextlib.ContextDecorator):
    """Records what runs, on every thread and device, and says where the time went.

    A context manager; or ``start()``, ``step()`` and ``stop()``. With a ``schedule`` it records the steps that the
    schedule names, and calls ``on_trace_ready(self)`` after each cycle. ``activities``, ``record_shapes``,
    ``profile_memory``, ``with_stack``, ``with_flops``, ``with_modules`` and ``acc_events`` are accepted and change
    nothing: all devices, the planned memory, the user's lines and the operations are always recorded.

    >>> step = tw.jit(lambda x: (x @ x).exp().sum())
    >>> with tw.profile() as prof:
    ...     value = step(tw.ones(64, 64)).item()
    >>> "matmul" in prof.table() and prof.total_us > 0
    True
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        acc_events: bool = False,
    ) -> None:
        for a in activities or ():
            if not isinstance(a, ProfilerActivity):
                raise type_error(f"profile: activities are ProfilerActivity.CPU and CUDA, not {a!r}")
        self._schedule, self._on_trace_ready = schedule, on_trace_ready
        self._recorder: Any = None
        self._recording: Any = None
        self._span: Any = None
        self._metadata: dict[str, str] = {}
        self.step_num = 0

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _begin(self) -> None:
        if self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            if self._recorder is None:
                _native.flush()
                self._recorder = _native.Recorder()
            if self._schedule is not None:
                self._span = _native.Span(f"ProfilerStep#{self.step_num}")

    def _end(self, is_last: bool) -> None:
        if self._recorder is None:
            return
        _native.flush()
        if self._span is not None:
            self._span.end()
            self._span = None
        if is_last:
            self._recording, self._recorder = self._recorder.finish(), None
            if self._on_trace_ready is not None:
                self._on_trace_ready(self)

    def start(self) -> None:
        """Begins."""
        if _active:
            raise value_error("profile: another profiler is running: stop it first")
        _active.append(self)
        self._begin()

    def step(self) -> None:
        """Ends a step of the schedule and begins the next."""
        self._end(self._action() is ProfilerAction.RECORD_AND_SAVE)
        self.step_num += 1
        self._begin()

    def stop(self) -> None:
        """Ends."""
        if self in _active:
            _active.remove(self)
        self._end(True)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def _needed(self) -> Any:
        if self._recording is None:
            raise value_error("profile: nothing was recorded yet: stop the profiler first, or finish a cycle")
        return self._recording

    @property
    def total_us(self) -> float:
        """Microseconds of all regions together."""
        return float(sum(us for _, us in self._needed().lines()))

    def events(self) -> list[dict[str, Any]]:
        """Each run of a region or span: ``name``, ``start_us``, ``duration_us``, ``thread``, ``bytes``, ``flops``,
        ``lines``."""
        return [
            {
                "name": name,
                "start_us": start,
                "duration_us": duration,
                "thread": thread,
                "bytes": moved,
                "flops": flops,
                "lines": [_show(line) for line, _ in lines],
            }
            for (name, lines, moved, flops), start, duration, thread in self._needed().events()
        ]

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """A row for each name; with ``group_by_stack_n``, for each name and line."""
        if group_by_input_shape:
            raise value_error("key_averages: regions are fused ops: group_by_stack_n=1 tells those of two lines apart")
        rows: dict[tuple[str, str], Average] = {}

        def row(name: str, lines: list[Any]) -> Average:
            where = [_show(line) for line, _ in lines]
            key = (name, " ".join(where) if group_by_stack_n > 0 else "")
            found = rows.setdefault(key, Average(name))
            found.lines.update(dict.fromkeys(where))
            return found

        for (name, lines, moved, flops), runs, self_us in self._needed().regions():
            found = row(name, lines)
            found.count += runs
            found.self_time += self_us
            found.bytes += moved * runs
            found.flops += flops * runs
        for (name, lines, _, _), _, duration, _ in self._needed().events():
            row(name, lines).total_time += duration
        return Averages(rows.values())

    def table(self, sort_by: str | None = "self_cpu_time_total", row_limit: int = 100) -> str:
        """Regions, then the lines of the program, then the memory."""
        text = [self.key_averages(group_by_stack_n=1).table(sort_by, row_limit), f"{'us':>10} {'%':>6}  Line"]
        total = max(self.total_us, 1e-9)
        for line, us in self._needed().lines()[: row_limit if row_limit >= 0 else None]:
            text.append(f"{us:10.1f} {100 * us / total:6.1f}  {_show(line)}")
        given, arena, results, in_place, peak = (n / 2**20 for n in self._needed().memory())
        text.append(
            f"memory planned: {peak:.2f} MiB at most (given {given:.2f}, arena {arena:.2f}, results {results:.2f}, "
            f"of which {in_place:.2f} in place)"
        )
        return "\n".join(text)

    def lines(self) -> list[tuple[str, float]]:
        """Lines of the program with their microseconds, the costliest first."""
        return [(_show(line), us) for line, us in self._needed().lines()]

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a remark to the timeline."""
        self._metadata[key] = str(value)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a timeline with the names of the process and its threads, for ui.perfetto.dev."""
        text = self._needed().json()
        if self._metadata:
            text = json.dumps({"traceEvents": json.loads(text), "metadata": self._metadata})
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes lines with their whole microseconds, for flame graphs."""
        if metric not in ("self_cpu_time_total", "self_cuda_time_total"):
            raise value_error(f"export_stacks: metric={metric!r} is neither self_cpu_time_total nor self_cuda_time_total")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line.replace(' ', '_')} {round(us)}\n" for line, us in self.lines())

    def __str__(self) -> str:
        return self.table()


def _show(line: tuple[str, int, int]) -> str:
    file, number, column = line
    return f"{file}:{number}:{column}" if column else f"{file}:{number}"


@functools.cache
def supported_activities() -> set[ProfilerActivity]:
    """The devices of this machine."""
    gpus = any(name.startswith("cuda") for name in _native.devices())
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if gpus else {ProfilerActivity.CPU}


__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
