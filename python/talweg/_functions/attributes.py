"""What a tensor says of itself: size, layout, device, type; and Python's own functions of it."""

import math
from typing import TYPE_CHECKING, Any

from .. import _native, _ops as ops
from .._checked import type_error, value_error
from .._device import device as _device
from .._size import Count, Size
from . import shapes
from .register import PUBLIC, public

if TYPE_CHECKING:
    from .. import Tensor
else:
    from .._native import Tensor

_native.set_size_class(Size)


def _attribute(f: Any) -> None:
    """Makes a function of a tensor one of its attributes."""
    setattr(Tensor, f.__name__, property(f, doc=f.__doc__))


# By shape: a model asks for the same few again and again.
_counts: "dict[Size, Count]" = {}


@_attribute
def size(self: "Tensor") -> Count:
    """The number of elements; ``x.size()`` is the shape, ``x.size(dim)`` a size."""
    shape = self.shape
    count = _counts.get(shape)
    if count is None:
        count = int.__new__(Count, math.prod(shape))
        count.shape = shape
        if len(_counts) >= 1024:
            _counts.clear()
        _counts[shape] = count
    return count


_place = Tensor.device.__get__
_names: "dict[str, _device]" = {}


@_attribute
def device(self: "Tensor") -> _device:
    """Where its value is."""
    name = _place(self)
    return _names.get(name) or _names.setdefault(name, _device(name))


@_attribute
def is_cuda(self: "Tensor") -> bool:
    """True if its value is on an NVIDIA GPU."""
    return _place(self).startswith("cuda")


@_attribute
def is_cpu(self: "Tensor") -> bool:
    """True if its value is on the host."""
    return _place(self) == "cpu"


@_attribute
def itemsize(self: "Tensor") -> int:
    """Bytes of an element."""
    return self.dtype.itemsize


for _name in "is_sparse is_quantized is_mps is_meta is_xpu is_nested is_mkldnn".split():
    setattr(Tensor, _name, False)


@_attribute
def grad_fn(self: "Tensor") -> Any:
    """The op that computes it, if gradients flow through it, else ``None``."""
    return self.op if self.requires_grad and not self.is_leaf else None


@public(function=False)
def get_device(self: "Tensor") -> int:
    """The number of its GPU, or -1 for the host."""
    return -1 if self.is_cpu else self.device.index or 0


@public(function=False)
def element_size(self: "Tensor") -> int:
    """Bytes of an element."""
    return self.dtype.itemsize


@public(function=False)
def nelement(self: "Tensor") -> int:
    """The number of elements."""
    return self.numel()


@public(function=False)
def stride(self: "Tensor", dim: "int | None" = None) -> Any:
    """How many elements lie between neighbors along each dimension: a value's elements always lie in order."""
    strides = tuple(math.prod(self.shape[i + 1 :]) for i in range(self.ndim))
    return strides if dim is None else strides[dim]


@public(function=False)
def storage_offset(self: "Tensor") -> int:
    """Where its elements begin in their memory: a value has its own."""
    return 0


@public(function=False)
def data_ptr(self: "Tensor") -> int:
    """Refused: a value may not be computed yet, and moves when it changes."""
    raise value_error("data_ptr: a tensor has no fixed address; x.numpy().ctypes.data is that of its value on the host")


@public(function=False)
def is_contiguous(self: "Tensor", memory_format: Any = None) -> bool:
    """True: a value's elements always lie in order."""
    return _in_order("is_contiguous", memory_format)


def _in_order(name: str, memory_format: Any) -> bool:
    """Layouts are the compiler's to choose: one that is asked for changes no result."""
    if memory_format is not None and str(memory_format) not in MEMORY_FORMATS:
        raise value_error(f"{name}: memory_format is one of {MEMORY_FORMATS}, not {memory_format!r}")
    return True


class memory_format(str):
    """An order of elements in memory."""

    def __repr__(self) -> str:
        return f"talweg.{self}"


class layout(memory_format):
    """A way to store elements: ``strided`` is the only one."""


MEMORY_FORMATS = ["contiguous_format", "channels_last", "channels_last_3d", "preserve_format"]
PUBLIC.update({name: memory_format(name) for name in MEMORY_FORMATS})
PUBLIC.update(strided=layout("strided"), Size=Size)
Tensor.layout = PUBLIC["strided"]


@public(function=False)
def contiguous(self: "Tensor", memory_format: Any = None) -> "Tensor":
    """The tensor itself: a value's elements always lie in order."""
    _in_order("contiguous", memory_format)
    return self


@public(function=False, names=["ndimension"])
def dim(self: "Tensor") -> int:
    """The number of dimensions."""
    return self.ndim


_TENSOR_TYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


@public(function=False)
def type(self: "Tensor", dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of its kind of tensor, such as ``talweg.FloatTensor``; with a type, converted to it."""
    if dtype is None:
        place = "cuda." if self.is_cuda else ""
        return f"talweg.{place}{_TENSOR_TYPES.get(self.dtype.name, self.dtype.name)}Tensor"
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        kinds = {v: k for k, v in _TENSOR_TYPES.items()}
        dtype = kinds.get(dtype.rsplit(".", 1)[-1].removesuffix("Tensor"), dtype)
    return self.astype(getattr(dtype, "dtype", dtype))


@public(function=False)
def type_as(self: "Tensor", other: "Tensor") -> "Tensor":
    """Converted to the type of another tensor."""
    return self.astype(other.dtype)


@public(function=False)
def _view_type(self: "Tensor", dtype: Any) -> "Tensor":
    """The same bytes as elements of another type, copied."""
    d = _native.dtype(dtype)
    if d == self.dtype:
        return self
    if self.dtype.is_complex and d == self.dtype.to_real():
        return ops.flatten(ops.view_as_real(self), -2, -1)
    import numpy as np

    if d.name not in np.sctypeDict or self.dtype.name not in np.sctypeDict:
        raise type_error(f"view: the bytes of {self.dtype} are not read as {d}; astype converts numbers")
    return _native.tensor(np.ascontiguousarray(self.detach().numpy()).view(d.name).copy())


def _round(self: Any, ndigits: "int | None" = None) -> Any:
    return shapes.round(self, decimals=ndigits or 0)


def _divmod(self: Any, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Any, other: Any) -> Any:
    return other // self, other % self


def _wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """What NumPy's functions return of a tensor: a tensor."""
    return _native.tensor(array)


Tensor.__round__, Tensor.__divmod__, Tensor.__rdivmod__ = _round, _divmod, _rdivmod
Tensor.__array_wrap__, Tensor.__array_priority__ = _wrap, 1000.0
del Tensor.__array_ufunc__
