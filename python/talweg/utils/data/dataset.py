"""Map-style and iterable datasets, and datasets made of datasets."""

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ... import _native
from ..._checked import type_error, value_error
from ..._native import Tensor
from .sampler import permutation, seed_of

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """A map-style dataset: a subclass has ``__getitem__``, and ``__len__`` where a loader needs it.

    A subclass may have ``__getitems__(indices)``, which returns the examples of a whole batch.
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other: "Dataset[T]") -> "ConcatDataset[T]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """An iterable dataset: a subclass has ``__iter__``.

    In a worker process each worker iterates over its own copy; ``get_worker_info()`` says which part is its.
    With ``state_dict()`` and ``load_state_dict()`` the dataset says where it is, so that a loader that resumes need not
    read again what was read before.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other: Dataset[T]) -> "ChainDataset[T]":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Examples along the first dimension of tensors or arrays of equal length.

    >>> [t.tolist() for t in TensorDataset(tw.arange(3), tw.ones(3))[1]]
    [1, 1.0]
    """

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple(t if isinstance(t, Tensor) else _native.tensor(t) for t in tensors)
        lengths = {len(t) for t in self.tensors}
        if len(lengths) != 1:
            raise value_error(f"TensorDataset: the tensors differ in length: {sorted(lengths)}")

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Datasets zipped: an example is the tuple, or the dict by name, of theirs.

    >>> StackDataset("abc", range(3))[1]
    ('b', 1)
    >>> StackDataset(letter="abc", number=range(3))[2]
    {'letter': 'c', 'number': 2}
    """

    datasets: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise value_error("StackDataset: give datasets either by position or by name")
        self.datasets = kwargs or args
        lengths = {len(d) for d in (kwargs.values() if kwargs else args)}
        if len(lengths) != 1:
            raise value_error(f"StackDataset: the datasets differ in length: {sorted(lengths)}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return len(next(iter(self.datasets.values())) if isinstance(self.datasets, dict) else self.datasets[0])


class ConcatDataset(Dataset[T]):
    """The examples of datasets, one dataset after the other.

    >>> both = ConcatDataset([range(3), "ab"])
    >>> len(both), both[2], both[3], both[-1]
    (5, 2, 'a', 'b')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise value_error("ConcatDataset: give at least one dataset")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise type_error("ConcatDataset: an IterableDataset has no index; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range for {n} examples")
        index %= n
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T]):
    """The examples of iterables, one iterable after the other.

    >>> list(ChainDataset([range(2), "ab"]))
    [0, 1, 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


class Subset(Dataset[T]):
    """Some examples of a dataset.

    >>> list(Subset("abc", [2, 0]))
    ['c', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices if isinstance(indices, range) else list(indices)

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        wanted = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(wanted) if callable(many) else [self.dataset[i] for i in wanted]

    def __len__(self) -> int:
        return len(self.indices)


def shard(dataset: Any, rank: int, world: int) -> Subset[Any]:
    """The shard of one process: every ``world``-th example from ``rank`` on. Shards differ by one example at most.

    >>> list(shard("abcde", 1, 2))
    ['b', 'd']
    """
    if not 0 <= rank < world:
        raise value_error(f"shard: rank {rank} is not below the world size {world}")
    return Subset(dataset, range(rank, len(dataset), world))


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """A dataset in parts, drawn at random; ``lengths`` are numbers of examples, or fractions that add up to 1.

    >>> [len(part) for part in random_split(range(5), [3, 2])]
    [3, 2]
    >>> [len(part) for part in random_split(range(10), [0.5, 0.25, 0.25])]
    [6, 2, 2]
    """
    n = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9 and not (n == 1 and lengths in ([1], (1,))):
        if any(not 0 <= f <= 1 for f in lengths):
            raise value_error(f"random_split: a fraction is from 0 to 1, not {lengths}")
        counts = [math.floor(n * f) for f in lengths]
        for i in range(n - sum(counts)):  # what is left goes to the parts in turn
            counts[i % len(counts)] += 1
        if 0 in counts:
            warnings.warn(f"random_split: a part of {lengths} of {n} examples is empty", stacklevel=3)
    else:
        counts = list(lengths)  # type: ignore[arg-type]
    if sum(counts) != n:
        raise value_error(f"random_split: the lengths {lengths} do not add up to {n}")
    order = permutation(seed_of(generator), 0, n)
    ends = list(itertools.accumulate(counts))
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts)]


__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
    "shard",
]
