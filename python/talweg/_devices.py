"""Which device computes."""

from __future__ import annotations

import functools

from . import _native
from ._checked import value_error
from ._device import device as _device, named


class _Scope:
    """A scope, and a decorator, in which something is set for this thread."""

    def __init__(self, set_, value):
        self._set, self._value, self._before = set_, value, []

    def __enter__(self):
        self._before.append(self._set(self._value))
        return self

    def __exit__(self, *_exception):
        self._set(self._before.pop())

    def __call__(self, f):
        @functools.wraps(f)
        def inside(*args, **kwargs):
            with _Scope(self._set, self._value):
                return f(*args, **kwargs)

        return inside


def set_default_device(device: str | None) -> None:
    """Makes tensors of this thread on a device from now on; ``None``: on that of ``TALWEG_DEVICE``, or the host.

    >>> tw.set_default_device("cpu")
    >>> tw.set_default_device(None)
    """
    _native.set_device(named(device))


def get_default_device() -> str:
    """The device that computes what is on the host alone.

    >>> tw.get_default_device()
    device(type='cpu')
    """
    return _device(_native.current_device())


class colocate_with:
    """A scope, inside a jitted function, in which ops are computed on the device that computes ``x``.

    A variable is colocated with its updates and its optimizer state without it.

    >>> x = tw.ones(3)
    >>> with tw.colocate_with(x):
    ...     y = x * 2
    """

    def __init__(self, x) -> None:
        self._x, self._before = x, []

    def __enter__(self):
        self._before.append(_native.enter_colocation(self._x))
        return self

    def __exit__(self, *_exception):
        _native.leave_colocation(self._before.pop())


def devices() -> list[str]:
    """The names of this machine's devices.

    >>> tw.devices()[0]
    'cpu'
    """
    return _native.devices()
