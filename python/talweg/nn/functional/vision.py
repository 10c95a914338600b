"""Padding, resizing and sampling of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error
from .common import sizes, tensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ... import Tensor

__all__ = [
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "pad", "pixel_shuffle", "pixel_unshuffle",
    "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """Padded at the edges of the last dimensions: ``pad`` are before and after, last dimension first.

    >>> tw.nn.functional.pad(tw.ones(2), (1, 1), value=5.0).tolist()
    [5.0, 1.0, 1.0, 5.0]
    """
    if value is not None and mode != "constant":
        raise value_error(f"pad: value is for mode='constant', not {mode!r}")
    return tensor(input).pad(pad, mode, 0.0 if value is None else value)


def interpolate(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resized images: to ``size``, or by ``scale_factor``."""
    if antialias and mode not in ("bilinear", "bicubic"):
        raise value_error(f"interpolate: antialias is for bilinear and bicubic modes, not {mode!r}")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise value_error(f"interpolate: align_corners is for linear and cubic modes, not {mode!r}")
    x = tensor(input)
    ranks = {"linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4}
    if mode in ranks and x.ndim != ranks[mode]:
        raise value_error(f"interpolate: mode {mode!r} is for {ranks[mode]} dimensions, not {x.ndim}")
    if recompute_scale_factor:
        if scale_factor is None:
            raise value_error("interpolate: recompute_scale_factor needs scale_factor")
        factors = sizes(scale_factor, x.ndim - 2)
        size, scale_factor = tuple(int(s * f) for s, f in zip(x.shape[2:], factors)), None
    if antialias:
        return _antialiased(x, size, scale_factor, mode, bool(align_corners))
    return x.interpolate(size, scale_factor, mode, bool(align_corners))


def _triangle(t):
    return max(0.0, 1.0 - abs(t))


def _cubic(t):
    """Keys' kernel with a = -1/2."""
    t = abs(t)
    if t < 1.0:
        return (1.5 * t - 2.5) * t * t + 1.0
    return ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0 if t < 2.0 else 0.0


def _filter(count, out, step, kernel, reach, dtype):
    """The weight of each of ``count`` elements in each of ``out``: the kernel, as wide as the step where that is
    greater than 1."""
    width = max(step, 1.0)
    rows = []
    for i in range(out):
        center = step * (i + 0.5)
        first, last = max(int(center - reach * width + 0.5), 0), min(int(center + reach * width + 0.5), count)
        row = [kernel((j - center + 0.5) / width) if first <= j < last else 0.0 for j in range(count)]
        total = sum(row)
        rows.append([w / total if total else w for w in row])
    return _native.tensor(rows, dtype=dtype).reshape(out, count)


def _antialiased(x, size, scale_factor, mode, align_corners):
    """Resized along rows and columns with a kernel that covers all elements of the input."""
    factors = None if scale_factor is None else sizes(scale_factor, 2)
    out = sizes(size, 2) if size is not None else tuple(int(s * f) for s, f in zip(x.shape[2:], factors))
    kernel, reach = (_triangle, 1.0) if mode == "bilinear" else (_cubic, 2.0)
    weights = []
    for i, (count, n) in enumerate(zip(x.shape[2:], out)):
        if align_corners:
            step = (count - 1) / (n - 1) if n > 1 else 0.0
        else:
            step = count / n if factors is None else 1.0 / factors[i]
        weights.append(_filter(count, n, step, kernel, reach, x.dtype))
    return weights[0] @ x @ weights[1].mT


def upsample(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The old name of ``interpolate``."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """The old name of ``interpolate(mode="nearest")``."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """The old name of ``interpolate(mode="bilinear", align_corners=True)``."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None,
) -> Tensor:
    """Images sampled at the coordinates ``grid [N, H, W, 2]`` between -1 and 1."""
    return tensor(input).grid_sample(grid, mode, padding_mode, bool(align_corners))


def _line(count, align_corners, dtype):
    if align_corners:
        return _native.linspace(-1.0, 1.0, count).astype(dtype) if count > 1 else _native.zeros(1, dtype=dtype)
    return ((_native.arange(count).astype(dtype) * 2 + 1) / count) - 1


def affine_grid(theta: Tensor, size: int | Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Coordinates for ``grid_sample``: those of an image of ``size [N, C, H, W]`` after the affine map ``theta [N, 2, 3]``.

    >>> same = tw.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> tw.nn.functional.affine_grid(same, (1, 1, 2, 2), align_corners=True).tolist()[0][0]
    [[-1.0, -1.0], [1.0, -1.0]]
    """
    theta = tensor(theta)
    spatial = tuple(size)[2:]
    rank = len(spatial)
    if tuple(theta.shape[1:]) != (rank, rank + 1):
        raise value_error(f"affine_grid: theta must be [N, {rank}, {rank + 1}], not {tuple(theta.shape)}")
    axes = []
    for i, count in enumerate(spatial):
        line = _line(count, bool(align_corners), theta.dtype)
        shape = [1] * rank
        shape[i] = count
        axes.append(line.reshape(shape).broadcast_to(spatial))
    axes = [*reversed(axes), axes[0] * 0 + 1]
    base = _native.Tensor.stack(axes, -1).reshape(1, -1, rank + 1)
    out = base.matmul(theta.transpose(1, 2))
    return out.reshape(theta.shape[0], *spatial, rank)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Depth-to-space: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``."""
    return tensor(input).pixel_shuffle(upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Space-to-depth: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``."""
    return tensor(input).pixel_unshuffle(downscale_factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of several groups interleaved."""
    x = tensor(input)
    n, c, *rest = x.shape
    if c % groups:
        raise value_error(f"channel_shuffle: {groups} groups do not divide {c} channels")
    return x.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(x.shape)


check(globals(), __all__)
