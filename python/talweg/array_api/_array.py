"""The arrays of the standard: tensors whose operators promote and divide as it says, where PyTorch's do otherwise."""

import functools
from typing import Any

from .. import _native
from .._native import Tensor

_BINARY = "matmul add sub mul truediv floordiv mod pow and or xor lshift rshift lt le gt ge eq ne".split()
_UNARY = "neg pos abs invert".split()


def _places(key):
    """An index in which arrays of uint8 are places, as those of other integers."""
    if isinstance(key, tuple):
        return tuple(map(_places, key))
    return key.astype("int64") if isinstance(key, Tensor) and key.dtype.name == "uint8" else key


class Array(Tensor):
    """A tensor that the functions of this namespace return.

    An operator between an array and a tensor without dimensions promotes them as any two: PyTorch's takes the type of
    the other. ``//`` of a finite and an infinite number of other signs is -0.

    >>> import talweg.array_api as xp
    >>> (xp.ones(2, dtype=xp.float32) + xp.asarray(1.0, dtype=xp.float64)).dtype
    talweg.float64
    """

    def __getitem__(self, key: Any) -> Any:
        return standard(Tensor.__getitem__(self, _places(key)))

    def __setitem__(self, key: Any, value: Any) -> None:
        Tensor.__setitem__(self, _places(key), value)

    @property
    def T(self) -> Any:
        return standard(super().T)

    @property
    def mT(self) -> Any:
        return standard(super().mT)

    @property
    def H(self) -> Any:
        """The last two dimensions exchanged, and complex numbers conjugated."""
        return standard((self.mT if self.ndim > 1 else self).conj())

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on a device."""
        return standard(super().to_device(device, stream=stream))

    def __hash__(self) -> int:
        return Tensor.__hash__(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return standard(self.clone())


def promoted(x1: Any, x2: Any) -> Any:
    """Two arrays in their common type; a number stays what it is."""
    if not isinstance(x1, Tensor) or not isinstance(x2, Tensor) or x1.dtype == x2.dtype:
        return x1, x2
    dtype = _native.promote(x1.dtype, x2.dtype)
    return x1.to(dtype), x2.to(dtype)


def standard(y: Any) -> Any:
    """A result with arrays of the standard in the place of tensors."""
    if isinstance(y, Tensor):
        return y if type(y) is Array else Tensor.__new__(Array, _of=y)
    if isinstance(y, tuple):
        return type(y)(*map(standard, y)) if hasattr(y, "_fields") else tuple(map(standard, y))
    return [standard(part) for part in y] if isinstance(y, list) else y


def of_standard(f: Any) -> Any:
    """A function that returns arrays of the standard."""

    @functools.wraps(f)
    def call(*args: Any, **settings: Any) -> Any:
        return standard(f(*args, **settings))

    return call


def _operator(name: str, is_reflected: bool) -> Any:
    own = getattr(Tensor, f"__{'r' if is_reflected else ''}{name}__")

    def operate(self: Any, other: Any) -> Any:
        if isinstance(other, Tensor) and (name == "matmul" or (self.ndim == 0) != (other.ndim == 0)):
            self, other = promoted(self, other)
        return standard(own(self, other))

    return operate


def _unary(name: str) -> Any:
    own = getattr(Tensor, f"__{name}__")
    return lambda self: standard(own(self))


for _name in _BINARY:
    setattr(Array, f"__{_name}__", _operator(_name, False))
    if hasattr(Tensor, f"__r{_name}__"):
        setattr(Array, f"__r{_name}__", _operator(_name, True))
for _name in _UNARY:
    setattr(Array, f"__{_name}__", _unary(_name))
