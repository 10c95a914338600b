"""Data in batches, with PyTorch's names: datasets, samplers, and ``DataLoader`` with worker processes."""

from ..._checked import check
from ..._native import digits, fashion_mnist
from . import distributed
from .collate import default_collate, default_convert
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
    shard,
)
from .dataloader import DataLoader
from .sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker import WorkerError, WorkerInfo, WorkerTimeout, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerError",
    "WorkerInfo",
    "WorkerTimeout",
    "default_collate",
    "default_convert",
    "digits",
    "fashion_mnist",
    "get_worker_info",
    "random_split",
    "shard",
]

check(globals(), __all__)


def __getattr__(name: str) -> object:
    from ..._differences import missing

    raise missing(".utils.data", name)
