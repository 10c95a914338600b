"""Window functions with PyTorch's names and arguments."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .._checked import checked, value_error
from .._functions.spectral import cosines, kaiser as _kaiser

if TYPE_CHECKING:
    from .. import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
    "hann", "kaiser", "nuttall",
]  # fmt: skip


def _points(name: str, M: int, sym: bool, value: Callable[[float, float], float], settings: dict[str, Any]) -> "Tensor":
    """A window of M points; ``value(i, n)`` is its height at point i of one whose last is n."""
    if M < 0:
        raise value_error(f"{name}: the number of points must not be negative: {M}")
    n = float(M - 1 if sym else M)
    values = [1.0] if M == 1 else [value(float(i), n) for i in range(M)]
    settings = {k: v for k, v in settings.items() if k != "layout"}
    settings["dtype"] = settings.get("dtype") or "float32"
    return _native.tensor(values, **settings)


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **settings: Any) -> "Tensor":
    """A sum of cosines with weights of alternating sign.

    >>> tw.signal.windows.general_cosine(3, a=[0.5, 0.5]).tolist()
    [0.0, 1.0, 0.0]
    """
    if not a:
        raise value_error("general_cosine: a must not be empty")
    return _points("general_cosine", M, sym, lambda i, n: cosines(i, n, *a), settings)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **settings: Any) -> "Tensor":
    """``alpha - (1 - alpha) cos 2πi/n``.

    >>> tw.signal.windows.general_hamming(3, alpha=0.5).tolist()
    [0.0, 1.0, 0.0]
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **settings)


def hamming(M: int, *, sym: bool = True, **settings: Any) -> "Tensor":
    """The window of Hamming.

    >>> tw.signal.windows.hamming(3).tolist()
    [0.08, 1.0, 0.08]
    """
    return general_hamming(M, sym=sym, **settings)


def hann(M: int, *, sym: bool = True, **settings: Any) -> "Tensor":
    """The window of Hann.

    >>> tw.signal.windows.hann(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return general_hamming(M, alpha=0.5, sym=sym, **settings)


def blackman(M: int, *, sym: bool = True, **settings: Any) -> "Tensor":
    """The window of Blackman.

    >>> tw.signal.windows.blackman(5).tolist()
    [0.0, 0.34, 1.0, 0.34, 0.0]
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **settings)


def nuttall(M: int, *, sym: bool = True, **settings: Any) -> "Tensor":
    """The window of Nuttall with four terms.

    >>> tw.signal.windows.nuttall(3).tolist()
    [0.0003628, 1.0, 0.0003628]
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **settings)


def bartlett(M: int, *, sym: bool = True, **settings: Any) -> "Tensor":
    """The window of Bartlett: a triangle.

    >>> tw.signal.windows.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _points("bartlett", M, sym, lambda i, n: 1.0 - abs(2.0 * i / n - 1.0), settings)


def cosine(M: int, *, sym: bool = True, **settings: Any) -> "Tensor":
    """Half a period of a sine.

    >>> tw.signal.windows.cosine(1).tolist()
    [1.0]
    """
    return _points("cosine", M, sym, lambda i, n: math.sin(math.pi * (i + 0.5) / (n + 1.0)), settings)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **settings: Any) -> "Tensor":
    """``exp(-|i - center| / tau)``.

    >>> tw.signal.windows.exponential(3).tolist()
    [0.36787945, 1.0, 0.36787945]
    """
    if tau <= 0:
        raise value_error(f"exponential: tau must be positive, not {tau}")
    if sym and center is not None:
        raise value_error("exponential: center is for sym=False")
    return _points(
        "exponential", M, sym, lambda i, n: math.exp(-abs(i - (n / 2.0 if center is None else center)) / tau), settings
    )


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **settings: Any) -> "Tensor":
    """``exp(-½ ((i - n/2) / std)²)``.

    >>> tw.signal.windows.gaussian(3).tolist()
    [0.60653067, 1.0, 0.60653067]
    """
    if std <= 0:
        raise value_error(f"gaussian: std must be positive, not {std}")
    return _points("gaussian", M, sym, lambda i, n: math.exp(-0.5 * ((i - n / 2.0) / std) ** 2), settings)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **settings: Any) -> "Tensor":
    """The window of Kaiser.

    >>> tw.signal.windows.kaiser(3, beta=0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    if beta < 0:
        raise value_error(f"kaiser: beta must not be negative: {beta}")
    return _points("kaiser", M, sym, lambda i, n: _kaiser(i, n, beta), settings)


globals().update({name: checked(globals()[name]) for name in __all__})
