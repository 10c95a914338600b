"""Fourier transforms. Complex numbers are a last dimension of size 2: real and imaginary part."""

from . import _native
from ._native import Tensor

fft = Tensor.fft
ifft = Tensor.ifft
fftn = Tensor.fftn
ifftn = Tensor.ifftn
rfft = Tensor.rfft
irfft = Tensor.irfft


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of a transform of length ``n`` over samples ``d`` apart."""
    places = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return _native.tensor([k / (n * d) for k in places], dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of a transform of real samples."""
    return _native.tensor([k / (n * d) for k in range(n // 2 + 1)], dtype, device=device)


def _rolled(x, axes, sign):
    axes = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    for a in axes:
        half = x.shape[a] // 2
        x = x.roll(half if sign > 0 else -half, a)
    return x


def fftshift(x, /, *, axes=None):
    """Frequency zero in the middle."""
    return _rolled(x, axes, 1)


def ifftshift(x, /, *, axes=None):
    """Frequency zero at the begin again."""
    return _rolled(x, axes, -1)
