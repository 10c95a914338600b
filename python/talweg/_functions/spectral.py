"""Short-time Fourier transforms, windows and numerical gradients."""

import builtins
import math
from collections.abc import Callable
from typing import Any

from .. import _native, _ops
from .._checked import value_error
from .arguments import axes_of, is_complex, is_floating, tensor
from .register import public
from .._native import Tensor


def _window(window: Any, win_length: int, n_fft: int, kind: Any) -> Tensor:
    """The window in the middle of ``n_fft`` elements."""
    w = _native.ones(win_length, dtype=kind) if window is None else tensor(window)
    if tuple(w.shape) != (win_length,):
        raise value_error(f"the window must have {win_length} elements, not shape {tuple(w.shape)}")
    before = (n_fft - win_length) // 2
    return _ops.pad(w, [before, n_fft - win_length - before]) if win_length < n_fft else w


@public
def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The Fourier transforms of windows along the last dimension: ``[..., frequencies, windows]``.

    >>> tw.stft(tw.ones(8), 4, return_complex=True).shape
    talweg.Size([3, 9])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft or hop <= 0 or input.ndim not in (1, 2):
        raise value_error("stft: expected 1 or 2 dimensions, hop_length above 0 and win_length from 1 to n_fft")
    if return_complex is None and not is_complex(input):
        raise value_error("stft: return_complex must be given for real input")
    if align_to_window and center:
        raise value_error("stft: align_to_window is for center=False")
    x = input.reshape(1, -1) if input.ndim == 1 else input
    if center:
        x = _padded(x, n_fft // 2, pad_mode)
    kind = x.real.dtype if is_complex(x) else x.dtype
    frames = _ops.unfold(x, -1, n_fft, hop) * _window(window, length, n_fft, kind)
    onesided = not is_complex(frames) if onesided is None else onesided
    norm = "ortho" if normalized else "backward"
    if onesided and is_complex(frames):
        raise value_error("stft: onesided=True is for real input and a real window")
    y = _ops.rfft(frames, n_fft, -1, norm) if onesided else _ops.fft(frames, n_fft, -1, norm)
    y = y.mT
    y = y[0] if input.ndim == 1 else y
    return y if return_complex is None or return_complex else _ops.view_as_real(y)


def _padded(x: Tensor, width: int, mode: str) -> Tensor:
    if mode == "constant" or not is_complex(x):
        return _ops.pad(x.unsqueeze(1), [width, width], mode)[:, 0]
    parts = _ops.view_as_real(x).transpose(1, 2)
    return _ops.view_as_complex(_ops.pad(parts, [width, width], mode).transpose(1, 2))


@public
def istft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose transform ``stft`` found: windows added up and divided by the sum of their squares.

    >>> x = tw.arange(8.0)
    >>> w = tw.ones(4)
    >>> tw.istft(tw.stft(x, 4, window=w, return_complex=True), 4, window=w).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    x = input.unsqueeze(0) if input.ndim == 2 else input
    onesided = x.shape[-2] != n_fft if onesided is None else onesided
    if x.shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        raise value_error(f"istft: {x.shape[-2]} frequencies do not fit n_fft={n_fft}")
    if onesided and return_complex:
        raise value_error("istft: return_complex=True is for onesided=False")
    norm = "ortho" if normalized else "backward"
    # A real signal is determined by its first frequencies.
    frames = x.mT if return_complex else x[..., : n_fft // 2 + 1, :].mT
    y = _ops.ifft(frames, n_fft, -1, norm) if return_complex else _ops.irfft(frames, n_fft, -1, norm)
    kind = y.real.dtype if is_complex(y) else y.dtype
    w = _window(window, size, n_fft, kind)
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    signal = _overlapped(y * w, hop, total)
    squares = _overlapped((w * w).broadcast_to((1, count, n_fft)), hop, total)
    start = n_fft // 2 if center else 0
    end = total - (n_fft // 2 if center else 0) if length is None else start + length
    kept = builtins.min(end, total)
    signal, squares = signal[:, start:kept], squares[:, start:kept]
    signal = signal / squares
    if end > total:
        signal = _ops.pad(signal, [0, end - total])
    return signal[0] if input.ndim == 2 else signal


def _overlapped(frames: Tensor, hop: int, total: int) -> Tensor:
    """Windows added up where they overlap."""
    if is_complex(frames):
        return _ops.complex(_overlapped(frames.real, hop, total), _overlapped(frames.imag, hop, total))
    count, size = frames.shape[-2:]
    places = (_native.arange(count).reshape(-1, 1) * hop + _native.arange(size)).reshape(-1)
    flat = frames.reshape(frames.shape[0], count * size)
    return _ops.index_add(_native.zeros((frames.shape[0], total), dtype=frames.dtype), 1, places, flat)


@public(method=False)
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Derivatives along dimensions by central differences, of second order inside and ``edge_order`` at the edges.

    >>> [t.tolist() for t in tw.gradient(tw.tensor([1.0, 2.0, 4.0]))]
    [[1.0, 1.5, 2.0]]
    """
    x = tensor(input)
    dims = axes_of(dim, x.ndim, "gradient")
    if isinstance(spacing, (tuple, list)):
        if len(spacing) != len(dims):
            raise value_error(f"gradient: {len(spacing)} spacings for {len(dims)} dimensions")
        steps = list(spacing)
    else:
        steps = [1 if spacing is None else spacing] * len(dims)
    if edge_order not in (1, 2):
        raise value_error(f"gradient: edge_order is 1 or 2, not {edge_order}")
    x = x if is_floating(x) or is_complex(x) else x.astype("float32")
    return tuple(_derivative(x, d, h, edge_order) for d, h in zip(dims, steps))


def _derivative(x: Tensor, dim: int, h: Any, edge_order: int) -> Tensor:
    n = x.shape[dim]
    if n < edge_order + 1:
        raise value_error(f"gradient: dimension {dim} of size {n} needs at least {edge_order + 1} elements")

    def part(start: int, size: int) -> Tensor:
        return _ops.narrow(x, dim, start, size)

    if isinstance(h, Tensor) and h.ndim == 1:
        shape = [1] * x.ndim
        shape[dim] = -1
        gaps = _ops.diff(h, 1, 0).reshape(shape)
    else:
        gaps = _native.ones([n - 1 if i == dim else 1 for i in range(x.ndim)], dtype=x.dtype) * h

    def gap(start: int, size: int) -> Tensor:
        return _ops.narrow(gaps, dim, start, size)

    left, right = gap(0, n - 2), gap(1, n - 2)
    a = -right / (left * (left + right))
    b = (right - left) / (left * right)
    c = left / (right * (left + right))
    inner = a * part(0, n - 2) + b * part(1, n - 2) + c * part(2, n - 2)
    first = (part(1, 1) - part(0, 1)) / gap(0, 1)
    last = (part(n - 1, 1) - part(n - 2, 1)) / gap(n - 2, 1)
    if edge_order == 2:
        p, q = gap(0, 1), gap(1, 1)
        first = -(2 * p + q) / (p * (p + q)) * part(0, 1) + (p + q) / (p * q) * part(1, 1) - p / (q * (p + q)) * part(2, 1)
        p, q = gap(n - 3, 1), gap(n - 2, 1)
        last = q / (p * (p + q)) * part(n - 3, 1) - (p + q) / (p * q) * part(n - 2, 1)
        last = last + (2 * q + p) / (q * (p + q)) * part(n - 1, 1)
    return _ops.concat([first, inner, last], dim)


def bessel_i0(x: float) -> float:
    """The modified Bessel function of order 0, by its power series."""
    total = term = 1.0
    k = 1
    while term > 1e-17 * total:
        term *= (x / (2 * k)) ** 2
        total += term
        k += 1
    return total


def cosines(i: float, n: float, *weights: float) -> float:
    """A sum of cosines with alternating signs."""
    return builtins.sum((-1) ** k * w * math.cos(2 * math.pi * k * i / n) for k, w in enumerate(weights))


def kaiser(i: float, n: float, beta: float) -> float:
    """The window of Kaiser at a place."""
    return bessel_i0(beta * math.sqrt(builtins.max(0.0, 1.0 - (2.0 * i / n - 1.0) ** 2))) / bessel_i0(beta)


def _heights(length: int, periodic: bool, value: Callable[[float, float], float], made: dict[str, Any]) -> Tensor:
    """A window of so many points; a periodic one is a symmetric one of a point more, without its last."""
    if length < 0:
        raise value_error(f"window_length must not be negative: {length}")
    n = length if periodic else length - 1
    values = [1.0] if length == 1 else [value(float(i), float(n)) for i in range(length)]
    return _native.tensor(values, **{**made, "dtype": made["dtype"] or "float32"})


@public(method=False)
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The window of Hann: ½ (1 - cos 2πi/n).

    >>> tw.hann_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    made = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _heights(window_length, periodic, lambda i, n: cosines(i, n, 0.5, 0.5), made)


@public(method=False)
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The window of Hamming: alpha - beta cos 2πi/n.

    >>> tw.hamming_window(2).tolist()
    [0.08, 1.0]
    """
    made = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _heights(window_length, periodic, lambda i, n: cosines(i, n, alpha, beta), made)


@public(method=False)
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The window of Blackman.

    >>> tw.blackman_window(4).tolist()
    [0.0, 0.34, 1.0, 0.34]
    """
    made = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _heights(window_length, periodic, lambda i, n: cosines(i, n, 0.42, 0.5, 0.08), made)


@public(method=False)
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The window of Bartlett: a triangle.

    >>> tw.bartlett_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    made = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _heights(window_length, periodic, lambda i, n: 1.0 - abs(2.0 * i / n - 1.0), made)


@public(method=False)
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The window of Kaiser.

    >>> tw.kaiser_window(2, beta=0.0).tolist()
    [1.0, 1.0]
    """
    made = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _heights(window_length, periodic, lambda i, n: kaiser(i, n, beta), made)
