"""The range of a layer's inputs, from examples."""

# mypy: ignore-errors
import numpy as np

from .._checked import value_error

_BINS = 2048
_LEVELS = 128


class Observer:
    """A histogram of magnitudes, the smallest and greatest value, and the mean along ``axis``, of what was seen.

    >>> seen = tw.compression.Observer()
    >>> seen.update(tw.tensor([[1.0, -3.0]]))
    >>> seen.most
    3.0
    """

    def __init__(self, axis=-1):
        self.axis, self.least, self.most, self.counts, self.sum, self.rows = axis, 0.0, 0.0, np.zeros(_BINS), None, 0

    def update(self, x):
        x = x.detach().numpy()
        values = np.abs(x).ravel()
        most = float(values.max(initial=0.0))
        self.least = min(self.least, float(x.min(initial=0.0)))
        if most > self.most:
            self._widen(most)
        if self.most:
            self.counts += np.histogram(values, _BINS, (0, self.most))[0]
        rows = np.moveaxis(x, self.axis, -1).reshape(-1, x.shape[self.axis])
        self.sum = rows.sum(0) if self.sum is None else self.sum + rows.sum(0)
        self.rows += len(rows)

    def _widen(self, most):
        if self.most:
            places = (np.arange(_BINS) + 0.5) * (self.most / most)
            self.counts = np.bincount(places.astype(int).clip(0, _BINS - 1), self.counts, _BINS)
        self.most = most

    @property
    def mean(self):
        return self.sum / max(self.rows, 1)


def _kl(counts, bins):
    """How much is lost if magnitudes beyond so many bins are cut, and the rest is told apart in 128 levels."""
    p = counts[:bins].astype(float).copy()
    p[-1] += counts[bins:].sum()
    parts = np.array_split(np.arange(bins), _LEVELS)
    q = np.zeros(bins)
    for part in parts:
        there = counts[part] > 0
        if there.any():
            q[part[there]] = counts[part].sum() / there.sum()
    p, q = p / p.sum(), q / max(q.sum(), 1e-12)
    here = p > 0
    return float((p[here] * np.log(p[here] / np.maximum(q[here], 1e-9))).sum())


def threshold(observer, method="minmax", percentile=99.99):
    """The magnitude that becomes the largest integer: that of the ``"minmax"``, of a ``"percentile"`` of all, or the one
    that keeps most information (``"entropy"``).
    """
    if method == "minmax" or not observer.counts.sum():
        return observer.most
    width = observer.most / _BINS
    if method == "percentile":
        share = np.cumsum(observer.counts) / observer.counts.sum()
        return float((np.searchsorted(share, percentile / 100) + 1) * width)
    if method == "entropy":
        counts = observer.counts.copy()
        # Zeros, such as those of a ReLU, are exact in any scale, and would hide the rest.
        counts[0] = counts[1]
        candidates = range(_LEVELS, _BINS + 1, 16)
        return min(candidates, key=lambda bins: _kl(counts, bins)) * width
    raise value_error(f"calibration: there is no method {method!r}; there are minmax, percentile and entropy")
