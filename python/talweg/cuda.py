"""NVIDIA GPUs: whether there are any, which one computes, and its random numbers."""

from . import _native
from ._checked import value_error
from ._device import device as device
from ._functions.random import default_generator


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


def current_device():
    """The number of the GPU that computes what is on the host alone, or 0.

    >>> import talweg as tw
    >>> tw.cuda.current_device()
    0
    """
    return device(_native.current_device()).index or 0


def set_device(device):
    """Makes tensors of this thread on a GPU from now on."""
    _native.set_device(f"cuda:{device}" if isinstance(device, int) else str(device))


def manual_seed(seed):
    """Begins the random numbers of this thread anew: those of a GPU are the same ones.

    >>> import talweg as tw
    >>> tw.cuda.manual_seed(0)
    """
    default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def empty_cache():
    """Does nothing: free memory is used again by the allocator, which changes no result.

    >>> import talweg as tw
    >>> tw.cuda.empty_cache()
    """


def get_device_name(device=None):
    """The name of a GPU, such as ``"cuda:0"``."""
    number = 0 if device is None else device if isinstance(device, int) else int(str(device).partition(":")[2] or 0)
    names = [n for n in _native.devices() if n.startswith("cuda:")]
    if number >= len(names):
        raise value_error(f"get_device_name: there are {len(names)} GPUs")
    return names[number]


__all__ = [
    "current_device", "device", "device_count", "empty_cache", "get_device_name", "is_available", "manual_seed",
    "manual_seed_all", "set_device",
]  # fmt: skip
