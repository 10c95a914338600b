"""Comparisons for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import Tensor
from .errors import DTypeError

__all__ = ["assert_close"]

# PyTorch's relative and absolute tolerance by element type.
_TOLERANCE = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
_TOLERANCE |= {"complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    check_device: bool = True,
    msg: str | None = None,
) -> None:
    """Raises an ``AssertionError`` unless two tensors, numbers, or sequences and dicts of them are close.

    >>> tw.testing.assert_close(tw.ones(2), tw.ones(2) + 1e-7)
    """
    if (rtol is None) != (atol is None):
        raise DTypeError("assert_close: give both rtol and atol, or neither")
    settings: dict[str, Any] = dict(rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, check_device=check_device, msg=msg)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        assert actual.keys() == expected.keys(), msg or f"the keys differ: {list(actual)} and {list(expected)}"
        for k in expected:
            assert_close(actual[k], expected[k], **settings)
        return
    if isinstance(expected, Sequence) and isinstance(actual, Sequence) and not isinstance(expected, str):
        assert len(actual) == len(expected), msg or f"the lengths differ: {len(actual)} and {len(expected)}"
        for a, e in zip(actual, expected):
            assert_close(a, e, **settings)
        return
    _compare(actual, expected, rtol, atol, equal_nan, check_dtype, check_device, msg)


def _name(x: Any) -> str:
    return str(x.dtype).split(".")[-1] if hasattr(x, "dtype") else "float64"


def _compare(actual: Any, expected: Any, rtol: Any, atol: Any, equal_nan: bool, types: bool, devices: bool, msg: str | None) -> None:
    both = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if both and types:
        assert actual.dtype == expected.dtype, msg or f"the types differ: {actual.dtype} and {expected.dtype}"
    if both and devices:
        assert str(actual.device) == str(expected.device), msg or f"the devices differ: {actual.device} and {expected.device}"
    wide = max((_TOLERANCE.get(_name(x), (0.0, 0.0)) for x in (actual, expected)), default=(0.0, 0.0))
    relative, absolute = wide if rtol is None else (rtol, atol)
    a, e = (np.asarray(x.detach().cpu().float() if _name(x) in ("bfloat16", "float16") else x.detach().cpu()) if isinstance(x, Tensor) else np.asarray(x) for x in (actual, expected))
    assert a.shape == e.shape, msg or f"the shapes differ: {a.shape} and {e.shape}"
    close = np.isclose(a, e, rtol=relative, atol=absolute, equal_nan=equal_nan)
    if not close.all():
        off = np.abs(a.astype(np.float64) - e.astype(np.float64)) if a.dtype.kind not in "cb" else np.abs(a != e)
        raise AssertionError(msg or f"{int((~close).sum())} of {close.size} elements differ, by up to {float(np.max(off)):.3g} (rtol {relative}, atol {absolute})")
