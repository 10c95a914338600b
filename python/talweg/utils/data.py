"""Data in batches: from arrays, datasets with ``__getitem__`` and ``__len__``, and iterables."""

import itertools
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from .. import _native
from .._native import Tensor, digits, fashion_mnist
from .._checked import check, type_error, value_error


class Dataset:
    """Examples by number: a subclass has ``__getitem__`` and ``__len__``."""

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError


class TensorDataset(Dataset):
    """Examples along the first axis of tensors or arrays of equal length.

    >>> import talweg as tw
    >>> [t.tolist() for t in TensorDataset(tw.arange(3), tw.ones(3))[1]]
    [1, 1.0]
    """

    def __init__(self, *tensors):
        self.tensors = tuple(t if isinstance(t, Tensor) else _native.tensor(t) for t in tensors)
        lengths = {len(t) for t in self.tensors}
        if len(lengths) != 1:
            raise value_error(f"TensorDataset: the tensors differ in length: {sorted(lengths)}")

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


def default_collate(examples):
    """Examples as one batch: numbers and arrays are stacked, tuples and dicts part by part.

    >>> import talweg as tw
    >>> [t.tolist() for t in default_collate([(1, 2.0), (3, 4.0)])]
    [[1, 3], [2.0, 4.0]]
    """
    first = examples[0]
    if isinstance(first, dict):
        return {k: default_collate([e[k] for e in examples]) for k in first}
    if isinstance(first, (tuple, list)):
        return type(first)(default_collate(list(part)) for part in zip(*examples))
    if isinstance(first, str):
        return list(examples)
    if isinstance(first, Tensor):
        return Tensor.stack(examples, 0)
    if hasattr(first, "__array__"):
        return Tensor.stack([_native.tensor(e) for e in examples], 0)
    return _native.tensor(list(examples))


class DataLoader:
    """Batches of a dataset, of a tuple of arrays, or of any iterable of examples.

    With ``shuffle`` each pass has an order of its own, which follows from the number of the pass and from a number
    drawn when the loader is made: the same seed gives the same batches, whatever else draws random numbers. With
    ``num_workers`` as many threads prepare batches ahead, in the same order; random numbers that examples draw are then
    those of the threads.

    >>> import talweg as tw
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None, num_workers=0):
        if batch_size < 1:
            raise value_error(f"DataLoader: batch_size must be at least 1, not {batch_size}")
        if num_workers < 0:
            raise value_error(f"DataLoader: num_workers must be at least 0, not {num_workers}")
        if isinstance(dataset, tuple):
            dataset = TensorDataset(*dataset)
        if shuffle and not hasattr(dataset, "__getitem__"):
            raise type_error("DataLoader: only a dataset with __getitem__ and __len__ can be shuffled")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn or default_collate
        self.num_workers = num_workers
        self.seed = _native.randint(0, 2**62, [1]).item() if shuffle else None
        self._pass = 0

    def __len__(self):
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self):
        return self.batches_from(0, self._pass)

    def batches_from(self, start, number):
        """The batches of a pass, given its number, without the first ``start``: those are not read where that can be
        avoided."""
        self._pass = number + 1
        if hasattr(self.dataset, "__getitem__") and hasattr(self.dataset, "__len__"):
            n = len(self.dataset)
            order = self._order(n, number) if self.shuffle else range(n)
            firsts = range(start * self.batch_size, n, self.batch_size)
            chunks = (list(order[i : i + self.batch_size]) for i in firsts)
            return self._indexed(c for c in chunks if len(c) == self.batch_size or not self.drop_last)
        return itertools.islice(self._streamed(), start, None)

    def _order(self, n, number):
        before = _native.random_state()
        _native.set_random_state((self.seed, number))
        order = _native.randperm(n).tolist()
        _native.set_random_state(before)
        return order

    def _indexed(self, chunks):
        if self.num_workers == 0:
            yield from map(self._batch, chunks)
            return
        with ThreadPoolExecutor(self.num_workers) as pool:
            ahead = deque(pool.submit(self._batch, c) for c in itertools.islice(chunks, 2 * self.num_workers))
            while ahead:
                batch = ahead.popleft().result()
                ahead.extend(pool.submit(self._batch, c) for c in itertools.islice(chunks, 1))
                yield batch

    def _batch(self, chunk):
        if isinstance(self.dataset, TensorDataset) and self.collate_fn is default_collate:
            # One take for a whole batch.
            index = _native.tensor(chunk, dtype="int64")
            return tuple(t.take(index, 0) for t in self.dataset.tensors)
        return self.collate_fn([self.dataset[i] for i in chunk])

    def _streamed(self):
        batch = []
        for example in self.dataset:
            batch.append(example)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)


def random_split(dataset, lengths):
    """A dataset in parts, drawn at random.

    >>> import talweg as tw
    >>> [len(part) for part in random_split(range(5), [3, 2])]
    [3, 2]
    """
    if sum(lengths) != len(dataset):
        raise value_error(f"random_split: the lengths {lengths} do not add up to {len(dataset)}")
    order = _native.randperm(len(dataset)).tolist()
    parts, start = [], 0
    for n in lengths:
        parts.append(Subset(dataset, order[start : start + n]))
        start += n
    return parts


class Subset(Dataset):
    """Some examples of a dataset.

    >>> import talweg as tw
    >>> list(Subset("abc", [2, 0]))
    ['c', 'a']
    """

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = list(indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


__all__ = [
    "DataLoader",
    "Dataset",
    "Subset",
    "TensorDataset",
    "default_collate",
    "digits",
    "fashion_mnist",
    "random_split",
]

check(globals(), __all__)


def __getattr__(name):
    from .._differences import missing

    raise missing(".utils.data", name)
