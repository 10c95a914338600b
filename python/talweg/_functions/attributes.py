"""What a tensor says of itself: size, layout, device, type; and Python's own functions of it."""

import builtins
import math
from typing import Any

from .. import _native, _ops as ops
from .._checked import type_error, value_error
from .._device import device as _device
from .._native import Tensor
from ..errors import GradientError
from .._size import Count, Size
from . import shapes
from .register import PUBLIC, public

_native.set_size_class(Size)
type_of = builtins.type  # `type` is a method here


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


def _in_base(self: "Tensor") -> "tuple[tuple[int, ...], int]":
    """Strides and offset: those of a view in its base, else those of elements in order."""
    found = self._strides()
    if found is not None:
        return tuple(found[0]), found[1]
    return tuple(math.prod(max(n, 1) for n in self.shape[i + 1 :]) for i in range(self.ndim)), 0


@public(function=False)
def stride(self: "Tensor", dim: "int | None" = None) -> Any:
    """How many elements of its base lie between neighbors along each dimension."""
    strides = _in_base(self)[0]
    return strides if dim is None else strides[dim]


@public(function=False)
def storage_offset(self: "Tensor") -> int:
    """Where its elements begin in those of its base."""
    return _in_base(self)[1]


@public(function=False)
def data_ptr(self: "Tensor") -> int:
    """Refused: a value may not be computed yet, and moves when it changes."""
    raise value_error("data_ptr: a tensor has no fixed address: use x.numpy().ctypes.data, the address of its value on the host")


@public(function=False)
def is_contiguous(self: "Tensor", memory_format: Any = None) -> bool:
    """True if its elements lie in order: all but views with other strides. ``memory_format`` changes nothing: layouts
    are the compiler's to choose."""
    _check_format("is_contiguous", memory_format)
    if self._strides() is None:
        return True
    ahead = 1
    for size, stride in zip(reversed(self.shape), reversed(_in_base(self)[0])):
        if size != 1 and stride != ahead:
            return False
        ahead *= size
    return True


def _check_format(name: str, memory_format: Any) -> None:
    if memory_format is not None and str(memory_format) not in MEMORY_FORMATS:
        raise value_error(f"{name}: memory_format is one of {MEMORY_FORMATS}, not {memory_format!r}")


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
    """The tensor itself if its elements lie in order, else a copy in which they do."""
    _check_format("contiguous", memory_format)
    return self if self.is_contiguous() else self.clone()


@public(function=False)
def is_pinned(self: "Tensor", device: Any = None) -> bool:
    """False: memory is pinned where that helps, while values are copied."""
    return False


@public(function=False)
def share_memory_(self: "Tensor") -> "Tensor":
    """Refused: processes get values, not handles."""
    raise value_error("share_memory_: processes do not share tensors: use a DataLoader's workers, or tw.distributed tables")


@public(function=False)
def resize_(self: "Tensor", *sizes: Any) -> "Tensor":
    """Refused: a tensor keeps its number of elements."""
    raise value_error("resize_: a tensor keeps its elements: use reshape, or make a new one with tw.empty")


@public(function=False)
def to_sparse(self: "Tensor", *args: Any, **settings: Any) -> "Tensor":
    """Refused: tensors are dense."""
    raise value_error("to_sparse: tensors are dense: use nonzero() and the values there, index_add for sums")


@public(function=False)
def fill_diagonal_(self: "Tensor", fill_value: float, wrap: bool = False) -> "Tensor":
    """Writes a number to the main diagonal, in place."""
    if wrap:
        raise value_error("fill_diagonal_: wrap=True is not there: write to the blocks of a tall matrix one by one")
    if self.ndim < 2 or len(set(self.shape)) > 1 and self.ndim > 2:
        raise value_error(f"fill_diagonal_: expected a matrix, or equal sizes, not shape {tuple(self.shape)}")
    at = _native.arange(min(self.shape))
    self[(at,) * self.ndim] = fill_value
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
    return self.to(dtype=getattr(dtype, "dtype", dtype))


@public(method=False)
def typename(obj: Any) -> str:
    """The name of a tensor's type, or of another object's class.

    >>> tw.typename(tw.ones(2)), tw.typename(tw.nn.ReLU())
    ('talweg.FloatTensor', 'talweg.nn.layers.activation.ReLU')
    """
    if isinstance(obj, Tensor):
        return type(obj)
    cls = obj if isinstance(obj, type_of) else type_of(obj)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


@public(method=False)
def is_storage(obj: Any) -> bool:
    """False: tensors have no storage of their own to pass around.

    >>> tw.is_storage(tw.ones(2))
    False
    """
    return False


@public(function=False)
def type_as(self: "Tensor", other: "Tensor") -> "Tensor":
    """Converted to the type of another tensor; itself if it is of that type."""
    return self.to(dtype=other.dtype)


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


def _copy(self: Any) -> Any:
    """What ``copy.copy`` returns: another object with the same elements."""
    same = self._alias()
    made = same if type_of(self) is Tensor else Tensor.__new__(type_of(self), _of=same)
    getattr(made, "__dict__", {}).update(getattr(self, "__dict__", {}))
    return made


_copied = Tensor.__deepcopy__


def _deepcopy(self: Any, memo: Any) -> Any:
    """What ``copy.deepcopy`` returns: other elements, which are shared as those of the original are."""
    if self.requires_grad and not self.is_leaf:
        what = "deepcopy: a computed tensor that requires gradients has a history: copy x.detach(), or use x.clone()"
        raise GradientError(_native.located(what))
    made = _copied(self, memo)
    if self.is_variable and self.requires_grad and self.grad is not None:
        made.grad = self.grad.detach().clone()
    return made


def _subclassed(cls: Any, **settings: Any) -> None:
    """Fails for a subclass that wants to see the calls of functions, which it would not."""
    super(Tensor, cls).__init_subclass__(**settings)
    for hook in ("__torch_function__", "__torch_dispatch__"):
        if hook in cls.__dict__:
            raise type_error(f"{cls.__name__}: tensors have no {hook}: wrap a tensor in a class of your own, or use tw.library")


def _reversed(self: Any) -> Any:
    """The tensor with its first dimension in reverse order: a copy."""
    return ops.flip(self, [0]) if self.ndim else self


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
Tensor.__copy__, Tensor.__deepcopy__, Tensor.__reversed__ = _copy, _deepcopy, _reversed
Tensor.__init_subclass__ = classmethod(_subclassed)
del Tensor.__array_ufunc__
