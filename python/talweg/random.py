"""Random numbers: drawn from this thread's generator, or as a pure function of a key."""

from . import _native
from ._native import Tensor, manual_seed as seed, random_key as key, uniform

get_state = _native.random_state
set_state = _native.set_random_state


def normal(shape, mean=0.0, std=1.0, dtype=None):
    """Normal random numbers.

    >>> import talweg as tw
    >>> tw.random.normal((2, 3), mean=5.0, std=0.1).shape
    (2, 3)
    """
    return _native.randn(shape, dtype=dtype) * std + mean


def permutation(n):
    """The numbers 0 to n - 1 in a random order.

    >>> import talweg as tw
    >>> sorted(tw.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    return _native.randperm(n)


def bernoulli(p, shape=None):
    """True with probability ``p``.

    >>> import talweg as tw
    >>> tw.random.bernoulli(1.0, (3,)).tolist()
    [True, True, True]
    """
    p = _native.tensor(p)
    return Tensor.random_bernoulli(key(), p if shape is None else p.broadcast_to(shape))


__all__ = ["seed", "key", "uniform", "normal", "permutation", "bernoulli", "get_state", "set_state"]
