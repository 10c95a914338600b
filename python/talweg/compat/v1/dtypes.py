"""Element types: TensorFlow's ``DType`` over Talweg's."""

# mypy: ignore-errors
from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ... import _native
from .errors import wrong_type


class DType:
    """The element type of a tensor. ``native`` is Talweg's; ``tf.string`` has none and stays on the host."""

    def __init__(self, name: str):
        self.name = name
        self.native = None if name == "string" else _native.dtype(name)

    base_dtype = property(lambda self: self)
    is_floating = property(lambda self: self.name.startswith(("float", "bfloat")))
    is_complex = property(lambda self: self.name.startswith("complex"))
    is_bool = property(lambda self: self.name == "bool")
    is_integer = property(lambda self: self.name.startswith(("int", "uint")))
    is_unsigned = property(lambda self: self.name.startswith("uint"))

    @property
    def as_numpy_dtype(self) -> Any:
        """NumPy's type of the same elements."""
        if self.name == "bfloat16":
            raise wrong_type("NumPy has no bfloat16: cast to float32 first")
        return np.object_ if self.native is None else np.dtype(self.name).type

    @property
    def min(self) -> Any:
        """The least finite value."""
        return (np.finfo if self.is_floating else np.iinfo)(self.as_numpy_dtype).min

    @property
    def max(self) -> Any:
        """The greatest finite value."""
        return (np.finfo if self.is_floating else np.iinfo)(self.as_numpy_dtype).max

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 2 if self.name == "bfloat16" else np.dtype(self.as_numpy_dtype).itemsize

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """True for the same type."""
        return self is as_dtype(other)

    def __eq__(self, other: Any) -> builtins.bool:
        if isinstance(other, DType):
            return self is other
        try:
            return other is not None and as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


NAMES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128 string"
TYPES = {name: DType(name) for name in NAMES.split()}
_ALSO = {"half": "float16", "float": "float32", "double": "float64", "float32_ref": "float32"}
float32, float64, int32, int64, bool, string = (TYPES[n] for n in "float32 float64 int32 int64 bool string".split())

INT32, INT64, FLOAT32 = int32.native, int64.native, float32.native


def as_dtype(x: Any) -> DType:
    """The ``DType`` of a name, of NumPy's, Talweg's or Python's type."""
    if isinstance(x, DType):
        return x
    if isinstance(x, _native.dtype):
        name = str(x).removeprefix("talweg.")
    elif isinstance(x, str):
        name = _ALSO.get(x, x)
    else:
        kind = np.dtype(x)
        name = "string" if kind.kind in "OSU" else kind.name
    if name not in TYPES:
        raise wrong_type(f"there is no element type {name!r}")
    return TYPES[name]
