"""StableHLO's elementwise operators and shapes in Talweg's ops: a row an operator.

A row takes its node and the values of its operands, and returns a value or a tuple of them. A value is a tensor, or a
NumPy array that is *known* while the program is traced: small constants and sizes, and what is computed from them. Rows
marked `known` take such arrays as they are; others get tensors.
"""

# mypy: ignore-errors
import math

import numpy as np

import talweg as tw
from .. import _native
from .._rows import Unsupported, apply, need, one  # noqa: F401  (for the other rows)

# Known arrays are not larger than this.
KNOWN_MAX = 1024

ROWS = {}
# Rows that take known arrays as they are.
KNOWN = set()
# What is found out about a node before the program runs.
PREPARED = {}


def row(*names, known=False):
    """Makes a function the row of these operators."""

    def register(f):
        for name in names or (f.__name__.strip("_"),):
            ROWS[name] = f
            if known:
                KNOWN.add(name)
        return f

    return register


def prepared(name):
    """Makes a function what is done once for each node of an operator, before the program runs."""

    def register(f):
        PREPARED[name] = f
        return f

    return register


def is_known(x):
    return isinstance(x, np.ndarray)


def dtype_of(name):
    return _native.dtype_of_name(name)


def tensor(x):
    """A known array as a tensor."""
    if not is_known(x):
        return x
    name = x.dtype.name
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return _native._rebuild(_native.Tensor, np.ascontiguousarray(x).tobytes(), dtype_of(name), x.shape, False, False)
    return tw.tensor(x)


def splat(value, shape, dtype):
    """One value everywhere."""
    return tw.full((), value, dtype=dtype).expand(*shape) if shape else tw.full((), value, dtype=dtype)


def bits_of(dtype):
    return dtype.itemsize * 8


def is_float(dtype):
    return dtype.is_floating_point


def is_complex(dtype):
    return dtype in (tw.complex64, tw.complex128)


def is_integer(dtype):
    return not (is_float(dtype) or is_complex(dtype) or dtype == tw.bool)


def is_unsigned(dtype):
    return dtype.name.startswith("uint")


def least(dtype):
    """The number that is below all others of a type."""
    if is_float(dtype):
        return -math.inf
    return 0 if dtype == tw.bool or is_unsigned(dtype) else -(1 << (bits_of(dtype) - 1))


def greatest(dtype):
    """The number that is above all others of a type."""
    if is_float(dtype):
        return math.inf
    return 1 if dtype == tw.bool else (1 << (bits_of(dtype) - (not is_unsigned(dtype)))) - 1


# ---- constants


@row(known=True)
def constant(node):
    value = node.attrs["value"]
    is_small = value.size <= KNOWN_MAX and (value.dtype.kind in "iub" or value.ndim == 0)
    if is_small:
        return value
    first = value.reshape(-1)[:1]
    if value.size and value.tobytes() == first.tobytes() * value.size:
        return tensor(first.reshape(())).expand(*value.shape)
    return tensor(value)


@row("iota", "dynamic_iota", known=True)
def iota(node, *shape):
    axis = node.attrs["iota_dimension"]
    sizes = sizes_of(shape[0]) if shape else node.shape
    shape = [1] * len(sizes)
    shape[axis] = sizes[axis]
    if math.prod(sizes) <= KNOWN_MAX and dtype_of(node.dtype).name[0] in "iu":
        return np.broadcast_to(np.arange(sizes[axis], dtype=node.dtype).reshape(shape), sizes).copy()
    return tw.arange(sizes[axis], dtype=dtype_of(node.dtype)).reshape(tuple(shape)).expand(*sizes)


# ---- elementwise operators


def _same(name, f, known=None):
    """The row of an operator that is a function of its operands alone; of known ones, NumPy's `known`."""

    def call(node, *args):
        if known is not None and all(map(is_known, args)) and all(a.dtype.kind in "iub" for a in args):
            with np.errstate(all="ignore"):
                return np.asarray(known(*args))
        return f(*map(tensor, args))

    ROWS[name] = call
    KNOWN.add(name)


