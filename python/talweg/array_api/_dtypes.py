"""Element types, promotion, and what the namespace can do."""

from typing import Any

from .. import _native
from .._checked import value_error
from .._functions import dtypes
from .._native import Tensor as Array, dtype as dtype_

NAMES = ["bool", *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)), "float32", "float64", "complex64", "complex128"]


def astype(x: "Array", dtype: Any, /, *, copy: bool = True, device: Any = None) -> "Array":
    """Converted to another element type."""
    y = x.astype(dtype)
    if copy and dtype_(dtype) == x.dtype:
        y = y.clone()
    return y if device is None else y.to_device(device)


def can_cast(from_: Any, to: Any, /) -> bool:
    """True if a type converts to another without loss by promotion."""
    a, to = dtypes.of(from_), dtype_(to)
    # fp8 promote with nothing.
    return a == to or ("float8" not in a.name + to.name and _native.promote(a, to) == to)


def finfo(type: Any, /) -> Any:
    """Limits of a float type, or of a complex type's parts."""
    return dtypes.finfo(type)


def iinfo(type: Any, /) -> Any:
    """Limits of a whole-number type."""
    return dtypes.iinfo(type)


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if a type is of a kind: ``"real floating"``, ``"integral"``, another type, or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return dtype_(dtype) == dtype_(kind)
    name = dtype_(dtype).name
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
        raise value_error(f"isdtype: there is no kind {kind!r}; there are {list(kinds)}")
    return kinds[kind]


def result_type(*arrays_and_dtypes: Any) -> "dtype_":
    """The element type that these have together."""
    types = [a.dtype if isinstance(a, Array) else a for a in arrays_and_dtypes]
    numbers = [t for t in types if isinstance(t, (bool, int, float, complex))]
    kinds = [dtype_(t) for t in types if not isinstance(t, (bool, int, float, complex))]
    if not kinds:
        raise value_error("result_type: at least one array or dtype is needed")
    out = kinds[0]
    for k in kinds[1:]:
        out = _native.promote(out, k)
    for n in numbers:
        out = (_native.zeros(1, dtype=out) * n).dtype
    return out


def _known(device: Any) -> None:
    """All devices have the same types: only a name that is none is refused."""
    if device is not None and str(device) not in _native.devices():
        raise value_error(f"there is no device {str(device)!r}; there are {_native.devices()}")


class Info:
    """What this namespace can do, as the standard asks for it."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Any:
        return _native.current_device()

    def devices(self) -> tuple[Any, ...]:
        return tuple(_native.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        _known(device)
        floats = {"real floating": dtype_("float32"), "complex floating": dtype_("complex64")}
        return {**floats, "integral": dtype_("int64"), "indexing": dtype_("int64")}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        _known(device)
        return {n: dtype_(n) for n in NAMES if kind is None or isdtype(n, kind)}


def __array_namespace_info__() -> Info:
    """What this namespace can do."""
    return Info()


__all__ = [
    "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
]  # fmt: skip
