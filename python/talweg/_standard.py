"""Functions of the array API standard, NumPy and PyTorch that are not rows of the table themselves."""

import builtins

from . import _native
from ._names import ALIASES
from ._native import Tensor, dtype as _dtype

_here = {}


def _public(f):
    """Makes a function part of the package."""
    _here[f.__name__] = f
    return f


for _alias, _name in ALIASES.items():
    _f = getattr(Tensor, _name)
    _here[_alias] = _f
    if not hasattr(Tensor, _alias):
        # A staticmethod of the class must stay one.
        _raw = Tensor.__dict__.get(_name, _f)
        setattr(Tensor, _alias, _raw)


@_public
def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape; one size may be -1."""
    del copy  # values never change: a copy cannot be told from the original
    return x.reshape(shape)


@_public
def permute_dims(x, /, axes):
    """The axes in another order."""
    return x.permute(axes)


@_public
def permute(x, /, axes):
    """The axes in another order."""
    return x.permute(axes)


@_public
def matrix_transpose(x, /):
    """The last two axes exchanged."""
    return x.mT


@_public
def astype(x, dtype, /, *, copy=True, device=None):
    """Converted to another element type."""
    _on_host(device)
    return x.astype(dtype)


@_public
def pad(x, widths, mode="constant", value=0.0):
    """Padded at the edges of the last dimensions, as PyTorch's ``pad``."""
    return x.pad(widths, mode, value)


@_public
def unique(x, return_inverse=False, return_counts=False):
    """The distinct elements in order."""
    return x.unique(return_inverse, return_counts)


@_public
def unique_values(x, /):
    """The distinct elements in order."""
    return x.unique()


@_public
def unique_counts(x, /):
    """The distinct elements in order, and how often each is there."""
    return x.unique(return_counts=True)


@_public
def unique_all(x, /):
    """The distinct elements in order, the first place of each, the place of each element among them, and counts."""
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    flat = inverse.ravel()
    first = flat.argsort(0).take(counts.cumsum(0) - counts, 0)
    return values, first, inverse, counts


@_public
def unique_inverse(x, /):
    """The distinct elements in order, and the place of each element among them."""
    return x.unique(return_inverse=True)


_here.update({name: getattr(Tensor, name) for name in ["amax", "amin", "expand", "interpolate"]})


def _is_number(x):
    return isinstance(x, (builtins.bool, int, float))


@_public
def where(condition, x1, x2, /):
    """``x1`` where the condition holds, else ``x2``; a number takes the other's type."""
    if _is_number(x1) and not _is_number(x2):
        return Tensor.where(~_native.tensor(condition), x2, x1)
    return Tensor.where(condition, x1, x2)


_clamp = Tensor.clamp


@_public
def clip(x, /, min=None, max=None):
    """Elements below ``min`` or above ``max`` become these; ``None`` is no bound."""
    if min is None and max is None:
        return x
    if min is None:
        return x.clamp_max(max)
    return x.clamp_min(min) if max is None else _clamp(x, min, max)


clamp = _here["clamp"] = clip
Tensor.clip = Tensor.clamp = clip


@_public
def sort(x, /, axis=-1, *, descending=False, stable=True):
    """The elements in order along an axis, as the standard has it; ``x.sort()`` also says their places."""
    del stable  # the order of equal elements is always kept
    return (x.sort_descending(axis) if descending else x.sort(axis))[0]


@_public
def argsort(x, /, axis=-1, *, descending=False, stable=True):
    """The places of the elements in order."""
    del stable
    return x.argsort_descending(axis) if descending else x.argsort(axis)


@_public
def nonzero(x, /):
    """The places of the elements that are not zero, a tensor for each axis; ``x.nonzero()`` is one matrix."""
    return tuple(x.nonzero().unbind(1))


@_public
def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where elements would have to be put in so that order is kept."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is left or right, not {side!r}")
    x1 = x1 if sorter is None else x1.take(sorter, 0)
    return x1.searchsorted(x2) if side == "left" else x1.searchsorted_right(x2)


@_public
def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is xy or ij, not {indexing!r}")
    grid = Tensor.meshgrid(list(arrays))
    return [g.swapaxes(0, 1) for g in grid] if indexing == "xy" and len(arrays) > 1 else grid


