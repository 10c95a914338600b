"""Max pooling over windows of random positions (Graham 2015)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ... import _native, _ops
from ..._checked import check, value_error
from .common import sizes, tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ... import Tensor

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip


def _starts(samples, size, window, out):
    """Where each of ``out`` windows begins, by a random number for each channel."""
    if window > size or out > size - window + 1:
        raise value_error(f"fractional_max_pool: {out} windows of {window} do not fit {size} elements")
    if out == 1:
        return (samples * 0.0).astype("int64").unsqueeze(-1) + (size - window)
    alpha = (size - window) / (out - 1)
    steps = _native.arange(out).astype(samples.dtype)
    places = _ops.floor((samples.unsqueeze(-1) + steps) * alpha) - _ops.floor(samples.unsqueeze(-1) * alpha)
    # The last window ends where the input does.
    return _ops.where(steps == out - 1, float(size - window), places).astype("int64")


def _pooled(name, rank, input, kernel_size, output_size, output_ratio, samples):
    x = tensor(input)
    batched = x.ndim == rank + 2
    if not batched and x.ndim != rank + 1:
        raise value_error(f"{name}: expected {rank + 1} or {rank + 2} dimensions, not {x.ndim}")
    x = x if batched else x.unsqueeze(0)
    spatial = tuple(x.shape[2:])
    if (output_size is None) == (output_ratio is None):
        raise value_error(f"{name}: give output_size or output_ratio")
    if output_size is None:
        out = tuple(int(s * r) for s, r in zip(spatial, sizes(output_ratio, rank)))
    else:
        out = sizes(output_size, rank)
    window = sizes(kernel_size, rank)
    n, c = x.shape[:2]
    u = _native.rand((n, c, rank), dtype=x.dtype) if samples is None else tensor(samples)
    flat = _native.zeros((n, c, *[1] * (2 * rank)), dtype="int64")
    for i in range(rank):
        # PyTorch draws for the last dimension first.
        start = _starts(u[..., rank - 1 - i] if rank == 2 else u[..., i], spatial[i], window[i], out[i])
        shape = [1] * (2 * rank)
        shape[i] = out[i]
        offset = [1] * (2 * rank)
        offset[rank + i] = window[i]
        place = start.reshape(n, c, *shape) + _native.arange(window[i]).reshape(1, 1, *offset)
        flat = flat * spatial[i] + place
    flat = flat.reshape(n, c, math.prod(out) * math.prod(window))
    chosen = _ops.gather(x.reshape(n, c, math.prod(spatial)), 2, flat).reshape(n, c, *out, math.prod(window))
    values, which = _ops.max_index(chosen, -1)
    places = _ops.gather(flat.reshape(n, c, *out, math.prod(window)), -1, which.unsqueeze(-1)).squeeze(-1)
    return (values, places) if batched else (values[0], places[0])


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The greatest element of windows at random positions, and its index in the flat plane."""
    return _pooled("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The greatest element of windows at random positions.

    >>> tw.nn.functional.fractional_max_pool2d(tw.ones(1, 1, 4, 4), 2, output_size=2).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """
    found = fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return found if return_indices else found[0]


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The greatest element of windows at random positions of a volume, and its index in the flat volume."""
    return _pooled("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(
    input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The greatest element of windows at random positions of a volume.

    >>> tw.nn.functional.fractional_max_pool3d(tw.ones(1, 1, 4, 4, 4), 2, output_size=2).shape
    talweg.Size([1, 1, 2, 2, 2])
    """
    found = fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return found if return_indices else found[0]


check(globals(), __all__)
