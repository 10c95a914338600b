"""Samplers: the order of examples.

The order of a pass follows from a seed that is drawn when the pass begins; ``state_dict`` holds it, so that a pass can
be taken up again.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ... import _native
from ..._checked import type_error, value_error

T = TypeVar("T", covariant=True)


def seed_of(generator: Any = None) -> int:
    """A number drawn from a generator: talweg's (``None``: this thread's), Python's or NumPy's."""
    if hasattr(generator, "getrandbits"):
        return generator.getrandbits(62)
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(2**62))
    if generator is None:
        return _native.randint(0, 2**62, [1]).item()
    from ... import randint

    return int(randint(0, 2**62, (1,), generator=generator).item())


def permutation(seed: int, number: int, n: int) -> list[int]:
    """The order of ``n`` examples that follows from a seed and the number of a pass."""
    before = _native.random_state()
    _native.set_random_state((seed, number))
    order = _native.randperm(n).tolist()
    _native.set_random_state(before)
    return order


class Sampler(Generic[T]):
    """Indices of examples, or lists of them: a subclass has ``__iter__``, and ``__len__`` where a loader needs it."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler[int]):
    """Indices in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class _Drawn(Sampler[int]):
    """A sampler whose pass follows from one seed."""

    generator: Any
    _seed: int | None = None  # of the present pass
    _next: int | None = None  # of the pass that is taken up again

    def __iter__(self) -> Iterator[int]:
        self._seed, self._next = (seed_of(self.generator) if self._next is None else self._next), None
        return self._pass(self._seed)

    def _pass(self, seed: int) -> Iterator[int]:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The seed of the present pass."""
        return {"seed": self._seed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Makes the next pass that of a state."""
        self._next = state_dict["seed"]


class RandomSampler(_Drawn):
    """Indices shuffled, or with ``replacement`` drawn independently.

    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    >>> len(list(RandomSampler("abc", replacement=True, num_samples=7)))
    7
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        if not isinstance(replacement, bool):
            raise type_error(f"RandomSampler: replacement is a bool, not {replacement!r}")
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples < (num_samples is not None):
            raise value_error(f"RandomSampler: num_samples is a positive int, not {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        """How many indices a pass has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _pass(self, seed: int) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            draw = np.random.default_rng(seed)
            parts = (draw.integers(n, size=min(4096, wanted - i)).tolist() for i in range(0, wanted, 4096))
        else:
            parts = (permutation(seed, i, n) for i in range(-(-wanted // n) if n else 0))
        return itertools.islice(itertools.chain.from_iterable(parts), wanted)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(_Drawn):
    """Given indices, shuffled.

    >>> sorted(SubsetRandomSampler([7, 3]))
    [3, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def _pass(self, seed: int) -> Iterator[int]:
        return (self.indices[i] for i in permutation(seed, 0, len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(_Drawn):
    """Indices drawn with given weights, which need not add up to 1.

    >>> set(WeightedRandomSampler([0.0, 1.0, 3.0], 20)) <= {1, 2}
    True
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples < 1:
            raise value_error(f"WeightedRandomSampler: num_samples is a positive int, not {num_samples!r}")
        if not isinstance(replacement, bool):
            raise value_error(f"WeightedRandomSampler: replacement is a bool, not {replacement!r}")
        self.weights = _native.tensor(weights, dtype="float64")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        w = np.asarray(self.weights)
        if w.ndim != 1 or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
            raise value_error("WeightedRandomSampler: weights are a row of numbers, not negative and not all zero")
        if not replacement and num_samples > np.count_nonzero(w):
            raise value_error(f"WeightedRandomSampler: {num_samples} different indices of {np.count_nonzero(w)} with a weight")

    def _pass(self, seed: int) -> Iterator[int]:
        w = np.asarray(self.weights)
        draw = np.random.default_rng(seed)
        return iter(draw.choice(len(w), self.num_samples, self.replacement, w / w.sum()).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of a sampler in batches.

    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise value_error(f"BatchSampler: batch_size is a positive int, not {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise value_error(f"BatchSampler: drop_last is a bool, not {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        rest = iter(self.sampler)
        while batch := list(itertools.islice(rest, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The shard of one process: every ``num_replicas``-th index, equally many for all.

    What is missing for equal parts is taken again from the beginning, or left out with ``drop_last``.
    ``set_epoch`` before each pass gives it its own order. ``num_replicas`` and ``rank`` are those of the job
    (``tw.distributed``) unless given. ``tw.train.Trainer`` shares batches by itself: it needs no such sampler.

    >>> [list(DistributedSampler(range(5), num_replicas=2, rank=r, shuffle=False)) for r in range(2)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        from ... import distributed

        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.num_replicas = distributed.world_size() if num_replicas is None else num_replicas
        self.rank = distributed.rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise value_error(f"DistributedSampler: rank {self.rank} is not below num_replicas, {self.num_replicas}")
        self.epoch = 0

    @property
    def num_samples(self) -> int:
        """How many indices each process has."""
        n = len(self.dataset)
        return n // self.num_replicas if self.drop_last else math.ceil(n / self.num_replicas)

    @property
    def total_size(self) -> int:
        """How many all processes have together."""
        return self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, and so the order, of the next pass."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = permutation(self.seed, self.epoch, n) if self.shuffle else list(range(n))
        if n:
            order *= -(-self.total_size // n)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def state_dict(self) -> dict[str, Any]:
        """The epoch."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the epoch of a state."""
        self.epoch = state_dict["epoch"]


__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
