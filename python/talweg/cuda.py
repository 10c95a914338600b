"""NVIDIA GPUs: whether there are any."""

from . import _native


def device_count():
    """How many there are.

    >>> import talweg as tw
    >>> tw.cuda.device_count() >= 0
    True
    """
    return sum(name.startswith("cuda:") for name in _native.devices())


def is_available():
    """True if there is one.

    >>> import talweg as tw
    >>> tw.cuda.is_available() == (tw.cuda.device_count() > 0)
    True
    """
    return device_count() > 0




def __getattr__(name):
    # PyTorch's older place of ``tw.amp``.
    if name == "amp":
        from . import amp

        return amp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["device_count", "is_available"]
