"""Examples as batches."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import _native
from ..._checked import type_error, value_error
from ..._native import Tensor


def default_convert(data: Any) -> Any:
    """The data with NumPy's arrays and numbers as tensors; what a loader without batches does with an example.

    >>> import numpy as np
    >>> default_convert({"x": np.ones(2, "float32"), "name": "a"})
    {'x': tensor([1., 1.]), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else _native.tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(v) for v in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(v) for v in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Examples as one batch: tensors, arrays and numbers are stacked; tuples, lists and dicts part by part; strings
    stay a list. A tuple becomes a list; Python's floats become float64, as in PyTorch.

    >>> [t.tolist() for t in default_collate([(1, 2.0), (3, 4.0)])]
    [[1, 3], [2.0, 4.0]]
    >>> default_collate([{"x": 1, "word": "a"}, {"x": 2, "word": "b"}])["word"]
    ['a', 'b']
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stack(batch)
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biufc":
        return _stacked(batch)
    if isinstance(first, float):
        return _native.tensor(list(batch), dtype="float64")
    if isinstance(first, int):
        return _native.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {k: default_collate([e[k] for e in batch]) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(part) for part in zip(*batch)))
    if isinstance(first, Sequence):
        lengths = {len(e) for e in batch}
        if len(lengths) != 1:
            raise value_error(f"default_collate: the examples of a batch have different numbers of parts: {sorted(lengths)}")
        parts = [default_collate(part) for part in zip(*batch)]
        return parts if isinstance(first, tuple) else _like(first, parts)
    if hasattr(first, "__array__"):
        return _stack([_native.tensor(e) for e in batch])
    raise type_error(f"default_collate: an example holds {type(first).__name__}; give a collate_fn")


def _check(parts: Sequence[Any]) -> None:
    shapes = {tuple(p.shape) for p in parts}
    if len(shapes) != 1:
        which = " and ".join(map(str, sorted(shapes)[:3]))
        raise value_error(f"default_collate: the tensors of a batch differ in shape: {which}; pad them in a collate_fn")


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    _check(tensors)
    return Tensor.stack(tensors, 0)


def _stacked(arrays: Sequence[Any]) -> Tensor:
    """NumPy's arrays as one tensor, over the memory of the stacked array where that can be."""
    _check(arrays)
    whole = np.stack(arrays)
    shared = _native.share(whole) if whole.size else None
    return _native.tensor(whole) if shared is None else shared


def _like(first: Any, made: Any) -> Any:
    """In the class of an example, if that can be made of a dict or a list."""
    try:
        return type(first)(made)
    except TypeError:
        return made


__all__ = ["default_collate", "default_convert"]
