"""``DataLoader``: the batches of a dataset, in order or shuffled, made here, by threads or by worker processes."""

import contextlib
import itertools
import multiprocessing
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from ... import _native
from ..._checked import type_error, value_error
from .collate import default_collate, default_convert
from .dataset import IterableDataset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, permutation, seed_of
from .worker import Work, Workers, mixed, raise_told

T = TypeVar("T", covariant=True)

_FIXED = ("batch_size", "batch_sampler", "dataset", "drop_last", "persistent_workers", "sampler")


class _Indexed:
    """Batches of a dataset with indices."""

    def __init__(self, collate: Callable[[Any], Any], is_batched: bool, dataset: Any, *_rest: Any) -> None:
        self.collate, self.is_batched, self.dataset = collate, is_batched, dataset

    def fetch(self, indices: Any) -> tuple[Any, ...]:
        return "batch", self.batch(indices), None

    def batch(self, indices: Any) -> Any:
        dataset = self.dataset
        if not self.is_batched:
            return self.collate(dataset[indices])
        if type(dataset) is TensorDataset and self.collate is default_collate:
            # One op for a whole batch.
            index = _native.tensor(indices, dtype="int64")
            return [t.index_select(0, index) for t in dataset.tensors]
        many = getattr(dataset, "__getitems__", None)
        return self.collate(many(indices) if callable(many) else [dataset[i] for i in indices])


class _Streamed:
    """Batches of an iterable."""

    def __init__(
        self,
        collate: Callable[[Any], Any],
        batch_size: int | None,
        drop_last: bool,
        dataset: Any,
        skip: int = 0,
        state: Any = None,
        reseed: Callable[..., None] | None = None,
        place: tuple[int, ...] = (),
    ) -> None:
        self.collate, self.batch_size, self.drop_last, self.dataset = collate, batch_size, drop_last, dataset
        self.has_state = hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")
        if self.has_state and state is not None:
            dataset.load_state_dict(state)
            skip = 0
        self.rest = iter(dataset)
        for i in range(skip):
            if reseed is not None:
                reseed(*place, i)
            self._examples()

    def fetch(self, task: Any = None) -> tuple[Any, ...]:
        examples = self._examples()
        if examples is None:
            return "end", None, None
        made = self.collate(examples)
        return "batch", made, self.dataset.state_dict() if self.has_state else None

    def _examples(self) -> Any:
        """The examples of the next batch; ``None`` at the end."""
        if self.batch_size is None:
            return next(self.rest, None)
        found = list(itertools.islice(self.rest, self.batch_size))
        return None if not found or (self.drop_last and len(found) < self.batch_size) else found


class _Make:
    """Makes the source of batches in a worker; a class, so that it can be pickled."""

    def __init__(self, kind: type, *settings: Any) -> None:
        self.kind, self.settings = kind, settings

    def __call__(self, dataset: Any, *rest: Any) -> Any:
        return self.kind(*self.settings, dataset, *rest)


def _isolated(order: Iterable[Any], seed: int) -> Iterator[Any]:
    """The items of an iterable that draws from its own generator in the place of this thread's."""
    own, rest, end = (seed, 0), None, object()
    while True:
        before = _native.random_state()
        _native.set_random_state(own)
        try:
            rest = iter(order) if rest is None else rest
            item = next(rest, end)
            own = _native.random_state()
        finally:
            _native.set_random_state(before)
        if item is end:
            return
        yield item


