"""Sequences of several lengths: padded, packed, and lists of them."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from ... import Tensor
from ... import dtype
from ... import DTypeLike
from ... import Update
from ...nn import Module
from ...train import Callback
from ...train import History
from ...train import Silent
from ...train import Trainer
from ...utils.data import Subset

class PackedSequence(NamedTuple):
    """Sequences, longest first, step by step without padding; ``batch_sizes`` says how many sequences have each step.

    >>> import talweg as tw
    >>> packed = tw.nn.utils.rnn.pack_sequence([tw.ones(3, 2), tw.ones(1, 2)])
    >>> packed.data.shape, packed.batch_sizes.tolist()
    (talweg.Size([4, 2]), [2, 1, 1])"""
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None

def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Padded sequences packed, longest first.

    >>> import talweg as tw
    >>> x = tw.tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> tw.nn.utils.rnn.pack_padded_sequence(x, [2, 1], batch_first=True).data.tolist()
    [1.0, 3.0, 2.0]"""
def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Sequences ``[L, ...]`` packed.

    >>> import talweg as tw
    >>> tw.nn.utils.rnn.pack_sequence([tw.tensor([1, 2]), tw.tensor([3])]).data.tolist()
    [1, 3, 2]"""
def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """Packed sequences padded again, in the order they had, and their lengths.

    >>> import talweg as tw
    >>> packed = tw.nn.utils.rnn.pack_sequence([tw.ones(1), tw.ones(2)], enforce_sorted=False)
    >>> x, lengths = tw.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    >>> x.tolist(), lengths.tolist()
    ([[1.0, 0.0], [1.0, 1.0]], [1, 2])"""
def pad_sequence(sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = 'right') -> Tensor:
    """Sequences ``[L, ...]`` side by side ``[L, N, ...]``, filled up to the longest.

    >>> import talweg as tw
    >>> tw.nn.utils.rnn.pad_sequence([tw.ones(3), tw.ones(1)], batch_first=True, padding_value=9.0).tolist()
    [[1.0, 1.0, 1.0], [1.0, 9.0, 9.0]]"""
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of packed ones.

    >>> import talweg as tw
    >>> packed = tw.nn.utils.rnn.pack_sequence([tw.ones(2), tw.ones(1)])
    >>> [s.tolist() for s in tw.nn.utils.rnn.unpack_sequence(packed)]
    [[1.0, 1.0], [1.0]]"""
def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor.

    >>> import talweg as tw
    >>> [s.tolist() for s in tw.nn.utils.rnn.unpad_sequence(tw.ones(2, 2), tw.tensor([2, 1]), batch_first=True)]
    [[1.0, 1.0], [1.0]]"""
