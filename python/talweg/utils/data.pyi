"""Data in batches: from arrays, datasets with ``__getitem__`` and ``__len__``, and iterables."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from .. import Tensor
from .. import dtype
from .. import DTypeLike
from .. import Update
from ..nn import Module
from ..train import Callback
from ..train import History
from ..train import Silent
from ..train import Trainer

class DataLoader:
    """Batches of a dataset, of a tuple of arrays, or of any iterable of examples.

    With ``shuffle`` each pass has an order of its own, which follows from the number of the pass and from a number
    drawn when the loader is made: the same seed gives the same batches, whatever else draws random numbers. With
    ``num_workers`` as many threads prepare batches ahead, in the same order; random numbers that examples draw are then
    those of the threads.

    >>> import talweg as tw
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]"""
    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: bool = False, drop_last: bool = False, collate_fn: Callable[[list[Any]], Any] | None = None, num_workers: int = 0) -> None: ...
    def __iter__(self) -> Iterator[Any]:
        ...
    def __len__(self) -> int:
        ...
    def batches_from(self, start: int, number: int) -> Iterator[Any]:
        """The batches of a pass, given its number, without the first ``start``: those are not read where that can be
        avoided."""

class Dataset:
    """Examples by number: a subclass has ``__getitem__`` and ``__len__``."""
    def __getitem__(self, index: Any) -> Any:
        ...
    def __len__(self) -> int:
        ...

class Subset(Dataset):
    """Some examples of a dataset.

    >>> import talweg as tw
    >>> list(Subset("abc", [2, 0]))
    ['c', 'a']"""
    def __init__(self, dataset: Any, indices: Sequence[int]) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __len__(self) -> int:
        ...

class TensorDataset(Dataset):
    """Examples along the first axis of tensors or arrays of equal length.

    >>> import talweg as tw
    >>> [t.tolist() for t in TensorDataset(tw.arange(3), tw.ones(3))[1]]
    [1, 1.0]"""
    def __init__(self, *tensors: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any:
        ...
    def __len__(self) -> int:
        ...

def default_collate(examples: Sequence[Any]) -> Any:
    """Examples as one batch: numbers and arrays are stacked, tuples and dicts part by part.

    >>> import talweg as tw
    >>> [t.tolist() for t in default_collate([(1, 2.0), (3, 4.0)])]
    [[1, 3], [2.0, 4.0]]"""
def digits(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """`count` digits of a seed: pictures `uint8[count, 28, 28]` and labels `int64[count]`."""
def fashion_mnist(train: bool = True, folder: str | PathLike[str] | None = None) -> tuple[Tensor, Tensor]:
    """Pictures and labels of Fashion-MNIST, from a folder or from where `docs/examples.md` says."""
def random_split(dataset: Any, lengths: Sequence[int]) -> list[Subset]:
    """A dataset in parts, drawn at random.

    >>> import talweg as tw
    >>> [len(part) for part in random_split(range(5), [3, 2])]
    [3, 2]"""