def _places(stream: dict[str, Any], n: int) -> tuple[list[int], list[Any], set[int], int]:
    """Where the workers of an iterable begin: batches read, states, those at their end, and whose turn it is."""
    skip = stream.get("skip", 0)
    counts = list(stream.get("counts") or [skip // n + (i < skip % n) for i in range(n)])
    return counts, list(stream.get("states") or [None] * n), set(stream.get("ended", ())), stream.get("next", skip % n)


class DataLoader(Generic[T]):
    """Batches of a dataset, of a tuple of arrays, or of any iterable of examples.

    With ``shuffle`` each pass has its own order, which follows from the number of the pass and from a seed that
    is drawn when the loader is made: the same seed gives the same batches, whatever else draws random numbers. With
    ``generator`` the seed of each pass is drawn from it. ``sampler`` or ``batch_sampler`` give another order.

    ``num_workers`` processes make batches ahead, ``prefetch_factor`` each, and hand them over in shared memory;
    the order is the same. ``multiprocessing_context`` is ``"fork"`` (the default on Linux), ``"spawn"``,
    ``"forkserver"``, a context of ``multiprocessing``, or ``"thread"``: threads of this process instead. In a worker
    the generators of talweg, Python and NumPy are reseeded for each batch, so that random examples do not depend on
    the number of workers (with a ``worker_init_fn`` only talweg's: the others are the function's). What a worker
    raises is raised here, with its traceback; a worker that dies and ``timeout`` raise ``WorkerError``.

    ``state_dict()`` says where the loader is: after ``load_state_dict()`` the next pass goes on with the batch that
    would have come next, shuffled or not, with workers or without. ``pin_memory`` and ``pin_memory_device`` change
    nothing: what goes to a GPU is staged in pinned memory by the device.

    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    >>> loader = DataLoader(range(4), batch_size=1)
    >>> batches = iter(loader)
    >>> next(batches).tolist()
    [0]
    >>> state = loader.state_dict()
    >>> again = DataLoader(range(4), batch_size=1)
    >>> again.load_state_dict(state)
    >>> [batch.tolist() for batch in again]
    [[1], [2], [3]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if isinstance(dataset, tuple) and not hasattr(dataset, "_fields"):
            dataset = TensorDataset(*dataset)
        self.dataset = dataset
        self._is_indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        if isinstance(dataset, IterableDataset) or sampler is not None or batch_sampler is not None:
            self._is_indexed = not isinstance(dataset, IterableDataset)
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.persistent_workers, self.timeout, self.in_order = persistent_workers, timeout, in_order
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self._check_workers(multiprocessing_context)
        self._order_by(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        is_batched = self.batch_sampler is not None or self.batch_size is not None
        self.collate_fn = collate_fn or (default_collate if is_batched else default_convert)
        needs_seed = (shuffle and generator is None) or num_workers > 0
        self.seed = seed_of(generator) if needs_seed else None
        self._pass, self._at, self._pending = 0, None, None
        self._permute = permutation
        self._pool: Workers | None = None
        if self._is_indexed:
            self._make = _Make(_Indexed, self.collate_fn, is_batched)
        else:
            self._make = _Make(_Streamed, self.collate_fn, self.batch_size, drop_last)

    def _check_workers(self, context: Any) -> None:
        n = self.num_workers
        if not isinstance(n, int) or n < 0:
            raise value_error(f"DataLoader: num_workers must be at least 0, not {n!r}")
        if self.timeout < 0:
            raise value_error(f"DataLoader: timeout must not be negative, but is {self.timeout}")
        if n == 0:
            alone = {"timeout": self.timeout, "prefetch_factor": self.prefetch_factor, "persistent_workers": self.persistent_workers}
            for name, value in alone.items():
                if value:
                    raise value_error(f"DataLoader: {name} needs workers: give num_workers as well")
        elif self.prefetch_factor is None:
            self.prefetch_factor = 2
        elif self.prefetch_factor < 1:
            raise value_error(f"DataLoader: prefetch_factor must be at least 1, not {self.prefetch_factor}")
        self.multiprocessing_context = context
        if isinstance(context, str) and context != "thread":
            if context not in multiprocessing.get_all_start_methods():
                known = [*multiprocessing.get_all_start_methods(), "thread"]
                raise value_error(f"DataLoader: multiprocessing_context is one of {known}, not {context!r}")
            self.multiprocessing_context = multiprocessing.get_context(context)
        elif context is not None and context != "thread" and not hasattr(context, "Process"):
            raise type_error(f"DataLoader: multiprocessing_context is a name or a context, not {type(context).__name__}")

    def _order_by(self, batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
        if batch_size is not None and batch_size < 1:
            raise value_error(f"DataLoader: batch_size must be at least 1, not {batch_size}")
        if shuffle and isinstance(self.dataset, IterableDataset):
            raise value_error("DataLoader: an IterableDataset cannot be shuffled: it has no indices")
        if shuffle and not self._is_indexed:
            raise type_error("DataLoader: only a dataset with __getitem__ and __len__ can be shuffled")
        if (sampler is not None or batch_sampler is not None) and not self._is_indexed:
            raise value_error("DataLoader: an IterableDataset takes no sampler: it has no indices")
        if sampler is not None and shuffle:
            raise value_error("DataLoader: sampler and shuffle both say the order: give one of them")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise value_error("DataLoader: batch_sampler says batch_size, shuffle, sampler and drop_last by itself")
            batch_size = None
        elif batch_size is None and drop_last:
            raise value_error("DataLoader: without batches (batch_size=None) there is no last one to drop")
        self._is_own_order = shuffle and self.generator is None
        if self._is_indexed and sampler is None:
            if shuffle:
                sampler = RandomSampler(self.dataset, generator=self.generator) if len(self.dataset) else []
            else:
                sampler = SequentialSampler(self.dataset)
        if self._is_indexed and batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, bool(drop_last))
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "_make" in self.__dict__:
            raise value_error(f"DataLoader: {name} cannot be set after the loader is made: make another")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if self._is_indexed:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self._pending is not None:
            return self.batches_from(self._pending["batches"], self._pending["pass"])
        return self.batches_from(0, self._pass)

    def batches_from(self, start: int, number: int) -> Iterator[Any]:
        """The batches of a pass, given its number, without the first ``start``: those are not read where that can be
        avoided."""
        state, self._pending = self._pending, None
        if state is not None and (state["pass"], state["batches"]) != (number, start):
            state = None
        self._pass = number + 1
        self._at = {"pass": number, "batches": start, "sampler": None, "stream": None}
        return self._counted(self._at, self._batches(start, number, state or {}))

    def _counted(self, at: dict[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, each counted as it is yielded."""
        with contextlib.closing(batches) if hasattr(batches, "close") else contextlib.nullcontext():
            for batch in batches:
                at["batches"] += 1
                yield batch
        at.update({"pass": at["pass"] + 1, "batches": 0, "sampler": None, "stream": None})

    def _batches(self, start: int, number: int, state: dict[str, Any]) -> Iterator[Any]:
        is_thread = self.multiprocessing_context == "thread"
        if self._is_indexed:
            tasks = self._indices(start, number, state.get("sampler"))
            if self.num_workers and not is_thread:
                return self._worked(enumerate(tasks, start), number, None)
            source = self._make(self.dataset, 0, None)
            if self.num_workers:
                return self._threaded(tasks, source.batch)
            return map(source.batch, tasks)
        if self.num_workers and not is_thread:
            return self._worked(((i, None) for i in itertools.count(start)), number, state.get("stream") or {"skip": start})
        return self._streamed(start, state.get("stream"))

    def _indices(self, start: int, number: int, state: Any) -> Iterator[Any]:
        """The indices of each batch, without the first ``start``."""
        at = self._at
        order = self.sampler if self.batch_sampler is None else self.batch_sampler
        if self._is_own_order:
            n = len(self.dataset)
            whole = self._permute(self.seed, number, n)
            if self.batch_size is None:
                return iter(whole[start:])
            firsts = range(start * self.batch_size, n, self.batch_size)
            batches = (whole[i : i + self.batch_size] for i in firsts)
            return (b for b in batches if len(b) == self.batch_size or not self.drop_last)
        # What has a position: the sampler of batches, or that under it.
        keeper = next((s for s in (order, getattr(order, "sampler", None)) if hasattr(s, "load_state_dict")), None)
        if keeper is not None:
            if state is not None and "own" in state:
                keeper.load_state_dict(state["own"])
            rest = iter(order)
            first = list(itertools.islice(rest, 1))  # with which the pass of the sampler below begins
            at["sampler"] = {"own": keeper.state_dict()}
            return itertools.islice(itertools.chain(first, rest), start, None)
        # Another's sampler: what it draws follows from a seed of this pass.
        drawn = seed_of() if state is None else state["seed"]
        at["sampler"] = {"seed": drawn}
        return itertools.islice(_isolated(order, drawn), start, None)

    def _streamed(self, start: int, state: Any) -> Iterator[Any]:
        held = (state or {}).get("states") or [None]
        source, at = self._make(self.dataset, start, held[0]), self._at
        while True:
            kind, batch, now = source.fetch()
            if kind == "end":
                return
            at["stream"] = {"states": [now]}
            yield batch

    def _threaded(self, tasks: Iterator[Any], batch: Callable[[Any], Any]) -> Iterator[Any]:
        with ThreadPoolExecutor(self.num_workers) as pool:
            ahead = deque(pool.submit(batch, c) for c in itertools.islice(tasks, self.prefetch_factor * self.num_workers))
            while ahead:
                done = ahead.popleft().result()
                ahead.extend(pool.submit(batch, c) for c in itertools.islice(tasks, 1))
                yield done

    def _started(self, number: int) -> Workers:
        """The workers: new ones, or those of the last pass."""
        if self._pool is not None:
            return self._pool
        context = self.multiprocessing_context
        if context is None:
            methods = multiprocessing.get_all_start_methods()
            context = multiprocessing.get_context("fork" if "fork" in methods else methods[0])
        held = getattr(self.dataset, "tensors", ()) if type(self.dataset) is TensorDataset else ()
        if any(str(t.device) != "cpu" for t in held):
            raise value_error("DataLoader: worker processes cannot read tensors of a GPU: leave num_workers at 0, or move the tensors to the host")
        works = [
            Work(self.dataset, self._make, self.worker_init_fn, i, self.num_workers, mixed(self.seed, number, -1 - i))
            for i in range(self.num_workers)
        ]
        pool = Workers(works, context, self.timeout)
        if self.persistent_workers:
            self._pool = pool
            weakref.finalize(self, pool.close)
        return pool

    def _worked(self, tasks: Iterator[tuple[int, Any]], number: int, stream: dict[str, Any] | None) -> Iterator[Any]:
        """Batches of worker processes; of an iterable, which ``stream`` says, each worker has its own."""
        pool, at, n = self._started(number), self._at, self.num_workers
        counts, states, ended, turn = _places(stream or {}, n)
        issued, asked, made = list(counts), {}, {}  # asked: the worker of each batch under way
        turns = itertools.cycle([*range(turn, n), *range(turn)])

        def ask() -> None:
            worker = next((w for w in itertools.islice(turns, n) if w not in ended), None)
            which, task = next(tasks, (None, None)) if worker is not None else (None, None)
            if which is not None:
                asked[which] = worker
                place = (which,) if stream is None else (worker, issued[worker])
                issued[worker] += 1
                pool.ask(worker, which, task, (self.seed, number, *place))

        is_well = False
        try:
            token = pool.begin(list(zip(counts, states)), (self.seed, number))
            for _ in range(n * self.prefetch_factor):
                ask()
            while asked:
                turn = next(iter(asked))
                while turn not in made and (self.in_order or not made):
                    if pool.token != token:
                        is_well = True
                        raise value_error("DataLoader: another pass has begun: persistent workers serve one at a time")
                    for which, *answer in pool.answers():
                        made[which] = answer
                turn = turn if turn in made else next(iter(made))
                worker, (kind, what, *state) = asked.pop(turn), made.pop(turn)
                if kind == "error":
                    raise_told(what)
                if kind == "end":
                    ended.add(worker)
                    ask()
                    continue
                if stream is not None:
                    counts[worker], states[worker] = counts[worker] + 1, state[0]
                    now = {"counts": counts, "states": states, "ended": sorted(ended)}
                    at["stream"] = {**{k: list(v) for k, v in now.items()}, "next": (worker + 1) % n}
                ask()
                yield what
            is_well = True
        except GeneratorExit:
            is_well = True
            raise
        finally:
            if pool is not self._pool or not is_well:
                self._pool = None if pool is self._pool else self._pool
                pool.close(not is_well)

    # Where it is.

    def state_dict(self) -> dict[str, Any]:
        """The position of the loader, in numbers, lists and dicts, for ``load_state_dict`` of an identical loader."""
        if not self.in_order and self.num_workers:
            raise value_error("state_dict: batches come in no certain order with in_order=False: a state cannot say which came")
        if self._pending is not None:
            return dict(self._pending)
        at = self._at or {"pass": self._pass, "batches": 0, "sampler": None, "stream": None}
        drawn = self.generator.get_state().tolist() if hasattr(self.generator, "get_state") else None
        own = {} if self._permute is permutation else {"order": "rust"}
        return {**at, "seed": self.seed, "generator": drawn, **own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues the next pass at the position of a state."""
        missing = {"pass", "batches", "sampler", "stream", "seed"} - set(state_dict)
        if missing:
            raise value_error(f"load_state_dict: this is no state of a DataLoader: it has no {sorted(missing)}")
        stream = state_dict["stream"] or {}
        if stream.get("counts") and len(stream["counts"]) != self.num_workers:
            have, now = len(stream["counts"]), self.num_workers
            raise value_error(f"load_state_dict: the iterable was read by {have} workers, and this loader has {now}: make them as many")
        if state_dict["seed"] is not None:
            self.seed = state_dict["seed"]
        self._permute = _native.loader_order if state_dict.get("order") == "rust" else permutation
        if state_dict.get("generator") is not None and hasattr(self.generator, "set_state"):
            self.generator.set_state(_native.tensor(state_dict["generator"], dtype="uint8"))
        self._pending = dict(state_dict)
        self._at, self._pass = None, state_dict["pass"]

    # Where Rust's loader would be: epoch, batches and samples of it, samples in all, seed, whether Python shuffles.

    def _position(self, number: int, batch: int) -> tuple[int, int, int, int, int | None, bool] | None:
        is_ordered = self._is_own_order or type(self.sampler) is SequentialSampler
        if not self._is_indexed or self.batch_size is None or not is_ordered:
            return None
        n = len(self.dataset)
        seed = self.seed if self._is_own_order else None
        return number, batch, min(batch * self.batch_size, n), n, seed, seed is not None and self._permute is permutation

    def _take_position(self, at: tuple[int, int, int, int, int | None, bool]) -> None:
        number, batch, samples, n, seed, by_generator = at
        now = self._position(number, batch)
        if now is None or now[2:4] != (samples, n) or (now[4] is None) != (seed is None):
            was = f"{samples} of {n} samples, {'not ' if seed is None else ''}shuffled"
            raise value_error(f"resume: the run was after batch {batch} of an epoch, {was}, which is no place of this loader")
        if seed is not None:
            self.seed, self._permute = seed, permutation if by_generator else _native.loader_order
        self._at, self._pass, self._pending = None, number, None


__all__ = ["DataLoader", "default_collate", "default_convert"]
