"""Sequences of several lengths: padded, packed, and lists of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpack_sequence",
    "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Sequences, longest first, step by step without padding; ``batch_sizes`` says how many sequences have each step.

    >>> packed = tw.nn.utils.rnn.pack_sequence([tw.ones(3, 2), tw.ones(1, 2)])
    >>> packed.data.shape, packed.batch_sizes.tolist()
    (talweg.Size([4, 2]), [2, 1, 1])
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data elsewhere or in another type."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """With the data on the host."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        """With the data on a GPU."""
        return self.to("cuda" if device is None else device)

    def float(self) -> PackedSequence:
        """With ``float32`` data."""
        return self.to(_native.dtype("float32"))

    def double(self) -> PackedSequence:
        """With ``float64`` data."""
        return self.to(_native.dtype("float64"))

    def half(self) -> PackedSequence:
        """With ``float16`` data."""
        return self.to(_native.dtype("float16"))


def _padded(sequences, length, value, side):
    rest = [0, 0] * (sequences[0].ndim - 1)
    widths = lambda n: [length - n, 0] if side == "left" else [0, length - n]  # noqa: E731
    return [s.pad([*rest, *widths(s.shape[0])], "constant", value) for s in sequences]


def pad_sequence(sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Sequences ``[L, ...]`` side by side ``[L, N, ...]``, filled up to the longest.

    >>> tw.nn.utils.rnn.pad_sequence([tw.ones(3), tw.ones(1)], batch_first=True, padding_value=9.0).tolist()
    [[1.0, 1.0, 1.0], [1.0, 9.0, 9.0]]
    """
    if padding_side not in ("left", "right"):
        raise value_error(f"pad_sequence: padding_side is 'left' or 'right', not {padding_side!r}")
    sequences = list(sequences)
    if not sequences:
        raise value_error("pad_sequence: there are no sequences")
    length = max(s.shape[0] for s in sequences)
    return Tensor.stack(_padded(sequences, length, padding_value, padding_side), 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor.

    >>> [s.tolist() for s in tw.nn.utils.rnn.unpad_sequence(tw.ones(2, 2), tw.tensor([2, 1]), batch_first=True)]
    [[1.0, 1.0], [1.0]]
    """
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [x[i][:n] for i, n in enumerate(_counts(lengths))]


def _counts(lengths):
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Padded sequences packed, longest first.

    >>> x = tw.tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> tw.nn.utils.rnn.pack_padded_sequence(x, [2, 1], batch_first=True).data.tolist()
    [1.0, 3.0, 2.0]
    """
    counts = _counts(lengths)
    x = input.transpose(0, 1) if batch_first else input
    if len(counts) != x.shape[1]:
        raise value_error(f"pack_padded_sequence: {len(counts)} lengths for {x.shape[1]} sequences")
    if not counts or min(counts) < 1 or max(counts) > x.shape[0]:
        raise value_error(f"pack_padded_sequence: lengths must lie between 1 and {x.shape[0]}")
    order = None
    if enforce_sorted:
        if counts != sorted(counts, reverse=True):
            raise value_error("pack_padded_sequence: sequences must be sorted by length; or enforce_sorted=False")
    else:
        order = sorted(range(len(counts)), key=lambda i: -counts[i])
        x, counts = x.take(_native.tensor(order), 1), [counts[i] for i in order]
    sizes = [sum(n > t for n in counts) for t in range(counts[0])]
    flat = x.flatten(0, 1)
    places = [t * len(counts) + i for t, size in enumerate(sizes) for i in range(size)]
    data = flat.take(_native.tensor(places), 0)
    if order is None:
        return PackedSequence(data, _native.tensor(sizes))
    back = [order.index(i) for i in range(len(order))]
    return PackedSequence(data, _native.tensor(sizes), _native.tensor(order), _native.tensor(back))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Packed sequences padded again, in the order they had, and their lengths.

    >>> packed = tw.nn.utils.rnn.pack_sequence([tw.ones(1), tw.ones(2)], enforce_sorted=False)
    >>> x, lengths = tw.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    >>> x.tolist(), lengths.tolist()
    ([[1.0, 0.0], [1.0, 1.0]], [1, 2])
    """
    sizes = sequence.batch_sizes.tolist()
    steps, rows = len(sizes), sizes[0]
    if total_length is not None and total_length < steps:
        raise value_error(f"pad_packed_sequence: total_length {total_length} is less than the longest sequence, {steps}")
    starts = [sum(sizes[:t]) for t in range(steps)]
    lengths = [sum(size > i for size in sizes) for i in range(rows)]
    order = list(range(rows)) if sequence.unsorted_indices is None else sequence.unsorted_indices.tolist()
    places = [starts[t] + i if t < lengths[i] else 0 for t in range(steps) for i in order]
    inside = [t < lengths[i] for t in range(steps) for i in order]
    data = sequence.data
    x = data.take(_native.tensor(places), 0)
    mask = _native.tensor(inside).reshape(-1, *[1] * (data.ndim - 1))
    x = Tensor.where(mask, x, float(padding_value)).reshape(steps, rows, *data.shape[1:]).astype(data.dtype)
    if total_length is not None:
        x = x.pad([0, 0] * (x.ndim - 1) + [0, total_length - steps], "constant", padding_value)
    return x.transpose(0, 1) if batch_first else x, _native.tensor([lengths[i] for i in order])


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Sequences ``[L, ...]`` packed.

    >>> tw.nn.utils.rnn.pack_sequence([tw.tensor([1, 2]), tw.tensor([3])]).data.tolist()
    [1, 3, 2]
    """
    sequences = list(sequences)
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of packed ones.

    >>> packed = tw.nn.utils.rnn.pack_sequence([tw.ones(2), tw.ones(1)])
    >>> [s.tolist() for s in tw.nn.utils.rnn.unpack_sequence(packed)]
    [[1.0, 1.0], [1.0]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


check(globals(), [n for n in __all__ if n != "PackedSequence"])
