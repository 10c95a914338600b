"""Fourier transforms, the array API standard's extension of this name."""

from typing import TYPE_CHECKING, Any

from .. import _native, _ops as ops
from .._checked import check, value_error

if TYPE_CHECKING:
    from .. import Tensor as Array

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def fft(x: "Array", /, *, n: "int | None" = None, axis: int = -1, norm: str = "backward") -> "Array":
    """The transform of complex numbers."""
    return ops.fft(x, n, axis, norm)


def ifft(x: "Array", /, *, n: "int | None" = None, axis: int = -1, norm: str = "backward") -> "Array":
    """The inverse of ``fft``."""
    return ops.ifft(x, n, axis, norm)


def rfft(x: "Array", /, *, n: "int | None" = None, axis: int = -1, norm: str = "backward") -> "Array":
    """The transform of real numbers: the n/2 + 1 frequencies that determine the others."""
    return ops.rfft(x, n, axis, norm)


def irfft(x: "Array", /, *, n: "int | None" = None, axis: int = -1, norm: str = "backward") -> "Array":
    """The inverse of ``rfft``; without ``n`` there are twice as many numbers as frequencies, less 2."""
    return ops.irfft(x, n, axis, norm)


def hfft(x: "Array", /, *, n: "int | None" = None, axis: int = -1, norm: str = "backward") -> "Array":
    """The real transform of numbers whose other half is the conjugate of this one."""
    return irfft(ops.conj(x), n=n, axis=axis, norm=_OPPOSITE[norm])


def ihfft(x: "Array", /, *, n: "int | None" = None, axis: int = -1, norm: str = "backward") -> "Array":
    """The inverse of ``hfft``."""
    return rfft(x, n=n, axis=axis, norm=_OPPOSITE[norm]).conj()


def _sizes(shape: Any, s: Any, axes: Any) -> "list[tuple[Any, int]]":
    """Size and axis of each transform."""
    if axes is None:
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    axes = list(axes)
    sizes = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(axes):
        raise value_error(f"there are {len(sizes)} sizes for {len(axes)} axes")
    return list(zip(sizes, axes))


def fftn(x: "Array", /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> "Array":
    """``fft`` along several axes, all of them by default."""
    for n, axis in _sizes(x.shape, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x: "Array", /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> "Array":
    """The inverse of ``fftn``."""
    for n, axis in _sizes(x.shape, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(x: "Array", /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> "Array":
    """``rfft`` along the last of several axes, ``fft`` along the others."""
    *others, (n, axis) = _sizes(x.shape, s, axes)
    y = rfft(x, n=n, axis=axis, norm=norm)
    for n, axis in others:
        y = fft(y, n=n, axis=axis, norm=norm)
    return y


def irfftn(x: "Array", /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> "Array":
    """The inverse of ``rfftn``."""
    *others, (n, axis) = _sizes(x.shape, s, axes)
    for m, other in others:
        x = ifft(x, n=m, axis=other, norm=norm)
    return irfft(x, n=n, axis=axis, norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> "Array":
    """The frequencies of a transform of length ``n`` over samples ``d`` apart."""
    places = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return _native.tensor([k / (n * d) for k in places], dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> "Array":
    """The frequencies of a transform of real samples."""
    return _native.tensor([k / (n * d) for k in range(n // 2 + 1)], dtype, device=device)


def _rolled(x: Any, axes: Any, sign: int) -> Any:
    axes = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    for a in axes:
        half = x.shape[a] // 2
        x = ops.roll(x, half if sign > 0 else -half, a)
    return x


def fftshift(x: "Array", /, *, axes: Any = None) -> "Array":
    """Frequency zero in the middle."""
    return _rolled(x, axes, 1)


def ifftshift(x: "Array", /, *, axes: Any = None) -> "Array":
    """Frequency zero at the begin again."""
    return _rolled(x, axes, -1)


__all__ = [
    "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft", "fftfreq", "rfftfreq", "fftshift",
    "ifftshift",
]  # fmt: skip

check(globals(), __all__)