def _divide(a, b):
    if not is_integer(a.dtype):
        return a / b
    # Division by zero has all bits set.
    quotient = tw.div(a, tw.where(b == 0, tw.ones_like(b), b), rounding_mode="trunc").to(a.dtype)
    ones = splat(greatest(a.dtype) if is_unsigned(a.dtype) else -1, (), a.dtype)
    return tw.where(b == 0, ones, quotient)


def _remainder(a, b):
    return tw.fmod(a, b) if is_float(a.dtype) else tw.where(b == 0, a, tw.fmod(a, b))


def _signed(dtype):
    return dtype_of(dtype.name.removeprefix("u"))


def _unsigned(dtype):
    return dtype if is_unsigned(dtype) else dtype_of(f"u{dtype.name}")


def _shift_left(a, b):
    return tw.where(_unsigned_value(b) < bits_of(a.dtype), one("shl", [a, b]), tw.zeros_like(a))


def _unsigned_value(x):
    return x.to(_unsigned(x.dtype))


def _shift_right_logical(a, b):
    wide = one("shr", [_unsigned_value(a), _unsigned_value(b)]).to(a.dtype)
    return tw.where(_unsigned_value(b) < bits_of(a.dtype), wide, tw.zeros_like(a))


def _shift_right_arithmetic(a, b):
    places = tw.clamp(_unsigned_value(b).to(tw.int64), 0, bits_of(a.dtype) - 1)
    signed = a.to(_signed(a.dtype))
    return one("shr", [signed, places.to(signed.dtype)]).to(a.dtype)


def _popcnt(x):
    bits, count = _unsigned_value(x), tw.zeros_like(_unsigned_value(x))
    for i in range(bits_of(x.dtype)):
        count = count + ((bits >> i) & 1)
    return count.to(x.dtype)


def _count_leading_zeros(x):
    bits, n = _unsigned_value(x), bits_of(x.dtype)
    for i in range(n.bit_length() - 1):
        bits = bits | (bits >> (1 << i))
    return (n - _popcnt(bits)).to(x.dtype)


def _round_afz(x):
    whole = tw.trunc(x)
    return tw.where((x - whole).abs() >= 0.5, whole + tw.sign(x), whole)


def _cbrt(x):
    size = x.abs()
    safe = tw.where(size > 0, size, tw.ones_like(size))
    root = safe ** (1.0 / 3.0)
    root = root - (root * root * root - safe) / (3.0 * root * root)
    return tw.where(tw.isinf(x) | (size == 0), x, tw.copysign(root, x))


def _negate(x):
    return -x


def _power(a, b):
    if is_integer(a.dtype) and is_unsigned(a.dtype):
        return tw.pow(a.to(tw.int64), b.to(tw.int64)).to(a.dtype)
    return tw.pow(a, b)


def _zeta(a, b):
    return tw.special.zeta(a, b)


def _sign(x):
    return tw.sgn(x) if is_complex(x.dtype) else tw.sign(x)


def _polygamma(n, x):
    # The zeroth is digamma, and no gradient flows to the order.
    return tw.where(n == 0, tw.digamma(x), one("polygamma", [tw.where(n == 0, tw.ones_like(n), n), x]))


def _maximum(a, b):
    return a | b if a.dtype == tw.bool else tw.maximum(a, b)


def _minimum(a, b):
    return a & b if a.dtype == tw.bool else tw.minimum(a, b)


