"""Data in batches: from arrays, datasets with ``__getitem__`` and ``__len__``, and iterables."""

from .. import _native
from .._native import Tensor


class Dataset:
    """Examples by number: a subclass has ``__getitem__`` and ``__len__``."""

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError


class TensorDataset(Dataset):
    """Examples along the first axis of tensors or arrays of equal length."""

    def __init__(self, *tensors):
        self.tensors = tuple(t if isinstance(t, Tensor) else _native.tensor(t) for t in tensors)
        lengths = {len(t) for t in self.tensors}
        if len(lengths) != 1:
            raise ValueError(f"TensorDataset: the tensors differ in length: {sorted(lengths)}")

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


def default_collate(examples):
    """Examples as one batch: numbers and arrays are stacked, tuples and dicts part by part."""
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

    With ``shuffle`` the order is drawn anew in each pass, from this thread's generator: the same seed
    gives the same batches.
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, drop_last=False, collate_fn=None):
        if batch_size < 1:
            raise ValueError(f"DataLoader: batch_size must be at least 1, not {batch_size}")
        if isinstance(dataset, tuple):
            dataset = TensorDataset(*dataset)
        if shuffle and not hasattr(dataset, "__getitem__"):
            raise TypeError("DataLoader: only a dataset with __getitem__ and __len__ can be shuffled")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn or default_collate

    def __len__(self):
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def _numbers(self):
        n = len(self.dataset)
        order = _native.randperm(n).tolist() if self.shuffle else range(n)
        for start in range(0, n, self.batch_size):
            chunk = order[start : start + self.batch_size]
            if len(chunk) == self.batch_size or not self.drop_last:
                yield list(chunk)

    def __iter__(self):
        if isinstance(self.dataset, TensorDataset) and self.collate_fn is default_collate:
            # One take for a whole batch.
            for chunk in self._numbers():
                index = _native.tensor(chunk, dtype="int64")
                yield tuple(t.take(index, 0) for t in self.dataset.tensors)
        elif hasattr(self.dataset, "__getitem__") and hasattr(self.dataset, "__len__"):
            for chunk in self._numbers():
                yield self.collate_fn([self.dataset[i] for i in chunk])
        else:
            batch = []
            for example in self.dataset:
                batch.append(example)
                if len(batch) == self.batch_size:
                    yield self.collate_fn(batch)
                    batch = []
            if batch and not self.drop_last:
                yield self.collate_fn(batch)


def random_split(dataset, lengths):
    """A dataset in parts, drawn at random."""
    if sum(lengths) != len(dataset):
        raise ValueError(f"random_split: the lengths {lengths} do not add up to {len(dataset)}")
    order = _native.randperm(len(dataset)).tolist()
    parts, start = [], 0
    for n in lengths:
        parts.append(Subset(dataset, order[start : start + n]))
        start += n
    return parts


class Subset(Dataset):
    """Some examples of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = list(indices)

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)
