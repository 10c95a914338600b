"""The array API standard: which of its names there are, and what they promise about types and shapes."""

import os
from pathlib import Path

import numpy as np
import pytest

import talweg as tw
import talweg.array_api as xp

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "array-api.md"


def sections():
    for line in (HERE / "array_api.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, names = line.partition(": ")
            yield name, names.split()


def has(name):
    value = xp
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
        "Names of version 2025.12 in `talweg.array_api`. Generated: `TALWEG_BLESS=1 pytest python/tests/test_array_api.py`.",
        "",
        "| section | present | missing |",
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
        "Functions of `xp` follow the standard; `tw.*` and tensor methods follow PyTorch:",
        "",
        "| function | `xp` | method |",
        "|---|---|---|",
        "| `sort` | values | values and indices |",
        "| `nonzero` | a tuple | a matrix |",
        "| `std`, `var` | divide by n | divide by n - 1 |",
        "| `svd` | square matrices | reduced matrices |",
        "",
        "Where the standard leaves type promotion undefined, NumPy's rule holds: an integer with a float is that float, and",
        "`uint64` with a signed integer is `float64`.",
        "",
        "The functions return arrays of a class whose operators follow the standard: one without dimensions is promoted as",
        "any other, and `-1.0 // inf` is -0. Operators of other tensors follow PyTorch.",
        "",
    ]
    return "\n".join(lines)


