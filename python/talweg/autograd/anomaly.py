"""NaN in gradients, and the op it came from."""

import functools

from .. import _native
from .._checked import type_error

_is_on = False


def is_anomaly_enabled():
    """True while NaN is looked for."""
    return _is_on


def _set(on):
    global _is_on
    before, _is_on = _is_on, bool(on)
    _native.autograd_check_numerics(_is_on)
    return before


class set_detect_anomaly:
    """Raises ``NumericsError`` at the first NaN or infinity that is computed, forward or backward, and names the op and
    its line; at once, and as a scope until its end. It slows programs down. What a scope only prepares is not checked:
    read the loss or a gradient in it.

    >>> with tw.autograd.set_detect_anomaly(True):
    ...     tw.ones(2).log().sum().item()
    0.0
    """

    def __init__(self, mode, check_nan=True):
        if not isinstance(mode, bool):
            raise type_error(f"set_detect_anomaly: mode must be a bool, not {type(mode).__name__}")
        self._before = _set(mode and check_nan)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        _set(self._before)


class detect_anomaly:
    """A scope or decorator that raises ``NumericsError`` at the first NaN or infinity that is computed in it. ``backward``
    only prepares gradients: read one, or step the optimizer and read the loss, within the scope.

    >>> x = tw.tensor(0.0, requires_grad=True)
    >>> with tw.autograd.detect_anomaly():
    ...     try:
    ...         (x.sqrt() * 0).backward()
    ...         x.grad.item()
    ...     except tw.NumericsError:
    ...         print("found")
    found
    """

    def __init__(self, check_nan=True):
        self._mode, self._before = check_nan, []

    def __enter__(self):
        self._before.append(_set(self._mode))
        return self

    def __exit__(self, *_exception):
        _set(self._before.pop())

    def __call__(self, f):
        @functools.wraps(f)
        def inside(*args, **kwargs):
            with detect_anomaly(self._mode):
                return f(*args, **kwargs)

        return inside
