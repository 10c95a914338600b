"""Fourier transforms with PyTorch's names and arguments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native, _ops
from ._checked import spelled, tensor_first, value_error
from ._native import Tensor

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
Sizes = Sequence[int] | None
Dims = int | Sequence[int] | None


def _norm(norm: str | None) -> str:
    norm = norm or "backward"
    if norm not in _OPPOSITE:
        raise value_error(f"norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    return norm


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform of complex numbers.

    >>> tw.fft.fft(tw.tensor([1.0 + 1.0j, 1.0])).tolist()
    [(2+1j), 1j]
    """
    return _ops.fft(input, n, dim, _norm(norm))


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``.

    >>> tw.fft.ifft(tw.tensor([2.0, 0.0j])).tolist()
    [(1+0j), (1+0j)]
    """
    return _ops.ifft(input, n, dim, _norm(norm))


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform of real numbers: the n/2 + 1 frequencies that determine the others.

    >>> tw.fft.rfft(tw.tensor([1.0, 2.0, 1.0, 2.0])).abs().tolist()
    [6.0, 0.0, 2.0]
    """
    return _ops.rfft(input, n, dim, _norm(norm))


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``; without ``n`` there are twice as many numbers as frequencies, less 2.

    >>> tw.fft.irfft(tw.tensor([1.0, -1.0j, -1.0])).tolist()
    [0.0, 1.0, 0.0, 0.0]
    """
    return _ops.irfft(input, n, dim, _norm(norm))


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of numbers whose other half is the conjugate of this one.

    >>> tw.fft.hfft(tw.tensor([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return irfft(_ops.conj(input), n, dim, _OPPOSITE[_norm(norm)])


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``.

    >>> tw.fft.ihfft(tw.tensor([8.0, -2.0, 0.0, -2.0])).real.tolist()
    [1.0, 2.0, 3.0]
    """
    return _ops.conj(rfft(input, n, dim, _OPPOSITE[_norm(norm)]))


def _sizes(rank: int, s: Sizes, dim: Dims) -> list[tuple[int | None, int]]:
    """Size and dimension of each transform."""
    if dim is None:
        dim = range(rank) if s is None else range(rank - len(s), rank)
    dims = [dim] if isinstance(dim, int) else list(dim)
    sizes = [None] * len(dims) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(dims):
        raise value_error(f"there are {len(sizes)} sizes for {len(dims)} dimensions")
    return list(zip(sizes, dims))


def fftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """``fft`` along several dimensions, all of them by default.

    >>> tw.fft.fftn(tw.ones(2, 2)).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    sizes = _sizes(input.ndim, s, dim)
    if not sizes:
        return input.astype("complex64") if not input.dtype.name.startswith("complex") else input
    for n, d in sizes:
        input = fft(input, n, d, norm)
    return input


def ifftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``fftn``.

    >>> tw.fft.ifftn(tw.fft.fftn(tw.ones(2, 2))).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    for n, d in _sizes(input.ndim, s, dim):
        input = ifft(input, n, d, norm)
    return input


def rfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """``rfft`` along the last of several dimensions, ``fft`` along the others.

    >>> tw.fft.rfftn(tw.ones(2, 2)).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    *others, (n, d) = _sizes(input.ndim, s, dim)
    y = rfft(input, n, d, norm)
    for n, d in others:
        y = fft(y, n, d, norm)
    return y


def irfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``rfftn``.

    >>> tw.fft.irfftn(tw.fft.rfftn(tw.ones(2, 4))).shape
    talweg.Size([2, 4])
    """
    *others, (n, d) = _sizes(input.ndim, s, dim)
    for m, other in others:
        input = ifft(input, m, other, norm)
    return irfft(input, n, d, norm)


def hfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """``hfft`` along the last of several dimensions, ``fft`` along the others.

    >>> tw.fft.hfftn(tw.ones(2, 3)).shape
    talweg.Size([2, 4])
    """
    *others, (n, d) = _sizes(input.ndim, s, dim)
    for m, other in others:
        input = fft(input, m, other, norm)
    return hfft(input, n, d, norm)


def ihfftn(input: Any, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``hfftn``.

    >>> tw.fft.ihfftn(tw.ones(2, 4)).shape
    talweg.Size([2, 3])
    """
    *others, (n, d) = _sizes(input.ndim, s, dim)
    y = ihfft(input, n, d, norm)
    for n, d in others:
        y = ifft(y, n, d, norm)
    return y


def fft2(input: Any, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """``fft`` along two dimensions, the last by default.

    >>> tw.fft.fft2(tw.ones(2, 2)).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return fftn(input, s, dim, norm)


def ifft2(input: Any, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of ``fft2``.

    >>> tw.fft.ifft2(tw.fft.fft2(tw.ones(2, 2))).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return ifftn(input, s, dim, norm)


def rfft2(input: Any, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """``rfft`` along the second of two dimensions, ``fft`` along the first.

    >>> tw.fft.rfft2(tw.ones(2, 4)).shape
    talweg.Size([2, 3])
    """
    return rfftn(input, s, dim, norm)


def irfft2(input: Any, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of ``rfft2``.

    >>> tw.fft.irfft2(tw.fft.rfft2(tw.ones(2, 4))).shape
    talweg.Size([2, 4])
    """
    return irfftn(input, s, dim, norm)


def hfft2(input: Any, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """``hfft`` along the second of two dimensions, ``fft`` along the first.

    >>> tw.fft.hfft2(tw.ones(2, 3)).shape
    talweg.Size([2, 4])
    """
    return hfftn(input, s, dim, norm)


def ihfft2(input: Any, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of ``hfft2``.

    >>> tw.fft.ihfft2(tw.ones(2, 4)).shape
    talweg.Size([2, 3])
    """
    return ihfftn(input, s, dim, norm)


def _made(values: list[float], dtype: Any, layout: Any, device: Any, requires_grad: bool) -> Tensor:
    del layout  # elements lie one after the other
    return _native.tensor(values, dtype or "float32", device=device, requires_grad=requires_grad)


def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of a transform of length ``n`` over samples ``d`` apart.

    >>> tw.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    places = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return _made([k / (n * d) for k in places], dtype, layout, device, requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of a transform of real samples.

    >>> tw.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _made([k / (n * d) for k in range(n // 2 + 1)], dtype, layout, device, requires_grad)


def _rolled(x: Any, dim: Dims, sign: int) -> Tensor:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    for d in dims:
        x = _ops.roll(x, sign * (x.shape[d] // 2), d)
    return x


def fftshift(input: Any, dim: Dims = None) -> Tensor:
    """Frequency zero in the middle.

    >>> tw.fft.fftshift(tw.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _rolled(input, dim, 1)


def ifftshift(input: Any, dim: Dims = None) -> Tensor:
    """Frequency zero first again.

    >>> tw.fft.ifftshift(tw.tensor([-0.5, -0.25, 0.0, 0.25])).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _rolled(input, dim, -1)


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

globals().update({n: (spelled if n.endswith("freq") else tensor_first)(globals()[n]) for n in __all__})


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from ._differences import missing

        raise missing(".fft", name)
