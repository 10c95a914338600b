"""The array API standard: which of its names there are, and what they promise about types and shapes."""

import os
from pathlib import Path

import numpy as np
import pytest

import talweg as tw

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "array-api.md"


def sections():
    for line in (HERE / "array_api.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, names = line.partition(": ")
            yield name, names.split()


def has(name):
    value = tw
    for part in name.split("."):
        value = getattr(value, part, _MISSING)
        if value is _MISSING:
            return False
    return True


_MISSING = object()


def page():
    lines = [
        "# The Python array API standard",
        "",
        "Which names of version 2024.12 `talweg` has. Generated: `TALWEG_BLESS=1 pytest python/tests/test_array_api.py`.",
        "",
        "| section | there | missing |",
        "|---|---|---|",
    ]
    there = total = 0
    for section, names in sections():
        found = [n for n in names if has(n)]
        there, total = there + len(found), total + len(names)
        missing = [n for n in names if n not in found]
        lines.append(f"| {section} | {' '.join(f'`{n}`' for n in found)} | {' '.join(f'`{n}`' for n in missing)} |")
    lines += ["", f"{there} of {total} names.", ""]
    lines += [
        "Complex numbers and the integer types of 16 bits and uint64 are not there; data of such integer types is",
        "widened when it comes in. The functions follow the standard, the methods of a tensor PyTorch: `tw.sort(x)`",
        "gives values, `x.sort()` values and places; `tw.nonzero(x)` a tuple, `x.nonzero()` a matrix. `std` and `var`",
        "divide by n in both; PyTorch's n - 1 is `correction=1`.",
        "",
    ]
    return "\n".join(lines)


def test_the_page_is_current():
    text = page()
    if os.environ.get("TALWEG_BLESS"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run TALWEG_BLESS=1 pytest python/tests/test_array_api.py"


ONE = "abs acos asin atan ceil cos cosh exp expm1 floor log1p negative round sign sin sinh square tan tanh trunc".split()
TWO = "add atan2 divide hypot maximum minimum multiply pow subtract".split()
ONE_BOOL = "isfinite isinf isnan".split()
TWO_BOOL = "equal greater greater_equal less less_equal not_equal".split()


@pytest.mark.parametrize("name", ONE + ONE_BOOL)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_functions_of_one(name, kind):
    x = np.linspace(0.1, 0.9, 6, dtype=kind).reshape(2, 3)
    numpy_name = {"acos": "arccos", "asin": "arcsin", "atan": "arctan"}.get(name, name)
    want = getattr(np, numpy_name)(x)
    got = getattr(tw, name)(tw.asarray(x))
    assert got.dtype.name == want.dtype.name and got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-6)


@pytest.mark.parametrize("name", TWO + TWO_BOOL)
@pytest.mark.parametrize("kinds", [("float32", "float32"), ("float32", "float64")])
def test_functions_of_two(name, kinds):
    a = np.linspace(0.5, 2.0, 6, dtype=kinds[0]).reshape(2, 3)
    b = np.array([1.0, 0.5, 2.0], dtype=kinds[1])
    want = getattr(np, {"atan2": "arctan2", "pow": "power"}.get(name, name))(a, b)
    got = getattr(tw, name)(tw.asarray(a), tw.asarray(b))
    assert got.dtype.name == want.dtype.name and got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-6)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any"])
@pytest.mark.parametrize("axis, keepdims", [(None, False), (0, False), ((0, 2), True), (-1, True)])
def test_reductions(name, axis, keepdims):
    x = np.linspace(-1.0, 2.0, 24, dtype="f4").reshape(2, 3, 4)
    want = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
    got = getattr(tw, name)(tw.asarray(x), axis=axis, keepdims=keepdims)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def test_data_type_functions():
    assert tw.result_type(tw.float32, tw.float64) == tw.float64
    assert tw.result_type(tw.asarray([1]), 1.5) == tw.float32
    assert tw.isdtype(tw.int8, "integral") and not tw.isdtype(tw.int8, ("bool", "real floating"))
    assert tw.finfo(tw.float32).eps == np.finfo("f4").eps and tw.iinfo("uint8").max == 255
    assert tw.can_cast("int8", "int64")
    with pytest.raises(TypeError):
        tw.finfo("int8")


def test_extensions():
    for n in [4, 5]:
        np.testing.assert_allclose(np.asarray(tw.fft.fftfreq(n)), np.fft.fftfreq(n), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(tw.fft.rfftfreq(n)), np.fft.rfftfreq(n), rtol=1e-6)
        x = np.arange(2.0 * n, dtype="f4").reshape(2, n)
        assert tw.fft.fftshift(tw.asarray(x)).tolist() == np.fft.fftshift(x).tolist()
        assert tw.fft.ifftshift(tw.asarray(x), axes=1).tolist() == np.fft.ifftshift(x, axes=1).tolist()
    assert tw.linalg.matrix_rank(tw.asarray([[1.0, 2.0], [2.0, 4.0]])).item() == 1
    values, first, inverse, counts = tw.unique_all(tw.asarray([3, 1, 3, 2]))
    assert [t.tolist() for t in (values, first, inverse, counts)] == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]
    info = tw.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == tw.int64 and "cpu" in info.devices()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}


def test_manipulation():
    x = tw.arange(6).reshape(2, 3)
    assert tw.permute_dims(x, (1, 0)).shape == (3, 2)
    assert tw.expand_dims(x, axis=0).shape == (1, 2, 3)
    assert [t.shape for t in tw.broadcast_arrays(x, tw.zeros(1, 3))] == [(2, 3), (2, 3)]
    assert tw.matrix_transpose(x).shape == (3, 2)
    assert tw.sort(tw.asarray([2, 3, 1]), descending=True).tolist() == [3, 2, 1]
    assert [t.tolist() for t in tw.nonzero(tw.asarray([[0, 1], [1, 0]]))] == [[0, 1], [1, 0]]
    for indexing in ["xy", "ij"]:
        want = np.meshgrid([1, 2, 3], [4, 5], indexing=indexing)
        got = tw.meshgrid(tw.asarray([1, 2, 3]), tw.asarray([4, 5]), indexing=indexing)
        assert [t.tolist() for t in got] == [a.tolist() for a in want]
    assert tw.cumulative_sum(tw.asarray([1, 2]), include_initial=True).tolist() == [0, 1, 3]
    assert tw.tensordot(x, x, axes=([1], [1])).tolist() == np.tensordot(np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3), axes=([1], [1])).tolist()
    assert tw.concat([x, x], axis=None).shape == (12,) and len(tw.unstack(x, axis=1)) == 3
    assert tw.repeat(x, 2, axis=0).tolist() == np.repeat(np.arange(6).reshape(2, 3), 2, axis=0).tolist()
    assert tw.roll(x, 1).tolist() == np.roll(np.arange(6).reshape(2, 3), 1).tolist()
    assert tw.clip(x, max=3).tolist() == [[0, 1, 2], [3, 3, 3]] and x.clamp(min=2).tolist() == [[2, 2, 2], [3, 4, 5]]
    assert tw.where(x > 2, 0.5, tw.ones(2, 3, dtype="bfloat16")).dtype == tw.bfloat16
    assert tw.sum(x, dtype="float64").dtype == tw.float64
    assert tw.searchsorted(tw.asarray([1, 2, 2, 3]), tw.asarray([2]), side="right").tolist() == [3]
    assert tw.unique_values(tw.asarray([2, 1, 2])).tolist() == [1, 2]
    assert x.__array_namespace__() is tw
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.01")
