"""Small programs of JAX, for the tests of `from_jax`: a name, a function, and its arguments."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_RNG = np.random.default_rng(0)
PROGRAMS = {}


def normal(*shape, dtype="float32"):
    return jnp.asarray(_RNG.normal(size=shape), dtype)


def positive(*shape, dtype="float32"):
    return jnp.asarray(_RNG.uniform(0.2, 2.0, shape), dtype)


def inside(*shape, dtype="float32"):
    """Between -1 and 1."""
    return jnp.asarray(_RNG.uniform(-0.9, 0.9, shape), dtype)


def integers(*shape, lo=-9, hi=10, dtype="int32"):
    return jnp.asarray(_RNG.integers(lo, hi, shape), dtype)


def program(name, *args, gradient=True):
    """Adds a function to the table."""

    def register(f):
        assert name not in PROGRAMS, name
        PROGRAMS[name] = (f, args, gradient)
        return f

    return register


# ---- elementwise

for _f in """abs ceil cos cosh exp exp2 expm1 floor negative round rint sign sin sinh square tan tanh trunc arctan
    arcsinh cbrt deg2rad isfinite isnan positive sinc nan_to_num""".split():
    program(f"{_f}", normal(3, 4))(getattr(jnp, _f))
for _f in "log log1p log2 log10 sqrt reciprocal".split():
    program(f"{_f}", positive(3, 4))(getattr(jnp, _f))
for _f in "arcsin arccos arctanh".split():
    program(f"{_f}", inside(3, 4))(getattr(jnp, _f))
program("arccosh", positive(3, 4) + 1)(jnp.arccosh)
for _f in "rsqrt lgamma digamma".split():
    program(f"lax.{_f}", positive(3, 4))(getattr(lax, _f))
for _f in "erf erfc logistic".split():
    program(f"lax.{_f}", normal(3, 4))(getattr(lax, _f))
program("lax.erf_inv", inside(3, 4))(lax.erf_inv)
program("lax.bessel_i1e", normal(4), gradient=False)(lax.bessel_i1e)
program("round half away", jnp.asarray([0.5, -0.5, 1.5, 2.5, 0.49999997, -2.4]), gradient=False)(
    lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)
)
program("polygamma", positive(5))(lambda x: jax.scipy.special.polygamma(1, x))
program("zeta", positive(5) + 1.5, gradient=False)(lambda x: jax.scipy.special.zeta(x, 2.0))
for _f in "add subtract multiply divide maximum minimum arctan2 hypot logaddexp fmod remainder heaviside copysign".split():
    program(f"{_f}", normal(3, 4), normal(3, 1))(getattr(jnp, _f))
program("power", positive(3, 4), normal(4))(jnp.power)
program("floor_divide", normal(3, 4), normal(4))(lambda a, b: a // b)
program("integer_pow", normal(3, 4))(lambda x: x**3 + x**-2)
program("nextafter", normal(4), gradient=False)(lambda x: jnp.nextafter(x, x + 1))
for _t in "int8 uint8 int16 uint16 int32 uint32".split():
    _a, _b = integers(12, lo=0 if _t[0] == "u" else -100, hi=100, dtype=_t), integers(12, lo=1, hi=7, dtype=_t)
    program(f"arithmetic {_t}", _a, _b)(lambda a, b: (a + b, a - b, a * b, a // b, a % b, abs(a), -a, jnp.maximum(a, b), a**2))
    program(f"bits {_t}", _a, _b)(lambda a, b: (a & b, a | b, a ^ b, ~a, a << b, a >> b, lax.shift_right_logical(a, b)))
    program(f"counts {_t}", _a)(lambda a: (lax.population_count(a), lax.clz(a)))
    program(f"wide shift {_t}", _a)(lambda a: (lax.shift_left(a, jnp.full_like(a, 40)), lax.shift_right_logical(a, jnp.full_like(a, 40))))
    program(f"division by zero {_t}", _a)(lambda a: (lax.div(a, jnp.zeros_like(a)), lax.rem(a, jnp.zeros_like(a))))
    program(f"to float {_t}", _a)(lambda a: (a.astype("float32") / 2, a.astype(bool), a.astype("int8"), a.astype("uint32")))
    program(f"sums {_t}", _a)(lambda a: (a.sum(dtype=a.dtype), a.prod(dtype=a.dtype), a.max(), a.min(), jnp.cumsum(a, dtype=a.dtype)))
program("to integer", jnp.asarray([1.7, -1.7, 3e9, -3e9, jnp.nan, jnp.inf, -jnp.inf]))(
    lambda x: (x.astype("int32"), x.astype("uint8"), x.astype("int8"), x.astype("uint32"))
)
program("bool", normal(6) > 0, normal(6) > 0)(
    lambda a, b: (a & b, a | b, a ^ b, ~a, a.any(), a.all(), a + b, a * b, jnp.where(a, 1.0, b), a.sum(), a < b)
)
program("compare", integers(8).astype("float32"), integers(8).astype("float32"))(
    lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b)
)
program("clip", normal(3, 4))(lambda x: jnp.clip(x, -0.5, 0.5))
program("where", normal(3, 4))(lambda x: jnp.where(x > 0, jnp.sqrt(jnp.abs(x) + 1), x))
program("bitcast f32", normal(6))(lambda x: lax.bitcast_convert_type(x, jnp.uint32))
program("bitcast f32 edges", jnp.asarray([0.0, -0.0, jnp.inf, -jnp.inf, 1e-40, -1e-45, 3.4e38]))(lambda x: lax.bitcast_convert_type(x, jnp.int32))
program("bitcast u32", integers(6, lo=1 << 23, hi=1 << 30, dtype="uint32"))(lambda x: lax.bitcast_convert_type(x, jnp.float32))
program("bitcast u32 edges", jnp.asarray([0, 1, 1 << 31, 0x7F800000, 0xFF800000, 0x007FFFFF], "uint32"))(lambda x: lax.bitcast_convert_type(x, jnp.float32))
program("bitcast narrow", integers(6, dtype="uint32", lo=0, hi=1 << 31))(
    lambda x: (lax.bitcast_convert_type(x, jnp.uint8), lax.bitcast_convert_type(x, jnp.uint16), lax.bitcast_convert_type(x, jnp.int32))
)
program("bitcast wide", integers(6, 4, dtype="uint8", lo=0, hi=256))(lambda x: lax.bitcast_convert_type(x, jnp.uint32))
program("bitcast bf16", normal(6, dtype="bfloat16"))(lambda x: lax.bitcast_convert_type(x, jnp.uint16))
program("bitcast f16", normal(6, dtype="float16"))(lambda x: lax.bitcast_convert_type(x, jnp.int16))
program("reduce_precision", normal(6), gradient=False)(lambda x: (lax.reduce_precision(x, 8, 7), lax.reduce_precision(x, 5, 10)))
program("half", normal(3, 4, dtype="float16"))(lambda x: (jnp.exp(x), x.sum(), x.astype("float32") * 2))
program("bfloat16", normal(3, 4, dtype="bfloat16"), normal(4, 5, dtype="bfloat16"))(
    lambda a, b: (a @ b, a.sum(0), jax.nn.softmax(a), (a * 3).astype("float32"))
)
program("complex", normal(3), normal(3), gradient=False)(
    lambda a, b: (lax.complex(a, b) ** 2, jnp.exp(a + 1j * b), jnp.abs(a + 1j * b), jnp.conj(a + 1j * b), jnp.angle(a + 1j * b))
)
program("complex parts", normal(3), normal(3))(lambda a, b: (((a + 1j * b) * (b - 1j * a)).real, (jnp.exp(a + 1j * b)).imag))
program("complex product", normal(3, 2), normal(2, 3), gradient=False)(lambda a, b: (a + 1j * a) @ (b * (2 - 1j)))
program("complex constants", normal(3), gradient=False)(lambda a: a * jnp.asarray([1j, 2 + 1j, -3.0]))
program("barrier", normal(3))(lambda x: lax.optimization_barrier(x * 2))

# ---- shapes

program("broadcast", normal(3, 1))(lambda x: jnp.broadcast_to(x, (2, 3, 4)))
program("transposes", normal(2, 3, 4))(lambda x: (x.T, jnp.swapaxes(x, 0, 1), x.transpose(2, 0, 1).reshape(4, 6), x[:, None]))
program("slices", normal(5, 6))(lambda x: (x[1:4:2], x[::-1, 2], x[-1], x[:, ::-2], x[..., 0:0], x[2, 3]))
program("concatenate", normal(2, 3), normal(1, 3))(lambda a, b: (jnp.concatenate([a, b]), jnp.stack([a, a], 1), jnp.hstack([a, a])))
program("pad", normal(3, 4))(
    lambda x: (
        lax.pad(x, 2.0, ((1, 2, 0), (0, 1, 2))), lax.pad(x, 0.0, ((-1, 1, 1), (2, -2, 0))), lax.pad(x, x[0, 0], ((1, 0, 2), (0, 0, 0))),
        jnp.pad(x, 1, mode="reflect"), jnp.pad(x, 1, mode="edge"), jnp.pad(x, 1, mode="wrap"),
    )
)  # fmt: skip
program("pad integers", integers(3))(lambda x: lax.pad(x, 7, ((1, 1, 2),)))
program("iota", normal(2))(lambda x: (jnp.arange(5) * x[0], jnp.eye(3, 4) * x[1], jnp.tri(3), lax.broadcasted_iota("int32", (40, 50), 1)))
program("flips", normal(3, 4))(lambda x: (jnp.flip(x), jnp.roll(x, 1, 0), jnp.rot90(x), jnp.tile(x, (2, 1)), jnp.repeat(x, 2, 1)))
program("triangles", normal(4, 4))(lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x), jnp.diag(x[0]), jnp.trace(x)))
program("empty", normal(0, 3))(lambda x: (x.sum(0), x @ x.T, jnp.concatenate([x, x]), (x > 0).any()))

# ---- reductions

program("reductions", normal(3, 4, 5))(
    lambda x: (x.sum(), x.sum((0, 2)), x.mean(1), x.max(0), x.min((0, 1, 2)), x.prod(2), x.var(0), x.std(1, ddof=1), jnp.linalg.norm(x))
)
program("logsumexp", normal(3, 4))(lambda x: (jax.nn.logsumexp(x, 1), jax.nn.log_softmax(x, 0)))
program("arg", normal(3, 4), integers(5, 3))(
    lambda x, i: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), jnp.argmax(i, 0), jnp.argmin(i), jnp.argmax(i == 2, 0))
)
program("arg of NaN", jnp.asarray([1.0, jnp.nan, 3.0]), gradient=False)(lambda x: (jnp.argmax(x), jnp.argmin(x), jnp.max(x), jnp.nanmax(x)))
program("all any", integers(3, 4, lo=0, hi=2))(lambda x: (x.all(0), x.any(1), (x > 5).any(), jnp.count_nonzero(x)))
program("bitwise reduction", integers(3, 4, lo=0, hi=99))(
    lambda x: (jnp.bitwise_and.reduce(x, 0), jnp.bitwise_or.reduce(x, 1), jnp.bitwise_xor.reduce(x, 0))
)
program("any reduction", normal(3, 4))(lambda x: lax.reduce(x, 0.0, lambda a, b: a + b + a * b, (0,)))
program("two reductions", normal(3, 4), normal(3, 4))(
    lambda a, b: lax.reduce((a, b), (0.0, 1.0), lambda p, q: (p[0] + q[0], p[1] * q[1]), (1,))
)
program("cumulative", normal(3, 4))(
    lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x), lax.cummax(x, 1), lax.cummin(x, 0, reverse=True), jnp.cumprod(x, 1), lax.cumsum(x, 1, reverse=True))
)
program("cumlogsumexp", normal(6))(lax.cumlogsumexp)
program("associative_scan", normal(7, 2))(lambda x: lax.associative_scan(lambda a, b: a * 0.5 + b, x))

# ---- products

program("matmul", normal(2, 3, 4), normal(4, 5), normal(2, 5, 3))(lambda a, b, c: (a @ b, a @ b @ c, a[0, 0] @ b, a[0, 0] @ b[:, 0]))
program("einsum", normal(2, 3, 4), normal(3, 5, 4))(
    lambda a, b: (jnp.einsum("bij,ikj->bk", a, b), jnp.einsum("bij,ikj->ibk", a, b), jnp.einsum("bij->jb", a), jnp.tensordot(a, b, ((1, 2), (0, 2))))
)
program("outer", normal(3), normal(4))(lambda a, b: (jnp.outer(a, b), jnp.kron(a, b), jnp.inner(a, a), jnp.cross(a, b[:3])))
program("integer product", integers(3, 4), integers(4, 2))(lambda a, b: a @ b)
program("wide product", normal(3, 4, dtype="bfloat16"), normal(4, 2, dtype="bfloat16"))(lambda a, b: jnp.matmul(a, b, preferred_element_type="float32"))
program("int8 product", integers(3, 4, dtype="int8"), integers(4, 2, dtype="int8"))(lambda a, b: lax.dot(a, b, preferred_element_type="int32"))


def _conv(x, w, strides, padding, numbers=None, **more):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **more)


for _name, _x, _w, _strides, _padding, _numbers, _more in (
    ("plain", (2, 3, 7, 8), (4, 3, 3, 2), (1, 1), "VALID", None, {}),
    ("same", (2, 3, 7, 8), (4, 3, 3, 2), (2, 1), "SAME", None, {}),
    ("NHWC", (2, 7, 8, 3), (3, 2, 3, 4), (1, 2), "SAME", ("NHWC", "HWIO", "NHWC"), {}),
    ("odd layout", (7, 2, 3, 8), (2, 4, 3, 3), (1, 1), "VALID", ("HNCW", "WOHI", "CWHN"), {}),
    ("uneven", (2, 3, 7, 8), (4, 3, 3, 2), (1, 1), ((2, 0), (1, 3)), None, {}),
    ("cropped", (2, 3, 7, 8), (4, 3, 3, 2), (1, 1), ((-1, 0), (1, -2)), None, {}),
    ("dilated", (2, 3, 9, 8), (4, 3, 3, 2), (1, 2), "SAME", None, {"rhs_dilation": (2, 3)}),
    ("spread", (2, 3, 4, 5), (4, 3, 3, 2), (1, 1), ((2, 2), (1, 1)), None, {"lhs_dilation": (2, 3)}),
    ("spread and strided", (2, 3, 4, 5), (4, 3, 3, 2), (2, 1), ((3, 1), (0, 1)), None, {"lhs_dilation": (2, 3), "rhs_dilation": (1, 2)}),
    ("groups", (2, 4, 7, 8), (6, 2, 3, 2), (1, 1), "SAME", None, {"feature_group_count": 2}),
    ("depthwise", (2, 7, 8, 4), (3, 3, 1, 8), (1, 1), "SAME", ("NHWC", "HWIO", "NHWC"), {"feature_group_count": 4}),
    ("batch groups", (4, 3, 7, 8), (6, 3, 3, 2), (1, 1), "SAME", None, {"batch_group_count": 2}),
    ("one axis", (2, 3, 9), (4, 3, 3), (2,), "SAME", ("NCH", "OIH", "NCH"), {}),
    ("three axes", (1, 2, 4, 5, 4), (3, 2, 2, 2, 3), (1, 2, 1), "SAME", ("NCDHW", "OIDHW", "NCDHW"), {}),
    ("without room", (2, 3, 4, 5), (4, 3, 3, 3), (1, 1), ((-1, 1), (1, 1)), None, {"rhs_dilation": (2, 2)}),
    ("no axes", (2, 3), (4, 3), (), (), ("NC", "OI", "NC"), {}),
):
    program(f"convolution {_name}", normal(*_x), normal(*_w))(_conv(_x, _w, _strides, _padding, _numbers, **_more))
program("conv_transpose", normal(2, 4, 5, 3), normal(3, 3, 3, 4))(
    lambda x, w: (lax.conv_transpose(x, w, (2, 2), "SAME"), lax.conv_transpose(x, w, (2, 3), "VALID"))
)
program("fft", normal(4, 6))(lambda x: (jnp.abs(jnp.fft.fft(x)), jnp.fft.rfft2(x).real, jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.ifft2(x).imag))
program("fft cut", normal(4, 6))(lambda x: (jnp.fft.rfft(x, 4).imag, jnp.fft.fft(x, 9, axis=0).real, jnp.fft.irfft(jnp.fft.rfft(x), 5)))

# ---- windows


def _window(x, init, f, sizes, strides, padding="VALID", **more):
    return lax.reduce_window(x, init, f, sizes, strides, padding, **more)


program("max pool", normal(2, 8, 9, 3))(lambda x: (_window(x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 2, 2, 1), "SAME"), _window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1))))
program("sum pool", normal(2, 8, 9, 3))(lambda x: _window(x, 0.0, lax.add, (1, 2, 3, 1), (1, 2, 2, 1), "SAME"))
program("min pool", normal(8, 9))(lambda x: _window(x, jnp.inf, lax.min, (2, 3), (1, 2), ((1, 0), (0, 2))))
program("product pool", normal(8, 9), gradient=False)(lambda x: _window(x, 1.0, lax.mul, (2, 3), (2, 3)))
program("dilated pool", normal(9, 9), gradient=False)(lambda x: _window(x, -jnp.inf, lax.max, (2, 3), (1, 1), window_dilation=(2, 3)))
program("dilated sum", normal(9, 9))(lambda x: _window(x, 0.0, lax.add, (2, 3), (2, 1), window_dilation=(2, 1), base_dilation=(1, 2)))
program("integer pool", integers(8, 9))(lambda x: (_window(x, -(2**31), lax.max, (2, 2), (2, 2)), _window(x, 0, lax.add, (2, 2), (1, 1), "SAME")))
program("any pool", normal(8), gradient=False)(lambda x: lax.reduce_window(x, 0.5, lambda a, b: a * 0.5 + b, (3,), (2,), "VALID"))
program("pool with start", normal(8), gradient=False)(lambda x: (_window(x, 1.0, lax.add, (2,), (1,)), _window(x, 0.3, lax.max, (2,), (2,))))
program("gradient of max pool", normal(2, 8, 9, 3))(jax.grad(lambda x: (_window(x, -jnp.inf, lax.max, (1, 2, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()))
program("gradient of sum pool", normal(8, 9))(jax.grad(lambda x: (_window(x, 0.0, lax.add, (2, 3), (2, 1), "SAME") ** 2).sum()))
program("gradient of min pool", normal(8, 9))(jax.grad(lambda x: (_window(x, jnp.inf, lax.min, (3, 3), (1, 1)) ** 2).sum()))

# ---- indices

_IDS = integers(5, lo=0, hi=4)
program("take", normal(4, 6), _IDS)(lambda x, i: (x[i], jnp.take(x, i, 1), x[:, i], x[i, i], jnp.take(x, i), x[1], x[:, -1]))
program("take outside", normal(4, 6), jnp.asarray([-9, -1, 0, 3, 4, 99]))(
    lambda x, i: (x.at[i].get(mode="clip"), x.at[i].get(mode="fill", fill_value=7.0), jnp.take(x, i, 1, mode="wrap"))
)
program("take along", normal(4, 6), integers(4, 2, lo=0, hi=6))(lambda x, i: (jnp.take_along_axis(x, i, 1), x[jnp.arange(4)[:, None], i]))
program("gather rows", normal(3, 4, 5), integers(2, 3, lo=0, hi=3))(lambda x, i: (x[i], x[i, :, 2], x[:, i], x[i, 1:3], x[1, i, i], x[..., i]))
program("gather windows", normal(6, 7), integers(4, 2, lo=-2, hi=8))(
    lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3), mode="clip")
)
program("gather batches", normal(3, 5, 4), integers(3, 2, lo=0, hi=5))(lambda x, i: jax.vmap(lambda x, i: x[i])(x, i))
program("dynamic slices", normal(6, 7), integers(2, lo=0, hi=9))(
    lambda x, i: (
        lax.dynamic_slice(x, (i[0], i[1]), (2, 3)), lax.dynamic_slice(x, (2, i[1]), (3, 7)), lax.dynamic_index_in_dim(x, i[0], 1),
        lax.dynamic_update_slice(x, x[:2, :3] * 2, (i[0], i[1])), lax.dynamic_update_slice(x, x[:1] * 2, (i[0], 0)),
        lax.dynamic_update_slice(x, x[:2, :3] * 3, (1, 9)), lax.dynamic_update_index_in_dim(x, x[:, 0], i[1], 1),
    )
)  # fmt: skip
program("set", normal(4, 6), _IDS[:3])(lambda x, i: (x.at[1].set(0.0), x.at[:, 2:4].set(x[:, :2]), x.at[i].set(2.0), x.at[1, 2].set(5.0), x.at[::2, 1].set(3.0)))
program("add at", normal(4, 6), _IDS, normal(5, 6))(
    lambda x, i, u: (x.at[i].add(u), x.at[:, i].add(1.0), x.at[i, i].add(u[:, 0]), x.at[0].subtract(u[0]))
)
program("multiply at", normal(4, 6), _IDS, normal(5, 6), gradient=False)(lambda x, i, u: x.at[i].multiply(u))
program("min max at", normal(4, 6), _IDS, normal(5, 6))(lambda x, i, u: (x.at[i].max(u), x.at[i].min(u)))
program("at outside", normal(4, 6), jnp.asarray([-9, -1, 0, 3, 4, 99]))(
    lambda x, i: (x.at[i].add(1.0), x.at[i].set(2.0, mode="drop"), x.at[i, 0].max(3.0), x.at[i].add(1.0, mode="clip"))
)
program("apply at", normal(4, 6), gradient=False)(lambda x: (x.at[1].apply(jnp.sin), x.at[:2].power(2), x.at[0].divide(3.0)))
program("set integers", integers(4, 6), _IDS)(lambda x, i: (x.at[i].add(1), x.at[i].max(5), x.at[2].set(7), (x > 0).at[i].set(True), jnp.bincount(i, length=4)))
program("scatter windows", normal(6, 7), normal(4, 2, 3), integers(4, 2, lo=-1, hi=7))(
    lambda x, u, i: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1)))
)
program("segment_sum", normal(6, 2), integers(6, lo=0, hi=3))(lambda x, i: (jax.ops.segment_sum(x, i, 3), jax.ops.segment_max(x, i, 3)))
program("one_hot", integers(5, lo=0, hi=4))(lambda i: jax.nn.one_hot(i, 4))
program("searchsorted", normal(9), normal(4))(lambda x, v: (jnp.searchsorted(jnp.sort(x), v), jnp.digitize(v, jnp.sort(x))))
program("sort", normal(3, 7), integers(3, 7))(
    lambda x, i: (jnp.sort(x), jnp.sort(x, 0), jnp.argsort(x), jnp.sort(x, descending=True), jnp.argsort(i, descending=True), jnp.argsort(i))
)
program("sort by keys", integers(9, lo=0, hi=3), integers(9, lo=0, hi=3), normal(9))(
    lambda a, b, x: (lax.sort((a, b, x), num_keys=2), lax.sort((a, x), num_keys=1), jnp.lexsort((a, b)))
)
program("sort NaN", jnp.asarray([2.0, jnp.nan, -1.0, jnp.inf, -jnp.inf]), gradient=False)(jnp.sort)
program("top_k", normal(3, 7))(lambda x: lax.top_k(x, 3))
program("order statistics", normal(3, 7))(lambda x: (jnp.median(x, 1), jnp.percentile(x, 30), jnp.quantile(x, 0.7, 0)))
program("unique", integers(9, lo=0, hi=3))(lambda x: jnp.unique(x, size=4, fill_value=-1))
program("nonzero", integers(9, lo=0, hi=2))(lambda x: jnp.nonzero(x, size=5, fill_value=-1))

# ---- control flow


def _body(x):
    return jnp.sin(x) * 1.5


program("scan", normal(3), normal(5, 3))(lambda c, xs: lax.scan(lambda c, x: (jnp.tanh(c + x), (c * x, c.sum())), c, xs))
program("scan back", normal(3), normal(5, 3))(lambda c, xs: lax.scan(lambda c, x: (jnp.tanh(c + x), c * x), c, xs, reverse=True))
program("scan without rows", normal(3))(lambda c: lax.scan(lambda c, _: (_body(c), c), c, None, length=4))
program("scan with count", normal(3))(lambda c: lax.scan(lambda c, i: (c * (i + 1), None), c, jnp.arange(4)))
program("scan unrolled", normal(3), normal(6, 3))(lambda c, xs: lax.scan(lambda c, x: (jnp.tanh(c + x), c), c, xs, unroll=2))
program("gradient of scan", normal(3), normal(5, 3))(jax.grad(lambda c, xs: lax.scan(lambda c, x: (jnp.tanh(c * x), (c * x).sum()), c, xs)[1].sum(), (0, 1)))
program("scan in scan", normal(2), normal(3, 4, 2))(
    lambda c, xs: lax.scan(lambda c, x: lax.scan(lambda c, x: (jnp.tanh(c + x), c.sum()), c, x), c, xs)
)
program("fori_loop", normal(3))(lambda x: (lax.fori_loop(0, 4, lambda i, x: _body(x) + i, x), lax.fori_loop(2, 5, lambda i, x: x * i, x)))
program("fori_loop to a number", normal(3), integers(lo=3, hi=6), gradient=False)(lambda x, n: lax.fori_loop(0, n, lambda i, x: x + i, x))
program("while_loop", positive(3), gradient=False)(
    lambda x: lax.while_loop(lambda s: s[0].sum() < 50, lambda s: (s[0] * 1.5, s[1] + 1), (x, jnp.int32(0)))
)
program("map", normal(4, 3))(lambda x: lax.map(lambda r: r * r.sum(), x))
program("cond", normal(3))(lambda x: (lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), lax.cond(x[0] < 0, jnp.sin, jnp.cos, x), lax.cond(x[0] > 0, lambda: 1, lambda: 2)))
for _i in (-1, 0, 1, 2, 5):
    program(f"switch {_i}", normal(3), jnp.int32(_i))(lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * x], x))
program("cond in scan", normal(3), normal(5, 3))(
    lambda c, xs: lax.scan(lambda c, x: (lax.cond(x.sum() > 0, jnp.sin, jnp.cos, c + x), c), c, xs)
)
program("vmap of cond", normal(4, 3))(jax.vmap(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)))

# ---- derivatives, and functions with rules of their own


@jax.custom_vjp
def _clipped(x):
    return x * 2


_clipped.defvjp(lambda x: (x * 2, x), lambda x, g: (jnp.clip(g, -1, 1),))

program("gradient", normal(4))(jax.grad(lambda x: (jnp.tanh(x) ** 2).sum()))
program("hessian", normal(3), gradient=False)(jax.hessian(lambda x: (jnp.tanh(x) * x[::-1]).sum()))
program("jvp", normal(3))(lambda x: jax.jvp(jnp.sin, (x,), (x * 2,)))
program("custom rule", normal(4) * 5)(jax.grad(lambda x: (_clipped(x) ** 2).sum()))
program("checkpoint", normal(4))(jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()))
for _f in "relu gelu silu elu selu softplus soft_sign leaky_relu log_sigmoid mish celu hard_tanh relu6 swish glu".split():
    program(f"nn.{_f}", normal(3, 4))(getattr(jax.nn, _f))

# ---- random numbers

_KEY = jax.random.PRNGKey(3)
program("uniform", _KEY)(lambda k: (jax.random.uniform(k, (5,)), jax.random.bits(k, (3,)), jax.random.split(k, 3)))
program("normal", _KEY)(lambda k: jax.random.normal(k, (7,)))
program("randint", _KEY)(lambda k: (jax.random.randint(k, (7,), -3, 9), jax.random.bernoulli(k, 0.3, (7,)), jax.random.permutation(k, 7)))
program("categorical", _KEY, normal(3, 4))(lambda k, x: (jax.random.categorical(k, x), jax.random.gumbel(k, (3,)), jax.random.fold_in(k, 7)))
program("choice", _KEY)(lambda k: (jax.random.choice(k, 9, (4,), replace=False), jax.random.exponential(k, (3,)), jax.random.truncated_normal(k, -1, 1, (3,))))
program("gamma", _KEY, positive(3), gradient=False)(jax.random.gamma)

# ---- matrices

_SPD = (lambda a: a @ a.T + 3 * jnp.eye(4))(normal(4, 4))
program("cholesky", _SPD)(jnp.linalg.cholesky)
program("triangular", _SPD, normal(4, 2))(
    lambda a, b: [jax.scipy.linalg.solve_triangular(a, b, lower=lo, trans=t, unit_diagonal=u) for lo in (0, 1) for t in (0, 1) for u in (0, 1)]
)
program("solve", _SPD, normal(4, 2))(lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.solve(a, b[:, 0]), jax.scipy.linalg.cho_solve((a, True), b)))
program("inverse", _SPD + normal(4, 4) * 0.1)(lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)))
program("inverses", _SPD + normal(3, 4, 4) * 0.1)(lambda a: (jnp.linalg.inv(a), jnp.linalg.cholesky(_SPD + 0 * a), jnp.linalg.det(a)))
program("eigh", _SPD, gradient=False)(lambda a: (jnp.linalg.eigvalsh(a), jnp.abs(jnp.linalg.eigh(a)[1])))
program("svd", normal(4, 3), gradient=False)(lambda a: (jnp.linalg.svd(a)[1], jnp.linalg.svd(a, compute_uv=False), jnp.linalg.pinv(a)))
program("qr", normal(4, 3), gradient=False)(jnp.linalg.qr)
program("expm", normal(3, 3), gradient=False)(jax.scipy.linalg.expm)
