"""Worker processes of a loader.

Each worker has one socket to the loader, and nothing else is shared: no queue, no lock that a killed worker could
hold. Small messages go through the socket; arrays go as files in memory whose descriptor is passed on, so that nothing
is left behind by a process that dies. A worker is waited for together with the end of its process.
"""

import hashlib
import io
import mmap
import multiprocessing
import os
import pickle
import queue
import random
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, reduction
from typing import Any

import numpy as np

from ... import _native
from ..._native import Tensor
from ...errors import Error

# A message up to so many bytes goes through the socket.
_SMALL = 8 << 10
_ALIGNED = 64
# A forked worker whose parent was computing in another thread may find locks that stay locked: it is given so many
# seconds for its first computation. The clock is the kernel's, since a thread that waits for a lock may hold Python's.
_START_SECONDS = 30.0
# NumPy has no such types.
_OWN = {"talweg.bfloat16", "talweg.float8_e4m3fn", "talweg.float8_e5m2"}


class WorkerError(Error, RuntimeError):
    """A worker process of a loader died, or raised what cannot be re-raised here."""


class WorkerTimeout(WorkerError, TimeoutError):
    """The workers of a loader delivered no batch within ``timeout``."""


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker process knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a loader its ``id``, ``num_workers``, ``seed`` and ``dataset``; elsewhere ``None``.

    >>> get_worker_info() is None
    True
    """
    return _info


def mixed(*numbers: int) -> int:
    """A seed that follows from numbers."""
    text = struct.pack(f"<{len(numbers)}q", *numbers)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 2


# Messages.


class _Pickler(pickle.Pickler):
    """Tensors as arrays, which are not copied into the pickle."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and not obj.requires_grad and str(obj.dtype) not in _OWN:
            return _tensor, (np.asarray(obj),)
        return NotImplemented


def _tensor(array: np.ndarray) -> Tensor:
    shared = _native.share(array) if array.flags.c_contiguous and array.size else None
    return _native.tensor(array) if shared is None else shared


