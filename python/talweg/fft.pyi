"""Fourier transforms, as the array API standard's extension of this name."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

def fft(x: Tensor, /, *, n: int | None = None, axis: int | None = -1, norm: str = 'backward') -> Tensor:
    """The transform of complex numbers.

    >>> import talweg as tw
    >>> tw.fft.fft(tw.tensor([1.0 + 1.0j, 1.0])).tolist()
    [(2+1j), 1j]"""
def fft2(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = ..., norm: str = 'backward') -> Tensor:
    """``fft`` along two axes, the last by default.

    >>> import talweg as tw
    >>> tw.fft.fft2(tw.ones(2, 2)).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]"""
def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of a transform of length ``n`` over samples ``d`` apart.

    >>> import talweg as tw
    >>> tw.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]"""
def fftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = 'backward') -> Tensor:
    """``fft`` along several axes, all of them by default."""
def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency zero in the middle.

    >>> import talweg as tw
    >>> tw.fft.fftshift(tw.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]"""
def hfft(x: Tensor, /, *, n: int | None = None, axis: int | None = -1, norm: str = 'backward') -> Tensor:
    """The real transform of numbers whose other half is the conjugate of this one.

    >>> import talweg as tw
    >>> tw.fft.hfft(tw.tensor([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]"""
def ifft(x: Tensor, /, *, n: int | None = None, axis: int | None = -1, norm: str = 'backward') -> Tensor:
    """The inverse of ``fft``.

    >>> import talweg as tw
    >>> tw.fft.ifft(tw.tensor([2.0, 0.0j])).tolist()
    [(1+0j), (1+0j)]"""
def ifft2(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = ..., norm: str = 'backward') -> Tensor:
    """The inverse of ``fft2``.

    >>> import talweg as tw
    >>> tw.fft.ifft2(tw.fft.fft2(tw.ones(2, 2))).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]"""
def ifftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = 'backward') -> Tensor:
    """The inverse of ``fftn``."""
def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency zero at the begin again.

    >>> import talweg as tw
    >>> tw.fft.ifftshift(tw.tensor([-0.5, -0.25, 0.0, 0.25])).tolist()
    [0.0, 0.25, -0.5, -0.25]"""
def ihfft(x: Tensor, /, *, n: int | None = None, axis: int | None = -1, norm: str = 'backward') -> Tensor:
    """The inverse of ``hfft``.

    >>> import talweg as tw
    >>> tw.fft.ihfft(tw.tensor([8.0, -2.0, 0.0, -2.0])).real.tolist()
    [1.0, 2.0, 3.0]"""
def irfft(x: Tensor, /, *, n: int | None = None, axis: int | None = -1, norm: str = 'backward') -> Tensor:
    """The inverse of ``rfft``; without ``n`` there are twice as many numbers as frequencies, less 2.

    >>> import talweg as tw
    >>> tw.fft.irfft(tw.tensor([1.0, -1.0j, -1.0])).tolist()
    [0.0, 1.0, 0.0, 0.0]"""
def irfft2(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = ..., norm: str = 'backward') -> Tensor:
    """The inverse of ``rfft2``.

    >>> import talweg as tw
    >>> tw.fft.irfft2(tw.fft.rfft2(tw.ones(2, 4))).shape
    (2, 4)"""
def irfftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = 'backward') -> Tensor:
    """The inverse of ``rfftn``.

    >>> import talweg as tw
    >>> tw.fft.irfftn(tw.fft.rfftn(tw.ones(2, 4))).shape
    (2, 4)"""
def rfft(x: Tensor, /, *, n: int | None = None, axis: int | None = -1, norm: str = 'backward') -> Tensor:
    """The transform of real numbers: the n/2 + 1 frequencies that determine the others.

    >>> import talweg as tw
    >>> tw.fft.rfft(tw.tensor([1.0, 2.0, 1.0, 2.0])).tolist()
    [(6+0j), 0j, (-2+0j)]"""
def rfft2(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = ..., norm: str = 'backward') -> Tensor:
    """``rfft`` along the second of two axes, ``fft`` along the first.

    >>> import talweg as tw
    >>> tw.fft.rfft2(tw.ones(2, 4)).shape
    (2, 3)"""
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """The frequencies of a transform of real samples.

    >>> import talweg as tw
    >>> tw.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]"""
def rfftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = 'backward') -> Tensor:
    """``rfft`` along the last of several axes, ``fft`` along the others.

    >>> import talweg as tw
    >>> tw.fft.rfftn(tw.ones(2, 2)).tolist()
    [[(4+0j), 0j], [0j, 0j]]"""