def _cumulative(name, first):
    op = getattr(Tensor, name)

    def cumulative(x, /, axis=None, *, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{cumulative.__name__}: axis must be given for {x.ndim} dimensions")
            axis = 0
        y = op(x if dtype is None else x.astype(dtype), axis)
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
    """Elements moved along axes; those that leave come in again."""
    if axis is None:
        return x.ravel().roll(shift, 0).reshape(x.shape)
    return x.roll(shift, axis)


@_public
def repeat(x, repeats, /, axis=None):
    """Each element several times."""
    if axis is None:
        x, axis = x.ravel(), 0
    if isinstance(repeats, Tensor):
        return x.repeat_interleave_by(repeats, axis)
    return x.repeat_interleave(repeats, axis)


@_public
def tensordot(x1, x2, /, axes=2):
    """Products summed over axes: the last of one with the first of the other, or two lists of them."""
    if isinstance(axes, int):
        return x1.tensordot(x2, list(range(x1.ndim - axes, x1.ndim)), list(range(axes)))
    return x1.tensordot(x2, axes[0], axes[1])


@_public
def concat(arrays, /, axis=0, *, dim=None):
    """Tensors one after the other along an axis, or with ``None`` as one row."""
    axis = axis if dim is None else dim
    if axis is None:
        return Tensor.concat([a.ravel() for a in arrays], 0)
    return Tensor.concat(list(arrays), axis)


@_public
def unstack(x, /, axis=0):
    """The parts of a tensor along an axis."""
    return tuple(x.unbind(axis))


@_public
def einsum(equation, *operands):
    """Einstein's summation: ``einsum("ij,jk->ik", a, b)``."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return Tensor.einsum(equation, list(operands))


@_public
def positive(x, /):
    """The tensor itself."""
    return x


@_public
def signbit(x, /):
    """True where the sign is negative, also of negative zero."""
    one = _native.ones_like(x)
    return one.copysign(x) < 0


@_public
def broadcast_arrays(*arrays):
    """All tensors in their common shape."""
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return [a.broadcast_to(shape) for a in arrays]


@_public
def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes have together."""
    rank = builtins.max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, d in enumerate(s, rank - len(s)):
            if d != 1 and out[i] not in (1, d):
                raise ValueError(f"shapes {shapes} do not broadcast")
            if d != 1:
                out[i] = d
    return tuple(out)


@_public
def can_cast(from_, to, /):
    """True if a type converts to another without loss by promotion."""
    a = from_.dtype if isinstance(from_, Tensor) else _dtype(from_)
    return _native.promote(a, _dtype(to)) == _dtype(to)


@_public
def result_type(*arrays_and_dtypes):
    """The element type that these have together."""
    types = [a.dtype if isinstance(a, Tensor) else a for a in arrays_and_dtypes]
    numbers = [t for t in types if isinstance(t, (builtins.bool, int, float))]
    kinds = [_dtype(t) for t in types if not isinstance(t, (builtins.bool, int, float))]
    if not kinds:
        raise ValueError("result_type: at least one tensor or dtype is needed")
    out = kinds[0]
    for k in kinds[1:]:
        out = _native.promote(out, k)
    for n in numbers:
        out = (_native.zeros(1, dtype=out) * n).dtype
    return out


@_public
def isdtype(dtype, kind):
    """True if a type is of a kind: ``"real floating"``, ``"integral"``, another type, or a tuple of these."""
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
        "complex floating": False,
        "numeric": name != "bool",
    }
    if kind not in kinds:
        raise ValueError(f"there is no kind {kind!r}; there are {list(kinds)}")
    return kinds[kind]


class _Namespace:
    """What this namespace can do, as the standard asks for it."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self):
        return "cpu"

    def devices(self):
        return ["cpu"]

    def default_dtypes(self, *, device=None):
        _on_host(device)
        return {"real floating": _dtype("float32"), "integral": _dtype("int64"), "indexing": _dtype("int64")}

    def dtypes(self, *, device=None, kind=None):
        _on_host(device)
        names = ["bool", "int8", "int32", "int64", "uint8", "uint32", "float32", "float64"]
        return {n: _dtype(n) for n in names if kind is None or isdtype(n, kind)}


@_public
def __array_namespace_info__():
    """What this namespace can do."""
    return _Namespace()


class _Info:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return "info(" + ", ".join(f"{k}={v}" for k, v in self.__dict__.items()) + ")"


_FLOATS = {
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14),
    "bfloat16": (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126),
    "float32": (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126),
    "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.2250738585072014e-308),
}


@_public
def finfo(type, /):
    """Limits of a float type."""
    d = type.dtype if isinstance(type, Tensor) else _dtype(type)
    if d.name not in _FLOATS:
        raise TypeError(f"{d} is not a float type")
    bits, eps, largest, smallest = _FLOATS[d.name]
    return _Info(bits=bits, eps=eps, max=largest, min=-largest, smallest_normal=smallest, dtype=d)


@_public
def iinfo(type, /):
    """Limits of a whole-number type."""
    d = type.dtype if isinstance(type, Tensor) else _dtype(type)
    if "int" not in d.name:
        raise TypeError(f"{d} is not a whole-number type")
    bits = 8 * d.itemsize
    low, high = (0, 2**bits - 1) if d.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _Info(bits=bits, max=high, min=low, dtype=d)


@_public
def from_numpy(array):
    """A tensor from a NumPy array, which is copied."""
    return _native.tensor(array)


def _on_host(device):
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}: use 'cpu'")


def _to(x, *args, dtype=None, device=None, **_ignored):
    """Converted to an element type, or moved to a device."""
    for a in args:
        if isinstance(a, str) and (a == "cpu" or ":" in a or a in ("cuda", "mps", "xpu")):
            device = a
        elif isinstance(a, Tensor):
            dtype = a.dtype
        else:
            dtype = a
    _on_host(device)
    return x if dtype is None else x.astype(dtype)


def _conversion(name):
    def convert(x):
        return x.astype(name)

    convert.__doc__ = f"Converted to {name}."
    return convert


Tensor.to = _to
Tensor.to_device = lambda x, device, /, *, stream=None: (_on_host(device), x)[1]
Tensor.cpu = lambda x: x
Tensor.contiguous = lambda x: x
Tensor.dim = lambda x: x.ndim
for _method_name, _type in [
    ("float", "float32"),
    ("double", "float64"),
    ("half", "float16"),
    ("bfloat16", "bfloat16"),
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

globals().update(_here)
__all__ = sorted(_here)
