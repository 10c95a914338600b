"""Element types: limits, promotion, and their other names."""

import functools
from typing import TYPE_CHECKING, Any

from .. import _native
from .._checked import type_error
from .._native import Tensor, dtype
from .register import PUBLIC, public

if TYPE_CHECKING:
    from .. import DTypeLike

def _interned(cls: Any, what: Any) -> Any:
    return _native.dtype_of_name(what)


# One object a type: ``tw.dtype("float32") is tw.float32``.
dtype.__new__ = _interned  # type: ignore[method-assign, assignment]

# PyTorch's short names. `tw.float` and `tw.int` are types here as there.
NAMES = {
    "float": "float32", "double": "float64", "half": "float16", "short": "int16", "int": "int32", "long": "int64",
    "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
PUBLIC.update({name: dtype(of) for name, of in NAMES.items()})

# bits, eps, max, smallest normal
FLOATS = {
    "float8_e4m3fn": (8, 2.0**-3, 448.0, 2.0**-6),
    "float8_e5m2": (8, 2.0**-2, 57344.0, 2.0**-14),
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14),
    "bfloat16": (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126),
    "float32": (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126),
    "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.2250738585072014e-308),
}
PARTS = {"complex64": "float32", "complex128": "float64"}


def of(x: Any) -> "dtype":
    """The element type of a tensor, or that a name stands for."""
    return x.dtype if isinstance(x, Tensor) else dtype(x)


class _Info:
    def __init__(self, kind: str, **fields: Any) -> None:
        self.__dict__.update(fields)
        self._kind = kind

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        shown = [f"{n}={self.__dict__[n]:g}" if self._kind == "finfo" else f"{n}={self.__dict__[n]}" for n in names if n in self.__dict__]
        return f"{self._kind}({', '.join(shown)}, dtype={self.__dict__['dtype'].name})"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@public(method=False)
def finfo(type: "DTypeLike | None" = None) -> _Info:
    """Limits of a float type, or of a complex type's parts.

    >>> tw.finfo(tw.float32).eps == 2.0**-23
    True
    """
    d = get_default_dtype() if type is None else of(type)
    d = dtype(PARTS.get(d.name, d.name))
    if d.name not in FLOATS:
        raise type_error(f"finfo: {d} is not a float type; iinfo is for integers")
    bits, eps, largest, smallest = FLOATS[d.name]
    limits = {"eps": eps, "max": largest, "min": -largest, "tiny": smallest, "smallest_normal": smallest}
    return _Info("finfo", resolution=10.0 ** -_digits(eps), bits=bits, dtype=d, **limits)


def _digits(eps: float) -> int:
    """Decimal digits that survive a round trip."""
    digits = 0
    while 10.0 ** -(digits + 1) > eps:
        digits += 1
    return digits


@public(method=False)
def iinfo(type: "DTypeLike") -> _Info:
    """Limits of a whole-number type.

    >>> tw.iinfo(tw.uint8).max
    255
    """
    d = of(type)
    if "int" not in d.name:
        raise type_error(f"iinfo: {d} is not a whole-number type; finfo is for floats")
    bits = 8 * d.itemsize
    low, high = (0, 2**bits - 1) if d.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _Info("iinfo", bits=bits, max=high, min=low, dtype=d)


def kind(d: "dtype") -> int:
    """bool, whole, float, complex: 0 to 3."""
    return (d.name != "bool") + ("float" in d.name or "complex" in d.name) + ("complex" in d.name)


@public(method=False)
def promote_types(type1: "DTypeLike", type2: "DTypeLike") -> "dtype":
    """The element type that tensors of two types have together.

    >>> tw.promote_types(tw.int32, tw.float32)
    talweg.float32
    """
    return _native.promote(dtype(type1), dtype(type2))


@public(method=False)
def can_cast(from_: "DTypeLike", to: "DTypeLike") -> bool:
    """True if a type may be converted to another in place: not from a float to an integer, nor from complex to real.

    >>> tw.can_cast(tw.float64, tw.float32), tw.can_cast(tw.float32, tw.int64)
    (True, False)
    """
    return kind(of(from_)) <= kind(of(to))


@public(method=False)
def result_type(tensor1: Any, tensor2: Any) -> "dtype":
    """The element type of an operation between two tensors or numbers; a number counts by its kind alone.

    >>> tw.result_type(tw.tensor([1], dtype=tw.int32), 1.0)
    talweg.float32
    """
    return (_one(tensor1, tensor2) + _one(tensor2, tensor1)).dtype


def alike(*given: Any) -> list[Tensor]:
    """Tensors in their common type. One without dimensions counts by its kind alone, beside others."""
    tensors = [x if isinstance(x, Tensor) else _native.tensor(x) for x in given]
    if len({t.dtype for t in tensors}) == 1:
        return tensors
    common = functools.reduce(_native.promote, [t.dtype for t in tensors if t.ndim] or [t.dtype for t in tensors])
    for t in tensors:
        if kind(t.dtype) > kind(common):
            common = _native.promote(common, t.dtype)
    return [t.to(common) for t in tensors]


def _one(x: Any, other: Any) -> Any:
    if isinstance(x, Tensor) or not isinstance(other, Tensor):
        return x if isinstance(x, Tensor) else _native.tensor(x)
    return x


@public(method=False)
def get_default_dtype() -> "dtype":
    """The default floating-point type.

    >>> tw.get_default_dtype()
    talweg.float32
    """
    return _native.get_default_float()


@public(method=False)
def set_default_dtype(d: "DTypeLike") -> None:
    """Makes a float type the one of numbers and factories without one. Functions of integers return ``float32``.

    >>> tw.set_default_dtype(tw.float64)
    >>> tw.tensor(0.5).dtype, tw.zeros(1).dtype
    (talweg.float64, talweg.float64)
    >>> tw.set_default_dtype(tw.float32)
    """
    _native.set_default_float(d)