def send(conn: connection.Connection, message: Any) -> None:
    """Sends an object; its arrays and whatever is large as a file in memory."""
    buffers: list[pickle.PickleBuffer] = []
    body = io.BytesIO()
    _Pickler(body, protocol=5, buffer_callback=buffers.append).dump(message)
    views = [body.getbuffer(), *(b.raw() for b in buffers)]
    sizes = [v.nbytes for v in views]
    if sum(sizes) + 8 * len(sizes) <= _SMALL:
        conn.send_bytes(struct.pack(f"<?I{len(sizes)}Q", False, len(sizes), *sizes) + b"".join(views))
        return
    starts, total = [], 0
    for size in [8 * len(sizes), *sizes]:
        starts.append(total)
        total += -(-size // _ALIGNED) * _ALIGNED
    file = _file(total)
    try:
        with mmap.mmap(file, total) as memory:
            memory[: 8 * len(sizes)] = struct.pack(f"<{len(sizes)}Q", *sizes)
            for start, view in zip(starts[1:], views):
                memory[start : start + view.nbytes] = view
        conn.send_bytes(struct.pack("<?I", True, len(sizes)))
        reduction.send_handle(conn, file, None)
    finally:
        os.close(file)


def receive(conn: connection.Connection) -> Any:
    """The next message; ``EOFError`` if the other end is gone."""
    head = memoryview(conn.recv_bytes())
    is_large, count = struct.unpack_from("<?I", head)
    if not is_large:
        sizes, start = struct.unpack_from(f"<{count}Q", head, 5), 5 + 8 * count
        views = []
        for size in sizes:
            # An array of its own: the views are not aligned.
            views.append(bytearray(head[start : start + size]))
            start += size
        return pickle.loads(views[0], buffers=views[1:])
    try:
        file = reduction.recv_handle(conn)
    except (OSError, RuntimeError, EOFError):
        raise EOFError from None
    try:
        memory = memoryview(mmap.mmap(file, 0))
    finally:
        os.close(file)
    sizes, start = struct.unpack_from(f"<{count}Q", memory), -(-8 * count // _ALIGNED) * _ALIGNED
    views = []
    for size in sizes:
        views.append(memory[start : start + size])
        start += -(-size // _ALIGNED) * _ALIGNED
    return pickle.loads(views[0], buffers=views[1:])


def _file(size: int) -> int:
    """A file in memory without a name."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("talweg-batch", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, size)
    return file


# In the worker.


@dataclass
class Work:
    """What a worker is started with."""

    dataset: Any
    start: Callable[..., Any]  # makes the source of batches: of the dataset, a number to skip and a state
    init: Callable[[int], Any] | None
    id: int
    num_workers: int
    seed: int


def _work(work: Work, conn: connection.Connection, others: list[connection.Connection], parent: int | None) -> None:
    """A worker process: answers requests until there are no more."""
    global _info
    for other in others:  # ends that a forked process has inherited
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the loader's, which ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["TALWEG_THREADS"] = "1"
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _START_SECONDS)
    _compute()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    threading.Thread(target=_listen, args=(conn, parent, inbox), daemon=True).start()
    _info = WorkerInfo(work.id, work.num_workers, work.seed, work.dataset)
    failed, source = None, None

    def reseed(*place: int) -> None:
        seed(mixed(*place), work.init is None)

    try:
        seed(work.seed, True)
        if work.init is not None:
            work.init(work.id)
    except Exception:
        failed = _told(work.id)
    while (request := inbox.get()) is not None:
        token, number, task, place = request
        if number is None:
            source, answer = None, _tried(work.id, lambda: ("source", work.start(work.dataset, *task, reseed, place)))
            kind, source = answer
            if kind == "error":
                source = _Failed(source)
            continue
        if failed is not None:
            answer = ("error", failed)
        else:
            reseed(*place)
            answer = _tried(work.id, lambda: source.fetch(task))
        try:
            send(conn, (token, number, *answer))
        except ConnectionError:
            return
        except Exception:  # what cannot be pickled
            send(conn, (token, number, "error", _told(work.id)))


def _compute() -> None:
    """A first computation, on the host: a forked process has no GPU."""
    _native.set_device("cpu")
    _native.ones(2).sum().item()


def _listen(conn: connection.Connection, parent: int | None, inbox: "queue.SimpleQueue[Any]") -> None:
    """Takes requests as they come, so that the loader never waits to send one; ends the process with its parent,
    whatever it is doing."""
    while True:
        try:
            while not conn.poll(1.0):
                if parent is not None and os.getppid() != parent:
                    os._exit(1)
            request = receive(conn)
        except (EOFError, OSError):
            os._exit(1)
        inbox.put(request)
        if request is None:
            return


class _Failed:
    """In the place of a source that could not be made."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def fetch(self, task: Any) -> tuple[Any, ...]:
        return "error", self.told


def _tried(id: int, f: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    try:
        return f()
    except Exception:
        return "error", _told(id)


def seed(number: int, others: bool) -> None:
    """Seeds talweg's generator, and with ``others`` Python's and NumPy's."""
    _native.set_random_state((number, 0))
    if others:
        random.seed(number)
        np.random.seed(number % 2**32)


def _told(id: int) -> tuple[Any, str]:
    """The class of the exception that is being handled, if it can be sent, and its text with the traceback."""
    kind, error, trace = sys.exc_info()
    assert kind is not None and error is not None
    here = os.path.dirname(__file__)
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == here:  # from the user's code on
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(kind, error, trace)).rstrip()
    text = f"{error}\n\nraised in worker process {id} of a DataLoader (pid {os.getpid()}):\n{lines}"
    try:
        pickle.loads(pickle.dumps(kind))
    except Exception:
        kind = None  # type: ignore[assignment]
    return kind, text


def raise_told(told: tuple[Any, str]) -> None:
    """Raises what a worker has raised."""
    kind, text = told
    made: BaseException
    try:
        made = kind(_Text(text) if issubclass(kind, KeyError) else text)
    except Exception:
        made = WorkerError(text)
    if not str(made).strip():
        made = WorkerError(text)
    raise made from None


class _Text(str):
    """A message that KeyError does not quote."""

    __repr__ = str.__str__


# In the loader.


class Workers:
    """The worker processes of a loader."""

    def __init__(self, works: list[Work], context: Any, timeout: float) -> None:
        self._timeout, self.token, self._owner = timeout, 0, os.getpid()
        self._conns: list[connection.Connection] = []
        self._processes: list[Any] = []
        method = context.get_start_method()
        parent = None if method == "forkserver" else os.getpid()
        if method == "fork":
            _native.ones(2).sum().item()  # what another thread has begun to initialize would stay so in the workers
        try:
            for work in works:
                mine, theirs = multiprocessing.Pipe()
                self._conns.append(mine)
                others = list(self._conns) if method == "fork" else []
                name = f"talweg-worker-{work.id}"
                process = context.Process(target=_work, args=(work, theirs, others, parent), daemon=True, name=name)
                try:
                    process.start()
                finally:
                    theirs.close()
                self._processes.append(process)
        except BaseException:
            self.close(True)
            raise

    def __len__(self) -> int:
        return len(self._processes)

    def begin(self, tasks: list[Any], place: tuple[int, ...]) -> int:
        """Starts a pass: makes the source of each worker. What is still under way of the last one is dropped."""
        self.token += 1
        for worker, task in enumerate(tasks):
            self.ask(worker, None, task, (*place, worker))
        return self.token

    def ask(self, worker: int, number: int | None, task: Any, place: tuple[int, ...]) -> None:
        """Has a worker make a batch; its random numbers follow from ``place``."""
        try:
            send(self._conns[worker], (self.token, number, task, place))
        except ConnectionError:
            self._lost(worker)

    def answers(self) -> Iterator[tuple[Any, ...]]:
        """The answers that are there, at least one; a worker's death or the end of ``timeout`` is raised."""
        end = time.monotonic() + self._timeout if self._timeout else None
        found = False
        while not found:
            sentinels = [p.sentinel for p in self._processes]
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = connection.wait([*self._conns, *sentinels], left)
            if not ready:
                raise WorkerTimeout(_native.located(f"DataLoader: no batch within timeout={self._timeout:g} seconds"))
            for worker, conn in enumerate(self._conns):
                try:
                    # A worker that has died may have answered before.
                    while conn in ready or (sentinels[worker] in ready and conn.poll(0)):
                        token, *answer = receive(conn)
                        if token == self.token:
                            found = True
                            yield tuple(answer)
                        if not conn.poll(0):
                            break
                except (EOFError, OSError):
                    self._lost(worker)
                if sentinels[worker] in ready and not found:
                    self._lost(worker)

    def _lost(self, worker: int) -> None:
        process = self._processes[worker]
        process.join(5.0)
        code = process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
            how = f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
            if name == "SIGALRM":
                how = "could not compute: another thread was computing when it was forked; give multiprocessing_context='spawn'"
        else:
            how = f"ended with exit status {code}"
        raise WorkerError(_native.located(f"DataLoader: worker process {worker} (pid {process.pid}) {how}"))

    def close(self, at_once: bool = False) -> None:
        """Ends the processes: asks them to, then makes them."""
        if os.getpid() != self._owner:  # a forked copy
            return
        for conn in self._conns:
            try:
                if not at_once:
                    send(conn, None)
            except OSError:
                pass
            conn.close()
        for end in [() if at_once else (5.0,), ("terminate", 2.0), ("kill", 5.0)]:
            for process in self._processes:
                for part in end:
                    process.join(part) if isinstance(part, float) else process.is_alive() and getattr(process, part)()
        self._conns, self._processes = [], []


__all__ = ["WorkerError", "WorkerInfo", "WorkerTimeout", "get_worker_info"]
