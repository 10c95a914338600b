"""Fourier transforms, as the array API standard's extension of this name."""

from . import _native
from ._checked import check, value_error
from ._native import Tensor

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of complex numbers.

    >>> import talweg as tw
    >>> tw.fft.fft(tw.tensor([1.0 + 1.0j, 1.0])).tolist()
    [(2+1j), 1j]
    """
    return Tensor.fft(x, n, axis, norm)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of ``fft``.

    >>> import talweg as tw
    >>> tw.fft.ifft(tw.tensor([2.0, 0.0j])).tolist()
    [(1+0j), (1+0j)]
    """
    return Tensor.ifft(x, n, axis, norm)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of real numbers: the n/2 + 1 frequencies that determine the others.

    >>> import talweg as tw
    >>> tw.fft.rfft(tw.tensor([1.0, 2.0, 1.0, 2.0])).tolist()
    [(6+0j), 0j, (-2+0j)]
    """
    return Tensor.rfft(x, n, axis, norm)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of ``rfft``; without ``n`` there are twice as many numbers as frequencies, less 2.

    >>> import talweg as tw
    >>> tw.fft.irfft(tw.tensor([1.0, -1.0j, -1.0])).tolist()
    [0.0, 1.0, 0.0, 0.0]
    """
    return Tensor.irfft(x, n, axis, norm)


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The real transform of numbers whose other half is the conjugate of this one.

    >>> import talweg as tw
    >>> tw.fft.hfft(tw.tensor([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return irfft(x.conj(), n=n, axis=axis, norm=_OPPOSITE[norm])


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of ``hfft``.

    >>> import talweg as tw
    >>> tw.fft.ihfft(tw.tensor([8.0, -2.0, 0.0, -2.0])).real.tolist()
    [1.0, 2.0, 3.0]
    """
    return rfft(x, n=n, axis=axis, norm=_OPPOSITE[norm]).conj()


def _sizes(shape, s, axes):
    """Size and axis of each transform."""
    if axes is None:
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    axes = list(axes)
    sizes = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(axes):
        raise value_error(f"there are {len(sizes)} sizes for {len(axes)} axes")
    return list(zip(sizes, axes))


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """``fft`` along several axes, all of them by default."""
    for n, axis in _sizes(x.shape, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of ``fftn``."""
    for n, axis in _sizes(x.shape, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """``rfft`` along the last of several axes, ``fft`` along the others.

    >>> import talweg as tw
    >>> tw.fft.rfftn(tw.ones(2, 2)).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    *others, (n, axis) = _sizes(x.shape, s, axes)
    y = rfft(x, n=n, axis=axis, norm=norm)
    for n, axis in others:
        y = fft(y, n=n, axis=axis, norm=norm)
    return y


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of ``rfftn``.

    >>> import talweg as tw
    >>> tw.fft.irfftn(tw.fft.rfftn(tw.ones(2, 4))).shape
    (2, 4)
    """
    *others, (n, axis) = _sizes(x.shape, s, axes)
    for m, other in others:
        x = ifft(x, n=m, axis=other, norm=norm)
    return irfft(x, n=n, axis=axis, norm=norm)


def fft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """``fft`` along two axes, the last by default.

    >>> import talweg as tw
    >>> tw.fft.fft2(tw.ones(2, 2)).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """The inverse of ``fft2``.

    >>> import talweg as tw
    >>> tw.fft.ifft2(tw.fft.fft2(tw.ones(2, 2))).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """``rfft`` along the second of two axes, ``fft`` along the first.

    >>> import talweg as tw
    >>> tw.fft.rfft2(tw.ones(2, 4)).shape
    (2, 3)
    """
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(x, /, *, s=None, axes=(-2, -1), norm="backward"):
    """The inverse of ``rfft2``.

    >>> import talweg as tw
    >>> tw.fft.irfft2(tw.fft.rfft2(tw.ones(2, 4))).shape
    (2, 4)
    """
    return irfftn(x, s=s, axes=axes, norm=norm)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of a transform of length ``n`` over samples ``d`` apart.

    >>> import talweg as tw
    >>> tw.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    places = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return _native.tensor([k / (n * d) for k in places], dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of a transform of real samples.

    >>> import talweg as tw
    >>> tw.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _native.tensor([k / (n * d) for k in range(n // 2 + 1)], dtype, device=device)


def _rolled(x, axes, sign):
    axes = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    for a in axes:
        half = x.shape[a] // 2
        x = x.roll(half if sign > 0 else -half, a)
    return x


def fftshift(x, /, *, axes=None):
    """Frequency zero in the middle.

    >>> import talweg as tw
    >>> tw.fft.fftshift(tw.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _rolled(x, axes, 1)


def ifftshift(x, /, *, axes=None):
    """Frequency zero at the begin again.

    >>> import talweg as tw
    >>> tw.fft.ifftshift(tw.tensor([-0.5, -0.25, 0.0, 0.25])).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _rolled(x, axes, -1)


__all__ = [
    "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "irfft", "rfft2", "irfft2", "rfftn", "irfftn", "hfft", "ihfft",
    "fftfreq", "rfftfreq", "fftshift", "ifftshift",
]  # fmt: skip

check(globals(), __all__)
