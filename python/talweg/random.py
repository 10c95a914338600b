"""Random numbers: drawn from this thread's generator, or as a pure function of a key."""

from . import _native
from ._native import Tensor, manual_seed as seed, random_key as key, uniform

get_state = _native.random_state
set_state = _native.set_random_state


def normal(shape, mean=0.0, std=1.0, dtype=None):
    """Normal random numbers."""
    return _native.randn(shape, dtype=dtype) * std + mean


def permutation(n):
    """The numbers 0 to n - 1 in a random order."""
    return _native.randperm(n)


def bernoulli(p, shape=None):
    """True with probability ``p``."""
    p = _native.tensor(p)
    return Tensor.random_bernoulli(key(), p if shape is None else p.broadcast_to(shape))


__all__ = ["seed", "key", "uniform", "normal", "permutation", "bernoulli", "get_state", "set_state"]