for _name, _f, _known in (
    ("add", lambda a, b: a | b if a.dtype == tw.bool else a + b, lambda a, b: a + b),
    ("subtract", lambda a, b: a - b, np.subtract),
    ("multiply", lambda a, b: a & b if a.dtype == tw.bool else a * b, np.multiply),
    ("divide", _divide, lambda a, b: np.where(b == 0, -1, np.trunc(a / np.where(b == 0, 1, b))).astype(a.dtype)),
    ("remainder", _remainder, lambda a, b: np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)),
    ("maximum", _maximum, np.maximum),
    ("minimum", _minimum, np.minimum),
    ("power", _power, None),
    ("and", tw.bitwise_and, np.bitwise_and),
    ("or", tw.bitwise_or, np.bitwise_or),
    ("xor", tw.bitwise_xor, np.bitwise_xor),
    ("not", tw.bitwise_not, np.invert),
    ("negate", _negate, np.negative),
    ("sign", _sign, np.sign),
    ("abs", tw.abs, np.abs),
    ("shift_left", _shift_left, None),
    ("shift_right_logical", _shift_right_logical, None),
    ("shift_right_arithmetic", _shift_right_arithmetic, None),
    ("popcnt", _popcnt, None),
    ("count_leading_zeros", _count_leading_zeros, None),
    ("atan2", tw.atan2, None),
    ("ceil", tw.ceil, None),
    ("floor", tw.floor, None),
    ("round_nearest_even", tw.round, None),
    ("round_nearest_afz", _round_afz, None),
    ("cbrt", _cbrt, None),
    ("exponential", tw.exp, None),
    ("exponential_minus_one", tw.expm1, None),
    ("log", tw.log, None),
    ("log_plus_one", tw.log1p, None),
    ("logistic", tw.sigmoid, None),
    ("sqrt", tw.sqrt, None),
    ("rsqrt", lambda x: 1.0 / tw.sqrt(x) if is_complex(x.dtype) else tw.rsqrt(x), None),
    ("cosine", tw.cos, None),
    ("sine", tw.sin, None),
    ("tan", tw.tan, None),
    ("tanh", tw.tanh, None),
    ("is_finite", tw.isfinite, None),
    ("real", lambda x: x.real if is_complex(x.dtype) else x, None),
    ("imag", lambda x: x.imag if is_complex(x.dtype) else tw.zeros_like(x), None),
    ("complex", tw.complex, None),
    ("chlo.acos", tw.acos, None),
    ("chlo.acosh", tw.acosh, None),
    ("chlo.asin", tw.asin, None),
    ("chlo.asinh", tw.asinh, None),
    ("chlo.atan", tw.atan, None),
    ("chlo.atanh", tw.atanh, None),
    ("chlo.cosh", tw.cosh, None),
    ("chlo.sinh", tw.sinh, None),
    ("chlo.tan", tw.tan, None),
    ("chlo.erf", tw.erf, None),
    ("chlo.erfc", tw.erfc, None),
    ("chlo.erf_inv", tw.erfinv, None),
    ("chlo.lgamma", tw.lgamma, None),
    ("chlo.digamma", tw.digamma, None),
    ("chlo.polygamma", _polygamma, None),
    ("chlo.zeta", _zeta, None),
    ("chlo.bessel_i1e", lambda x: tw.special.i1e(x), None),
    ("chlo.next_after", tw.nextafter, None),
    ("chlo.conj", tw.conj, None),
    ("chlo.square", lambda x: x * x, None),
    ("chlo.is_inf", tw.isinf, None),
    ("chlo.is_pos_inf", lambda x: x == math.inf, None),
    ("chlo.is_neg_inf", lambda x: x == -math.inf, None),
):
    _same(_name, _f, _known)

_DIRECTIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


