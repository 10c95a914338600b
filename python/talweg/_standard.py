"""Functions of the array API standard, NumPy and PyTorch that are not rows of the table themselves."""

import builtins
import functools as _functools
import math as _math
from typing import NamedTuple

from . import _native
from ._names import ALIASES
from ._native import Tensor, dtype as _dtype
from ._checked import checked, function, type_error, value_error, wrapped

_here = {}


def _public(f):
    """Makes a function part of the package."""
    _here[f.__name__] = wrapped(f)
    return f


for _alias, _name in ALIASES.items():
    _here[_alias] = function(_name)
    if not hasattr(Tensor, _alias):
        # A staticmethod of the class must stay one.
        setattr(Tensor, _alias, Tensor.__dict__[_name])


@_public
def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape; one size may be -1.

    >>> import talweg as tw
    >>> tw.reshape(tw.arange(4), (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    del copy  # values never change: a copy cannot be told from the original
    return x.reshape(shape)


@_public
def permute_dims(x, /, axes):
    """The axes in another order.

    >>> import talweg as tw
    >>> tw.permute_dims(tw.zeros(2, 3), (1, 0)).shape
    (3, 2)
    """
    return x.permute(axes)


@_public
def permute(x, /, axes):
    """The axes in another order.

    >>> import talweg as tw
    >>> tw.permute(tw.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return x.permute(axes)


@_public
def matrix_transpose(x, /):
    """The last two axes exchanged.

    >>> import talweg as tw
    >>> tw.matrix_transpose(tw.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]
    """
    return x.mT


@_public
def astype(x, dtype, /, *, copy=True, device=None):
    """Converted to another element type.

    >>> import talweg as tw
    >>> tw.astype(tw.asarray([1.5, -1.5]), tw.int32).tolist()
    [1, -1]
    """
    x = x.astype(dtype)
    return x if device is None else _to(x, device=device)


@_public
def pad(x, widths, mode="constant", value=0.0):
    """Padded at the edges of the last dimensions, as PyTorch's ``pad``.

    >>> import talweg as tw
    >>> tw.pad(tw.asarray([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    """
    return x.pad(widths, mode, value)


@_public
def unique(x, return_inverse=False, return_counts=False):
    """The distinct elements in order.

    >>> import talweg as tw
    >>> tw.unique(tw.asarray([2, 1, 2])).tolist()
    [1, 2]
    """
    return x.unique(return_inverse, return_counts)


@_public
def unique_values(x, /):
    """The distinct elements in order.

    >>> import talweg as tw
    >>> tw.unique_values(tw.asarray([2, 1, 2])).tolist()
    [1, 2]
    """
    return x.unique()


@_public
class UniqueAllResult(NamedTuple):
    """What ``unique_all`` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


@_public
class UniqueCountsResult(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Tensor
    counts: Tensor


@_public
class UniqueInverseResult(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Tensor
    inverse_indices: Tensor


@_public
def unique_counts(x, /):
    """The distinct elements in order, and how often each is there.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unique_counts(tw.asarray([2, 1, 2]))]
    [[1, 2], [1, 2]]
    """
    return UniqueCountsResult(*x.unique(return_counts=True))


@_public
def unique_all(x, /):
    """The distinct elements in order, the first place of each, the place of each element among them, and counts.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unique_all(tw.asarray([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    flat = inverse.ravel()
    first = flat.argsort(0).take(counts.cumsum(0) - counts, 0)
    return UniqueAllResult(values, first, inverse, counts)


@_public
def unique_inverse(x, /):
    """The distinct elements in order, and the place of each element among them.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unique_inverse(tw.asarray([3, 1, 3]))]
    [[1, 3], [1, 0, 1]]
    """
    return UniqueInverseResult(*x.unique(return_inverse=True))


_here.update({name: function(name) for name in ["amax", "amin", "expand", "interpolate"]})


def _is_number(x):
    return isinstance(x, (builtins.bool, int, float, complex))


@_public
def where(condition, x1, x2, /):
    """``x1`` where the condition holds, else ``x2``; a number takes the other's type.

    >>> import talweg as tw
    >>> tw.where(tw.asarray([True, False]), tw.asarray([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    if _is_number(x1) and not _is_number(x2):
        return Tensor.where(~_native.tensor(condition), x2, x1)
    return Tensor.where(condition, x1, x2)


_clamp = Tensor.clamp


@_public
def clip(x, /, min=None, max=None):
    """Elements below ``min`` or above ``max`` become these; ``None`` is no bound.

    >>> import talweg as tw
    >>> tw.clip(tw.asarray([1, 5, 9]), 2, 7).tolist()
    [2, 5, 7]
    """
    if min is None and max is None:
        return x
    if min is None:
        return x.clamp_max(max)
    return x.clamp_min(min) if max is None else _clamp(x, min, max)


clamp = _here["clamp"] = _here["clip"]
Tensor.clip = Tensor.clamp = clip


@_public
def sort(x, /, axis=-1, *, descending=False, stable=True):
    """The elements in order along an axis, as the standard has it; ``x.sort()`` also says their places.

    >>> import talweg as tw
    >>> tw.sort(tw.asarray([2, 3, 1]), descending=True).tolist()
    [3, 2, 1]
    """
    del stable  # the order of equal elements is always kept
    return (x.sort_descending(axis) if descending else x.sort(axis))[0]


@_public
def argsort(x, /, axis=-1, *, descending=False, stable=True):
    """The places of the elements in order.

    >>> import talweg as tw
    >>> tw.argsort(tw.asarray([2, 3, 1])).tolist()
    [2, 0, 1]
    """
    del stable
    return x.argsort_descending(axis) if descending else x.argsort(axis)


@_public
def nonzero(x, /):
    """The places of the elements that are not zero, a tensor for each axis; ``x.nonzero()`` is one matrix.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.nonzero(tw.asarray([[0, 1], [1, 0]]))]
    [[0, 1], [1, 0]]
    """
    if x.ndim == 0:
        raise value_error("nonzero: a tensor without dimensions has no places")
    return tuple(x.nonzero().unbind(1))


@_public
def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where elements would have to be put in so that order is kept.

    >>> import talweg as tw
    >>> tw.searchsorted(tw.asarray([1, 2, 2, 3]), tw.asarray([2]), side="right").tolist()
    [3]
    """
    if side not in ("left", "right"):
        raise value_error(f"searchsorted: side is left or right, not {side!r}")
    x1 = x1 if sorter is None else x1.take(sorter, 0)
    return x1.searchsorted(x2) if side == "left" else x1.searchsorted_right(x2)


@_public
def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.meshgrid(tw.asarray([1, 2]), tw.asarray([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if indexing not in ("xy", "ij"):
        raise value_error(f"meshgrid: indexing is xy or ij, not {indexing!r}")
    grid = Tensor.meshgrid(list(arrays))
    return [g.swapaxes(0, 1) for g in grid] if indexing == "xy" and len(arrays) > 1 else grid


def _cumulative(name, first):
    op = getattr(Tensor, name)

    def cumulative(x, /, axis=None, *, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim != 1:
                raise value_error(f"{cumulative.__name__}: axis must be given for {x.ndim} dimensions")
            axis = 0
        # Narrow integers are summed in 64 bits and wrap around in their own.
        y = op(x, axis) if dtype is None else op(x.astype(dtype), axis).astype(dtype)
        if not include_initial:
            return y
        shape = list(y.shape)
        shape[axis] = 1
        return Tensor.concat([_native.full(shape, first, dtype=y.dtype), y], axis)

    cumulative.__name__ = "cumulative_" + name[3:]
    cumulative.__doc__ = f"The {name[3:]} so far along an axis."
    return _public(cumulative)


cumulative_sum = _cumulative("cumsum", 0)
cumulative_prod = _cumulative("cumprod", 1)


def _reduced(name):
    op = getattr(Tensor, name)

    def reduced(x, /, axis=None, *, dtype=None, keepdims=False, dim=None, keepdim=None):
        x = x if dtype is None else x.astype(dtype)
        y = op(x, axis, keepdims, dim=dim, keepdim=keepdim)
        return y if dtype is None else y.astype(dtype)

    reduced.__name__, reduced.__doc__ = name, op.__doc__
    return _public(reduced)


sum, prod = _reduced("sum"), _reduced("prod")


@_public
def roll(x, /, shift, axis=None):
    """Elements moved along axes; those that leave come in again.

    >>> import talweg as tw
    >>> tw.roll(tw.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    if axis is None:
        return x.ravel().roll(shift, 0).reshape(x.shape)
    return x.roll(shift, axis)


@_public
def repeat(x, repeats, /, axis=None):
    """Each element several times.

    >>> import talweg as tw
    >>> tw.repeat(tw.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    if axis is None:
        x, axis = x.ravel(), 0
    if isinstance(repeats, Tensor):
        return x.repeat_interleave_by(repeats, axis)
    return x.repeat_interleave(repeats, axis)


@_public
def diff(x, /, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbors along an axis, taken ``n`` times, after other elements were put before and behind.

    >>> import talweg as tw
    >>> tw.diff(tw.asarray([1, 3, 6]), prepend=tw.asarray([0])).tolist()
    [1, 2, 3]
    """
    if n == 0:
        return x
    parts = [t for t in (prepend, x, append) if t is not None]
    return Tensor.diff(Tensor.concat(parts, axis) if len(parts) > 1 else x, n, axis)


@_public
def tensordot(x1, x2, /, axes=2):
    """Products summed over axes: the last of one with the first of the other, or two lists of them.

    >>> import talweg as tw
    >>> tw.tensordot(tw.ones(2, 3), tw.ones(3, 4), axes=1).shape
    (2, 4)
    """
    if isinstance(axes, int):
        return x1.tensordot(x2, list(range(x1.ndim - axes, x1.ndim)), list(range(axes)))
    return x1.tensordot(x2, axes[0], axes[1])


@_public
def concat(arrays, /, axis=0, *, dim=None):
    """Tensors one after the other along an axis, or with ``None`` as one row.

    >>> import talweg as tw
    >>> tw.concat([tw.asarray([1]), tw.asarray([2, 3])]).tolist()
    [1, 2, 3]
    """
    axis = axis if dim is None else dim
    if axis is None:
        return Tensor.concat([a.ravel() for a in arrays], 0)
    return Tensor.concat(list(arrays), axis)


_take = Tensor.take


@_public
def take(x, /, index, axis=0):
    """Slices chosen along an axis, which is replaced by the index's dimensions; negative places count from the end.

    >>> import talweg as tw
    >>> tw.take(tw.asarray([1, 2, 3]), tw.asarray([0, -1])).tolist()
    [1, 3]
    """
    index = _native.tensor(index).astype("int64")
    size = x.shape[axis] if x.ndim else 1
    return _take(x, Tensor.where(index < 0, index + size, index), axis)


Tensor.take = checked(take)


@_public
def unstack(x, /, axis=0):
    """The parts of a tensor along an axis.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unstack(tw.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    return tuple(x.unbind(axis))


@_public
def einsum(equation, *operands):
    """Einstein's summation: ``einsum("ij,jk->ik", a, b)``.

    >>> import talweg as tw
    >>> tw.einsum("ij,j->i", tw.asarray([[1.0, 2.0]]), tw.asarray([3.0, 4.0])).tolist()
    [11.0]
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return Tensor.einsum(equation, list(operands))


@_public
def positive(x, /):
    """The tensor itself.

    >>> import talweg as tw
    >>> tw.positive(tw.asarray([-1.0])).tolist()
    [-1.0]
    """
    return x


@_public
def signbit(x, /):
    """True where the sign is negative, also of negative zero.

    >>> import talweg as tw
    >>> tw.signbit(tw.asarray([-0.0, 0.0, 3.0])).tolist()
    [True, False, False]
    """
    one = _native.ones_like(x)
    return one.copysign(x) < 0


def _numeric(x, name):
    if x.dtype == _dtype("bool"):
        raise type_error(f"{name}: expected numbers, not bool")
    return x


@_public
def real(x, /):
    """The real parts.

    >>> import talweg as tw
    >>> tw.real(tw.asarray([1.0 + 2.0j])).tolist()
    [1.0]
    """
    return _numeric(x, "real").real


@_public
def imag(x, /):
    """The imaginary parts; zeros of real numbers.

    >>> import talweg as tw
    >>> tw.imag(tw.asarray([1.0 + 2.0j])).tolist()
    [2.0]
    """
    return _numeric(x, "imag").imag


@_public
def conj(x, /):
    """The complex conjugates; of real numbers the numbers themselves.

    >>> import talweg as tw
    >>> tw.conj(tw.asarray([1.0 + 2.0j])).tolist()
    [(1-2j)]
    """
    return _numeric(x, "conj").conj()


# Bits of precision, and the exponent of the smallest number.
_PRECISION = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}


@_public
def nextafter(x1, x2, /):
    """The number after ``x1`` in the direction of ``x2``.

    >>> import talweg as tw
    >>> tw.nextafter(tw.asarray(1.0), tw.asarray(2.0)).item() == 1.0 + 2.0**-23
    True
    """
    x1, x2 = _native.tensor(x1), _native.tensor(x2)
    dtype = _native.promote(x1.dtype, x2.dtype)
    if dtype.name not in _PRECISION:
        raise type_error(f"nextafter: expected floats, not {dtype.name}")
    bits, least = _PRECISION[dtype.name]
    x, to = x1.astype(dtype), x2.astype(dtype)
    # Rump, Zimmermann, Boldo and Melquiond 2009: a bit more than half a unit is added and rounded away.
    unit, eta = 2.0**-bits, 2.0**least
    more = unit * (1.0 + 2.0 * unit)
    up, size = to > x, x.abs()
    # Small numbers are computed with where nothing is lost to underflow; the smallest have one step.
    is_small = size < eta / unit / unit * 0.5
    big = Tensor.where(is_small, x / unit, x)
    y = Tensor.where(up, big + big.abs() * more, big - big.abs() * more)
    y = Tensor.where(is_small, y * unit, y)
    y = Tensor.where(size < eta / unit, Tensor.where(up, x + eta, x - eta), y)
    largest = _native.tensor(_FLOATS[dtype.name][2], dtype=dtype)
    # From infinity down to the largest number, where the sum above stays infinite.
    y = Tensor.where(x.isinf(), largest.copysign(x), y)
    y = Tensor.where(x == to, to, y)
    return Tensor.where(x.isnan() | to.isnan(), _math.nan, y).astype(dtype)


@_public
def broadcast_arrays(*arrays):
    """All tensors in their common shape.

    >>> import talweg as tw
    >>> [t.shape for t in tw.broadcast_arrays(tw.zeros(2, 1), tw.zeros(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return [a.broadcast_to(shape) for a in arrays]


@_public
def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes have together.

    >>> import talweg as tw
    >>> tw.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    rank = builtins.max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, d in enumerate(s, rank - len(s)):
            if d != 1 and out[i] not in (1, d):
                raise value_error(f"shapes {shapes} do not broadcast")
            if d != 1:
                out[i] = d
    return tuple(out)


@_public
def can_cast(from_, to, /):
    """True if a type converts to another without loss by promotion.

    >>> import talweg as tw
    >>> tw.can_cast(tw.int8, tw.int64), tw.can_cast(tw.float64, tw.float32)
    (True, False)
    """
    a = from_.dtype if isinstance(from_, Tensor) else _dtype(from_)
    to = _dtype(to)
    # Floats of 8 bits promote with nothing.
    return a == to or ("float8" not in a.name + to.name and _native.promote(a, to) == to)


@_public
def result_type(*arrays_and_dtypes):
    """The element type that these have together.

    >>> import talweg as tw
    >>> tw.result_type(tw.float32, tw.float64)
    talweg.float64
    """
    types = [a.dtype if isinstance(a, Tensor) else a for a in arrays_and_dtypes]
    numbers = [t for t in types if _is_number(t)]
    kinds = [_dtype(t) for t in types if not _is_number(t)]
    if not kinds:
        raise value_error("result_type: at least one tensor or dtype is needed")
    out = kinds[0]
    for k in kinds[1:]:
        out = _native.promote(out, k)
    for n in numbers:
        out = (_native.zeros(1, dtype=out) * n).dtype
    return out


@_public
def isdtype(dtype, kind):
    """True if a type is of a kind: ``"real floating"``, ``"integral"``, another type, or a tuple of these.

    >>> import talweg as tw
    >>> tw.isdtype(tw.int8, "integral")
    True
    """
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return _dtype(dtype) == _dtype(kind)
    name = _dtype(dtype).name
    kinds = {
        "bool": name == "bool",
        "signed integer": name.startswith("int"),
        "unsigned integer": name.startswith("uint"),
        "integral": "int" in name,
        "real floating": "float" in name,
        "complex floating": name.startswith("complex"),
        "numeric": name != "bool",
    }
    if kind not in kinds:
        raise value_error(f"there is no kind {kind!r}; there are {list(kinds)}")
    return kinds[kind]


def _known(device):
    """All devices have the same types: only a name that is none is refused."""
    if device is not None and device not in _native.devices():
        raise value_error(f"there is no device {device!r}; there are {_native.devices()}")


class _Namespace:
    """What this namespace can do, as the standard asks for it."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self):
        return _native.current_device()

    def devices(self):
        return _native.devices()

    def default_dtypes(self, *, device=None):
        _known(device)
        floats = {"real floating": _dtype("float32"), "complex floating": _dtype("complex64")}
        return {**floats, "integral": _dtype("int64"), "indexing": _dtype("int64")}

    def dtypes(self, *, device=None, kind=None):
        _known(device)
        signs, sizes = ["int", "uint"], [8, 16, 32, 64]
        names = ["bool", *(f"{s}{n}" for s in signs for n in sizes), "float32", "float64", "complex64", "complex128"]
        return {n: _dtype(n) for n in names if kind is None or isdtype(n, kind)}


@_public
def __array_namespace_info__():
    """What this namespace can do.

    >>> import talweg as tw
    >>> tw.__array_namespace_info__().default_device()
    'cpu'
    """
    return _Namespace()


class _Info:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return "info(" + ", ".join(f"{k}={v}" for k, v in self.__dict__.items()) + ")"


_FLOATS = {
    "float8_e4m3fn": (8, 2.0**-3, 448.0, 2.0**-6),
    "float8_e5m2": (8, 2.0**-2, 57344.0, 2.0**-14),
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14),
    "bfloat16": (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126),
    "float32": (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126),
    "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.2250738585072014e-308),
}


_PARTS = {"complex64": _dtype("float32"), "complex128": _dtype("float64")}


@_public
def finfo(type, /):
    """Limits of a float type, or of a complex type's parts.

    >>> import talweg as tw
    >>> tw.finfo(tw.float32).eps == 2.0**-23
    True
    """
    d = type.dtype if isinstance(type, Tensor) else _dtype(type)
    d = _PARTS.get(d.name, d)
    if d.name not in _FLOATS:
        raise type_error(f"{d} is not a float type")
    bits, eps, largest, smallest = _FLOATS[d.name]
    return _Info(bits=bits, eps=eps, max=largest, min=-largest, smallest_normal=smallest, dtype=d)


@_public
def iinfo(type, /):
    """Limits of a whole-number type.

    >>> import talweg as tw
    >>> tw.iinfo(tw.uint8).max
    255
    """
    d = type.dtype if isinstance(type, Tensor) else _dtype(type)
    if "int" not in d.name:
        raise type_error(f"{d} is not a whole-number type")
    bits = 8 * d.itemsize
    low, high = (0, 2**bits - 1) if d.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _Info(bits=bits, max=high, min=low, dtype=d)


@_public
def from_numpy(array):
    """A tensor over the memory of a NumPy array of floats; others, and those that are not dense, are copied.

    Whoever writes into the array afterwards changes the tensor, as in PyTorch: ``tensor(array)`` copies.

    >>> import numpy as np
    >>> a = np.ones(3, dtype="float32")
    >>> from_numpy(a).numpy().ctypes.data == a.ctypes.data
    True
    """
    shared = _native.share(array)
    return _native.tensor(array) if shared is None else shared


def _is_device(name):
    return isinstance(name, str) and (name in ("cpu", "cuda") or ":" in name)


def _to(x, *args, dtype=None, device=None, non_blocking=False, copy=False):
    """Converted to an element type, moved to a device, or as another tensor is."""
    for a in args:
        if _is_device(a):
            device = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        else:
            dtype = a
    # Copies never block longer than they must, and values are never changed in place: both words have nothing to do.
    if not isinstance(non_blocking, bool) or not isinstance(copy, bool):
        raise type_error("to: non_blocking and copy are True or False")
    x = x if dtype is None else x.astype(dtype)
    return x if device is None or device == x.device else x.to_device(device)


def _conversion(name):
    def convert(x):
        return x.astype(name)

    convert.__doc__ = f"Converted to {name}."
    return convert


Tensor.to = _to
Tensor.cpu = lambda x: _to(x, "cpu")
Tensor.cuda = lambda x, index=0: _to(x, f"cuda:{index}")
Tensor.contiguous = lambda x: x
Tensor.dim = lambda x: x.ndim
for _method_name, _type in [
    ("float", "float32"),
    ("double", "float64"),
    ("half", "float16"),
    ("bfloat16", "bfloat16"),
    ("short", "int16"),
    ("int", "int32"),
    ("long", "int64"),
    ("bool", "bool"),
]:
    setattr(Tensor, _method_name, _conversion(_type))


def _in_place(name):
    op = getattr(Tensor, name)

    def change(x, *args, **kwargs):
        return x.copy_(op(x, *args, **kwargs))

    change.__doc__ = f"{name}, in place."
    return change


for _name in ["add", "sub", "mul", "div", "clamp", "exp", "neg", "sqrt", "abs", "masked_fill", "round", "relu"]:
    setattr(Tensor, _name + "_", _in_place(_name))

# Functions of two arrays, of which the standard lets either be a number.
_BINARY = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
nextafter not_equal pow remainder subtract
""".split()


def _either_side(f):
    """The function, with a number or an array of another library as its first argument as well."""

    @_functools.wraps(f)
    def call(x1, x2, /, **settings):
        if not isinstance(x1, Tensor) and isinstance(x2, Tensor):
            x1 = _native.tensor(x1, result_type(x1, x2) if _is_number(x1) else None)
        return f(x1, x2, **settings)

    return checked(call)


globals().update(_here)
__all__ = sorted(_here)
