"""Random numbers: drawn from this thread's generator, or as a pure function of a key."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._checked import check
from ._functions.random import default_generator, get_rng_state, initial_seed, manual_seed, set_rng_state

if TYPE_CHECKING:
    from . import DTypeLike, Tensor, random_key as key, uniform

    _native: Any
else:
    from . import _native
    from ._native import Tensor, random_key as key, uniform

get_state = _native.random_state
set_state = _native.set_random_state


def seed(seed: "int | None" = None) -> int:
    """Seeds the generator of this thread; without a seed, with one from the system. Returns the seed.

    >>> tw.random.seed(3)
    3
    """
    return default_generator.seed() if seed is None else manual_seed(seed).initial_seed()


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """A scope after which the random numbers of this thread go on as if nothing had been drawn.

    >>> g = tw.manual_seed(0)
    >>> with tw.random.fork_rng():
    ...     a = tw.rand(2)
    >>> tw.equal(a, tw.rand(2))
    True
    """
    before = _native.random_state()
    try:
        yield
    finally:
        if enabled:
            _native.set_random_state(before)


def normal(shape: Any, mean: float = 0.0, std: float = 1.0, dtype: "DTypeLike | None" = None) -> "Tensor":
    """Normal random numbers.

    >>> tw.random.normal((2, 3), mean=5.0, std=0.1).shape
    talweg.Size([2, 3])
    """
    return _native.randn(shape, dtype=dtype) * std + mean


def permutation(n: int) -> "Tensor":
    """The numbers 0 to n - 1 in a random order.

    >>> sorted(tw.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    return _native.randperm(n)


def bernoulli(p: Any, shape: Any = None) -> "Tensor":
    """True with probability ``p``.

    >>> tw.random.bernoulli(1.0, (3,)).tolist()
    [True, True, True]
    """
    p = _native.tensor(p)
    return Tensor.random_bernoulli(key(), p if shape is None else p.broadcast_to(shape))


__all__ = [
    "bernoulli", "fork_rng", "get_rng_state", "get_state", "initial_seed", "key", "manual_seed", "normal", "permutation",
    "seed", "set_rng_state", "set_state", "uniform",
]  # fmt: skip

check(globals(), __all__)
