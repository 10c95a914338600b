"""Tensors from data and from nothing; those without an entry here are native (``zeros``, ``full``, ``arange``)."""

import math
from typing import TYPE_CHECKING, Any

from .. import _native
from .._checked import spelled, type_error, value_error
from .._device import named
from .register import PUBLIC, public
from .._native import Tensor

if TYPE_CHECKING:
    from .. import DTypeLike


def finished(x: Any, device: Any = None, requires_grad: bool = False, layout: Any = None, out: Any = None) -> Any:
    """A new tensor on a device, collecting gradients, as the settings of factories say."""
    if layout is not None and not str(layout).endswith("strided"):
        raise value_error(f"there is no layout {layout} but strided")
    if out is not None:
        return out.copy_(x)
    x = x if device is None else x.to_device(named(device))
    return x.requires_grad_() if requires_grad else x


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _ends(name: str, start: Any, end: Any, steps: Any, given: "dict[str, Any]") -> "tuple[Any, Any, int]":
    """Both ends and the number of steps, by PyTorch's names or by NumPy's."""
    end, steps = given.pop("stop", end), given.pop("num", steps)
    if given:
        raise type_error(f"{name}: there is no argument {next(iter(given))!r}")
    if end is None or steps is None:
        raise type_error(f"{name}: expected start, end and steps")
    return _number(start), _number(end), _number(steps)


@public(method=False)
def linspace(
    start: Any, end: Any = None, steps: "int | None" = None, *, out: Any = None, dtype: "DTypeLike | None" = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, endpoint: bool = True, **given: Any,
) -> "Tensor":  # fmt: skip
    """``steps`` numbers evenly spaced from ``start`` to ``end``; ``stop`` and ``num`` are NumPy's names.

    >>> tw.linspace(0, 1, steps=3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    start, end, steps = _ends("linspace", start, end, steps, given)
    x = _native.linspace(start, end, steps, dtype=dtype, endpoint=endpoint)
    return finished(x, device, requires_grad, layout, out)


@public(method=False)
def logspace(
    start: Any, end: Any = None, steps: "int | None" = None, base: float = 10.0, *, out: Any = None,
    dtype: "DTypeLike | None" = None, layout: Any = None, device: Any = None, requires_grad: bool = False, **given: Any,
) -> "Tensor":  # fmt: skip
    """``steps`` numbers from ``base ** start`` to ``base ** end``, evenly spaced in their logarithms.

    >>> tw.logspace(0, 2, steps=3)
    tensor([  1.,  10., 100.])
    """
    start, end, steps = _ends("logspace", start, end, steps, given)
    step = 0.0 if steps < 2 else (end - start) / (steps - 1)
    x = _native.tensor([math.pow(base, start + step * i) for i in range(steps)], dtype=dtype or PUBLIC["get_default_dtype"]())
    return finished(x, device, requires_grad, layout, out)


@public(method=False)
def as_tensor(data: Any, dtype: "DTypeLike | None" = None, device: Any = None) -> "Tensor":
    """A tensor from data: the tensor itself, or an array's memory, where nothing has to change.

    >>> x = tw.ones(2)
    >>> tw.as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    shared = _native.share(data) if dtype is None and hasattr(data, "__array_interface__") else None
    x = _native.tensor(data, dtype) if shared is None else shared
    return finished(x, device)


@public(method=False, names=["array"])
def asarray(
    obj: Any, *, dtype: "DTypeLike | None" = None, device: Any = None, copy: "bool | None" = None, requires_grad: bool = False
) -> "Tensor":
    """A tensor from numbers, sequences and arrays of other libraries; ``copy=False`` shares memory or raises.

    >>> tw.asarray([1, 2])
    tensor([1, 2])
    """
    if isinstance(obj, Tensor) and not copy and not requires_grad:
        return obj.to(dtype=dtype, device=device)
    return finished(_native.tensor(obj, dtype, copy=copy), device, requires_grad)


@public(method=False)
def scalar_tensor(s: Any, *, dtype: "DTypeLike | None" = None, device: Any = None, requires_grad: bool = False) -> "Tensor":
    """A tensor of one number, a float unless a type says otherwise.

    >>> tw.scalar_tensor(2)
    tensor(2.)
    """
    x = _native.tensor(s, dtype or PUBLIC["get_default_dtype"]())
    return finished(x, device, requires_grad)


class _Constructor(type):
    """The class of PyTorch's old constructors: they make tensors of one type, which are their instances."""

    def __call__(cls, *data: Any) -> "Tensor":
        return cls.make(*data)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.is_cpu and x.dtype == cls.dtype

    if TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any: ...


def _typed_constructor(name: str, of: str) -> None:
    """PyTorch's old constructors: ``FloatTensor([1, 2])``, ``LongTensor(2, 3)``."""

    def make(*data: Any) -> Any:
        if len(data) == 1 and not isinstance(data[0], int):
            return _native.tensor(list(data[0]) if isinstance(data[0], range) else data[0], of)
        return _native.zeros(data or 0, dtype=of)

    make.__name__ = make.__qualname__ = name
    doc = f"A tensor of {of}, from data or of a size.\n\n>>> {name}([1]).dtype\ntalweg.{of}\n"
    dtype = _native.dtype_of_name(of)
    PUBLIC[name] = _Constructor(name, (), {"__doc__": doc, "__module__": "talweg", "dtype": dtype, "make": staticmethod(spelled(make))})


for _name, _of in {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64",
    "BoolTensor": "bool",
}.items():  # fmt: skip
    _typed_constructor(_name, _of)


def _sizes(size: "tuple[Any, ...]", given: "dict[str, Any]") -> Any:
    size = (given.pop("size"),) if "size" in given else size
    return size[0] if len(size) == 1 else size


@public(function=False)
def new_tensor(self: "Tensor", data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> "Tensor":
    """A tensor from data, of this one's type and on its device."""
    return finished(_native.tensor(data, dtype or self.dtype), device or self.device, requires_grad)


@public(function=False)
def new_zeros(self: "Tensor", *size: Any, dtype: Any = None, device: Any = None, **given: Any) -> "Tensor":
    """Zeros of this tensor's type and on its device."""
    return _native.zeros(_sizes(size, given), dtype=dtype or self.dtype, device=device or self.device, **given)


@public(function=False)
def new_ones(self: "Tensor", *size: Any, dtype: Any = None, device: Any = None, **given: Any) -> "Tensor":
    """Ones of this tensor's type and on its device."""
    return _native.ones(_sizes(size, given), dtype=dtype or self.dtype, device=device or self.device, **given)


@public(function=False)
def new_empty(self: "Tensor", *size: Any, dtype: Any = None, device: Any = None, **given: Any) -> "Tensor":
    """A tensor whose elements do not matter, of this one's type and on its device."""
    return _native.empty(_sizes(size, given), dtype=dtype or self.dtype, device=device or self.device, **given)


@public(function=False)
def new_full(self: "Tensor", size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, **given: Any) -> "Tensor":
    """One number, in this tensor's type and on its device."""
    return _native.full(size, fill_value, dtype=dtype or self.dtype, device=device or self.device, **given)