@row("compare", known=True)
def compare(node, a, b):
    way = _DIRECTIONS[node.attrs["comparison_direction"]]
    if is_known(a) and is_known(b) and a.dtype.kind in "iub":
        return np.asarray({"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                           "ge": np.greater_equal}[way](a, b))  # fmt: skip
    a, b = tensor(a), tensor(b)
    if node.attrs.get("compare_type") == "TOTALORDER" and way not in ("eq", "ne"):
        return _total(way, a, b)
    if a.dtype == tw.bool and way not in ("eq", "ne"):
        a, b = a.to(tw.uint8), b.to(tw.uint8)
    return getattr(tw, way)(a, b)


def _total(way, a, b):
    """Compared in the order of the numbers, with -0 below 0 and NaN above all."""
    if way in ("gt", "ge"):
        a, b, way = b, a, {"gt": "lt", "ge": "le"}[way]
    if way == "le":
        return tw.logical_not(_total("lt", b, a))
    is_sign = (a == 0) & (b == 0) & (tw.copysign(tw.ones_like(a), a) < tw.copysign(tw.ones_like(b), b))
    return (a < b) | (tw.isnan(b) & tw.logical_not(tw.isnan(a))) | is_sign


@row(known=True)
def select(node, pred, a, b):
    if all(map(is_known, (pred, a, b))) and a.dtype.kind in "iub":
        return np.where(pred, a, b)
    if is_known(pred) and pred.ndim == 0:
        return a if pred else b
    return tw.where(tensor(pred), tensor(a), tensor(b))


@row(known=True)
def clamp(node, lo, x, hi):
    if all(map(is_known, (lo, x, hi))) and x.dtype.kind in "iu":
        return np.asarray(np.minimum(np.maximum(x, lo), hi))
    return tw.minimum(tw.maximum(tensor(x), tensor(lo)), tensor(hi))


@row(known=True)
def convert(node, x):
    to = dtype_of(node.dtype)
    if is_known(x) and x.dtype.kind in "iub" and node.dtype != "bool" and node.dtype[0] in "iu":
        return x.astype(node.dtype)
    return converted(tensor(x), to)


def converted(x, to):
    """To an element type: integers wrap, floats that are too large for an integer saturate."""
    if x.dtype == to:
        return x
    if is_complex(x.dtype) and not is_complex(to):
        x = x.real
    if to == tw.bool:
        return x != 0
    if is_float(x.dtype) and is_integer(to):
        above, below = float(greatest(to)), float(least(to))
        whole = tw.where((x >= above) | (x <= below) | tw.isnan(x), tw.zeros_like(x), x).to(to)
        whole = tw.where(x >= above, splat(greatest(to), (), to), whole)
        return tw.where(x <= below, splat(least(to), (), to), whole)
    return x.to(to)


@row()
def reduce_precision(node, x):
    kinds = {(8, 7): tw.bfloat16, (5, 10): tw.float16, (8, 23): tw.float32, (11, 52): tw.float64}
    bits = (node.attrs["exponent_bits"], node.attrs["mantissa_bits"])
    need(bits in kinds, f"a precision of {bits[0]} exponent and {bits[1]} mantissa bits")
    return x if bits_of(kinds[bits]) >= bits_of(x.dtype) else x.to(kinds[bits]).to(x.dtype)


@row("optimization_barrier")
def optimization_barrier(node, *args):
    return apply("barrier", args)


# ---- shapes


def sizes_of(x):
    """Sizes that are given as a value, which must be known."""
    need(is_known(x), "sizes that depend on values")
    return [int(n) for n in x.reshape(-1)]


@row(known=True)
def get_dimension_size(node, x):
    return np.array(x.shape[node.attrs["dimension"]], np.int32)


@row("broadcast_in_dim", "dynamic_broadcast_in_dim", known=True)
def broadcast_in_dim(node, x, *sizes):
    sizes = sizes_of(sizes[0]) if sizes else list(node.shape)
    dims = [int(d) for d in node.attrs["broadcast_dimensions"]]
    if list(x.shape) == sizes and dims == sorted(dims):
        return x
    if is_known(x) and not (math.prod(sizes) <= KNOWN_MAX and x.dtype.kind in "iub"):
        x = tensor(x)
    # Axes in the order of the result.
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    if order != list(range(len(dims))):
        x = x.transpose(order) if is_known(x) else x.permute(order)
    inner = [1] * len(sizes)
    for i in order:
        inner[dims[i]] = x.shape[order.index(i)]
    if is_known(x):
        return np.broadcast_to(x.reshape(inner), sizes).copy()
    x = x.reshape(tuple(inner)) if list(x.shape) != inner else x
    return x if inner == sizes else x.expand(*sizes)


@row("reshape", "dynamic_reshape", known=True)
def reshape(node, x, *sizes):
    sizes = tuple(sizes_of(sizes[0])) if sizes else node.shape
    return x.reshape(sizes)


@row(known=True)
def transpose(node, x):
    order = [int(d) for d in node.attrs["permutation"]]
    return x.transpose(order).copy() if is_known(x) else x.permute(order)


@row(known=True)
def slice_(node, x):
    a = node.attrs
    return sliced(x, a["start_indices"], a["limit_indices"], a["strides"])


@row(known=True)
def real_dynamic_slice(node, x, *bounds):
    return sliced(x, *map(sizes_of, bounds))


def sliced(x, starts, limits, steps):
    at = tuple(slice(int(a), int(b), int(s)) for a, b, s in zip(starts, limits, steps))
    if is_known(x):
        return x[at].copy()
    if all(s.start == 0 and s.stop == n and s.step == 1 for s, n in zip(at, x.shape)):
        return x
    sizes = [len(range(s.start, s.stop, s.step)) for s in at]
    return one("slice", [x], starts=[s.start for s in at], sizes=sizes, steps=[s.step for s in at])


@row(known=True)
def reverse(node, x):
    dims = [int(d) for d in node.attrs["dimensions"]]
    return np.flip(x, dims).copy() if is_known(x) else tw.flip(x, dims) if dims else x


@row(known=True)
def concatenate(node, *parts):
    axis = node.attrs["dimension"]
    if all(map(is_known, parts)) and sum(p.size for p in parts) <= KNOWN_MAX:
        return np.concatenate(parts, axis)
    parts = [p for p in map(tensor, parts) if p.shape[axis]] or [tensor(parts[0])]
    return tw.cat(parts, axis) if len(parts) > 1 else parts[0]


@row(known=True)
def pad(node, x, value):
    a = node.attrs
    return padded(tensor(x), value, a["edge_padding_low"], a["edge_padding_high"], a["interior_padding"])


@row(known=True)
def dynamic_pad(node, x, value, lo, hi, interior):
    return padded(tensor(x), value, *map(sizes_of, (lo, hi, interior)))


def padded(x, value, lo, hi, interior=None):
    """With a border of a value, known or not, and interior padding; negative widths crop."""
    lo, hi = [int(n) for n in lo], [int(n) for n in hi]
    interior = [int(n) for n in interior] if interior is not None else [0] * x.ndim
    if not any(lo) and not any(hi) and not any(n and d > 1 for n, d in zip(interior, x.shape)):
        return x
    if not is_known(value) or is_complex(x.dtype):
        # A value that is computed goes where a mask says that there is no element.
        mask = _bordered(tw.ones_like(x, dtype=tw.bool), False, lo, hi, interior)
        return tw.where(mask, _bordered(x, 0, lo, hi, interior), tensor(value))
    return _bordered(x, value.item() if value.dtype.kind in "iubf" else float(value), lo, hi, interior)


def _bordered(x, value, lo, hi, interior):
    value = value if is_float(x.dtype) else int(value) if not is_complex(x.dtype) else float(value)
    for axis, between in enumerate(interior):
        n = x.shape[axis]
        if between and n > 1:
            shape = list(x.shape)
            x = x.unsqueeze(axis + 1)
            x = one("pad", [x], lo=[0] * x.ndim, hi=[between if i == axis + 1 else 0 for i in range(x.ndim)], value=value)
            shape[axis] = n * (between + 1)
            x = x.reshape(tuple(shape)).narrow(axis, 0, shape[axis] - between)
    return one("pad", [x], lo=lo, hi=hi, value=value) if any(lo) or any(hi) else x
