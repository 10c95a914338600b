"""Switches of the devices, under PyTorch's names. A graph is compiled for the switches it runs under.

>>> tw.backends.cuda.matmul.allow_tf32
False
>>> tw.set_float32_matmul_precision("high")
>>> tw.backends.cuda.matmul.allow_tf32
True
>>> tw.set_float32_matmul_precision("highest")

Precision of ``float32`` on GPUs: products of matrices use TF32 if ``backends.cuda.matmul.allow_tf32`` (or
``set_float32_matmul_precision``) says so, convolutions if ``backends.cudnn.allow_tf32`` does. The CPU computes
``float32`` products in ``float32`` whatever they say.
"""

from __future__ import annotations

import warnings

from .. import _native
from .._checked import type_error, value_error
from . import cpu, cuda, cudnn, mkldnn, mps, openmp

_PRECISIONS = ("highest", "high", "medium")
_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """How products of ``float32`` matrices may be computed on a GPU: ``"highest"`` in ``float32``, ``"high"`` and
    ``"medium"`` with TF32. (PyTorch may use bfloat16 for ``"medium"``; TF32 is more precise than that.)"""
    global _precision
    if precision not in _PRECISIONS:
        raise value_error(f"set_float32_matmul_precision: {precision!r} is none of {', '.join(_PRECISIONS)}")
    _precision = precision
    _native.set_switch("matmul_tf32", precision != "highest")


def get_float32_matmul_precision() -> str:
    """The setting now."""
    if _native.get_switch("matmul_tf32"):
        return "high" if _precision == "highest" else _precision
    return "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Whether a GPU computes the same bits in every run of a program: nothing is then chosen by timing, and libraries'
    kernels that add up in a changing order are not used (attention's gradient runs step by step, and is slower).

    On the CPU results are the same in every run, with any number of threads. ``warn_only`` changes nothing: everything
    has a deterministic way to be computed.
    """
    if not isinstance(mode, bool):
        raise type_error(f"use_deterministic_algorithms: expected True or False, not {mode!r}")
    _native.set_switch("deterministic", mode)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms(True)`` counts."""
    return _native.get_switch("deterministic")


def set_num_threads(count: int) -> None:
    """How many threads of the host compute; results do not depend on it."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise value_error(f"set_num_threads: expected a positive number, not {count!r}")
    _native.set_num_threads(count)
    if _native.get_num_threads() != count:
        warnings.warn(f"set_num_threads: {_native.get_num_threads()} threads is the most", stacklevel=2)


def get_num_threads() -> int:
    """How many threads of the host compute."""
    return _native.get_num_threads()


__all__ = ["cpu", "cuda", "cudnn", "mkldnn", "mps", "openmp"]
