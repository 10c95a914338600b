"""Datasets, samplers and collation: what PyTorch's do."""

from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest

import talweg as tw
from talweg.utils import data
from talweg.utils.data import default_collate, default_convert, random_split


class Numbers(data.Dataset[int]):
    def __init__(self, *numbers):
        self.numbers = numbers

    def __getitem__(self, i):
        return self.numbers[i]

    def __len__(self):
        return len(self.numbers)


class Count(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_modules_have_pytorch_s_names():
    from talweg.utils.data.dataloader import DataLoader, default_collate
    from talweg.utils.data.dataset import Dataset, random_split
    from talweg.utils.data.distributed import DistributedSampler
    from talweg.utils.data.sampler import SubsetRandomSampler

    assert DataLoader[int] and Dataset[int] and default_collate([1]).tolist() == [1]
    assert random_split and DistributedSampler is data.DistributedSampler and SubsetRandomSampler is data.SubsetRandomSampler


def test_datasets_of_datasets():
    both = Numbers(1, 2) + Numbers(3)
    assert isinstance(both, data.ConcatDataset) and [both[i] for i in range(-3, 3)] == [1, 2, 3] * 2
    assert both.cumulative_sizes == [2, 3]
    with pytest.raises(IndexError):
        both[3]
    with pytest.raises(TypeError, match="ChainDataset"):
        data.ConcatDataset([Count(2)])
    chain = Count(2) + Count(3)
    assert isinstance(chain, data.ChainDataset) and list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    assert data.StackDataset(Numbers(1, 2), [3, 4])[1] == (2, 4)
    assert data.StackDataset(a=Numbers(1, 2))[0] == {"a": 1} and len(data.StackDataset(a="xyz")) == 3
    with pytest.raises(ValueError):
        data.StackDataset("ab", "abc")
    with pytest.raises(ValueError):
        data.StackDataset("ab", x="ab")
    assert data.Subset(Numbers(5, 6, 7), [2, 0])[1] == 5 and list(data.shard(Numbers(5, 6, 7), 0, 2)) == [5, 7]
    with pytest.raises(ValueError, match="not below"):
        data.shard("abc", 2, 2)
    with pytest.raises(TypeError):
        len(data.Dataset())
    with pytest.raises(NotImplementedError):
        data.Dataset()[0]
    with pytest.raises(NotImplementedError):
        iter(data.IterableDataset())


def test_random_split():
    parts = random_split(range(10), [0.3, 0.3, 0.4])
    assert [len(p) for p in parts] == [3, 3, 4] and sorted(sum((list(p) for p in parts), [])) == list(range(10))
    assert [len(p) for p in random_split(range(10), [1 / 3] * 3)] == [4, 3, 3]
    same = [[list(p) for p in random_split(range(10), [5, 5], generator=np.random.default_rng(3))] for _ in range(2)]
    assert same[0] == same[1] and same[0] != [list(range(5)), list(range(5, 10))]
    assert [len(p) for p in random_split([7], [1])] == [1]
    with pytest.warns(UserWarning, match="empty"):
        random_split(range(2), [0.9, 0.1, 0.0])
    with pytest.raises(ValueError, match="do not add up"):
        random_split(range(10), [3, 3])


def test_samplers():
    assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
    s = data.RandomSampler(range(20))
    first, second = list(s), list(s)
    assert first != second and sorted(first) == sorted(second) == list(range(20)) and len(s) == 20
    drawn = list(data.RandomSampler(range(4), replacement=True, num_samples=9000))
    assert len(drawn) == 9000 and all(2000 < n < 2500 for n in Counter(drawn).values()) and set(drawn) == {0, 1, 2, 3}
    more = list(data.RandomSampler(range(4), num_samples=10))
    assert sorted(more[:4]) == sorted(more[4:8]) == [0, 1, 2, 3] and len(more) == 10
    weighted = Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0], 8000))
    assert weighted[0] == 0 and 1800 < weighted[1] < 2200
    assert sorted(data.WeightedRandomSampler([1.0, 0.0, 2.0], 2, replacement=False)) == [0, 2]
    with pytest.raises(ValueError, match="2 different indices of 1"):
        data.WeightedRandomSampler([1.0, 0.0], 2, replacement=False)
    assert sorted(data.SubsetRandomSampler([5, 9, 2])) == [2, 5, 9]
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, True)) == [[0, 1], [2, 3]]
    assert len(data.BatchSampler(range(5), 2, True)) == 2 and len(data.BatchSampler(range(5), 2, False)) == 3
    for wrong in [lambda: data.RandomSampler("a", num_samples=0), lambda: data.BatchSampler(range(3), 0, False), lambda: data.WeightedRandomSampler([1.0], 0)]:
        with pytest.raises(ValueError):
            wrong()
    assert list(data.RandomSampler(range(9), generator=np.random.default_rng(1))) == list(data.RandomSampler(range(9), generator=np.random.default_rng(1)))


@pytest.mark.parametrize("drop_last", [False, True])
def test_parts_of_a_job(drop_last):
    def parts(epoch, shuffle=True):
        made = [data.DistributedSampler(range(10), 4, r, shuffle=shuffle, drop_last=drop_last) for r in range(4)]
        for s in made:
            s.set_epoch(epoch)
        assert {len(s) for s in made} == {len(list(s)) for s in made} == {2 if drop_last else 3}
        return [list(s) for s in made]

    plain = [[0, 4], [1, 5], [2, 6], [3, 7]] if drop_last else [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert parts(0, shuffle=False) == plain  # as PyTorch's
    assert parts(0) == parts(0) != parts(1)
    assert len(set(sum(parts(3), []))) == (8 if drop_last else 10)
    assert list(data.distributed.DistributedSampler(range(3), shuffle=False)) == [0, 1, 2]
    assert len(list(data.DistributedSampler(range(2), 5, 4, shuffle=False))) == 1
    with pytest.raises(ValueError, match="not below"):
        data.DistributedSampler(range(3), 2, 2)


def test_collation():
    out = default_collate([(1, 2.5, "a", np.float32(3), [1, 2], True), (2, 3.5, "b", np.float32(4), [3, 4], False)])
    assert type(out) is list and out[2] == ("a", "b")
    assert [t.dtype for t in (out[0], out[1], out[3], out[5])] == [tw.int64, tw.float64, tw.float32, tw.bool]
    assert [t.tolist() for t in out[4]] == [[1, 3], [2, 4]]
    named = default_collate([OrderedDict(x=tw.ones(2)), OrderedDict(x=tw.zeros(2))])
    assert type(named) is OrderedDict and named["x"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert default_collate([defaultdict(list, x=1)])["x"].tolist() == [1]
    assert default_collate([np.arange(2), np.arange(2)]).shape == (2, 2)
    with pytest.raises(ValueError, match=r"differ in shape: \(2,\) and \(3,\)"):
        default_collate([tw.ones(2), tw.ones(3)])
    with pytest.raises(ValueError, match="numbers of parts"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="object; give a collate_fn"):
        default_collate([object()])
    converted = default_convert({"x": np.ones(2, "f4"), "y": [np.int64(3), "a"], "z": 4})
    assert converted["x"].dtype == tw.float32 and converted["y"][0].item() == 3 and converted["z"] == 4
