"""Scaling of images: each side by a matrix of weights."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from .._checked import value_error


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    def weight(x: np.ndarray) -> np.ndarray:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = (((x - 5) * x + 8) * x - 4) * a
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))

    return weight


@lru_cache(maxsize=256)
def weights(old: int, new: int, mode: str, antialias: bool) -> np.ndarray:
    """The matrix ``[new, old]`` that scales a side; rows add up to 1."""
    scale = old / new
    out = np.zeros((new, old))
    if mode == "nearest":
        out[np.arange(new), np.minimum((np.arange(new) * scale).astype(int), old - 1)] = 1
        return out.astype("float32")
    # Wider where pixels are dropped, so that each counts.
    wide = max(scale, 1.0) if antialias else 1.0
    reach, weight = (1.0, _triangle) if mode == "bilinear" else (2.0, _cubic(-0.5 if antialias else -0.75))
    for i in range(new):
        center = (i + 0.5) * scale
        if antialias:
            first, last = max(int(center - reach * wide + 0.5), 0), min(int(center + reach * wide + 0.5), old)
            at = np.arange(first, last)
            row = weight((at - center + 0.5) / wide)
            out[i, at] = row / row.sum()
        else:  # what lies outside is the edge
            base = int(np.floor(center - 0.5))
            at = np.arange(base - 1, base + 3)
            np.add.at(out[i], np.clip(at, 0, old - 1), weight(at + 0.5 - (center if mode != "bilinear" else max(center, 0.5))))
    return out.astype("float32")


def resized(planes: np.ndarray, height: int, width: int, mode: str = "bilinear", antialias: bool = True) -> np.ndarray:
    """``[..., height, width]`` scaled to another size, in the same element type."""
    h, w = planes.shape[-2:]
    if height < 1 or width < 1 or not planes.size:
        raise value_error(f"an image of {h} × {w} cannot be scaled to {height} × {width}")
    if (h, w) == (height, width):
        return planes
    values = planes.astype("float32" if planes.dtype != np.float64 else "float64")
    made = weights(h, height, mode, antialias) @ values @ weights(w, width, mode, antialias).T
    if planes.dtype.kind in "iu":
        bounds = np.iinfo(planes.dtype)
        made = np.clip(np.rint(made), bounds.min, bounds.max)
    return made.astype(planes.dtype)
