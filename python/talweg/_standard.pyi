"""Functions of the array API standard, NumPy and PyTorch that are not rows of the table themselves."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

class UniqueAllResult(NamedTuple):
    """What ``unique_all`` gives."""
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor

class UniqueCountsResult(NamedTuple):
    """What ``unique_counts`` gives."""
    values: Tensor
    counts: Tensor

class UniqueInverseResult(NamedTuple):
    """What ``unique_inverse`` gives."""
    values: Tensor
    inverse_indices: Tensor

def __array_namespace_info__() -> Any:
    """What this namespace can do.

    >>> import talweg as tw
    >>> tw.__array_namespace_info__().default_device()
    'cpu'"""
absolute = Tensor.abs
amax = Tensor.amax
amin = Tensor.amin
arccos = Tensor.acos
arccosh = Tensor.acosh
arcsin = Tensor.asin
arcsinh = Tensor.asinh
arctan = Tensor.atan
arctan2 = Tensor.atan2
arctanh = Tensor.atanh
def argsort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The places of the elements in order.

    >>> import talweg as tw
    >>> tw.argsort(tw.asarray([2, 3, 1])).tolist()
    [2, 0, 1]"""
def astype(x: Tensor, dtype: DTypeLike, /, *, copy: bool | None = True, device: str | None = None) -> Tensor:
    """Converted to another element type.

    >>> import talweg as tw
    >>> tw.astype(tw.asarray([1.5, -1.5]), tw.int32).tolist()
    [1, -1]"""
bitwise_invert = Tensor.bitwise_not
def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All tensors in their common shape.

    >>> import talweg as tw
    >>> [t.shape for t in tw.broadcast_arrays(tw.zeros(2, 1), tw.zeros(3))]
    [(2, 3), (2, 3)]"""
def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that tensors of these shapes have together.

    >>> import talweg as tw
    >>> tw.broadcast_shapes((2, 1), (3,))
    (2, 3)"""
def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """True if a type converts to another without loss by promotion.

    >>> import talweg as tw
    >>> tw.can_cast(tw.int8, tw.int64), tw.can_cast(tw.float64, tw.float32)
    (True, False)"""
