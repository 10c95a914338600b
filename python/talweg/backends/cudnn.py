"""cuDNN: attention and convolution on NVIDIA GPUs.

- ``enabled``: whether it is used at all; without it attention and convolution run step by step.
- ``allow_tf32``: whether it may compute ``float32`` convolutions with TF32; as in PyTorch, it may unless told not to.
- ``benchmark``: whether its candidates are timed and the fastest is taken, or its first guess. Unlike PyTorch's, it is
  on unless switched off.
- ``deterministic``: the same bits in every run; ``use_deterministic_algorithms`` sets the same switch.

>>> tw.backends.cudnn.enabled, tw.backends.cudnn.deterministic
(True, False)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from .. import _native
from ._switches import install

enabled: bool
allow_tf32: bool
benchmark: bool
deterministic: bool


def is_available() -> bool:
    """True if there is a GPU; cuDNN itself is loaded when a graph needs it."""
    return any(name.startswith("cuda") for name in _native.devices())


@contextlib.contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """A scope with these switches, with PyTorch's defaults."""
    module = sys.modules[__name__]
    new = {"enabled": enabled, "benchmark": benchmark, "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: getattr(module, name) for name in new}
    try:
        for name, value in new.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


install(
    __name__,
    {"enabled": "cudnn", "allow_tf32": "cudnn_tf32", "benchmark": "benchmark", "deterministic": "deterministic"},
)