def test_the_page_is_current():
    text = page()
    if os.environ.get("TALWEG_BLESS"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run TALWEG_BLESS=1 pytest python/tests/test_array_api.py"


NUMPY = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "permute_dims": "transpose",
    "pow": "power",
}
COMPLEX = ["complex64", "complex128"]
FLOATS, INTS = ["float32", "float64"], [f"{s}int{n}" for s in ["", "u"] for n in [8, 16, 32, 64]]
ELEMENTWISE = dict(sections())["Elementwise"]
# Which types each function is for; those that are not here are for numbers.
OF_FLOATS = """acos acosh asin asinh atan atan2 atanh copysign cos cosh divide exp expm1 hypot log log1p log2 log10 logaddexp
reciprocal signbit sin sinh sqrt tan tanh nextafter""".split()
OF_COMPLEX = """abs acos acosh add asin asinh atan atanh cos cosh divide equal exp expm1 isfinite isinf isnan log log1p log2 log10
multiply negative not_equal positive pow reciprocal round sign sin sinh square sqrt subtract tan tanh""".split()
OF_INTS = "bitwise_left_shift bitwise_right_shift".split()
OF_BOOLS = "logical_and logical_not logical_or logical_xor".split()
OF_BITS = "bitwise_and bitwise_invert bitwise_or bitwise_xor".split()
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter
not_equal pow remainder subtract""".split()


def kinds(name):
    if name in OF_COMPLEX:
        return [*real_kinds(name), *COMPLEX]
    return real_kinds(name)


def real_kinds(name):
    if name in OF_FLOATS:
        return FLOATS
    if name in OF_INTS:
        return INTS
    if name in OF_BOOLS:
        return ["bool"]
    return ["bool", *INTS] if name in OF_BITS else [*INTS, *FLOATS]


def values(name, kind):
    """Numbers within the domain of a function."""
    if kind == "bool":
        return np.array([True, False, True])
    if kind in COMPLEX:
        return np.array([0.5 - 0.25j, -1.25 + 2.5j, 3.0 + 0.125j], kind)
    if kind in INTS:
        return np.array([1, 2, 5]).astype(kind)
    if name == "acosh":
        return np.array([1.0, 1.5, 30.0], kind)
    if name in ("acos", "asin", "atanh"):
        return np.array([-0.9, 0.1, 0.5], kind)
    positive = name in ("log", "log1p", "log2", "log10", "sqrt", "pow", "floor_divide", "remainder")
    return np.array([0.25, 1.5, 7.0], kind) if positive else np.array([-2.5, 0.5, 3.0], kind)


def compare(got, want, kind):
    want = np.asarray(want)
    assert got.dtype.name == want.dtype.name and got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12 if kind in ("float64", "complex128") else 3e-6, atol=1e-30)


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if n not in TWO and n not in ("clip", "positive", "real", "imag", "conj")])
def test_elementwise_functions_of_one(name):
    for kind in kinds(name):
        x = values(name, kind)
        if name in ("isfinite", "isinf", "isnan") and kind in FLOATS:
            x = np.array([1.0, np.inf, -np.inf, np.nan], kind)
        want = getattr(np, NUMPY.get(name, name))(x)
        compare(getattr(xp, name)(xp.asarray(x)), want, kind)
        # Empty arrays and those without dimensions.
        f = getattr(xp, name)
        assert f(xp.asarray(x[:0])).shape == (0,) and f(xp.asarray(x[0])).shape == ()


@pytest.mark.parametrize("name", TWO)
def test_elementwise_functions_of_two(name):
    for kind in kinds(name):
        a = values(name, kind)
        b = values(name, kind)[::-1].copy()
        if kind in INTS and "shift" in name:
            b = b // 2
        f, g = getattr(xp, name), getattr(np, NUMPY.get(name, name))
        want = g(a, b)
        compare(f(xp.asarray(a), xp.asarray(b)), want, kind)
        # Shapes broadcast; a Python number takes the array's type.
        compare(f(xp.asarray(a[:, None]), xp.asarray(b)), g(a[:, None], b), kind)
        number = b[0].item()
        compare(f(xp.asarray(a), number), g(a, b[0]), kind)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "subtract", "pow"])
def test_types_promote_as_the_standard_says(name):
    mixed = [(a, b) for a in INTS for b in INTS if not ("uint64" in (a, b) and not (a[0] == b[0] == "u"))]
    inexact = [(a, b) for a in [*FLOATS, *COMPLEX] for b in COMPLEX if name != "maximum"]
    for a, b in [("float32", "float64"), *mixed, *inexact]:
        x, y = np.array([3, 2]).astype(a), np.array([1, 2]).astype(b)
        want = getattr(np, NUMPY.get(name, name))(x, y)
        compare(getattr(xp, name)(xp.asarray(x), xp.asarray(y)), want, "float32")
        assert xp.result_type(tw.dtype(a), tw.dtype(b)).name == want.dtype.name


@pytest.mark.parametrize("kind", FLOATS)
def test_the_number_after_another(kind):
    tiny = np.finfo(kind).smallest_subnormal
    normal, largest = np.finfo(kind).tiny, np.finfo(kind).max
    xs = [0.0, 1.0, -1.0, 0.1, 3.0, 1e-30, -1e-37, 2.0**-100, 2.0**-126, normal, normal * 4, tiny, -tiny, largest, np.inf, -np.inf, np.nan]
    x = np.array(xs, kind)
    for to in [np.inf, -np.inf, 0.0, 1.0]:
        got = np.asarray(xp.nextafter(xp.asarray(x), xp.asarray(np.array(to, kind))))
        with np.errstate(over="ignore", under="ignore"):
            want = np.nextafter(x, np.array(to, kind))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms(norm):
    rng = np.random.default_rng(0)
    x = rng.random((4, 6))
    z = x + 1j * rng.random((4, 6))
    for name in ["fft", "ifft"]:
        for kwargs in [{}, {"n": 4}, {"n": 9, "axis": 0}]:
            got = getattr(xp.fft, name)(xp.asarray(z), norm=norm, **kwargs)
            np.testing.assert_allclose(np.asarray(got), getattr(np.fft, name)(z, norm=norm, **kwargs), atol=1e-12)
    for name in ["fftn", "ifftn"]:
        for kwargs in [{}, {"axes": (1,)}, {"s": (3, 8), "axes": (0, 1)}]:
            got = getattr(xp.fft, name)(xp.asarray(z), norm=norm, **kwargs)
            np.testing.assert_allclose(np.asarray(got), getattr(np.fft, name)(z, norm=norm, **kwargs), atol=1e-12)
    for name in ["rfft", "ihfft"]:
        got = getattr(xp.fft, name)(xp.asarray(x), norm=norm)
        np.testing.assert_allclose(np.asarray(got), getattr(np.fft, name)(x, norm=norm), atol=1e-12)
    for name in ["irfft", "hfft"]:
        got = getattr(xp.fft, name)(xp.asarray(z), norm=norm)
        np.testing.assert_allclose(np.asarray(got), getattr(np.fft, name)(z, norm=norm), atol=1e-12)
    np.testing.assert_allclose(np.asarray(xp.fft.rfftn(xp.asarray(x), norm=norm)), np.fft.rfftn(x, norm=norm), atol=1e-12)
    back = xp.fft.irfftn(xp.fft.rfftn(xp.asarray(x), norm=norm), s=(4, 6), axes=(0, 1), norm=norm)
    np.testing.assert_allclose(np.asarray(back), x, atol=1e-12)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any"])
@pytest.mark.parametrize("axis, keepdims", [(None, False), (0, False), ((0, 2), True), (-1, True)])
def test_reductions(name, axis, keepdims):
    x = np.linspace(-1.0, 2.0, 24, dtype="f4").reshape(2, 3, 4)
    want = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
    got = getattr(xp, name)(xp.asarray(x), axis=axis, keepdims=keepdims)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def test_data_type_functions():
    assert xp.result_type(xp.float32, xp.float64) == xp.float64
    assert xp.result_type(xp.asarray([1]), 1.5) == xp.float32
    assert xp.isdtype(xp.int8, "integral") and not xp.isdtype(xp.int8, ("bool", "real floating"))
    assert xp.finfo(xp.float32).eps == np.finfo("f4").eps and xp.iinfo("uint8").max == 255
    assert xp.can_cast("int8", "int64")
    with pytest.raises(TypeError):
        xp.finfo("int8")


def test_extensions():
    for n in [4, 5]:
        np.testing.assert_allclose(np.asarray(xp.fft.fftfreq(n)), np.fft.fftfreq(n), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(xp.fft.rfftfreq(n)), np.fft.rfftfreq(n), rtol=1e-6)
        x = np.arange(2.0 * n, dtype="f4").reshape(2, n)
        assert xp.fft.fftshift(xp.asarray(x)).tolist() == np.fft.fftshift(x).tolist()
        for name in ["fft2", "ifft2", "rfft2"]:
            np.testing.assert_allclose(np.asarray(getattr(tw.fft, name)(xp.asarray(x))), getattr(np.fft, name)(x), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(tw.fft.irfft2(tw.fft.rfft2(xp.asarray(x)), s=x.shape)), x, rtol=1e-5, atol=1e-5)
        assert xp.fft.ifftshift(xp.asarray(x), axes=1).tolist() == np.fft.ifftshift(x, axes=1).tolist()
    assert xp.linalg.matrix_rank(xp.asarray([[1.0, 2.0], [2.0, 4.0]])).item() == 1
    values, first, inverse, counts = xp.unique_all(xp.asarray([3, 1, 3, 2]))
    assert [t.tolist() for t in (values, first, inverse, counts)] == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == xp.int64 and "cpu" in info.devices()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"} and len(info.dtypes()) == 13
    assert info.default_dtypes()["complex floating"] == xp.complex64 and xp.finfo(xp.complex128).bits == 64


def test_manipulation():
    x = xp.arange(6).reshape(2, 3)
    assert xp.permute_dims(x, (1, 0)).shape == (3, 2)
    assert xp.expand_dims(x, axis=0).shape == (1, 2, 3)
    assert [t.shape for t in xp.broadcast_arrays(x, xp.zeros((1, 3)))] == [(2, 3), (2, 3)]
    assert xp.matrix_transpose(x).shape == (3, 2)
    assert xp.sort(xp.asarray([2, 3, 1]), descending=True).tolist() == [3, 2, 1]
    assert [t.tolist() for t in xp.nonzero(xp.asarray([[0, 1], [1, 0]]))] == [[0, 1], [1, 0]]
    for indexing in ["xy", "ij"]:
        want = np.meshgrid([1, 2, 3], [4, 5], indexing=indexing)
        got = xp.meshgrid(xp.asarray([1, 2, 3]), xp.asarray([4, 5]), indexing=indexing)
        assert [t.tolist() for t in got] == [a.tolist() for a in want]
    assert xp.cumulative_sum(xp.asarray([1, 2]), include_initial=True).tolist() == [0, 1, 3]
    assert xp.tensordot(x, x, axes=([1], [1])).tolist() == np.tensordot(np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3), axes=([1], [1])).tolist()
    assert xp.concat([x, x], axis=None).shape == (12,) and len(xp.unstack(x, axis=1)) == 3
    assert xp.repeat(x, 2, axis=0).tolist() == np.repeat(np.arange(6).reshape(2, 3), 2, axis=0).tolist()
    assert xp.roll(x, 1).tolist() == np.roll(np.arange(6).reshape(2, 3), 1).tolist()
    assert xp.clip(x, max=3).tolist() == [[0, 1, 2], [3, 3, 3]] and x.clamp(min=2).tolist() == [[2, 2, 2], [3, 4, 5]]
    assert xp.where(x > 2, 0.5, tw.ones(2, 3, dtype="bfloat16")).dtype == tw.bfloat16
    assert xp.sum(x, dtype="float64").dtype == xp.float64
    assert xp.searchsorted(xp.asarray([1, 2, 2, 3]), xp.asarray([2]), side="right").tolist() == [3]
    assert xp.unique_values(xp.asarray([2, 1, 2])).tolist() == [1, 2]
    assert x.__array_namespace__() is xp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.01")


CUTS = [complex(a, b) for a in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0) for b in (-1.5, -0.0, 0.0, 1.5)]


@pytest.mark.parametrize("name", "acos acosh asin asinh atan atanh exp expm1 log log1p sqrt sin cos tan sinh cosh tanh sign square".split())
def test_complex_functions_on_branch_cuts(name):
    poles = {"atanh": [1, -1], "atan": [], "log": [0], "log1p": [-1]}.get(name, [])
    # Zeros of either sign say on which side of a cut a number lies; i and -i are poles of atan, and not among these.
    z = np.array([c for c in CUTS if c not in poles])
    want = getattr(np, NUMPY.get(name, name))(z)
    np.testing.assert_allclose(np.asarray(getattr(xp, name)(xp.asarray(z))), want, rtol=1e-13, atol=1e-15)


def test_complex_numbers_far_out():
    for kind, large in [("complex64", 1e30), ("complex128", 1e300)]:
        z = np.array([complex(large, large), complex(-large, 1.0), complex(1.0, large), 1e-30 + 1e-30j], kind)
        for name in ["abs", "sqrt", "log", "sign", "reciprocal"]:
            with np.errstate(over="ignore", invalid="ignore"):
                want = z / np.abs(z) if name == "sign" else getattr(np, name)(z)
            np.testing.assert_allclose(np.asarray(getattr(xp, name)(xp.asarray(z))), want, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(xp.asarray(z) / xp.asarray(z)), np.ones(4), rtol=1e-6)
    special = np.array([complex(np.inf, 1), complex(1, np.nan), complex(0, 0), complex(-np.inf, np.inf)])
    for name in ["isfinite", "isinf", "isnan"]:
        assert getattr(xp, name)(xp.asarray(special)).tolist() == getattr(np, name)(special).tolist()


@pytest.mark.parametrize("kind", COMPLEX)
def test_complex_arrays(kind):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((2, 3, 4)) + 1j * rng.standard_normal((2, 3, 4))).astype(kind)
    t = xp.asarray(x)
    tolerance = {"rtol": 1e-5 if kind == "complex64" else 1e-12, "atol": 1e-6 if kind == "complex64" else 1e-13}

    def check(got, want):
        want = np.asarray(want)
        assert got.dtype.name == want.dtype.name and got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), want, **tolerance)

    for name in ["sum", "prod", "mean"]:
        for axis in [None, 0, (0, 2)]:
            check(getattr(xp, name)(t, axis=axis), getattr(np, name)(x, axis=axis))
    check(xp.cumulative_sum(t, axis=1), x.cumsum(1))
    check(xp.cumulative_prod(t, axis=2), x.cumprod(2))
    check(t @ t.mT, x @ x.swapaxes(1, 2))
    check(t.H, x.conj().swapaxes(1, 2))
    check(xp.tensordot(t, t, axes=([0, 1], [0, 1])), np.tensordot(x, x, axes=([0, 1], [0, 1])))
    check(xp.vecdot(t, xp.asarray(x[0])), (x.conj() * x[0]).sum(-1))
    check(tw.einsum("bij,bkj->bik", t, t), np.einsum("bij,bkj->bik", x, x))
    check(xp.linalg.outer(t[0, 0], t[0, 1]), np.outer(x[0, 0], x[0, 1]))
    check(xp.linalg.vector_norm(t), np.linalg.norm(x.ravel()))
    check(xp.linalg.inv(t[..., :3]), np.linalg.inv(x[..., :3]))
    check(xp.linalg.solve(t[..., :3], t[..., 3:]), np.linalg.solve(x[..., :3], x[..., 3:]))
    check(xp.linalg.svdvals(t), np.linalg.svd(x, compute_uv=False))
    check(xp.where(t.real > 0, t, 0.0), np.where(x.real > 0, x, np.zeros((), kind)))
    check(xp.concat([t, t], axis=1), np.concatenate([x, x], axis=1))
    check(xp.stack([t, t]), np.stack([x, x]))
    check(xp.take(t, xp.asarray([1, 0]), axis=1), x.take([1, 0], axis=1))
    check(xp.roll(t, 1, axis=2), np.roll(x, 1, axis=2))
    check(xp.flip(t), np.flip(x))
    check(t[:, 1:, ::-2], x[:, 1:, ::-2])
    check(t[t.real > 0], x[x.real > 0])
    check(xp.tril(t), np.tril(x))
    check(xp.round(t * 10), np.round(x * 10))
    check(xp.real(t), x.real)
    check(xp.imag(t), x.imag)
    check(xp.conj(t), x.conj())
    check(tw.complex(t.real, t.imag), x)
    check(tw.view_as_complex(tw.view_as_real(t)), x)
    check(tw.angle(t), np.angle(x).astype(t.real.dtype.name))
    check(t**3, x**3)
    check(1j - t, 1j - x)
    check(xp.zeros_like(t), np.zeros_like(x))
    check(xp.full((2,), 1 + 2j, dtype=kind), np.full((2,), 1 + 2j, kind))
    check(xp.eye(2, dtype=kind), np.eye(2, dtype=kind))
    check(xp.astype(xp.arange(3), kind), np.arange(3).astype(kind))
    assert xp.all(t == t).item() and xp.count_nonzero(t).item() == 24 and xp.any(t != t).item() is False
    for name in ["sort", "max", "argmin", "floor", "std"]:
        with pytest.raises(TypeError, match=f"{name}.*not defined for c"):
            getattr(xp, name)(t)
    with pytest.raises(TypeError):
        t < t
    with pytest.raises(TypeError):
        t.astype("float64")
    with pytest.raises(TypeError):
        float(t[0, 0, 0])


def test_complex_values_in_python():
    x = xp.asarray([[1 + 2j, 3.5 - 4j]])
    assert x.dtype == xp.complex64 and x.tolist() == [[1 + 2j, 3.5 - 4j]] and complex(x[0, 0]) == 1 + 2j == x[0, 0].item()
    assert repr(x) == "tensor([[1.0000+2.j, 3.5000-4.j]])" and xp.asarray(2j, dtype="complex128").dtype == xp.complex128
    assert (xp.ones(2) * 1j).dtype == xp.complex64 and (xp.ones(2, dtype="float64") + 1j).dtype == xp.complex128
    assert xp.result_type(xp.float64, 1j) == xp.complex128 and xp.can_cast("float64", "complex128")
    assert xp.linspace(0, 1 + 1j, 3).tolist() == [0j, 0.5 + 0.5j, 1 + 1j]
    a = np.array([1 + 2j, 3j])
    assert xp.asarray(a).dtype == xp.complex128 and np.from_dlpack(xp.asarray(a)).tolist() == a.tolist()
    assert xp.from_dlpack(a).tolist() == a.tolist() and xp.asarray(a.astype(">c16")).tolist() == a.tolist()
    assert tw.from_numpy(a).numpy().ctypes.data == a.ctypes.data
    import pickle

    assert pickle.loads(pickle.dumps(xp.asarray(a))).tolist() == a.tolist()
    with pytest.raises(TypeError):
        xp.asarray([1j], dtype="float32")


def test_complex_gradients():
    # By hand: |z|^2 grows fastest along z itself, twice as fast.
    z = tw.tensor([1 + 2j, -0.5j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, -1j]
    # A holomorphic function: the conjugate of its derivative.
    g = tw.grad(lambda z: (z**3).real.sum())(tw.tensor([1 + 2j]))
    np.testing.assert_allclose(np.asarray(g), np.conj(3 * np.array([1 + 2j]) ** 2), rtol=1e-6)
    step = tw.jit(lambda z: xp.fft.ifft(xp.fft.fft(z) * 2).abs().sum())
    assert abs(step(tw.tensor([3 + 4j, 0])).item() - 10) < 1e-5
    with pytest.raises(tw.Error, match="complex64"):
        z.sum().backward()


def test_complex_matrices():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 3, 3)) + 1j * rng.standard_normal((2, 3, 3))
    h = x @ x.conj().swapaxes(-1, -2)
    a, b = xp.asarray(x), xp.asarray(h)
    np.testing.assert_allclose(np.asarray(xp.linalg.det(a)), np.linalg.det(x), rtol=1e-12)
    for got, want in zip(xp.linalg.slogdet(a), np.linalg.slogdet(x)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(xp.linalg.cholesky(b)), np.linalg.cholesky(h), rtol=1e-12, atol=1e-13)
    upper = xp.linalg.cholesky(b, upper=True)
    np.testing.assert_allclose(np.asarray(upper.H @ upper), h, rtol=1e-12)
    q, r = xp.linalg.qr(a)
    np.testing.assert_allclose(np.asarray(q @ r), x, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(q.H @ q), np.broadcast_to(np.eye(3), x.shape), atol=1e-12)
    assert np.abs(np.tril(np.asarray(r), -1)).max() == 0
    np.testing.assert_allclose(np.asarray(xp.linalg.pinv(a[:, :2])), np.linalg.pinv(x[:, :2]), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(xp.linalg.eigvalsh(b)), np.linalg.eigvalsh(h), rtol=1e-10)
    for order in ["fro", "nuc", 1, 2]:
        np.testing.assert_allclose(np.asarray(xp.linalg.matrix_norm(a, ord=order)), np.linalg.norm(x, ord=order, axis=(1, 2)), rtol=1e-10)
    assert xp.linalg.matrix_rank(a).tolist() == [3, 3]
    np.testing.assert_allclose(np.asarray(tw.linalg.cond(a)), np.linalg.cond(x), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(xp.linalg.matrix_power(a, -2)), np.linalg.matrix_power(x, -2), rtol=1e-10)
    assert xp.unique_values(xp.asarray([2j, 1, 2j])).tolist() == [2j, 1] and xp.nonzero(xp.asarray([0, 1j]))[0].tolist() == [1]


def unitary(u):
    np.testing.assert_allclose(np.asarray(u.mT.conj() @ u), np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], u.shape[-1], u.shape[-1])), atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 4), (1, 1), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2)])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_decompositions(kind, shape):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape)
    x = x + 1j * rng.standard_normal(shape) if kind == "complex128" else x
    t = xp.asarray(x)
    k = min(shape[-2:])
    for full in [True, False]:
        u, s, vh = got = xp.linalg.svd(t, full_matrices=full)
        want = np.linalg.svd(x, full_matrices=full)
        assert got.S is s and [g.shape for g in got] == [w.shape for w in want] and s.dtype == xp.float64
        np.testing.assert_allclose(np.asarray(s), want[1], rtol=1e-12)
        np.testing.assert_allclose(np.asarray((u[..., :k] * s[..., None, :]) @ vh[..., :k, :]), x, atol=1e-12)
        unitary(u)
        unitary(vh.mT.conj())
    for mode in ["reduced", "complete"]:
        q, r = got = xp.linalg.qr(t, mode=mode)
        # NumPy has neither for batches of nothing.
        assert got.Q is q and q.shape[-1] == r.shape[-2] == (k if mode == "reduced" else shape[-2])
        np.testing.assert_allclose(np.asarray(q @ r), x, atol=1e-12)
        unitary(q)
    h = x @ x.conj().swapaxes(-1, -2)
    w, v = got = xp.linalg.eigh(xp.asarray(h))
    assert got.eigenvalues is w and w.dtype == xp.float64 and v.dtype == tw.dtype(kind)
    np.testing.assert_allclose(np.asarray(w), np.linalg.eigvalsh(h), atol=1e-12)
    np.testing.assert_allclose(np.asarray((v * w[..., None, :]) @ v.mT.conj()), h, atol=1e-12)
    unitary(v)


def test_decompositions_of_special_matrices():
    # Equal eigenvalues, zeros, one direction alone.
    one = np.outer([1, 1j, 2], [1, -1j, 2])
    for x in [np.eye(3) + 0j, np.zeros((3, 3)) + 0j, one, np.diag([2, 1, 2]) + 0j]:
        w, v = xp.linalg.eigh(xp.asarray(x))
        unitary(v)
        np.testing.assert_allclose(np.asarray((v * w) @ v.H), x, atol=1e-13)
        u, s, vh = xp.linalg.svd(xp.asarray(x))
        unitary(u)
        unitary(vh.H)
        np.testing.assert_allclose(np.asarray((u * s) @ vh), x, atol=1e-13)
        assert xp.linalg.matrix_rank(xp.asarray(x)).item() == np.linalg.matrix_rank(x)
        np.testing.assert_allclose(np.asarray(xp.linalg.pinv(xp.asarray(x))), np.linalg.pinv(x), atol=1e-13)
    # Only one triangle is read.
    x = xp.asarray([[2.0, 9.0], [1j, 2.0]])
    assert [round(w, 5) for w in xp.linalg.eigvalsh(x).tolist()] == [1.0, 3.0]
    assert [round(w, 5) for w in tw.linalg.eigh(x, UPLO="U")[0].tolist()] == [-7.0, 11.0]
    for bad in [lambda: tw.linalg.eigh(x, UPLO="X"), lambda: xp.linalg.qr(x, mode="r"), lambda: xp.linalg.svd(x[0]), lambda: xp.linalg.eigh(x[:1])]:
        with pytest.raises(ValueError):
            bad()


def test_gradients_of_complex_decompositions():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    # Without a decomposition: the sum of singular values squared, the trace of a Hermitian matrix cubed.
    pairs = [
        (lambda a: (xp.linalg.svd(a).S ** 2).sum(), lambda a: (a * a.conj()).real.sum()),
        (lambda a: (xp.linalg.eigh(a + a.H).eigenvalues ** 3).sum(), lambda a: ((a + a.H) @ (a + a.H) @ (a + a.H)).trace().real),
        (lambda a: (xp.linalg.svd(a).U @ xp.linalg.svd(a).Vh @ a.H).real.trace(), lambda a: xp.linalg.svdvals(a).sum()),
    ]
    for f, g in pairs:
        np.testing.assert_allclose(np.asarray(tw.grad(f)(xp.asarray(x))), np.asarray(tw.grad(g)(xp.asarray(x))), atol=1e-10)
    h = xp.asarray(np.stack([x + x.conj().T, x @ x.conj().T]))
    values = tw.jit(tw.vmap(lambda a: xp.linalg.eigh(a).eigenvalues))(h)
    np.testing.assert_allclose(np.asarray(values), np.linalg.eigvalsh(np.asarray(h)), atol=1e-12)


def test_norms_are_numpys():
    x = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, 6.0]])
    t = xp.asarray(x)
    for order in [None, "fro", "nuc", 1, -1, 2, -2, np.inf]:
        np.testing.assert_allclose(tw.linalg.norm(t, order).item(), np.linalg.norm(x, order))
        np.testing.assert_allclose(tw.linalg.norm(t, order, (1, 0), True).tolist(), np.linalg.norm(x, order, (1, 0), True))
    for order in [None, 1, 3, np.inf, 0]:
        np.testing.assert_allclose(tw.linalg.norm(t, order, 1).tolist(), np.linalg.norm(x, order, 1))
    for p in [None, 1, 2, -2, "fro", np.inf]:
        np.testing.assert_allclose(tw.linalg.cond(t[:, :2], p).item(), np.linalg.cond(x[:, :2], p))


@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_eigenvalues_of_any_matrix(kind):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 5, 5)).astype(kind)
    x = x + 1j * rng.standard_normal(x.shape) if kind == "complex128" else x
    w, v = got = tw.linalg.eig(xp.asarray(x))
    assert got.eigenvalues is w and w.dtype == xp.complex128
    np.testing.assert_allclose(np.asarray(xp.asarray(x) @ v), np.asarray(v * w[:, None]), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(np.asarray(v), axis=1), np.ones((2, 5)), rtol=1e-12)
    near = np.abs(np.asarray(tw.linalg.eigvals(xp.asarray(x)))[:, :, None] - np.linalg.eigvals(x)[:, None])
    assert near.min(1).max() < 1e-12 and near.min(2).max() < 1e-12
    # The sum of eigenvalues cubed is the trace of the cube.
    f, g = [tw.grad(f)(xp.asarray(x[0])) for f in (lambda a: (a.eigvals() ** 3).sum().real, lambda a: (a @ a @ a).trace().real)]
    np.testing.assert_allclose(np.asarray(f), np.asarray(g), atol=1e-10)
    # exp, by eigenvalues and by itself.
    e = tw.linalg.matrix_exp(xp.asarray(x))
    assert e.dtype == tw.dtype(kind)
    np.testing.assert_allclose(np.asarray(e.astype("complex128") @ v), np.asarray(v * w.exp()[:, None]), atol=1e-10)
    with pytest.raises(ValueError, match="square"):
        tw.linalg.eig(tw.ones(2, 3))


def test_signatures_of_the_standard():
    x, y = xp.asarray(np.arange(12.0).reshape(2, 2, 3)), xp.asarray([1.0, 2.0, 3.0])
    assert xp.linalg.diagonal(x, offset=1).tolist() == [[1, 5], [7, 11]]
    assert xp.linalg.trace(x, offset=0, dtype=xp.float32).tolist() == [4, 16]
    assert xp.linalg.tensordot(x, x, axes=3).item() == 506
    assert xp.diff(y, prepend=y[:1], append=y[:1]).tolist() == [0, 1, 1, -2]
    found = xp.unique_all(xp.asarray([3, 1, 3]))
    assert found.indices.tolist() == [1, 0] and found.inverse_indices.tolist() == [1, 0, 1]
    assert xp.unique_counts(y).counts.tolist() == [1, 1, 1] and xp.unique_inverse(y).values.tolist() == y.tolist()
    # A number may stand on either side.
    for name in ["add", "subtract", "divide", "pow", "maximum", "atan2", "hypot", "remainder", "less", "not_equal", "logaddexp"]:
        got, want = getattr(xp, name)(2.0, y), getattr(np, NUMPY.get(name, name))(2.0, np.asarray(y))
        assert got.dtype.name == want.dtype.name
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    assert xp.bitwise_left_shift(1, xp.asarray([1, 2])).tolist() == [2, 4]
    assert xp.add(1.5, xp.asarray([1])).dtype == xp.float32 and xp.logical_and(True, xp.asarray([True])).item()
    with pytest.raises(TypeError):
        xp.add("1", y)