cat = Tensor.concat
def clamp(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements below ``min`` or above ``max`` become these; ``None`` is no bound.

    >>> import talweg as tw
    >>> tw.clip(tw.asarray([1, 5, 9]), 2, 7).tolist()
    [2, 5, 7]"""
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements below ``min`` or above ``max`` become these; ``None`` is no bound.

    >>> import talweg as tw
    >>> tw.clip(tw.asarray([1, 5, 9]), 2, 7).tolist()
    [2, 5, 7]"""
def concat(arrays: Sequence[Tensor], /, axis: int | None = 0, *, dim: int | None = None) -> Tensor:
    """Tensors one after the other along an axis, or with ``None`` as one row.

    >>> import talweg as tw
    >>> tw.concat([tw.asarray([1]), tw.asarray([2, 3])]).tolist()
    [1, 2, 3]"""
concatenate = Tensor.concat
def conj(x: Tensor, /) -> Tensor:
    """The complex conjugates; of real numbers the numbers themselves.

    >>> import talweg as tw
    >>> tw.conj(tw.asarray([1.0 + 2.0j])).tolist()
    [(1-2j)]"""
def cumulative_prod(x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Tensor:
    """The prod so far along an axis."""
def cumulative_sum(x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Tensor:
    """The sum so far along an axis."""
def diff(x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbors along an axis, taken ``n`` times, after other elements were put before and behind.

    >>> import talweg as tw
    >>> tw.diff(tw.asarray([1, 3, 6]), prepend=tw.asarray([0])).tolist()
    [1, 2, 3]"""
divide = Tensor.div
def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein's summation: ``einsum("ij,jk->ik", a, b)``.

    >>> import talweg as tw
    >>> tw.einsum("ij,j->i", tw.asarray([[1.0, 2.0]]), tw.asarray([3.0, 4.0])).tolist()
    [11.0]"""
equal = Tensor.eq
expand = Tensor.expand
expand_dims = Tensor.unsqueeze
def finfo(type: Any, /) -> Any:
    """Limits of a float type, or of a complex type's parts.

    >>> import talweg as tw
    >>> tw.finfo(tw.float32).eps == 2.0**-23
    True"""
def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of a NumPy array of floats; others, and those that are not dense, are copied.

    Whoever writes into the array afterwards changes the tensor, as in PyTorch: ``tensor(array)`` copies.

    >>> import numpy as np
    >>> a = np.ones(3, dtype="float32")
    >>> from_numpy(a).numpy().ctypes.data == a.ctypes.data
    True"""
greater = Tensor.gt
greater_equal = Tensor.ge
def iinfo(type: Any, /) -> Any:
    """Limits of a whole-number type.

    >>> import talweg as tw
    >>> tw.iinfo(tw.uint8).max
    255"""
def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; zeros of real numbers.

    >>> import talweg as tw
    >>> tw.imag(tw.asarray([1.0 + 2.0j])).tolist()
    [2.0]"""
interpolate = Tensor.interpolate
def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """True if a type is of a kind: ``"real floating"``, ``"integral"``, another type, or a tuple of these.

    >>> import talweg as tw
    >>> tw.isdtype(tw.int8, "integral")
    True"""
isfinite = Tensor.is_finite
isinf = Tensor.is_inf
isnan = Tensor.is_nan
less = Tensor.lt
less_equal = Tensor.le
logsigmoid = Tensor.log_sigmoid
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged.

    >>> import talweg as tw
    >>> tw.matrix_transpose(tw.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]"""
def meshgrid(*arrays: Tensor, indexing: str = 'xy') -> list[Tensor]:
    """Coordinates of a grid.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.meshgrid(tw.asarray([1, 2]), tw.asarray([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]"""
movedim = Tensor.moveaxis
multiply = Tensor.mul
negative = Tensor.neg
def nextafter(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The number after ``x1`` in the direction of ``x2``.

    >>> import talweg as tw
    >>> tw.nextafter(tw.asarray(1.0), tw.asarray(2.0)).item() == 1.0 + 2.0**-23
    True"""
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not zero, a tensor for each axis; ``x.nonzero()`` is one matrix.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.nonzero(tw.asarray([[0, 1], [1, 0]]))]
    [[0, 1], [1, 0]]"""
not_equal = Tensor.ne
def pad(x: Tensor, widths: int | Sequence[int], mode: str = 'constant', value: Any = 0.0) -> Tensor:
    """Padded at the edges of the last dimensions, as PyTorch's ``pad``.

    >>> import talweg as tw
    >>> tw.pad(tw.asarray([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]"""
def permute(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order.

    >>> import talweg as tw
    >>> tw.permute(tw.zeros(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)"""
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order.

    >>> import talweg as tw
    >>> tw.permute_dims(tw.zeros(2, 3), (1, 0)).shape
    (3, 2)"""
def positive(x: Tensor, /) -> Tensor:
    """The tensor itself.

    >>> import talweg as tw
    >>> tw.positive(tw.asarray([-1.0])).tolist()
    [-1.0]"""
def prod(x: Tensor, /, axis: int | Sequence[int] | None = None, *, dtype: DTypeLike | None = None, keepdims: bool = False, dim: int | Sequence[int] | None = None, keepdim: bool | None = None) -> Tensor:
    """Product along axes (`..` for all), which disappear; integers and bool are multiplied in 64 bits."""
def real(x: Tensor, /) -> Tensor:
    """The real parts.

    >>> import talweg as tw
    >>> tw.real(tw.asarray([1.0 + 2.0j])).tolist()
    [1.0]"""
reciprocal = Tensor.recip
remainder = Tensor.rem
def repeat(x: Tensor, repeats: int | Tensor, /, axis: int | None = None) -> Tensor:
    """Each element several times.

    >>> import talweg as tw
    >>> tw.repeat(tw.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]"""
def reshape(x: Tensor, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1.

    >>> import talweg as tw
    >>> tw.reshape(tw.arange(4), (2, 2)).tolist()
    [[0, 1], [2, 3]]"""
def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The element type that these have together.

    >>> import talweg as tw
    >>> tw.result_type(tw.float32, tw.float64)
    talweg.float64"""
def roll(x: Tensor, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes; those that leave come in again.

    >>> import talweg as tw
    >>> tw.roll(tw.arange(4), 1).tolist()
    [3, 0, 1, 2]"""
scaled_dot_product_attention = Tensor.attention
def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = 'left', sorter: Tensor | None = None) -> Tensor:
    """Where elements would have to be put in so that order is kept.

    >>> import talweg as tw
    >>> tw.searchsorted(tw.asarray([1, 2, 2, 3]), tw.asarray([2]), side="right").tolist()
    [3]"""
def signbit(x: Tensor, /) -> Tensor:
    """True where the sign is negative, also of negative zero.

    >>> import talweg as tw
    >>> tw.signbit(tw.asarray([-0.0, 0.0, 3.0])).tolist()
    [True, False, False]"""
def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis, as the standard has it; ``x.sort()`` also says their places.

    >>> import talweg as tw
    >>> tw.sort(tw.asarray([2, 3, 1]), descending=True).tolist()
    [3, 2, 1]"""
subtract = Tensor.sub
def sum(x: Tensor, /, axis: int | Sequence[int] | None = None, *, dtype: DTypeLike | None = None, keepdims: bool = False, dim: int | Sequence[int] | None = None, keepdim: bool | None = None) -> Tensor:
    """Sum along axes (`..` for all), which disappear; integers and bool are summed in 64 bits."""
swapdims = Tensor.swapaxes
def take(x: Tensor, /, index: Any, axis: int | None = 0) -> Tensor:
    """Slices chosen along an axis, which is replaced by the index's dimensions; negative places count from the end.

    >>> import talweg as tw
    >>> tw.take(tw.asarray([1, 2, 3]), tw.asarray([0, -1])).tolist()
    [1, 3]"""
def tensordot(x1: Tensor, x2: Tensor, /, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Products summed over axes: the last of one with the first of the other, or two lists of them.

    >>> import talweg as tw
    >>> tw.tensordot(tw.ones(2, 3), tw.ones(3, 4), axes=1).shape
    (2, 4)"""
topk = Tensor.top_k
true_divide = Tensor.div
def unique(x: Tensor, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The distinct elements in order.

    >>> import talweg as tw
    >>> tw.unique(tw.asarray([2, 1, 2])).tolist()
    [1, 2]"""
def unique_all(x: Tensor, /) -> UniqueAllResult:
    """The distinct elements in order, the first place of each, the place of each element among them, and counts.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unique_all(tw.asarray([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]"""
def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """The distinct elements in order, and how often each is there.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unique_counts(tw.asarray([2, 1, 2]))]
    [[1, 2], [1, 2]]"""
def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """The distinct elements in order, and the place of each element among them.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unique_inverse(tw.asarray([3, 1, 3]))]
    [[1, 3], [1, 0, 1]]"""
def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in order.

    >>> import talweg as tw
    >>> tw.unique_values(tw.asarray([2, 1, 2])).tolist()
    [1, 2]"""
def unstack(x: Tensor, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along an axis.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.unstack(tw.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]"""
def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """``x1`` where the condition holds, else ``x2``; a number takes the other's type.

    >>> import talweg as tw
    >>> tw.where(tw.asarray([True, False]), tw.asarray([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]"""
