"""Types of the package. Generated from the op table: TALWEG_BLESS=1 cargo test -p talweg-py writes it."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import array_api as array_api, masked as masked, return_types as return_types, signal as signal, special as special
from ._functions.random import Generator as Generator, default_generator as default_generator
from ._device import device as _Device, device as device
from ._size import Count as _Count, Size as Size
from . import compat as compat, cuda as cuda, distributed as distributed, errors as errors, fft as fft, linalg as linalg
from . import metrics as metrics
from . import data as data, nn as nn, optim as optim, random as random, train as train, utils as utils
from .errors import (
    ArgumentError as ArgumentError,
    DeadlineError as DeadlineError,
    DeviceError as DeviceError,
    DTypeError as DTypeError,
    Error as Error,
    FeedError as FeedError,
    FileError as FileError,
    FormatError as FormatError,
    GradientError as GradientError,
    InternalError as InternalError,
    NameMissingError as NameMissingError,
    NumericsError as NumericsError,
    OutOfMemoryError as OutOfMemoryError,
    OutOfRangeError as OutOfRangeError,
    PeerLostError as PeerLostError,
    RefusedError as RefusedError,
    ShapeError as ShapeError,
)
from ._devices import GradScaler as GradScaler, autocast as autocast, devices as devices
from ._devices import get_default_device as get_default_device, set_default_device as set_default_device
from ._graph import Session as Session, Variable as Variable, cond as cond, fori_loop as fori_loop
from ._graph import scan as scan, while_loop as while_loop
from ._state import enable_grad as enable_grad, inference_mode as inference_mode, is_grad_enabled as is_grad_enabled, load as load
from ._state import no_grad as no_grad, save as save, set_grad_enabled as set_grad_enabled
from ._transforms import checkpoint as checkpoint, custom_gradient as custom_gradient, grad as grad
from ._transforms import hessian as hessian, jacobian as jacobian, jit as jit, jvp as jvp
from ._transforms import value_and_grad as value_and_grad, vmap as vmap

TensorLike: TypeAlias = "Tensor | np.ndarray | builtins.complex | builtins.float | builtins.int | builtins.bool | Sequence[Any]"
ShapeLike: TypeAlias = "builtins.int | Sequence[builtins.int]"
Axis: TypeAlias = "builtins.int | Sequence[builtins.int] | None"
DTypeLike: TypeAlias = "dtype | str | type | np.dtype[Any]"

__version__: str
e: builtins.float
inf: builtins.float
nan: builtins.float
newaxis: None
pi: builtins.float

class dtype:
    """An element type."""

    name: str
    itemsize: builtins.int
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...
    def __init__(self, what: DTypeLike) -> None: ...

bool: dtype
uint8: dtype
int8: dtype
uint16: dtype
int16: dtype
uint32: dtype
int32: dtype
uint64: dtype
int64: dtype
float8_e4m3fn: dtype
float8_e5m2: dtype
float16: dtype
bfloat16: dtype
float32: dtype
float64: dtype
complex64: dtype
complex128: dtype
float: dtype
double: dtype
half: dtype
short: dtype
int: dtype
long: dtype
cfloat: dtype
cdouble: dtype

class Update:
    """Assignments that happen when they are run."""

    def __init__(self, assignments: Sequence[tuple[Tensor, TensorLike]]) -> None: ...
    def apply(self) -> None: ...

class Graph:
    """What a graph computes, as text and as a picture."""

    @property
    def ops(self) -> list[str]: ...
    def __len__(self) -> builtins.int: ...
    def svg(self) -> str: ...
    def dot(self) -> str: ...

def graph(*tensors: TensorLike) -> Graph: ...

class Op:
    """The op that computes a tensor, with what it is applied to."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[Tensor, ...]: ...
    @property
    def attrs(self) -> dict[str, Any]: ...
    @property
    def line(self) -> str: ...

def add_pass(name: str, rule: Callable[[Tensor], TensorLike | None]) -> None: ...
def tensor(data: TensorLike, dtype: DTypeLike | None = None, *, device: device | str | None = None, copy: builtins.bool | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def placeholder(dtype: DTypeLike, shape: Sequence[builtins.int] | None = None, name: str = "placeholder") -> Tensor: ...
def zeros(*size: Any, out: Tensor | None = None, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def ones(*size: Any, out: Tensor | None = None, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def empty(*size: Any, out: Tensor | None = None, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def full(size: ShapeLike, fill_value: TensorLike, *, out: Tensor | None = None, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def zeros_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: Any = None) -> Tensor: ...
def ones_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: Any = None) -> Tensor: ...
def empty_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: Any = None) -> Tensor: ...
def full_like(input: Tensor, fill_value: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False, memory_format: Any = None) -> Tensor: ...
def arange(start: Any = 0, end: Any = None, step: Any = 1, *, out: Tensor | None = None, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def eye(n: builtins.int, m: builtins.int | None = None, *, k: builtins.int = 0, out: Tensor | None = None, dtype: DTypeLike | None = None, layout: Any = None, device: device | str | None = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor: ...
def uniform(shape: ShapeLike, low: builtins.float = 0.0, high: builtins.float = 1.0, *, dtype: DTypeLike | None = None) -> Tensor: ...
def random_key(seed: builtins.int | None = None) -> Tensor: ...
def from_dlpack(x: Any, /, *, device: str | None = None, copy: builtins.bool | None = None) -> Tensor: ...
strided: Any
contiguous_format: Any
preserve_format: Any
channels_last: Any
channels_last_3d: Any
def FloatTensor(*data: Any) -> Tensor: ...
def DoubleTensor(*data: Any) -> Tensor: ...
def HalfTensor(*data: Any) -> Tensor: ...
def BFloat16Tensor(*data: Any) -> Tensor: ...
def ByteTensor(*data: Any) -> Tensor: ...
def CharTensor(*data: Any) -> Tensor: ...
def ShortTensor(*data: Any) -> Tensor: ...
def IntTensor(*data: Any) -> Tensor: ...
def LongTensor(*data: Any) -> Tensor: ...
def BoolTensor(*data: Any) -> Tensor: ...

class Tensor:
    """A multi-dimensional array: computed, or to be computed when somebody looks at it."""

    def __init__(self, *data: Any, dtype: DTypeLike | None = None, requires_grad: builtins.bool = False, variable: builtins.bool = False, trainable: builtins.bool = True, name: str = "") -> None: ...
    grad: Tensor | None
    data: Tensor
    requires_grad: builtins.bool
    @property
    def shape(self) -> Size: ...
    @property
    def dtype(self) -> dtype: ...
    @property
    def ndim(self) -> builtins.int: ...
    @property
    def size(self) -> _Count: ...
    @property
    def nbytes(self) -> builtins.int: ...
    @property
    def device(self) -> _Device: ...
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def is_cuda(self) -> builtins.bool: ...
    @property
    def is_cpu(self) -> builtins.bool: ...
    @property
    def grad_fn(self) -> Op | None: ...
    layout: Any
    is_sparse: builtins.bool
    is_quantized: builtins.bool
    is_mps: builtins.bool
    is_meta: builtins.bool
    is_xpu: builtins.bool
    is_nested: builtins.bool
    is_mkldnn: builtins.bool
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def real(self) -> Tensor: ...
    @property
    def imag(self) -> Tensor: ...
    @property
    def is_leaf(self) -> builtins.bool: ...
    @property
    def op(self) -> Op | None: ...
    @property
    def is_variable(self) -> builtins.bool: ...
    @property
    def is_parameter(self) -> builtins.bool: ...
    @property
    def variable_id(self) -> builtins.int | None: ...
    @property
    def is_symbolic(self) -> builtins.bool: ...
    @property
    def name(self) -> str: ...
    def __add__(self, other: TensorLike) -> Tensor: ...
    def __radd__(self, other: TensorLike) -> Tensor: ...
    def __sub__(self, other: TensorLike) -> Tensor: ...
    def __rsub__(self, other: TensorLike) -> Tensor: ...
    def __mul__(self, other: TensorLike) -> Tensor: ...
    def __rmul__(self, other: TensorLike) -> Tensor: ...
    def __truediv__(self, other: TensorLike) -> Tensor: ...
    def __rtruediv__(self, other: TensorLike) -> Tensor: ...
    def __floordiv__(self, other: TensorLike) -> Tensor: ...
    def __mod__(self, other: TensorLike) -> Tensor: ...
    def __pow__(self, other: TensorLike) -> Tensor: ...
    def __rpow__(self, other: TensorLike) -> Tensor: ...
    def __matmul__(self, other: TensorLike) -> Tensor: ...
    def __rmatmul__(self, other: TensorLike) -> Tensor: ...
    def __and__(self, other: TensorLike) -> Tensor: ...
    def __or__(self, other: TensorLike) -> Tensor: ...
    def __xor__(self, other: TensorLike) -> Tensor: ...
    def __lshift__(self, other: TensorLike) -> Tensor: ...
    def __rshift__(self, other: TensorLike) -> Tensor: ...
    def __rfloordiv__(self, other: TensorLike) -> Tensor: ...
    def __rmod__(self, other: TensorLike) -> Tensor: ...
    def __rand__(self, other: TensorLike) -> Tensor: ...
    def __ror__(self, other: TensorLike) -> Tensor: ...
    def __rxor__(self, other: TensorLike) -> Tensor: ...
    def __rlshift__(self, other: TensorLike) -> Tensor: ...
    def __rrshift__(self, other: TensorLike) -> Tensor: ...
    def __iadd__(self, other: TensorLike) -> Tensor: ...
    def __isub__(self, other: TensorLike) -> Tensor: ...
    def __imul__(self, other: TensorLike) -> Tensor: ...
    def __itruediv__(self, other: TensorLike) -> Tensor: ...
    def __ifloordiv__(self, other: TensorLike) -> Tensor: ...
    def __imod__(self, other: TensorLike) -> Tensor: ...
    def __imatmul__(self, other: TensorLike) -> Tensor: ...
    def __iand__(self, other: TensorLike) -> Tensor: ...
    def __ior__(self, other: TensorLike) -> Tensor: ...
    def __ixor__(self, other: TensorLike) -> Tensor: ...
    def __ilshift__(self, other: TensorLike) -> Tensor: ...
    def __irshift__(self, other: TensorLike) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __lt__(self, other: TensorLike) -> Tensor: ...
    def __le__(self, other: TensorLike) -> Tensor: ...
    def __gt__(self, other: TensorLike) -> Tensor: ...
    def __ge__(self, other: TensorLike) -> Tensor: ...
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: TensorLike) -> None: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, x: TensorLike) -> builtins.bool: ...
    def __bool__(self) -> builtins.bool: ...
    def __round__(self, ndigits: builtins.int | None = None) -> Tensor: ...
    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...
    def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...
    def __index__(self) -> builtins.int: ...
    def __float__(self) -> builtins.float: ...
    def __complex__(self) -> builtins.complex: ...
    def __int__(self) -> builtins.int: ...
    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray: ...
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: builtins.bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]: ...
    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    def numpy(self) -> np.ndarray: ...
    def numel(self) -> builtins.int: ...
    def eval(self) -> Tensor: ...
    def backward(self, gradient: TensorLike | None = None) -> None: ...
    def requires_grad_(self, yes: Any = True) -> Tensor: ...
    def detach(self) -> Tensor: ...
    def clone(self) -> Tensor: ...
    def assign(self, value: TensorLike) -> Tensor: ...
    def copy_(self, other: TensorLike) -> Tensor: ...
    def fill_(self, x: builtins.float) -> Tensor: ...
    def zero_(self) -> Tensor: ...
    def astype(self, dtype: DTypeLike, *, copy: builtins.bool | None = True) -> Tensor: ...
    def reshape(self, *shape: Any) -> Tensor: ...
    def view(self, *shape: Any) -> Tensor: ...
    def permute(self, *axes: Any) -> Tensor: ...
    def expand(self, *sizes: Any) -> Tensor: ...
    def repeat(self, *times: Any) -> Tensor: ...
    def t(self) -> Tensor: ...
    def to_device(self, device: str, /, *, stream: None = None) -> Tensor: ...
    def pad(self, widths: ShapeLike, mode: str = "constant", value: Any = 0.0) -> Tensor: ...
    def interpolate(self, size: ShapeLike | None = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = False) -> Tensor: ...
    def abs(self) -> Tensor:
        """Absolute value, elementwise; the slope at 0 is 0.

        >>> tensor([-1.5, 0.0, 2.0]).abs().tolist()  # by hand
        [1.5, 0.0, 2.0]"""
    def acos(self) -> Tensor:
        """The angle in [0, π] with this cosine, elementwise; NaN outside [-1, 1]."""
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine, elementwise; NaN below 1.

        >>> tensor([1.0, 2.0]).acosh().tolist()  # log(2 + sqrt 3)
        [0.0, 1.3169578969248166]"""
    def adaptive_avg_pool1d(self, out: ShapeLike) -> Tensor:
        """The means of `out` windows that cover `[N, C, L]` (or `[C, L]`)."""
    def adaptive_avg_pool2d(self, out: ShapeLike) -> Tensor:
        """The means of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`)."""
    def adaptive_avg_pool3d(self, out: ShapeLike) -> Tensor:
        """The means of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
    def adaptive_max_pool1d(self, out: ShapeLike) -> Tensor:
        """The greatest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`)."""
    def adaptive_max_pool1d_index(self, out: ShapeLike) -> tuple[Tensor, Tensor]:
        """The greatest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`), and their places."""
    def adaptive_max_pool2d(self, out: ShapeLike) -> Tensor:
        """The greatest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`)."""
    def adaptive_max_pool2d_index(self, out: ShapeLike) -> tuple[Tensor, Tensor]:
        """The greatest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`), and their
        places in the flattened plane."""
    def adaptive_max_pool3d(self, out: ShapeLike) -> Tensor:
        """The greatest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
    def adaptive_max_pool3d_index(self, out: ShapeLike) -> tuple[Tensor, Tensor]:
        """The greatest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`), and
        their places in the flattened volume."""
    def addbmm(self, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
        """beta times the tensor plus alpha times the sum of the products of two lists of matrices."""
    def addcdiv(self, a: TensorLike, b: TensorLike, value: builtins.float = 1.0) -> Tensor:
        """x + value (a / b), elementwise."""
    def addcmul(self, a: TensorLike, b: TensorLike, value: builtins.float = 1.0) -> Tensor:
        """x + value (a * b), elementwise."""
    def addmm(self, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
        """beta times the tensor plus alpha times the product of two matrices."""
    def addmv(self, matrix: TensorLike, vector: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
        """beta times the tensor plus alpha times the product of a matrix and a vector."""
    def all(self, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether every element is not zero along axes (`..` for all), which disappear."""
    def bitwise_and(self, other: TensorLike) -> Tensor:
        """Logical and of bool, bitwise and of integers, elementwise."""
    def angle(self) -> Tensor:
        """0 for numbers that are not negative, π for the others, elementwise; NaN stays NaN."""
    def any(self, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether some element is not zero along axes (`..` for all), which disappear."""
    def argmax(self, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
        """The place of the greatest element along an axis, which disappears, or in the flattened tensor
        for `..`; the first of equal ones."""
    def argmin(self, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
        """The place of the least element along an axis, which disappears, or in the flattened tensor
        for `..`; the first of equal ones."""
    def argsort_descending(self, dim: builtins.int = -1) -> Tensor:
        """The places that would bring the elements along an axis into descending order."""
    def asin(self) -> Tensor:
        """The angle in [-π/2, π/2] with this sine, elementwise; NaN outside [-1, 1]."""
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine, elementwise.

        >>> tensor([0.0, 1.0]).asinh().tolist()  # Abramowitz and Stegun, table 4.17: log(1 + sqrt 2)
        [0.0, 0.881373587019543]"""
    def atan(self) -> Tensor:
        """The angle in (-π/2, π/2) with this tangent, elementwise."""
    def atan2(self, other: TensorLike) -> Tensor:
        """The angle of the point (b, a) in (-π, π], elementwise: the inverse tangent of a / b in the right quadrant."""
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent, elementwise; NaN outside [-1, 1].

        >>> tensor([0.0, 0.5]).atanh().tolist()  # log(3) / 2
        [0.0, 0.5493061443340549]"""
    def attention(self, k: TensorLike, v: TensorLike, mask: TensorLike | None = None, causal: builtins.bool | None = None, scale: builtins.float | None = None, grouped: builtins.bool | None = None, dropout: tuple[builtins.float, TensorLike] | None = None, query_lengths: TensorLike | None = None, key_lengths: TensorLike | None = None) -> Tensor:
        """Scaled dot-product attention of these queries `[…, H, L, E]` with keys `[…, H, S, E]` and
        values `[…, H, S, F]`."""
    def avg_pool1d(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
        """The mean of each window of `[N, C, L]` (or `[C, L]`)."""
    def avg_pool2d(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
        """The mean of each window of `[N, C, H, W]` (or `[C, H, W]`)."""
    def avg_pool3d(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
        """The mean of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
    def baddbmm(self, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
        """beta times the tensor plus alpha times the products of two lists of matrices."""
    def batch_norm(self, mean: TensorLike, var: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
        """Each channel (axis 1) less a given mean, divided by the root of a given variance plus eps;
        then times a weight and plus a bias for each channel, if given: the form for inference.
        See `batch_norm_train` for the form that takes the statistics from the batch."""
    def batch_norm_stats(self, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
        """Each channel (axis 1) moved to mean 0 and scaled to variance 1 over the batch; then times a
        weight and plus a bias for each channel, if given. Gives the result, and the mean and the
        variance of the batch."""
    def bilinear(self, other: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """A map linear in this and another tensor: y[…, o] = a[…, i] w[o, i, j] b[…, j], plus a bias `[O]`."""
    def binary_cross_entropy(self, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
        """Cross entropy of these probabilities with target probabilities, each element optionally
        weighted, reduced."""
    def binary_cross_entropy_with_logits(self, target: TensorLike, weight: TensorLike | None = None, pos_weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
        """Cross entropy of the probabilities with these logits with target probabilities; each element
        and the positive class optionally weighted; reduced."""
    def bmm(self, other: TensorLike) -> Tensor:
        """Products of two lists of matrices of one length, without broadcasting."""
    def bottom_k(self, k: builtins.int = 0, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The `k` least elements along an axis, least first, and their places."""
    def broadcast_to(self, shape: ShapeLike) -> Tensor:
        """Repeated to a larger shape by NumPy's rule, without copying."""
    def cast_like(self, other: TensorLike) -> Tensor:
        """Converts to the element type of another tensor."""
    def cdist(self, other: TensorLike, p: builtins.float = 2.0) -> Tensor:
        """The p-norm of the difference of every vector `[…, I, M]` from every one of `other`
        `[…, J, M]`: `[…, I, J]`."""
    def ceil(self) -> Tensor:
        """The least whole number that is not less, elementwise.

        >>> tensor([-1.5, 1.5]).ceil().tolist()  # by hand
        [-1.0, 2.0]"""
    def celu(self, alpha: builtins.float = 1.0) -> Tensor:
        """x where it is positive, else alpha (exp(x / alpha) - 1), elementwise.

        >>> tensor([-2.0, 0.0, 3.0]).celu(2.0).tolist()  # by hand: 2 (1/e - 1)
        [-1.2642411176571153, 0.0, 3.0]"""
    def cholesky_upper(self) -> Tensor:
        """The upper triangular matrix U with A = Uᵀ U; only A's upper triangle is read."""
    def clamp_max(self, hi: TensorLike) -> Tensor:
        """x, or the bound where x is above it, elementwise."""
    def clamp_min(self, lo: TensorLike) -> Tensor:
        """x, or the bound where x is below it, elementwise."""
    def cofactor(self) -> Tensor:
        """The matrix of cofactors of a square matrix: what the determinant's gradient is."""
    def col2im(self, size: ShapeLike, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Columns `[N, C · KH · KW, L]` (or without N), each a window of an image of the given size,
        added up where they overlap: `[N, C, H, W]`. Of the options, stride, even padding and
        dilation count."""
    @staticmethod
    def complex(re: TensorLike, im: TensorLike) -> Tensor:
        """Complex numbers of their real and imaginary parts, which are promoted and broadcast."""
    @staticmethod
    def concat(parts: Sequence[TensorLike], dim: builtins.int = 0) -> Tensor:
        """Tensors one after the other along an axis, in their common type."""
    def conj(self) -> Tensor:
        """The complex conjugates; a real tensor itself."""
    def conv1d(self, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[O, C / groups, K]`, plus a bias `[O]`."""
    def conv2d(self, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[O, C / groups, KH, KW]`, plus a
        bias `[O]`."""
    def conv3d(self, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel `[O, C / groups, KD, KH, KW]`,
        plus a bias `[O]`."""
    def conv_transpose1d(self, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Transposed convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[C, O / groups, K]`, plus a
        bias `[O]`."""
    def conv_transpose2d(self, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Transposed convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[C, O / groups, KH, KW]`,
        plus a bias `[O]`."""
    def conv_transpose3d(self, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """Transposed convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel
        `[C, O / groups, KD, KH, KW]`, plus a bias `[O]`."""
    def copysign(self, other: TensorLike) -> Tensor:
        """The absolute value of `a` with the sign of `b`, elementwise; -0 counts as negative.

        >>> tensor([1.5, 2.0, -3.0]).copysign(tensor([-1.0, -0.0, 2.0])).tolist()  # by hand
        [-1.5, -2.0, 3.0]"""
    def cos(self) -> Tensor:
        """Cosine of an angle in radians, elementwise.

        >>> tensor([0.0, 1.0]).cos().tolist()  # Abramowitz and Stegun, table 4.6
        [1.0, 0.5403023058681398]"""
    def cosh(self) -> Tensor:
        """Hyperbolic cosine, elementwise.

        >>> tensor([0.0, 1.0]).cosh().tolist()  # Abramowitz and Stegun, table 4.15
        [1.0, 1.5430806348152437]"""
    def cosine_embedding_loss(self, other: TensorLike, target: TensorLike, margin: builtins.float = 0.0, reduction: str = "mean") -> Tensor:
        """1 − cos where the target is 1, max(0, cos − margin) where it is −1, cos the cosine of the
        angle with `other` along the last axis, reduced."""
    def cosine_similarity(self, other: TensorLike, dim: builtins.int = 1, eps: builtins.float = 1e-8) -> Tensor:
        """The cosine of the angle between vectors along an axis of the common shape; lengths count as
        at least `eps` (usually 1e-8)."""
    def count_nonzero(self, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
        """How many elements are not zero along axes (`..` for all), which disappear."""
    def cross(self, other: TensorLike, dim: builtins.int = -1) -> Tensor:
        """Vector product along an axis of size 3; the other dimensions broadcast."""
    def cross_entropy(self, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, label_smoothing: builtins.float | None = None, reduction: str | None = None) -> Tensor:
        """Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class numbers `[N, *D]` or class
        probabilities `[N, C, *D]`."""
    def ctc_loss(self, targets: TensorLike, times: TensorLike, lengths: TensorLike, blank: builtins.int | None = None, zero_infinity: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
        """Connectionist temporal classification: how unlikely the targets `[N, S]` are under these
        log-probabilities `[T, N, C]`, of which `times` and `lengths` (`[N]`) count."""
    def cumsum_reverse(self, dim: builtins.int = -1) -> Tensor:
        """Running sums along an axis from its end."""
    def deg2rad(self) -> Tensor:
        """Degrees converted to radians, elementwise."""
    def det(self) -> Tensor:
        """The determinant of a square matrix."""
    def diag(self, offset: builtins.int = 0) -> Tensor:
        """A vector as the diagonal `offset` of a matrix, or that diagonal of a matrix as a vector."""
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """The last dimension on the diagonal `offset` of new dimensions `axis1` and `axis2` of the
        result, zeros elsewhere."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """The elements whose place along `axis2` is that along `axis1` plus `offset`, as a new last
        dimension."""
    def digamma(self) -> Tensor:
        """Digamma function: the slope of `lgamma`, elementwise.

        >>> tensor([1.0, 0.5, 2.0, -0.5]).digamma().tolist()  # Abramowitz and Stegun, 6.3.2 to 6.3.5
        [-0.5772156649015329, -1.9635100260214235, 0.4227843350984671, 0.03648997397857652]"""
    def dist(self, other: TensorLike, ord: builtins.float = 2.0) -> Tensor:
        """The norm of order `ord` of the difference to another tensor."""
    def dot(self, other: TensorLike) -> Tensor:
        """Sum of the products of two vectors of one length."""
    def dropout(self, p: builtins.float, key: TensorLike) -> Tensor:
        """Each element 0 with probability `p`, else divided by `1 - p`, from a key: i64, a seed and a
        counter."""
    def dropout_channels(self, p: builtins.float, key: TensorLike) -> Tensor:
        """Each channel (axis 1) of each example as a whole 0 with probability `p`, else divided by
        `1 - p`."""
    def eig(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1; both
        complex. Of a symmetric or Hermitian matrix `eigh` gives real ones, ascending."""
    def eigh(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns; the
        lower triangle is read."""
    def eigh_of(self, triangle: str) -> tuple[Tensor, Tensor]:
        """`eigh`, reading the given triangle."""
    def eigvals(self) -> Tensor:
        """Eigenvalues of a square matrix, in no order."""
    def eigvalsh(self) -> Tensor:
        """Eigenvalues of a symmetric or Hermitian matrix, ascending; the lower triangle is read."""
    def eigvalsh_of(self, triangle: str) -> Tensor:
        """`eigvalsh`, reading the given triangle."""
    @staticmethod
    def einsum(equation: str, tensors: Sequence[TensorLike]) -> Tensor:
        """Sums of products by an equation in Einstein's notation: letters name axes, a letter that is
        not in the result is summed over, a repeated letter takes the diagonal, `...` stands for
        axes that broadcast. Without `->` the result has the letters that occur once, in
        alphabetical order."""
    def elu(self, alpha: builtins.float = 1.0) -> Tensor:
        """x where it is positive, else alpha (exp(x) - 1), elementwise.

        >>> tensor([-1.0, 0.0, 3.0]).elu(2.0).tolist()  # by hand: 2 (1/e - 1)
        [-1.2642411176571153, 0.0, 3.0]"""
    def embedding(self, index: TensorLike) -> Tensor:
        """Rows of this table `[V, E]` at an index of any shape."""
    def embedding_padded(self, index: TensorLike, padding: builtins.int) -> Tensor:
        """Rows of this table `[V, E]`, of which the row `padding` (counted from the end if negative)
        collects no gradient."""
    def entr(self) -> Tensor:
        """-x log(x), elementwise; 0 at 0, -inf below."""
    def eq(self, other: TensorLike) -> Tensor:
        """Whether `a` equals `b`, elementwise; NaN equals nothing.

        >>> tensor([1.0, 2.0]).eq(tensor([2.0, 2.0])).tolist()  # by hand
        [False, True]"""
    def erf(self) -> Tensor:
        """Error function 2/sqrt(π) ∫₀ˣ exp(-t²) dt, elementwise.

        >>> tensor([0.0, 0.5, 1.0]).erf().tolist()  # Abramowitz and Stegun, table 7.1
        [0.0, 0.5204998778130465, 0.8427007929497149]"""
    def erfc(self) -> Tensor:
        """1 - erf(x) without cancellation for large x, elementwise.

        >>> tensor([0.0, 0.5, 1.0]).erfc().tolist()  # Abramowitz and Stegun, table 7.1
        [1.0, 0.4795001221869535, 0.1572992070502851]"""
    def erfcx(self) -> Tensor:
        """exp(x²) erfc(x) without overflow, elementwise.

        >>> tensor([0.0, 1.0, 100.0]).erfcx().tolist()  # Abramowitz and Stegun, table 7.2 and 7.1.23
        [1.0, 0.427583576155807, 0.005641613782989433]"""
    def erfinv(self) -> Tensor:
        """The number with this error function, elementwise; NaN outside [-1, 1]."""
    def exp(self) -> Tensor:
        """Exponential, elementwise."""
    def exp2(self) -> Tensor:
        """2 to the power x, elementwise.

        >>> tensor([0.0, 3.0, -1.0]).exp2().tolist()  # by hand
        [1.0, 8.0, 0.5]"""
    def expm1(self) -> Tensor:
        """exp(x) - 1 without cancellation near 0, elementwise.

        >>> tensor([0.0, 1.0, 1e-10]).expm1().tolist()  # series e - 1 = 1 + 1/2 + 1/6 + …
        [0.0, 1.718281828459045, 1.00000000005e-10]"""
    def fft(self, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
        """Discrete Fourier transform; the result is complex."""
    def fftn(self, axes: ShapeLike, norm: str) -> Tensor:
        """`fft` along several axes, one after the other."""
    def float8_linear(self, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """An affine map of the last dimension, x wᵀ + b for a weight `[O, I]` and a bias `[O]`, whose
        products are those of 8-bit floats: x and w as f8e4m3, gradients as f8e5m2, each divided by a
        scale that makes use of the whole type. What `autocast` in f8e4m3 makes of `linear`."""
    def floor(self) -> Tensor:
        """The greatest whole number that is not greater, elementwise.

        >>> tensor([-1.5, 1.5]).floor().tolist()  # by hand
        [-2.0, 1.0]"""
    def floor_divide(self, other: TensorLike) -> Tensor:
        """Quotient rounded down, elementwise, as Python's `//`: of floats, `a - a % b` divided by b. An infinite dividend
        gives an infinite quotient, as the array API wants; integer division by 0 gives 0.

        >>> tensor([7.0, -7.0, 7.0]).floor_divide(tensor([2.0, 2.0, -2.0])).tolist()  # Python manual: // rounds toward minus infinity
        [3.0, -4.0, -4.0]"""
    def fmax(self, other: TensorLike) -> Tensor:
        """The greater of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient."""
    def fmin(self, other: TensorLike) -> Tensor:
        """The lesser of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient."""
    def fmod(self, other: TensorLike) -> Tensor:
        """Remainder with the sign of `a`, as C's `fmod`, elementwise; integer division by 0 gives 0.

        >>> tensor([5.0, -5.0, 5.0]).fmod(tensor([3.0, 3.0, -3.0])).tolist()  # C standard: fmod has the sign of the first operand
        [2.0, -2.0, 2.0]"""
    def fold(self, dim: builtins.int, step: builtins.int, length: builtins.int) -> Tensor:
        """Windows along an axis, `step` apart, their elements in the last dimension, added up where
        they overlap in an axis of `length` elements: the transpose of `unfold`."""
    def frac(self) -> Tensor:
        """x less its whole part, with the sign of x, elementwise.

        >>> tensor([1.25, -2.5]).frac().tolist()  # by hand
        [0.25, -0.5]"""
    def full_like(self, x: builtins.float) -> Tensor:
        """One number in this tensor's shape and type."""
    def gaussian_nll_loss(self, target: TensorLike, variance: TensorLike, full: builtins.bool, eps: builtins.float = 1e-6, reduction: str = "mean") -> Tensor:
        """Negative log-likelihood of a target under a normal distribution with this mean and the given
        variance (at least `eps`, usually 1e-6); with its constant term if `full`; reduced. A variance
        without the last dimension is that of whole rows."""
    def ge(self, other: TensorLike) -> Tensor:
        """Whether `a >= b`, elementwise; false where either is NaN.

        >>> tensor([1.0, 2.0, 3.0]).ge(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
        [False, True, True]"""
    def gelu(self) -> Tensor:
        """x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function."""
    def gelu_tanh(self) -> Tensor:
        """x Φ(x) with Φ approximated by tanh, elementwise: 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).

        >>> tensor([0.0, 1.0, -1.0]).gelu_tanh().tolist()  # hand arithmetic of the formula
        [0.0, 0.8411919906082768, -0.15880800939172324]"""
    def global_avg_pool(self) -> Tensor:
        """The mean of each channel of `[N, C, *S]`: `[N, C]`."""
    def global_max_pool(self) -> Tensor:
        """The greatest element of each channel of `[N, C, *S]`: `[N, C]`."""
    def glu(self, dim: builtins.int = -1) -> Tensor:
        """The first half along an axis times the sigmoid of the second half."""
    def grid_sample(self, grid: TensorLike, mode: str | None = None, padding: str | None = None, align_corners: builtins.bool | None = None) -> Tensor:
        """An image `[N, C, *S]` read at places `[N, *Q, D]`; see the row for what places mean."""
    def group_norm(self, groups: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
        """Channels (axis 1) in groups, each group of each example moved to mean 0 and scaled to
        variance 1; then times a weight and plus a bias for each channel, if given."""
    def gt(self, other: TensorLike) -> Tensor:
        """Whether `a > b`, elementwise; false where either is NaN.

        >>> tensor([1.0, 2.0, 3.0]).gt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
        [False, False, True]"""
    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """x, but 0 where its size is not above `lambda`, elementwise.

        >>> tensor([-1.0, 0.25, 0.5, 2.0]).hardshrink(0.5).tolist()  # by hand
        [-1.0, 0.0, 0.0, 2.0]"""
    def hardsigmoid(self) -> Tensor:
        """(x + 3) / 6 held in [0, 1], elementwise.

        >>> tensor([-4.0, 0.0, 1.5, 3.0]).hardsigmoid().tolist()  # by hand
        [0.0, 0.5, 0.75, 1.0]"""
    def hardswish(self) -> Tensor:
        """x times (x + 3) / 6 held in [0, 1], elementwise.

        >>> tensor([-4.0, 0.0, 1.5, 6.0]).hardswish().tolist()  # by hand
        [0.0, 0.0, 1.125, 6.0]"""
    def hardtanh(self, lo: builtins.float = -1.0, hi: builtins.float = 1.0) -> Tensor:
        """x held in [lo, hi], elementwise; the slope at the ends is 0.

        >>> tensor([-2.0, 0.5, 3.0]).hardtanh(-1.0, 1.0).tolist()  # by hand
        [-1.0, 0.5, 1.0]"""
    def hinge_embedding_loss(self, target: TensorLike, margin: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
        """This distance where the target is 1, max(0, margin − distance) where it is −1, reduced."""
    @staticmethod
    def hstack(parts: Sequence[TensorLike]) -> Tensor:
        """Tensors side by side: along the second axis, vectors along their only one."""
    def huber_loss(self, target: TensorLike, delta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
        """d² / 2 where the difference |d| from a target is at most delta, else
        delta (|d| − delta / 2), reduced."""
    def hypot(self, other: TensorLike) -> Tensor:
        """sqrt(a² + b²) without overflow, elementwise."""
    def i0(self) -> Tensor:
        """Modified Bessel function of the first kind of order 0, elementwise.

        >>> tensor([0.0, 1.0, -2.0]).i0().tolist()  # Abramowitz and Stegun, table 9.8
        [1.0, 1.2660658777520084, 2.2795853023360673]"""
    def i1(self) -> Tensor:
        """Modified Bessel function of the first kind of order 1, elementwise.

        >>> tensor([0.0, 1.0, -2.0]).i1().tolist()  # Abramowitz and Stegun, table 9.8
        [0.0, 0.5651591039924851, -1.590636854637329]"""
    def ifft(self, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
        """The inverse of `fft`."""
    def ifftn(self, axes: ShapeLike, norm: str) -> Tensor:
        """`ifft` along several axes, one after the other."""
    def im2col(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
        """The windows of `[N, C, H, W]` (or `[C, H, W]`) as columns `[N, C · KH · KW, L]`. Of the
        options, stride, even padding and dilation count."""
    def inner(self, other: TensorLike) -> Tensor:
        """Sums of products over the last dimension of both tensors."""
    def instance_norm(self, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
        """Each channel (axis 1) of each example moved to mean 0 and scaled to variance 1; then times
        a weight and plus a bias for each channel, if given."""
    def int_matmul(self, other: TensorLike) -> Tensor:
        """Matrix product of matrices of 8-bit integers (`i8` or `u8`, each side its own), summed in `i32`:
        what quantized models are made of."""
    def inv(self) -> Tensor:
        """The inverse of a square matrix; a singular one is an error when the value is computed."""
    def irfft(self, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
        """The real numbers whose Fourier transform starts with these frequencies:
        the inverse of `rfft`. Without `n` there are twice as many as frequencies, less 2."""
    def is_finite(self) -> Tensor:
        """Whether it is neither infinite nor NaN, elementwise."""
    def is_inf(self) -> Tensor:
        """Whether it is infinite, of either sign, elementwise."""
    def is_nan(self) -> Tensor:
        """Whether it is not a number, elementwise."""
    def kl_div(self, target: TensorLike, log_target: builtins.bool = False, reduction: str = "mean") -> Tensor:
        """Kullback-Leibler divergence of these log-probabilities from a target, which is given as its
        logarithm if `log_target`, reduced ([`Reduction::BatchMean` is the mathematical one)."""
    def kron(self, other: TensorLike) -> Tensor:
        """Kronecker product: every element replaced by itself times the other tensor."""
    def l1_loss(self, target: TensorLike, reduction: str = "mean") -> Tensor:
        """The absolute difference from a target, reduced."""
    def layer_norm(self, axes: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
        """x moved to mean 0 and scaled to variance 1 over the last `axes` dimensions; then times a
        weight and plus a bias of their shape, if given."""
    def le(self, other: TensorLike) -> Tensor:
        """Whether `a <= b`, elementwise; false where either is NaN.

        >>> tensor([1.0, 2.0, 3.0]).le(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
        [True, True, False]"""
    def leaky_relu(self, slope: builtins.float = 0.01) -> Tensor:
        """x where it is positive, else `slope` times x, elementwise.

        >>> tensor([-2.0, 0.0, 3.0]).leaky_relu(0.25).tolist()  # by hand
        [-0.5, 0.0, 3.0]"""
    def lerp(self, end: TensorLike, weight: TensorLike) -> Tensor:
        """`self + weight (end - self)`, elementwise."""
    def lgamma(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function, elementwise.

        >>> tensor([1.0, 5.0, 0.5, -0.5]).lgamma().tolist()  # log 4!, log sqrt(π), log(2 sqrt(π))
        [0.0, 3.1780538303479458, 0.5723649429247001, 1.2655121234846454]"""
    def linear(self, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """An affine map of the last dimension: x wᵀ + b for a weight `[O, I]` and a bias `[O]`."""
    def local_response_norm(self, size: builtins.int, alpha: builtins.float = 1e-4, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
        """x divided by (k + alpha m)^beta, where m is the mean square over `size` neighboring
        channels (axis 1), counting missing ones as 0."""
    def log(self) -> Tensor:
        """Natural logarithm, elementwise; negative numbers give NaN."""
    def log10(self) -> Tensor:
        """Logarithm to base 10, elementwise; negative numbers give NaN."""
    def log1p(self) -> Tensor:
        """log(1 + x) without cancellation near 0, elementwise."""
    def log2(self) -> Tensor:
        """Logarithm to base 2, elementwise; negative numbers give NaN.

        >>> tensor([1.0, 8.0, 0.5]).log2().tolist()  # by hand
        [0.0, 3.0, -1.0]"""
    def log_ndtr(self) -> Tensor:
        """The logarithm of `ndtr` without underflow, elementwise."""
    def log_sigmoid(self) -> Tensor:
        """log(sigmoid(x)) without overflow, elementwise."""
    def logaddexp(self, other: TensorLike) -> Tensor:
        """log(exp(a) + exp(b)) without overflow, elementwise."""
    def logaddexp2(self, other: TensorLike) -> Tensor:
        """log2(2^a + 2^b) without overflow, elementwise."""
    def logcumsumexp(self, dim: builtins.int = -1) -> Tensor:
        """The logarithm of the running sums of the exponentials along an axis, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant: NaN where it is negative."""
    def logical_and(self, other: TensorLike) -> Tensor:
        """Whether both differ from 0, elementwise, for any element types."""
    def logical_not(self) -> Tensor:
        """Whether it is 0 or false, elementwise, for any element type."""
    def logical_or(self, other: TensorLike) -> Tensor:
        """Whether either differs from 0, elementwise, for any element types."""
    def logical_xor(self, other: TensorLike) -> Tensor:
        """Whether exactly one differs from 0, elementwise, for any element types."""
    def logit_eps(self, eps: builtins.float = 1e-5) -> Tensor:
        """log(x / (1 - x)), elementwise, with x moved into [eps, 1 - eps] first."""
    def lstsq(self, b: TensorLike) -> Tensor:
        """The X of least length among those that make A X - B shortest, for this matrix A."""
    def lt(self, other: TensorLike) -> Tensor:
        """Whether `a < b`, elementwise; false where either is NaN.

        >>> tensor([1.0, 2.0, 3.0]).lt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
        [True, False, False]"""
    def margin_ranking_loss(self, other: TensorLike, target: TensorLike, margin: builtins.float = 0.0, reduction: str = "mean") -> Tensor:
        """max(0, margin − t (this − other)) for a target t of 1 (this above) or −1 (other above),
        reduced."""
    def masked_fill(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """`value` where the mask holds, else the element. The value takes the tensor's type."""
    def masked_select(self, mask: TensorLike) -> Tensor:
        """The elements where the mask holds, in row-major order; the two broadcast.

        How many there are depends on the mask's values, so the mask is computed at once."""
    def matmul(self, other: TensorLike) -> Tensor:
        """Matrix product with NumPy's rules: vectors are rows on the left and columns on the right,
        leading dimensions broadcast."""
    def matrix_exp(self) -> Tensor:
        """The exponential of a square matrix, or of each of a batch."""
    def matrix_norm(self, norm: str | builtins.float, axes: tuple[builtins.int, builtins.int], keepdim: builtins.bool = False) -> Tensor:
        """The size of the matrices along two axes (rows, columns), which disappear."""
    def matrix_power(self, n: builtins.int = 1) -> Tensor:
        """A square matrix multiplied with itself `n` times; a negative power is that of the inverse."""
    def max_index(self, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The greatest element along one axis, which disappears, and its place: the first of equal ones,
        which alone gets the gradient."""
    def max_pool1d(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
        """The greatest element of each window of `[N, C, L]` (or `[C, L]`)."""
    def max_pool1d_index(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
        """`max_pool1d` with the place of each greatest element."""
    def max_pool2d(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
        """The greatest element of each window of `[N, C, H, W]` (or `[C, H, W]`)."""
    def max_pool2d_index(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
        """`max_pool2d` with the place of each greatest element in the flattened plane."""
    def max_pool3d(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
        """The greatest element of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
    def max_pool3d_index(self, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
        """`max_pool3d` with the place of each greatest element in the flattened volume."""
    def maximum(self, other: TensorLike) -> Tensor:
        """The greater of two, elementwise; NaN if either is. At a tie each gets half of the gradient.

        >>> tensor([1.0, 5.0]).maximum(tensor([2.0, 4.0])).tolist()  # by hand
        [2.0, 5.0]"""
    def mean(self, dim: Axis = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """Arithmetic mean along axes (`..` for all), which disappear; integers are converted to f32."""
    def median_index(self, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The middle element along an axis and its place;
        of an even number, the lower of the two in the middle. The axis disappears."""
    @staticmethod
    def meshgrid(axes: Sequence[TensorLike]) -> tuple[Tensor, ...]:
        """For vectors of coordinates, the coordinates of each point of the grid they span: result i
        varies along axis i (PyTorch's and NumPy's `indexing="ij"`)."""
    def min_index(self, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The least element along one axis, which disappears, and its place: the first of equal ones,
        which alone gets the gradient."""
    def minimum(self, other: TensorLike) -> Tensor:
        """The lesser of two, elementwise; NaN if either is. At a tie each gets half of the gradient.

        >>> tensor([1.0, 5.0]).minimum(tensor([2.0, 4.0])).tolist()  # by hand
        [1.0, 4.0]"""
    def mish(self) -> Tensor:
        """x tanh(softplus(x)), elementwise.

        >>> tensor([0.0, 1.0986122886681098]).mish().tolist()  # by hand: tanh(log 4) = 15/17
        [0.0, 0.969363784118920]"""
    def mm(self, other: TensorLike) -> Tensor:
        """Product of two matrices, without broadcasting."""
    def mse_loss(self, target: TensorLike, reduction: str = "mean") -> Tensor:
        """The squared difference from a target, reduced."""
    def mul(self, other: TensorLike) -> Tensor:
        """Product, elementwise. For bool: logical and.

        >>> tensor([1.5, -2.0]).mul(tensor([2.0, 0.5])).tolist()  # by hand
        [3.0, -1.0]"""
    def mv(self, vector: TensorLike) -> Tensor:
        """Product of a matrix and a vector."""
    def mvlgamma(self, p: builtins.int) -> Tensor:
        """Logarithm of the multivariate gamma function of dimension `p`, elementwise:
        p (p - 1) / 4 log π + Σ lgamma(x - i / 2) for i from 0 to p - 1."""
    def nan_to_num(self, nan: builtins.float = 0.0, posinf: builtins.float = 1.7976931348623157e308, neginf: builtins.float = -1.7976931348623157e308) -> Tensor:
        """x with NaN, inf and -inf replaced by numbers, elementwise; finite numbers beyond the element
        type's greatest become that."""
    def nanmedian_index(self, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The middle element along an axis and its place, with NaN left out;
        of an even number, the lower of the two in the middle. The axis disappears."""
    def ndtr(self) -> Tensor:
        """The probability that a normal variable is not above x, elementwise.

        >>> tensor([0.0, 1.0, -1.0]).ndtr().tolist()  # Abramowitz and Stegun, table 26.1
        [0.5, 0.8413447460685429, 0.15865525393145707]"""
    def ne(self, other: TensorLike) -> Tensor:
        """Whether `a` differs from `b`, elementwise; NaN differs from everything.

        >>> tensor([1.0, 2.0, 3.0]).ne(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
        [True, False, True]"""
    def neg(self) -> Tensor:
        """Negative, elementwise.

        >>> tensor([1.5, -2.0]).neg().tolist()  # by hand
        [-1.5, 2.0]"""
    def nll_loss(self, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, reduction: str | None = None) -> Tensor:
        """Minus these log-probabilities `[N, C, *D]` (or `[C]`) at the classes `[N, *D]`."""
    def normalize(self, ord: builtins.float = 2.0, dim: Axis = 1, eps: builtins.float = 1e-12) -> Tensor:
        """x divided by the norm of order `ord` (2 for Euclid's) of its vectors along axes, or by eps
        where that is greater."""
    def bitwise_not(self) -> Tensor:
        """Logical not of bool, bitwise not of integers, elementwise."""
    def one_hot(self, classes: builtins.int, dtype: DTypeLike = "float32") -> Tensor:
        """For each class number a row of `classes` elements with a one at its place, as a new last
        dimension; zeros for numbers beyond."""
    def ones_like(self) -> Tensor:
        """Ones of this tensor's shape and type."""
    def bitwise_or(self, other: TensorLike) -> Tensor:
        """Logical or of bool, bitwise or of integers, elementwise."""
    def outer(self, other: TensorLike) -> Tensor:
        """Matrix of the products of each element of this vector with each of another."""
    def pairwise_distance(self, other: TensorLike, p: builtins.float = 2.0, eps: builtins.float = 1e-6, keepdim: builtins.bool = False) -> Tensor:
        """The p-norm of the difference from `other`, plus `eps` (usually 1e-6), along the last axis,
        which disappears."""
    def pinv(self) -> Tensor:
        """Moore's and Penrose's inverse; singular values below the precision of the type times the
        larger size count as zero."""
    def pinv_rtol(self, rtol: builtins.float) -> Tensor:
        """`pinv` where singular values not above `rtol` times the greatest count as zero."""
    def pixel_shuffle(self, factor: builtins.int) -> Tensor:
        """Channels spread over pixels `factor` times as fine: `[.., c·f², h, w]` becomes
        `[.., c, h·f, w·f]`."""
    def pixel_unshuffle(self, factor: builtins.int) -> Tensor:
        """Blocks of `factor` × `factor` pixels gathered into channels: the inverse of `pixel_shuffle`."""
    def poisson_nll_loss(self, target: TensorLike, log_input: builtins.bool | None = None, full: builtins.bool | None = None, eps: builtins.float | None = None, reduction: str | None = None) -> Tensor:
        """Negative log-likelihood of counts under Poisson distributions with these rates."""
    def pow(self, other: TensorLike) -> Tensor:
        """`a` to the power `b`, elementwise; for integers a negative exponent gives 0 (1 for base ±1).

        >>> tensor([2.0, 9.0]).pow(tensor([3.0, 0.5])).tolist()  # by hand
        [8.0, 3.0]"""
    def prelu(self, weight: TensorLike) -> Tensor:
        """x where it is positive, else x times a weight: a single one, or one for each channel, which
        is axis 1."""
    def put_add(self, index: TensorLike, src: TensorLike) -> Tensor:
        """Values added at places of the flattened tensor; negative places count from the end."""
    def qr_full(self) -> tuple[Tensor, Tensor]:
        """`qr` with a square Q, whose additional columns span what is left, and as many rows
        of R."""
    def quantize(self, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The numbers as `i8`, and an `f32` scale for each slice along an axis (which is kept, with size
        1): their product is near the numbers, off by half a scale at most."""
    def quantized_linear(self, weight: TensorLike, scale: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """x wᵀ + b on the last dimension, with a weight and a scale from `quantize` along the
        weight's last axis. Each row of x is quantized on the way (a dynamically quantized layer)."""
    def rad2deg(self) -> Tensor:
        """Radians converted to degrees, elementwise."""
    @staticmethod
    def random_bernoulli(key: TensorLike, p: TensorLike) -> Tensor:
        """Bool, true with the probability each element of `p` gives, from a key: i64, a seed and a
        counter."""
    @staticmethod
    def random_bits(key: TensorLike, shape: ShapeLike) -> Tensor:
        """32 random bits for each element, u32, a function of the key and the element's place alone.
        A key is an i64 tensor of a seed and a counter, and perhaps the number of rows that come before
        these in a larger draw."""
    @staticmethod
    def random_categorical(key: TensorLike, logits: TensorLike, samples: builtins.int) -> Tensor:
        """Classes drawn with probabilities softmax(logits) along the last axis, `samples` times
        independently, from a key: i64 of shape [samples, …]."""
    @staticmethod
    def random_exponential(key: TensorLike, shape: ShapeLike) -> Tensor:
        """f32 numbers, exponentially distributed with mean 1, from a key: i64, a seed and a counter."""
    @staticmethod
    def random_normal(key: TensorLike, shape: ShapeLike) -> Tensor:
        """f32 numbers, normally distributed with mean 0 and variance 1, from a key: i64, a seed and a
        counter."""
    @staticmethod
    def random_normal_of(key: TensorLike, shape: ShapeLike, dtype: DTypeLike) -> Tensor:
        """Numbers of type `dtype`, normally distributed with mean 0 and variance 1, from a key."""
    @staticmethod
    def random_permutation(key: TensorLike, size: builtins.int) -> Tensor:
        """The i64 numbers 0, 1, 2… up to `size` in random order, from a key: i64, a seed and a counter."""
    @staticmethod
    def random_truncated_normal(key: TensorLike, shape: ShapeLike, lo: builtins.float, hi: builtins.float) -> Tensor:
        """f32 numbers in [lo, hi], distributed as the normal distribution with mean 0 and variance 1
        is there, from a key: i64, a seed and a counter."""
    @staticmethod
    def random_uniform(key: TensorLike, shape: ShapeLike, lo: builtins.float, hi: builtins.float) -> Tensor:
        """f32 numbers evenly distributed in [lo, hi), from a key: i64, a seed and a counter."""
    @staticmethod
    def random_uniform_of(key: TensorLike, shape: ShapeLike, lo: builtins.float, hi: builtins.float, dtype: DTypeLike) -> Tensor:
        """Numbers of type `dtype` evenly distributed in [lo, hi), from a key."""
    def ravel(self) -> Tensor:
        """All dimensions made one."""
    def recip(self) -> Tensor:
        """1 / x, elementwise; integers are converted to `f32`.

        >>> tensor([4.0, -0.5]).recip().tolist()  # by hand
        [0.25, -2.0]"""
    def relu(self) -> Tensor:
        """max(x, 0), elementwise."""
    def relu6(self) -> Tensor:
        """x held in [0, 6], elementwise; the slope at the ends is 0.

        >>> tensor([-2.0, 0.5, 7.0]).relu6().tolist()  # by hand
        [0.0, 0.5, 6.0]"""
    def rem(self, other: TensorLike) -> Tensor:
        """Remainder with the sign of the divisor, as Python's `%`, elementwise; integer division by 0 gives 0.

        >>> tensor([5.0, -5.0, 5.0]).rem(tensor([3.0, 3.0, -3.0])).tolist()  # Python manual: % has the sign of the second operand
        [2.0, 1.0, -1.0]"""
    def repeat_interleave_by(self, times: TensorLike, dim: Axis = None) -> Tensor:
        """Each element along an axis repeated as often as `times`, a vector of integers, says.

        The result's size depends on these, so they are computed at once."""
    def rfft(self, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
        """Discrete Fourier transform of a real tensor: the n/2 + 1 frequencies that determine the
        others, which are complex."""
    def rms_norm(self, axes: builtins.int, weight: TensorLike | None = None, eps: builtins.float = 1e-6) -> Tensor:
        """x divided by the root of its mean square over the last `axes` dimensions; then times a
        weight of their shape, if given."""
    def rope(self, cos: TensorLike, sin: TensorLike, interleaved: builtins.bool) -> Tensor:
        """Rotary position embedding: pairs along the last axis of `[…, L, E]` turned by angles given
        as cosines and sines `[L, E / 2]` (see `rope_table`). A pair is (i, i + E / 2), or
        neighbors (2 i, 2 i + 1) if `interleaved`."""
    @staticmethod
    def rope_table(positions: TensorLike, width: builtins.int, base: builtins.float) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[L, width / 2]` of the angles p / base^(2 i / width) for positions p `[L]`."""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x), elementwise.

        >>> tensor([1.0, 4.0, 0.25]).rsqrt().tolist()  # by hand
        [1.0, 0.5, 2.0]"""
    def scaled_matmul(self, other: TensorLike, scale: TensorLike, other_scale: TensorLike, bias: TensorLike | None = None, dtype: DTypeLike = "bfloat16") -> Tensor:
        """Matrix product of 8-bit floats, times a scale for each side: what the numbers were divided by
        before they were rounded to 8 bits. Summed in f32; the result is bf16, f16 or f32, and a bias is
        added to each row in that type."""
    def searchsorted_right(self, values: TensorLike) -> Tensor:
        """For each value, the number of elements of this ascending sequence that are not greater."""
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """One element along an axis, which disappears; a negative index counts from the end."""
    def selu(self) -> Tensor:
        """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.

        >>> tensor([-1.0, 0.0, 1.0]).selu().tolist()  # Klambauer and others, equations 2 and 14
        [-1.1113307378125625, 0.0, 1.0507009873554805]"""
    def bitwise_left_shift(self, other: TensorLike) -> Tensor:
        """Bits of `a` moved `b` places up, elementwise; 0 for more than 63 places or fewer than none."""
    def bitwise_right_shift(self, other: TensorLike) -> Tensor:
        """Bits of `a` moved `b` places down keeping the sign, elementwise: `a / 2ᵇ` rounded down; as for 63 places beyond that."""
    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)), elementwise.

        >>> tensor([0.0, 1.0986122886681098, -800.0]).sigmoid().tolist()  # by hand: the logit of 3/4 is log 3
        [0.5, 0.75, 0.0]"""
    def sign(self) -> Tensor:
        """-1, 0 or 1 by the sign, elementwise; 0 of both zeros, and NaN stays NaN.

        >>> tensor([-1.5, 0.0, 2.0]).sign().tolist()  # by hand
        [-1.0, 0.0, 1.0]"""
    def silu(self) -> Tensor:
        """x sigmoid(x), elementwise; also known as swish.

        >>> tensor([0.0, 1.0986122886681098]).silu().tolist()  # by hand: 3/4 log 3
        [0.0, 0.8239592165010823]"""
    def sin(self) -> Tensor:
        """Sine of an angle in radians, elementwise.

        >>> tensor([0.0, 1.0]).sin().tolist()  # Abramowitz and Stegun, table 4.6
        [0.0, 0.8414709848078965]"""
    def sinc(self) -> Tensor:
        """sin(πx) / (πx), elementwise; 1 at 0."""
    def sinh(self) -> Tensor:
        """Hyperbolic sine, elementwise.

        >>> tensor([0.0, 1.0]).sinh().tolist()  # Abramowitz and Stegun, table 4.15
        [0.0, 1.1752011936438014]"""
    def smooth_l1_loss(self, target: TensorLike, beta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
        """d² / (2 beta) where the difference |d| from a target is below beta, else |d| − beta / 2,
        reduced."""
    def softmax_cross_entropy(self, target: TensorLike, dim: builtins.int = -1) -> Tensor:
        """−Σ p log softmax(x) along an axis, which disappears, for these logits x and a target
        distribution p of the same shape."""
    def softmin(self, dim: builtins.int = -1) -> Tensor:
        """Softmax of the negative along an axis."""
    def softplus(self, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
        """log(1 + exp(beta x)) / beta, elementwise; x itself where beta x is above `threshold`."""
    def softshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """x moved toward 0 by `lambda`, but not beyond 0, elementwise.

        >>> tensor([-1.0, 0.25, 2.0]).softshrink(0.5).tolist()  # by hand
        [-0.5, 0.0, 1.5]"""
    def softsign(self) -> Tensor:
        """x / (1 + |x|), elementwise.

        >>> tensor([-1.0, 0.0, 3.0]).softsign().tolist()  # by hand
        [-0.5, 0.0, 0.75]"""
    def solve(self, b: TensorLike) -> Tensor:
        """X with A X = B for this square matrix A; leading dimensions broadcast. `b` may also be a
        vector for each matrix, as in NumPy: then so is the result. A singular matrix is an error
        when the value is computed."""
    def sort_descending(self, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The elements along an axis in descending order, and the place each came from."""
    def split_sizes(self, sizes: ShapeLike, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Consecutive pieces of the given sizes along an axis. On an error each piece carries it."""
    def sqrt(self) -> Tensor:
        """Square root, elementwise; negative numbers give NaN."""
    def square(self) -> Tensor:
        """x times x, elementwise.

        >>> tensor([-1.5, 2.0]).square().tolist()  # by hand
        [2.25, 4.0]"""
    def squeeze(self, dim: Axis = None) -> Tensor:
        """Without the dimensions of size 1 among `axes`, or without all of size 1 for `..`;
        larger ones stay, as in PyTorch."""
    @staticmethod
    def stack(parts: Sequence[TensorLike], dim: builtins.int = 0) -> Tensor:
        """Tensors of one shape one after the other along a new axis, in their common type."""
    def stop_gradient(self) -> Tensor:
        """The same value; no gradient flows through it."""
    def sum(self, dim: Axis = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """Sum along axes (`..` for all), which disappear; integers and bool are summed in 64 bits."""
    def svd_full(self) -> tuple[Tensor, Tensor, Tensor]:
        """`svd` with square U and V*, whose additional vectors span what is left."""
    def svdvals(self) -> Tensor:
        """Singular values in descending order."""
    def take_along_axis(self, index: TensorLike, dim: builtins.int = -1) -> Tensor:
        """Elements chosen along an axis by an index of the same rank, which broadcasts with the
        tensor beside the axis; negative places count from the end. Inverts `sort` and `argsort`."""
    def tan(self) -> Tensor:
        """Tangent of an angle in radians, elementwise.

        >>> tensor([0.0, 1.0]).tan().tolist()  # Abramowitz and Stegun, table 4.9
        [0.0, 1.5574077246549023]"""
    def tanh(self) -> Tensor:
        """Hyperbolic tangent, elementwise.

        >>> tensor([0.0, 1.0]).tanh().tolist()  # Abramowitz and Stegun, table 4.15
        [0.0, 0.7615941559557649]"""
    def tanhshrink(self) -> Tensor:
        """x - tanh(x), elementwise.

        >>> tensor([0.0, 1.0]).tanhshrink().tolist()  # Abramowitz and Stegun, table 4.15
        [0.0, 0.23840584404423515]"""
    def tensordot(self, other: TensorLike, axes: ShapeLike, other_axes: ShapeLike) -> Tensor:
        """Sums of products over axes of this tensor and of another, in pairs."""
    def threshold(self, limit: builtins.float, value: builtins.float) -> Tensor:
        """x where it is above `limit`, else `value`, elementwise.

        >>> tensor([0.25, 0.5, 2.0]).threshold(0.5, 9.0).tolist()  # by hand
        [9.0, 9.0, 2.0]"""
    def to_complex(self) -> Tensor:
        """As a complex tensor: itself, or the real parts of one."""
    def top_k(self, k: builtins.int = 0, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The `k` greatest elements along an axis, greatest first, and their places."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of the last two dimensions; integers are summed in 64 bits."""
    def triplet_margin_loss(self, positive: TensorLike, negative: TensorLike, margin: builtins.float | None = None, norm: builtins.float | None = None, eps: builtins.float | None = None, swap: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
        """max(0, margin + |a − p| − |a − n|) for this anchor a, a positive p and a negative n."""
    def trunc(self) -> Tensor:
        """The whole part, elementwise: rounds toward zero.

        >>> tensor([-1.7, 1.7]).trunc().tolist()  # by hand
        [-1.0, 1.0]"""
    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """The slices along an axis, one tensor each, without the axis; none along an empty axis."""
    def unsqueeze(self, dim: builtins.int = -1) -> Tensor:
        """With a new dimension of size 1 at `axis` of the result; -1 appends it."""
    def var_mean(self, dim: Axis = None, correction: builtins.float = 0.0) -> tuple[Tensor, Tensor]:
        """Variance and mean along axes, which disappear."""
    def vecdot(self, other: TensorLike, dim: builtins.int = -1) -> Tensor:
        """Sums of products along one axis, of one size in both, of two tensors that broadcast."""
    def vector_norm(self, ord: builtins.float = 2.0, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
        """The length of the vectors along axes (`..` for all), which disappear, by an order: 2 for
        Euclid's, 1 for the sum of magnitudes, infinity for the greatest, 0 for the number of
        elements that are not zero."""
    def view_as_complex(self) -> Tensor:
        """The complex numbers whose parts, real and imaginary, lie along the last dimension."""
    def view_as_real(self) -> Tensor:
        """Complex numbers as their parts: a new last dimension of size 2, real and imaginary."""
    @staticmethod
    def vstack(parts: Sequence[TensorLike]) -> Tensor:
        """Tensors on top of each other: along the first axis, vectors as rows."""
    def xlog1py(self, y: TensorLike) -> Tensor:
        """x log(1 + y), elementwise; 0 where x is 0."""
    def xlogy(self, y: TensorLike) -> Tensor:
        """x log(y), elementwise; 0 where x is 0."""
    def bitwise_xor(self, other: TensorLike) -> Tensor:
        """Exclusive or of bool, bitwise exclusive or of integers, elementwise."""
    def zeros_like(self) -> Tensor:
        """Zeros of this tensor's shape and type."""
    def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
    def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
    def subtract(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
    def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
    def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor: ...
    def divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor: ...
    def true_divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor: ...
    def float_power(input: Any, exponent: Any) -> Tensor: ...
    def heaviside(input: Any, values: Any) -> Tensor: ...
    def gcd(input: Any, other: Any) -> Tensor: ...
    def lcm(input: Any, other: Any) -> Tensor: ...
    def frexp(input: Any) -> Any: ...
    def ldexp(input: Any, other: Any) -> Tensor: ...
    def isposinf(input: Any) -> Tensor: ...
    def isneginf(input: Any) -> Tensor: ...
    def isreal(input: Any) -> Tensor: ...
    def sgn(input: Any) -> Tensor: ...
    def logit(input: Any, eps: builtins.float | None = None) -> Tensor: ...
    def conj_physical(input: Any) -> Tensor: ...
    def resolve_conj(input: Any) -> Tensor: ...
    def resolve_neg(input: Any) -> Tensor: ...
    def fill(input: Any, value: Any) -> Tensor: ...
    def get_device(self: Tensor) -> builtins.int: ...
    def element_size(self: Tensor) -> builtins.int: ...
    def nelement(self: Tensor) -> builtins.int: ...
    def stride(self: Tensor, dim: builtins.int | None = None) -> Any: ...
    def storage_offset(self: Tensor) -> builtins.int: ...
    def data_ptr(self: Tensor) -> builtins.int: ...
    def is_contiguous(self: Tensor, memory_format: Any = None) -> builtins.bool: ...
    def contiguous(self: Tensor, memory_format: Any = None) -> Tensor: ...
    def dim(self: Tensor) -> builtins.int: ...
    def ndimension(self: Tensor) -> builtins.int: ...
    def type(self: Tensor, dtype: Any = None, non_blocking: builtins.bool = False) -> Any: ...
    def type_as(self: Tensor, other: Tensor) -> Tensor: ...
    def _view_type(self: Tensor, dtype: Any) -> Tensor: ...
    def equal(input: Tensor, other: Tensor) -> builtins.bool: ...
    def isclose(input: Tensor, other: Any, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8, equal_nan: builtins.bool = False) -> Tensor: ...
    def allclose(input: Tensor, other: Any, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8, equal_nan: builtins.bool = False) -> builtins.bool: ...
    def is_floating_point(input: Tensor) -> builtins.bool: ...
    def is_complex(input: Tensor) -> builtins.bool: ...
    def is_signed(input: Tensor) -> builtins.bool: ...
    def is_nonzero(input: Tensor) -> builtins.bool: ...
    def is_same_size(input: Tensor, other: Tensor) -> builtins.bool: ...
    def to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: builtins.bool = False, copy: builtins.bool = False, memory_format: Any = None, other: Tensor | None = None,) -> Tensor: ...
    def cpu(self: Tensor, memory_format: Any = None) -> Tensor: ...
    def cuda(self: Tensor, device: Any = None, non_blocking: builtins.bool = False, memory_format: Any = None) -> Tensor: ...
    def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor: ...
    def new_zeros(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **given: Any) -> Tensor: ...
    def new_ones(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **given: Any) -> Tensor: ...
    def new_empty(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **given: Any) -> Tensor: ...
    def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, **given: Any) -> Tensor: ...
    def positive(input: Tensor) -> Tensor: ...
    def signbit(input: Tensor) -> Tensor: ...
    def nextafter(input: Tensor, other: Any) -> Tensor: ...
    def svd(input: Any, some: builtins.bool = True, compute_uv: builtins.bool = True) -> Any: ...
    def qr(input: Any, some: builtins.bool = True) -> Any: ...
    def lu(input: Any, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> Any: ...
    def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Tensor: ...
    def triangular_solve(input: Any, A: Any, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> Any: ...
    def cholesky(input: Any, upper: builtins.bool = False) -> Tensor: ...
    def cholesky_solve(B: Any, L: Any, upper: builtins.bool = False) -> Tensor: ...
    def cholesky_inverse(L: Any, upper: builtins.bool = False) -> Tensor: ...
    def pinverse(input: Any, rcond: builtins.float = 1e-15) -> Tensor: ...
    def inverse(input: Any) -> Tensor: ...
    def slogdet(input: Any) -> Any: ...
    def geqrf(input: Any) -> Any: ...
    def orgqr(input: Any, tau: Any) -> Tensor: ...
    def ormqr(input: Any, tau: Any, other: Any, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor: ...
    def polygamma(self: Any, n: builtins.int) -> Tensor: ...
    def igamma(input: Any, other: Any) -> Tensor: ...
    def igammac(input: Any, other: Any) -> Tensor: ...
    def gather(input: Any, dim: builtins.int, index: Any, *, sparse_grad: builtins.bool = False) -> Tensor: ...
    def scatter(input: Any, dim: builtins.int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor: ...
    def scatter_add(input: Any, dim: builtins.int, index: Any, src: Any) -> Tensor: ...
    def scatter_reduce(input: Any, dim: builtins.int, index: Any, src: Any, reduce: str, *, include_self: builtins.bool = True) -> Tensor: ...
    def index_add(input: Any, dim: builtins.int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor: ...
    def index_copy(input: Any, dim: builtins.int, index: Any, source: Any) -> Tensor: ...
    def index_fill(input: Any, dim: builtins.int, index: Any, value: Any) -> Tensor: ...
    def index_reduce(input: Any, dim: builtins.int, index: Any, source: Any, reduce: str, *, include_self: builtins.bool = True) -> Tensor: ...
    def index_select(input: Any, dim: builtins.int, index: Any) -> Tensor: ...
    def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False) -> Tensor: ...
    def put(input: Any, index: Any, source: Any, accumulate: builtins.bool = False) -> Tensor: ...
    def take_along_dim(input: Any, indices: Any, dim: builtins.int | None = None) -> Tensor: ...
    def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor: ...
    def combinations(input: Any, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor: ...
    def fliplr(input: Any) -> Tensor: ...
    def flipud(input: Any) -> Tensor: ...
    def rot90(input: Any, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor: ...
    def movedim(input: Any, source: Any, destination: Any) -> Tensor: ...
    def moveaxis(input: Any, source: Any, destination: Any) -> Tensor: ...
    def transpose(self, a: builtins.int, b: builtins.int) -> Tensor: ...
    def swapaxes(self, a: builtins.int, b: builtins.int) -> Tensor: ...
    def swapdims(input: Any, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...
    def narrow(input: Any, dim: builtins.int, start: Any, length: builtins.int) -> Tensor: ...
    def split_with_sizes(input: Any, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
    def tensor_split(input: Any, indices_or_sections: Any = None, dim: builtins.int = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]: ...
    def hsplit(input: Any, indices_or_sections: Any, *more: builtins.int) -> tuple[Tensor, ...]: ...
    def vsplit(input: Any, indices_or_sections: Any, *more: builtins.int) -> tuple[Tensor, ...]: ...
    def dsplit(input: Any, indices_or_sections: Any, *more: builtins.int) -> tuple[Tensor, ...]: ...
    def unfold(input: Any, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor: ...
    def unflatten(input: Any, dim: builtins.int, sizes: Any) -> Tensor: ...
    def sum_to_size(input: Any, size: Any, *more: builtins.int) -> Tensor: ...
    def diagflat(input: Any, offset: builtins.int = 0) -> Tensor: ...
    def unsafe_chunk(input: Any, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
    def unsafe_split(input: Any, split_size: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
    def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor: ...
    def vdot(input: Any, other: Any) -> Tensor: ...
    def renorm(input: Any, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor: ...
    def corrcoef(input: Any) -> Tensor: ...
    def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: Any | None = None) -> Tensor: ...
    def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Any | None = None) -> Tensor: ...
    def uniform_(self: Tensor, a: builtins.float = 0.0, b: builtins.float = 1.0, *, generator: Any | None = None, **named: builtins.float) -> Tensor: ...
    def normal_(self: Tensor, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Any | None = None) -> Tensor: ...
    def log_normal_(self: Tensor, mean: builtins.float = 1.0, std: builtins.float = 2.0, *, generator: Any | None = None) -> Tensor: ...
    def exponential_(self: Tensor, lambd: builtins.float = 1.0, *, generator: Any | None = None) -> Tensor: ...
    def cauchy_(self: Tensor, median: builtins.float = 0.0, sigma: builtins.float = 1.0, *, generator: Any | None = None) -> Tensor: ...
    def geometric_(self: Tensor, p: builtins.float, *, generator: Any | None = None) -> Tensor: ...
    def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any | None = None) -> Tensor: ...
    def random_(self: Tensor, *ends: builtins.int, generator: Any | None = None, **named: builtins.int) -> Tensor: ...
    def prod(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def nansum(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def nanmean(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def max(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, other: Tensor | None = None) -> Any: ...
    def min(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, other: Tensor | None = None) -> Any: ...
    def amax(input: Tensor, dim: Any = None, keepdim: builtins.bool = False) -> Tensor: ...
    def amin(input: Tensor, dim: Any = None, keepdim: builtins.bool = False) -> Tensor: ...
    def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any: ...
    def median(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any: ...
    def nanmedian(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any: ...
    def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> Any: ...
    def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False) -> Any: ...
    def std(input: Tensor, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor: ...
    def var(input: Tensor, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor: ...
    def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor: ...
    def norm(input: Tensor, p: builtins.float | str | None = "fro", dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def cumsum(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def cumprod(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def cummax(input: Tensor, dim: builtins.int) -> Any: ...
    def cummin(input: Tensor, dim: builtins.int) -> Any: ...
    def quantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear") -> Tensor: ...
    def nanquantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear") -> Tensor: ...
    def logsumexp(input: Tensor, dim: Any, keepdim: builtins.bool = False) -> Tensor: ...
    def softmax(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def log_softmax(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
    def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor: ...
    def flip(self: Tensor, *dims: Any, axis: Any = None, **named: Any) -> Tensor: ...
    def roll(input: Tensor, shifts: Any, dims: Any | None = None) -> Tensor: ...
    def tile(self: Tensor, *dims: Any) -> Tensor: ...
    def repeat_interleave(input: Tensor, repeats: Any = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor: ...
    def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor: ...
    def split(tensor: Tensor, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
    def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
    def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor: ...
    def clip(input: Tensor, min: Any = None, max: Any = None) -> Tensor: ...
    def take(input: Tensor, index: Any, dim: builtins.int | None = None) -> Tensor: ...
    def triu(input: Tensor, diagonal: builtins.int = 0, *, k: builtins.int | None = None) -> Tensor: ...
    def tril(input: Tensor, diagonal: builtins.int = 0, *, k: builtins.int | None = None) -> Tensor: ...
    def view_as(input: Tensor, other: Tensor) -> Tensor: ...
    def reshape_as(input: Tensor, other: Tensor) -> Tensor: ...
    def expand_as(input: Tensor, other: Tensor) -> Tensor: ...
    def round(input: Tensor, *, decimals: builtins.int = 0) -> Tensor: ...
    def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Any: ...
    def argsort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Tensor: ...
    def msort(input: Tensor) -> Tensor: ...
    def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> Any: ...
    def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any: ...
    def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any: ...
    def searchsorted(self: Tensor, values: Any, *, right: builtins.bool = False, side: str | None = None, sorter: Any = None) -> Tensor: ...
    def bucketize(input: Tensor, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor: ...
    def nonzero(input: Tensor, *, as_tuple: builtins.bool = False) -> Any: ...
    def argwhere(input: Tensor) -> Tensor: ...
    def where(self: Tensor, condition: Tensor, other: Any) -> Tensor: ...
    def stft(input: Any, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, pad_mode: str = "reflect", normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None,) -> Tensor: ...
    def istft(input: Any, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False,) -> Tensor: ...
    def bincount(input: Any, weights: Any = None, minlength: builtins.int = 0) -> Tensor: ...
    def histc(input: Any, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor: ...
    def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: builtins.bool = False) -> Any: ...
    def as_strided(input: Any, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor: ...
    def as_strided_copy(input: Any, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor: ...
    def as_strided_scatter(input: Any, src: Any, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor: ...
    def diagonal_scatter(input: Any, src: Any, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor: ...
    def select_scatter(input: Any, src: Any, dim: builtins.int, index: builtins.int) -> Tensor: ...
    def slice_scatter(input: Any, src: Any, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor: ...
    absolute = abs
    arccos = acos
    arccosh = acosh
    arcsin = asin
    arcsinh = asinh
    arctan = atan
    arctan2 = atan2
    arctanh = atanh
    bitwise_invert = bitwise_not
    expand_dims = unsqueeze
    greater = gt
    greater_equal = ge
    isfinite = is_finite
    isinf = is_inf
    isnan = is_nan
    less = lt
    less_equal = le
    logsigmoid = log_sigmoid
    multiply = mul
    negative = neg
    not_equal = ne
    reciprocal = recip
    remainder = rem
    scaled_dot_product_attention = attention
    unstack = unbind
    def abs_(self, *args: Any, **settings: Any) -> Tensor: ...
    def absolute_(self, *args: Any, **settings: Any) -> Tensor: ...
    def acos_(self, *args: Any, **settings: Any) -> Tensor: ...
    def acosh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def add_(self, *args: Any, **settings: Any) -> Tensor: ...
    def addbmm_(self, *args: Any, **settings: Any) -> Tensor: ...
    def addcdiv_(self, *args: Any, **settings: Any) -> Tensor: ...
    def addcmul_(self, *args: Any, **settings: Any) -> Tensor: ...
    def addmm_(self, *args: Any, **settings: Any) -> Tensor: ...
    def addmv_(self, *args: Any, **settings: Any) -> Tensor: ...
    def addr_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arccos_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arccosh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arcsin_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arcsinh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arctan_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arctan2_(self, *args: Any, **settings: Any) -> Tensor: ...
    def arctanh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def asin_(self, *args: Any, **settings: Any) -> Tensor: ...
    def asinh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def atan_(self, *args: Any, **settings: Any) -> Tensor: ...
    def atan2_(self, *args: Any, **settings: Any) -> Tensor: ...
    def atanh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def baddbmm_(self, *args: Any, **settings: Any) -> Tensor: ...
    def bitwise_and_(self, *args: Any, **settings: Any) -> Tensor: ...
    def bitwise_left_shift_(self, *args: Any, **settings: Any) -> Tensor: ...
    def bitwise_not_(self, *args: Any, **settings: Any) -> Tensor: ...
    def bitwise_or_(self, *args: Any, **settings: Any) -> Tensor: ...
    def bitwise_right_shift_(self, *args: Any, **settings: Any) -> Tensor: ...
    def bitwise_xor_(self, *args: Any, **settings: Any) -> Tensor: ...
    def ceil_(self, *args: Any, **settings: Any) -> Tensor: ...
    def celu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def clamp_(self, *args: Any, **settings: Any) -> Tensor: ...
    def clamp_max_(self, *args: Any, **settings: Any) -> Tensor: ...
    def clamp_min_(self, *args: Any, **settings: Any) -> Tensor: ...
    def clip_(self, *args: Any, **settings: Any) -> Tensor: ...
    def conj_physical_(self, *args: Any, **settings: Any) -> Tensor: ...
    def copysign_(self, *args: Any, **settings: Any) -> Tensor: ...
    def cos_(self, *args: Any, **settings: Any) -> Tensor: ...
    def cosh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def cumprod_(self, *args: Any, **settings: Any) -> Tensor: ...
    def cumsum_(self, *args: Any, **settings: Any) -> Tensor: ...
    def deg2rad_(self, *args: Any, **settings: Any) -> Tensor: ...
    def digamma_(self, *args: Any, **settings: Any) -> Tensor: ...
    def div_(self, *args: Any, **settings: Any) -> Tensor: ...
    def divide_(self, *args: Any, **settings: Any) -> Tensor: ...
    def elu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def eq_(self, *args: Any, **settings: Any) -> Tensor: ...
    def erf_(self, *args: Any, **settings: Any) -> Tensor: ...
    def erfc_(self, *args: Any, **settings: Any) -> Tensor: ...
    def erfinv_(self, *args: Any, **settings: Any) -> Tensor: ...
    def exp_(self, *args: Any, **settings: Any) -> Tensor: ...
    def exp2_(self, *args: Any, **settings: Any) -> Tensor: ...
    def expm1_(self, *args: Any, **settings: Any) -> Tensor: ...
    def float_power_(self, *args: Any, **settings: Any) -> Tensor: ...
    def floor_(self, *args: Any, **settings: Any) -> Tensor: ...
    def floor_divide_(self, *args: Any, **settings: Any) -> Tensor: ...
    def fmod_(self, *args: Any, **settings: Any) -> Tensor: ...
    def frac_(self, *args: Any, **settings: Any) -> Tensor: ...
    def gcd_(self, *args: Any, **settings: Any) -> Tensor: ...
    def ge_(self, *args: Any, **settings: Any) -> Tensor: ...
    def greater_(self, *args: Any, **settings: Any) -> Tensor: ...
    def greater_equal_(self, *args: Any, **settings: Any) -> Tensor: ...
    def gt_(self, *args: Any, **settings: Any) -> Tensor: ...
    def hardshrink_(self, *args: Any, **settings: Any) -> Tensor: ...
    def hardtanh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def heaviside_(self, *args: Any, **settings: Any) -> Tensor: ...
    def hypot_(self, *args: Any, **settings: Any) -> Tensor: ...
    def i0_(self, *args: Any, **settings: Any) -> Tensor: ...
    def index_add_(self, *args: Any, **settings: Any) -> Tensor: ...
    def index_copy_(self, *args: Any, **settings: Any) -> Tensor: ...
    def index_fill_(self, *args: Any, **settings: Any) -> Tensor: ...
    def index_put_(self, *args: Any, **settings: Any) -> Tensor: ...
    def index_reduce_(self, *args: Any, **settings: Any) -> Tensor: ...
    def lcm_(self, *args: Any, **settings: Any) -> Tensor: ...
    def ldexp_(self, *args: Any, **settings: Any) -> Tensor: ...
    def le_(self, *args: Any, **settings: Any) -> Tensor: ...
    def leaky_relu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def lerp_(self, *args: Any, **settings: Any) -> Tensor: ...
    def less_(self, *args: Any, **settings: Any) -> Tensor: ...
    def less_equal_(self, *args: Any, **settings: Any) -> Tensor: ...
    def lgamma_(self, *args: Any, **settings: Any) -> Tensor: ...
    def log_(self, *args: Any, **settings: Any) -> Tensor: ...
    def log10_(self, *args: Any, **settings: Any) -> Tensor: ...
    def log1p_(self, *args: Any, **settings: Any) -> Tensor: ...
    def log2_(self, *args: Any, **settings: Any) -> Tensor: ...
    def logical_and_(self, *args: Any, **settings: Any) -> Tensor: ...
    def logical_not_(self, *args: Any, **settings: Any) -> Tensor: ...
    def logical_or_(self, *args: Any, **settings: Any) -> Tensor: ...
    def logical_xor_(self, *args: Any, **settings: Any) -> Tensor: ...
    def logit_(self, *args: Any, **settings: Any) -> Tensor: ...
    def lt_(self, *args: Any, **settings: Any) -> Tensor: ...
    def masked_fill_(self, *args: Any, **settings: Any) -> Tensor: ...
    def masked_scatter_(self, *args: Any, **settings: Any) -> Tensor: ...
    def mul_(self, *args: Any, **settings: Any) -> Tensor: ...
    def multiply_(self, *args: Any, **settings: Any) -> Tensor: ...
    def mvlgamma_(self, *args: Any, **settings: Any) -> Tensor: ...
    def nan_to_num_(self, *args: Any, **settings: Any) -> Tensor: ...
    def ne_(self, *args: Any, **settings: Any) -> Tensor: ...
    def neg_(self, *args: Any, **settings: Any) -> Tensor: ...
    def negative_(self, *args: Any, **settings: Any) -> Tensor: ...
    def nextafter_(self, *args: Any, **settings: Any) -> Tensor: ...
    def not_equal_(self, *args: Any, **settings: Any) -> Tensor: ...
    def polygamma_(self, *args: Any, **settings: Any) -> Tensor: ...
    def pow_(self, *args: Any, **settings: Any) -> Tensor: ...
    def put_(self, *args: Any, **settings: Any) -> Tensor: ...
    def rad2deg_(self, *args: Any, **settings: Any) -> Tensor: ...
    def reciprocal_(self, *args: Any, **settings: Any) -> Tensor: ...
    def relu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def relu6_(self, *args: Any, **settings: Any) -> Tensor: ...
    def remainder_(self, *args: Any, **settings: Any) -> Tensor: ...
    def renorm_(self, *args: Any, **settings: Any) -> Tensor: ...
    def round_(self, *args: Any, **settings: Any) -> Tensor: ...
    def rsqrt_(self, *args: Any, **settings: Any) -> Tensor: ...
    def scatter_(self, *args: Any, **settings: Any) -> Tensor: ...
    def scatter_add_(self, *args: Any, **settings: Any) -> Tensor: ...
    def scatter_reduce_(self, *args: Any, **settings: Any) -> Tensor: ...
    def selu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sgn_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sigmoid_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sign_(self, *args: Any, **settings: Any) -> Tensor: ...
    def silu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sin_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sinc_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sinh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def softplus_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sqrt_(self, *args: Any, **settings: Any) -> Tensor: ...
    def square_(self, *args: Any, **settings: Any) -> Tensor: ...
    def sub_(self, *args: Any, **settings: Any) -> Tensor: ...
    def subtract_(self, *args: Any, **settings: Any) -> Tensor: ...
    def tan_(self, *args: Any, **settings: Any) -> Tensor: ...
    def tanh_(self, *args: Any, **settings: Any) -> Tensor: ...
    def threshold_(self, *args: Any, **settings: Any) -> Tensor: ...
    def tril_(self, *args: Any, **settings: Any) -> Tensor: ...
    def triu_(self, *args: Any, **settings: Any) -> Tensor: ...
    def true_divide_(self, *args: Any, **settings: Any) -> Tensor: ...
    def trunc_(self, *args: Any, **settings: Any) -> Tensor: ...
    def xlogy_(self, *args: Any, **settings: Any) -> Tensor: ...
    def float(self) -> Tensor: ...
    def double(self) -> Tensor: ...
    def half(self) -> Tensor: ...
    def bfloat16(self) -> Tensor: ...
    def bool(self) -> Tensor: ...
    def byte(self) -> Tensor: ...
    def char(self) -> Tensor: ...
    def short(self) -> Tensor: ...
    def int(self) -> Tensor: ...
    def long(self) -> Tensor: ...
    def cfloat(self) -> Tensor: ...
    def cdouble(self) -> Tensor: ...

def abs(input: Tensor) -> Tensor:
    """Absolute value, elementwise; the slope at 0 is 0.

    >>> tensor([-1.5, 0.0, 2.0]).abs().tolist()  # by hand
    [1.5, 0.0, 2.0]"""
def acos(input: Tensor) -> Tensor:
    """The angle in [0, π] with this cosine, elementwise; NaN outside [-1, 1]."""
def acosh(input: Tensor) -> Tensor:
    """Inverse hyperbolic cosine, elementwise; NaN below 1.

    >>> tensor([1.0, 2.0]).acosh().tolist()  # log(2 + sqrt 3)
    [0.0, 1.3169578969248166]"""
def adaptive_avg_pool1d(input: Tensor, out: ShapeLike) -> Tensor:
    """The means of `out` windows that cover `[N, C, L]` (or `[C, L]`)."""
def adaptive_avg_pool2d(input: Tensor, out: ShapeLike) -> Tensor:
    """The means of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`)."""
def adaptive_avg_pool3d(input: Tensor, out: ShapeLike) -> Tensor:
    """The means of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def adaptive_max_pool1d(input: Tensor, out: ShapeLike) -> Tensor:
    """The greatest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`)."""
def adaptive_max_pool1d_index(input: Tensor, out: ShapeLike) -> tuple[Tensor, Tensor]:
    """The greatest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`), and their places."""
def adaptive_max_pool2d(input: Tensor, out: ShapeLike) -> Tensor:
    """The greatest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`)."""
def adaptive_max_pool2d_index(input: Tensor, out: ShapeLike) -> tuple[Tensor, Tensor]:
    """The greatest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`), and their
    places in the flattened plane."""
def adaptive_max_pool3d(input: Tensor, out: ShapeLike) -> Tensor:
    """The greatest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def adaptive_max_pool3d_index(input: Tensor, out: ShapeLike) -> tuple[Tensor, Tensor]:
    """The greatest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`), and
    their places in the flattened volume."""
def addbmm(input: Tensor, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the sum of the products of two lists of matrices."""
def addcdiv(input: Tensor, a: TensorLike, b: TensorLike, value: builtins.float = 1.0) -> Tensor:
    """x + value (a / b), elementwise."""
def addcmul(input: Tensor, a: TensorLike, b: TensorLike, value: builtins.float = 1.0) -> Tensor:
    """x + value (a * b), elementwise."""
def addmm(input: Tensor, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the product of two matrices."""
def addmv(input: Tensor, matrix: TensorLike, vector: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the product of a matrix and a vector."""
def all(input: Tensor, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
    """Whether every element is not zero along axes (`..` for all), which disappear."""
def bitwise_and(input: Tensor, other: TensorLike) -> Tensor:
    """Logical and of bool, bitwise and of integers, elementwise."""
def angle(input: Tensor) -> Tensor:
    """0 for numbers that are not negative, π for the others, elementwise; NaN stays NaN."""
def any(input: Tensor, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
    """Whether some element is not zero along axes (`..` for all), which disappear."""
def argmax(input: Tensor, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
    """The place of the greatest element along an axis, which disappears, or in the flattened tensor
    for `..`; the first of equal ones."""
def argmin(input: Tensor, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
    """The place of the least element along an axis, which disappears, or in the flattened tensor
    for `..`; the first of equal ones."""
def argsort_descending(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """The places that would bring the elements along an axis into descending order."""
def asin(input: Tensor) -> Tensor:
    """The angle in [-π/2, π/2] with this sine, elementwise; NaN outside [-1, 1]."""
def asinh(input: Tensor) -> Tensor:
    """Inverse hyperbolic sine, elementwise.

    >>> tensor([0.0, 1.0]).asinh().tolist()  # Abramowitz and Stegun, table 4.17: log(1 + sqrt 2)
    [0.0, 0.881373587019543]"""
def atan(input: Tensor) -> Tensor:
    """The angle in (-π/2, π/2) with this tangent, elementwise."""
def atan2(input: Tensor, other: TensorLike) -> Tensor:
    """The angle of the point (b, a) in (-π, π], elementwise: the inverse tangent of a / b in the right quadrant."""
def atanh(input: Tensor) -> Tensor:
    """Inverse hyperbolic tangent, elementwise; NaN outside [-1, 1].

    >>> tensor([0.0, 0.5]).atanh().tolist()  # log(3) / 2
    [0.0, 0.5493061443340549]"""
def attention(input: Tensor, k: TensorLike, v: TensorLike, mask: TensorLike | None = None, causal: builtins.bool | None = None, scale: builtins.float | None = None, grouped: builtins.bool | None = None, dropout: tuple[builtins.float, TensorLike] | None = None, query_lengths: TensorLike | None = None, key_lengths: TensorLike | None = None) -> Tensor:
    """Scaled dot-product attention of these queries `[…, H, L, E]` with keys `[…, H, S, E]` and
    values `[…, H, S, F]`."""
def avg_pool1d(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of `[N, C, L]` (or `[C, L]`)."""
def avg_pool2d(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of `[N, C, H, W]` (or `[C, H, W]`)."""
def avg_pool3d(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def baddbmm(input: Tensor, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the products of two lists of matrices."""
def batch_norm(input: Tensor, mean: TensorLike, var: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """Each channel (axis 1) less a given mean, divided by the root of a given variance plus eps;
    then times a weight and plus a bias for each channel, if given: the form for inference.
    See `batch_norm_train` for the form that takes the statistics from the batch."""
def batch_norm_stats(input: Tensor, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel (axis 1) moved to mean 0 and scaled to variance 1 over the batch; then times a
    weight and plus a bias for each channel, if given. Gives the result, and the mean and the
    variance of the batch."""
def bilinear(input: Tensor, other: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """A map linear in this and another tensor: y[…, o] = a[…, i] w[o, i, j] b[…, j], plus a bias `[O]`."""
def binary_cross_entropy(input: Tensor, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of these probabilities with target probabilities, each element optionally
    weighted, reduced."""
def binary_cross_entropy_with_logits(input: Tensor, target: TensorLike, weight: TensorLike | None = None, pos_weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of the probabilities with these logits with target probabilities; each element
    and the positive class optionally weighted; reduced."""
def bmm(input: Tensor, other: TensorLike) -> Tensor:
    """Products of two lists of matrices of one length, without broadcasting."""
def bottom_k(input: Tensor, k: builtins.int = 0, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The `k` least elements along an axis, least first, and their places."""
def broadcast_to(input: Tensor, shape: ShapeLike) -> Tensor:
    """Repeated to a larger shape by NumPy's rule, without copying."""
def cast_like(input: Tensor, other: TensorLike) -> Tensor:
    """Converts to the element type of another tensor."""
def ceil(input: Tensor) -> Tensor:
    """The least whole number that is not less, elementwise.

    >>> tensor([-1.5, 1.5]).ceil().tolist()  # by hand
    [-1.0, 2.0]"""
def celu(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """x where it is positive, else alpha (exp(x / alpha) - 1), elementwise.

    >>> tensor([-2.0, 0.0, 3.0]).celu(2.0).tolist()  # by hand: 2 (1/e - 1)
    [-1.2642411176571153, 0.0, 3.0]"""
def cholesky_upper(input: Tensor) -> Tensor:
    """The upper triangular matrix U with A = Uᵀ U; only A's upper triangle is read."""
def clamp_max(input: Tensor, hi: TensorLike) -> Tensor:
    """x, or the bound where x is above it, elementwise."""
def clamp_min(input: Tensor, lo: TensorLike) -> Tensor:
    """x, or the bound where x is below it, elementwise."""
def cofactor(input: Tensor) -> Tensor:
    """The matrix of cofactors of a square matrix: what the determinant's gradient is."""
def col2im(input: Tensor, size: ShapeLike, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Columns `[N, C · KH · KW, L]` (or without N), each a window of an image of the given size,
    added up where they overlap: `[N, C, H, W]`. Of the options, stride, even padding and
    dilation count."""
def complex(re: TensorLike, im: TensorLike) -> Tensor:
    """Complex numbers of their real and imaginary parts, which are promoted and broadcast."""
def conj(input: Tensor) -> Tensor:
    """The complex conjugates; a real tensor itself."""
def conv1d(input: Tensor, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[O, C / groups, K]`, plus a bias `[O]`."""
def conv2d(input: Tensor, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[O, C / groups, KH, KW]`, plus a
    bias `[O]`."""
def conv3d(input: Tensor, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel `[O, C / groups, KD, KH, KW]`,
    plus a bias `[O]`."""
def conv_transpose1d(input: Tensor, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Transposed convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[C, O / groups, K]`, plus a
    bias `[O]`."""
def conv_transpose2d(input: Tensor, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Transposed convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[C, O / groups, KH, KW]`,
    plus a bias `[O]`."""
def conv_transpose3d(input: Tensor, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Transposed convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel
    `[C, O / groups, KD, KH, KW]`, plus a bias `[O]`."""
def copysign(input: Tensor, other: TensorLike) -> Tensor:
    """The absolute value of `a` with the sign of `b`, elementwise; -0 counts as negative.

    >>> tensor([1.5, 2.0, -3.0]).copysign(tensor([-1.0, -0.0, 2.0])).tolist()  # by hand
    [-1.5, -2.0, 3.0]"""
def cos(input: Tensor) -> Tensor:
    """Cosine of an angle in radians, elementwise.

    >>> tensor([0.0, 1.0]).cos().tolist()  # Abramowitz and Stegun, table 4.6
    [1.0, 0.5403023058681398]"""
def cosh(input: Tensor) -> Tensor:
    """Hyperbolic cosine, elementwise.

    >>> tensor([0.0, 1.0]).cosh().tolist()  # Abramowitz and Stegun, table 4.15
    [1.0, 1.5430806348152437]"""
def cosine_embedding_loss(input: Tensor, other: TensorLike, target: TensorLike, margin: builtins.float = 0.0, reduction: str = "mean") -> Tensor:
    """1 − cos where the target is 1, max(0, cos − margin) where it is −1, cos the cosine of the
    angle with `other` along the last axis, reduced."""
def cosine_similarity(input: Tensor, other: TensorLike, dim: builtins.int = 1, eps: builtins.float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis of the common shape; lengths count as
    at least `eps` (usually 1e-8)."""
def count_nonzero(input: Tensor, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
    """How many elements are not zero along axes (`..` for all), which disappear."""
def cross(input: Tensor, other: TensorLike, dim: builtins.int = -1) -> Tensor:
    """Vector product along an axis of size 3; the other dimensions broadcast."""
def cross_entropy(input: Tensor, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, label_smoothing: builtins.float | None = None, reduction: str | None = None) -> Tensor:
    """Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class numbers `[N, *D]` or class
    probabilities `[N, C, *D]`."""
def ctc_loss(input: Tensor, targets: TensorLike, times: TensorLike, lengths: TensorLike, blank: builtins.int | None = None, zero_infinity: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
    """Connectionist temporal classification: how unlikely the targets `[N, S]` are under these
    log-probabilities `[T, N, C]`, of which `times` and `lengths` (`[N]`) count."""
def cumsum_reverse(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """Running sums along an axis from its end."""
def deg2rad(input: Tensor) -> Tensor:
    """Degrees converted to radians, elementwise."""
def det(input: Tensor) -> Tensor:
    """The determinant of a square matrix."""
def diag(input: Tensor, offset: builtins.int = 0) -> Tensor:
    """A vector as the diagonal `offset` of a matrix, or that diagonal of a matrix as a vector."""
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    """The last dimension on the diagonal `offset` of new dimensions `axis1` and `axis2` of the
    result, zeros elsewhere."""
def diagonal(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """The elements whose place along `axis2` is that along `axis1` plus `offset`, as a new last
    dimension."""
def digamma(input: Tensor) -> Tensor:
    """Digamma function: the slope of `lgamma`, elementwise.

    >>> tensor([1.0, 0.5, 2.0, -0.5]).digamma().tolist()  # Abramowitz and Stegun, 6.3.2 to 6.3.5
    [-0.5772156649015329, -1.9635100260214235, 0.4227843350984671, 0.03648997397857652]"""
def dist(input: Tensor, other: TensorLike, ord: builtins.float = 2.0) -> Tensor:
    """The norm of order `ord` of the difference to another tensor."""
def dot(input: Tensor, other: TensorLike) -> Tensor:
    """Sum of the products of two vectors of one length."""
def dropout(input: Tensor, p: builtins.float, key: TensorLike) -> Tensor:
    """Each element 0 with probability `p`, else divided by `1 - p`, from a key: i64, a seed and a
    counter."""
def dropout_channels(input: Tensor, p: builtins.float, key: TensorLike) -> Tensor:
    """Each channel (axis 1) of each example as a whole 0 with probability `p`, else divided by
    `1 - p`."""
def eig(input: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1; both
    complex. Of a symmetric or Hermitian matrix `eigh` gives real ones, ascending."""
def eigh(input: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns; the
    lower triangle is read."""
def eigh_of(input: Tensor, triangle: str) -> tuple[Tensor, Tensor]:
    """`eigh`, reading the given triangle."""
def eigvals(input: Tensor) -> Tensor:
    """Eigenvalues of a square matrix, in no order."""
def eigvalsh(input: Tensor) -> Tensor:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending; the lower triangle is read."""
def eigvalsh_of(input: Tensor, triangle: str) -> Tensor:
    """`eigvalsh`, reading the given triangle."""
def elu(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """x where it is positive, else alpha (exp(x) - 1), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).elu(2.0).tolist()  # by hand: 2 (1/e - 1)
    [-1.2642411176571153, 0.0, 3.0]"""
def embedding(input: Tensor, index: TensorLike) -> Tensor:
    """Rows of this table `[V, E]` at an index of any shape."""
def embedding_padded(input: Tensor, index: TensorLike, padding: builtins.int) -> Tensor:
    """Rows of this table `[V, E]`, of which the row `padding` (counted from the end if negative)
    collects no gradient."""
def entr(input: Tensor) -> Tensor:
    """-x log(x), elementwise; 0 at 0, -inf below."""
def eq(input: Tensor, other: TensorLike) -> Tensor:
    """Whether `a` equals `b`, elementwise; NaN equals nothing.

    >>> tensor([1.0, 2.0]).eq(tensor([2.0, 2.0])).tolist()  # by hand
    [False, True]"""
def erf(input: Tensor) -> Tensor:
    """Error function 2/sqrt(π) ∫₀ˣ exp(-t²) dt, elementwise.

    >>> tensor([0.0, 0.5, 1.0]).erf().tolist()  # Abramowitz and Stegun, table 7.1
    [0.0, 0.5204998778130465, 0.8427007929497149]"""
def erfc(input: Tensor) -> Tensor:
    """1 - erf(x) without cancellation for large x, elementwise.

    >>> tensor([0.0, 0.5, 1.0]).erfc().tolist()  # Abramowitz and Stegun, table 7.1
    [1.0, 0.4795001221869535, 0.1572992070502851]"""
def erfcx(input: Tensor) -> Tensor:
    """exp(x²) erfc(x) without overflow, elementwise.

    >>> tensor([0.0, 1.0, 100.0]).erfcx().tolist()  # Abramowitz and Stegun, table 7.2 and 7.1.23
    [1.0, 0.427583576155807, 0.005641613782989433]"""
def erfinv(input: Tensor) -> Tensor:
    """The number with this error function, elementwise; NaN outside [-1, 1]."""
def exp(input: Tensor) -> Tensor:
    """Exponential, elementwise."""
def exp2(input: Tensor) -> Tensor:
    """2 to the power x, elementwise.

    >>> tensor([0.0, 3.0, -1.0]).exp2().tolist()  # by hand
    [1.0, 8.0, 0.5]"""
def expm1(input: Tensor) -> Tensor:
    """exp(x) - 1 without cancellation near 0, elementwise.

    >>> tensor([0.0, 1.0, 1e-10]).expm1().tolist()  # series e - 1 = 1 + 1/2 + 1/6 + …
    [0.0, 1.718281828459045, 1.00000000005e-10]"""
def fftn(input: Tensor, axes: ShapeLike, norm: str) -> Tensor:
    """`fft` along several axes, one after the other."""
def float8_linear(input: Tensor, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """An affine map of the last dimension, x wᵀ + b for a weight `[O, I]` and a bias `[O]`, whose
    products are those of 8-bit floats: x and w as f8e4m3, gradients as f8e5m2, each divided by a
    scale that makes use of the whole type. What `autocast` in f8e4m3 makes of `linear`."""
def floor(input: Tensor) -> Tensor:
    """The greatest whole number that is not greater, elementwise.

    >>> tensor([-1.5, 1.5]).floor().tolist()  # by hand
    [-2.0, 1.0]"""
def floor_divide(input: Tensor, other: TensorLike) -> Tensor:
    """Quotient rounded down, elementwise, as Python's `//`: of floats, `a - a % b` divided by b. An infinite dividend
    gives an infinite quotient, as the array API wants; integer division by 0 gives 0.

    >>> tensor([7.0, -7.0, 7.0]).floor_divide(tensor([2.0, 2.0, -2.0])).tolist()  # Python manual: // rounds toward minus infinity
    [3.0, -4.0, -4.0]"""
def fmax(input: Tensor, other: TensorLike) -> Tensor:
    """The greater of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient."""
def fmin(input: Tensor, other: TensorLike) -> Tensor:
    """The lesser of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient."""
def fmod(input: Tensor, other: TensorLike) -> Tensor:
    """Remainder with the sign of `a`, as C's `fmod`, elementwise; integer division by 0 gives 0.

    >>> tensor([5.0, -5.0, 5.0]).fmod(tensor([3.0, 3.0, -3.0])).tolist()  # C standard: fmod has the sign of the first operand
    [2.0, -2.0, 2.0]"""
def fold(input: Tensor, dim: builtins.int, step: builtins.int, length: builtins.int) -> Tensor:
    """Windows along an axis, `step` apart, their elements in the last dimension, added up where
    they overlap in an axis of `length` elements: the transpose of `unfold`."""
def frac(input: Tensor) -> Tensor:
    """x less its whole part, with the sign of x, elementwise.

    >>> tensor([1.25, -2.5]).frac().tolist()  # by hand
    [0.25, -0.5]"""
def gaussian_nll_loss(input: Tensor, target: TensorLike, variance: TensorLike, full: builtins.bool, eps: builtins.float = 1e-6, reduction: str = "mean") -> Tensor:
    """Negative log-likelihood of a target under a normal distribution with this mean and the given
    variance (at least `eps`, usually 1e-6); with its constant term if `full`; reduced. A variance
    without the last dimension is that of whole rows."""
def ge(input: Tensor, other: TensorLike) -> Tensor:
    """Whether `a >= b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).ge(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [False, True, True]"""
def gelu(input: Tensor) -> Tensor:
    """x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function."""
def gelu_tanh(input: Tensor) -> Tensor:
    """x Φ(x) with Φ approximated by tanh, elementwise: 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).

    >>> tensor([0.0, 1.0, -1.0]).gelu_tanh().tolist()  # hand arithmetic of the formula
    [0.0, 0.8411919906082768, -0.15880800939172324]"""
def global_avg_pool(input: Tensor) -> Tensor:
    """The mean of each channel of `[N, C, *S]`: `[N, C]`."""
def global_max_pool(input: Tensor) -> Tensor:
    """The greatest element of each channel of `[N, C, *S]`: `[N, C]`."""
def glu(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second half."""
def grid_sample(input: Tensor, grid: TensorLike, mode: str | None = None, padding: str | None = None, align_corners: builtins.bool | None = None) -> Tensor:
    """An image `[N, C, *S]` read at places `[N, *Q, D]`; see the row for what places mean."""
def group_norm(input: Tensor, groups: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """Channels (axis 1) in groups, each group of each example moved to mean 0 and scaled to
    variance 1; then times a weight and plus a bias for each channel, if given."""
def gt(input: Tensor, other: TensorLike) -> Tensor:
    """Whether `a > b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).gt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [False, False, True]"""
def hardshrink(input: Tensor, lambd: builtins.float = 0.5) -> Tensor:
    """x, but 0 where its size is not above `lambda`, elementwise.

    >>> tensor([-1.0, 0.25, 0.5, 2.0]).hardshrink(0.5).tolist()  # by hand
    [-1.0, 0.0, 0.0, 2.0]"""
def hardsigmoid(input: Tensor) -> Tensor:
    """(x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 3.0]).hardsigmoid().tolist()  # by hand
    [0.0, 0.5, 0.75, 1.0]"""
def hardswish(input: Tensor) -> Tensor:
    """x times (x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 6.0]).hardswish().tolist()  # by hand
    [0.0, 0.0, 1.125, 6.0]"""
def hardtanh(input: Tensor, lo: builtins.float = -1.0, hi: builtins.float = 1.0) -> Tensor:
    """x held in [lo, hi], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 3.0]).hardtanh(-1.0, 1.0).tolist()  # by hand
    [-1.0, 0.5, 1.0]"""
def hinge_embedding_loss(input: Tensor, target: TensorLike, margin: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
    """This distance where the target is 1, max(0, margin − distance) where it is −1, reduced."""
def hstack(parts: Sequence[TensorLike]) -> Tensor:
    """Tensors side by side: along the second axis, vectors along their only one."""
def huber_loss(input: Tensor, target: TensorLike, delta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
    """d² / 2 where the difference |d| from a target is at most delta, else
    delta (|d| − delta / 2), reduced."""
def hypot(input: Tensor, other: TensorLike) -> Tensor:
    """sqrt(a² + b²) without overflow, elementwise."""
def i0(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind of order 0, elementwise.

    >>> tensor([0.0, 1.0, -2.0]).i0().tolist()  # Abramowitz and Stegun, table 9.8
    [1.0, 1.2660658777520084, 2.2795853023360673]"""
def i1(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind of order 1, elementwise.

    >>> tensor([0.0, 1.0, -2.0]).i1().tolist()  # Abramowitz and Stegun, table 9.8
    [0.0, 0.5651591039924851, -1.590636854637329]"""
def ifft(input: Tensor, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `fft`."""
def ifftn(input: Tensor, axes: ShapeLike, norm: str) -> Tensor:
    """`ifft` along several axes, one after the other."""
def im2col(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """The windows of `[N, C, H, W]` (or `[C, H, W]`) as columns `[N, C · KH · KW, L]`. Of the
    options, stride, even padding and dilation count."""
def inner(input: Tensor, other: TensorLike) -> Tensor:
    """Sums of products over the last dimension of both tensors."""
def instance_norm(input: Tensor, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """Each channel (axis 1) of each example moved to mean 0 and scaled to variance 1; then times
    a weight and plus a bias for each channel, if given."""
def int_matmul(input: Tensor, other: TensorLike) -> Tensor:
    """Matrix product of matrices of 8-bit integers (`i8` or `u8`, each side its own), summed in `i32`:
    what quantized models are made of."""
def inv(input: Tensor) -> Tensor:
    """The inverse of a square matrix; a singular one is an error when the value is computed."""
def irfft(input: Tensor, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
    """The real numbers whose Fourier transform starts with these frequencies:
    the inverse of `rfft`. Without `n` there are twice as many as frequencies, less 2."""
def is_finite(input: Tensor) -> Tensor:
    """Whether it is neither infinite nor NaN, elementwise."""
def is_inf(input: Tensor) -> Tensor:
    """Whether it is infinite, of either sign, elementwise."""
def is_nan(input: Tensor) -> Tensor:
    """Whether it is not a number, elementwise."""
def kl_div(input: Tensor, target: TensorLike, log_target: builtins.bool = False, reduction: str = "mean") -> Tensor:
    """Kullback-Leibler divergence of these log-probabilities from a target, which is given as its
    logarithm if `log_target`, reduced ([`Reduction::BatchMean` is the mathematical one)."""
def kron(input: Tensor, other: TensorLike) -> Tensor:
    """Kronecker product: every element replaced by itself times the other tensor."""
def l1_loss(input: Tensor, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The absolute difference from a target, reduced."""
def layer_norm(input: Tensor, axes: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """x moved to mean 0 and scaled to variance 1 over the last `axes` dimensions; then times a
    weight and plus a bias of their shape, if given."""
def le(input: Tensor, other: TensorLike) -> Tensor:
    """Whether `a <= b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).le(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [True, True, False]"""
def leaky_relu(input: Tensor, slope: builtins.float = 0.01) -> Tensor:
    """x where it is positive, else `slope` times x, elementwise.

    >>> tensor([-2.0, 0.0, 3.0]).leaky_relu(0.25).tolist()  # by hand
    [-0.5, 0.0, 3.0]"""
def lerp(input: Tensor, end: TensorLike, weight: TensorLike) -> Tensor:
    """`self + weight (end - self)`, elementwise."""
def lgamma(input: Tensor) -> Tensor:
    """Logarithm of the absolute value of the gamma function, elementwise.

    >>> tensor([1.0, 5.0, 0.5, -0.5]).lgamma().tolist()  # log 4!, log sqrt(π), log(2 sqrt(π))
    [0.0, 3.1780538303479458, 0.5723649429247001, 1.2655121234846454]"""
def linear(input: Tensor, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """An affine map of the last dimension: x wᵀ + b for a weight `[O, I]` and a bias `[O]`."""
def local_response_norm(input: Tensor, size: builtins.int, alpha: builtins.float = 1e-4, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
    """x divided by (k + alpha m)^beta, where m is the mean square over `size` neighboring
    channels (axis 1), counting missing ones as 0."""
def log(input: Tensor) -> Tensor:
    """Natural logarithm, elementwise; negative numbers give NaN."""
def log10(input: Tensor) -> Tensor:
    """Logarithm to base 10, elementwise; negative numbers give NaN."""
def log1p(input: Tensor) -> Tensor:
    """log(1 + x) without cancellation near 0, elementwise."""
def log2(input: Tensor) -> Tensor:
    """Logarithm to base 2, elementwise; negative numbers give NaN.

    >>> tensor([1.0, 8.0, 0.5]).log2().tolist()  # by hand
    [0.0, 3.0, -1.0]"""
def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of `ndtr` without underflow, elementwise."""
def log_sigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow, elementwise."""
def logaddexp(input: Tensor, other: TensorLike) -> Tensor:
    """log(exp(a) + exp(b)) without overflow, elementwise."""
def logaddexp2(input: Tensor, other: TensorLike) -> Tensor:
    """log2(2^a + 2^b) without overflow, elementwise."""
def logcumsumexp(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """The logarithm of the running sums of the exponentials along an axis, without overflow."""
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where it is negative."""
def logical_and(input: Tensor, other: TensorLike) -> Tensor:
    """Whether both differ from 0, elementwise, for any element types."""
def logical_not(input: Tensor) -> Tensor:
    """Whether it is 0 or false, elementwise, for any element type."""
def logical_or(input: Tensor, other: TensorLike) -> Tensor:
    """Whether either differs from 0, elementwise, for any element types."""
def logical_xor(input: Tensor, other: TensorLike) -> Tensor:
    """Whether exactly one differs from 0, elementwise, for any element types."""
def logit_eps(input: Tensor, eps: builtins.float = 1e-5) -> Tensor:
    """log(x / (1 - x)), elementwise, with x moved into [eps, 1 - eps] first."""
def lstsq(input: Tensor, b: TensorLike) -> Tensor:
    """The X of least length among those that make A X - B shortest, for this matrix A."""
def lt(input: Tensor, other: TensorLike) -> Tensor:
    """Whether `a < b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).lt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [True, False, False]"""
def margin_ranking_loss(input: Tensor, other: TensorLike, target: TensorLike, margin: builtins.float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, margin − t (this − other)) for a target t of 1 (this above) or −1 (other above),
    reduced."""
def masked_fill(input: Tensor, mask: TensorLike, value: TensorLike) -> Tensor:
    """`value` where the mask holds, else the element. The value takes the tensor's type."""
def masked_select(input: Tensor, mask: TensorLike) -> Tensor:
    """The elements where the mask holds, in row-major order; the two broadcast.

    How many there are depends on the mask's values, so the mask is computed at once."""
def matmul(input: Tensor, other: TensorLike) -> Tensor:
    """Matrix product with NumPy's rules: vectors are rows on the left and columns on the right,
    leading dimensions broadcast."""
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of a square matrix, or of each of a batch."""
def matrix_norm(input: Tensor, norm: str | builtins.float, axes: tuple[builtins.int, builtins.int], keepdim: builtins.bool = False) -> Tensor:
    """The size of the matrices along two axes (rows, columns), which disappear."""
def matrix_power(input: Tensor, n: builtins.int = 1) -> Tensor:
    """A square matrix multiplied with itself `n` times; a negative power is that of the inverse."""
def max_index(input: Tensor, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The greatest element along one axis, which disappears, and its place: the first of equal ones,
    which alone gets the gradient."""
def max_pool1d(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
    """The greatest element of each window of `[N, C, L]` (or `[C, L]`)."""
def max_pool1d_index(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    """`max_pool1d` with the place of each greatest element."""
def max_pool2d(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
    """The greatest element of each window of `[N, C, H, W]` (or `[C, H, W]`)."""
def max_pool2d_index(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    """`max_pool2d` with the place of each greatest element in the flattened plane."""
def max_pool3d(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
    """The greatest element of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def max_pool3d_index(input: Tensor, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    """`max_pool3d` with the place of each greatest element in the flattened volume."""
def maximum(input: Tensor, other: TensorLike) -> Tensor:
    """The greater of two, elementwise; NaN if either is. At a tie each gets half of the gradient.

    >>> tensor([1.0, 5.0]).maximum(tensor([2.0, 4.0])).tolist()  # by hand
    [2.0, 5.0]"""
def median_index(input: Tensor, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The middle element along an axis and its place;
    of an even number, the lower of the two in the middle. The axis disappears."""
def min_index(input: Tensor, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The least element along one axis, which disappears, and its place: the first of equal ones,
    which alone gets the gradient."""
def minimum(input: Tensor, other: TensorLike) -> Tensor:
    """The lesser of two, elementwise; NaN if either is. At a tie each gets half of the gradient.

    >>> tensor([1.0, 5.0]).minimum(tensor([2.0, 4.0])).tolist()  # by hand
    [1.0, 4.0]"""
def mish(input: Tensor) -> Tensor:
    """x tanh(softplus(x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098]).mish().tolist()  # by hand: tanh(log 4) = 15/17
    [0.0, 0.969363784118920]"""
def mm(input: Tensor, other: TensorLike) -> Tensor:
    """Product of two matrices, without broadcasting."""
def mse_loss(input: Tensor, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The squared difference from a target, reduced."""
def mul(input: Tensor, other: TensorLike) -> Tensor:
    """Product, elementwise. For bool: logical and.

    >>> tensor([1.5, -2.0]).mul(tensor([2.0, 0.5])).tolist()  # by hand
    [3.0, -1.0]"""
def mv(input: Tensor, vector: TensorLike) -> Tensor:
    """Product of a matrix and a vector."""
def mvlgamma(input: Tensor, p: builtins.int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension `p`, elementwise:
    p (p - 1) / 4 log π + Σ lgamma(x - i / 2) for i from 0 to p - 1."""
def nan_to_num(input: Tensor, nan: builtins.float = 0.0, posinf: builtins.float = 1.7976931348623157e308, neginf: builtins.float = -1.7976931348623157e308) -> Tensor:
    """x with NaN, inf and -inf replaced by numbers, elementwise; finite numbers beyond the element
    type's greatest become that."""
def nanmedian_index(input: Tensor, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The middle element along an axis and its place, with NaN left out;
    of an even number, the lower of the two in the middle. The axis disappears."""
def ndtr(input: Tensor) -> Tensor:
    """The probability that a normal variable is not above x, elementwise.

    >>> tensor([0.0, 1.0, -1.0]).ndtr().tolist()  # Abramowitz and Stegun, table 26.1
    [0.5, 0.8413447460685429, 0.15865525393145707]"""
def ne(input: Tensor, other: TensorLike) -> Tensor:
    """Whether `a` differs from `b`, elementwise; NaN differs from everything.

    >>> tensor([1.0, 2.0, 3.0]).ne(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [True, False, True]"""
def neg(input: Tensor) -> Tensor:
    """Negative, elementwise.

    >>> tensor([1.5, -2.0]).neg().tolist()  # by hand
    [-1.5, 2.0]"""
def nll_loss(input: Tensor, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, reduction: str | None = None) -> Tensor:
    """Minus these log-probabilities `[N, C, *D]` (or `[C]`) at the classes `[N, *D]`."""
def normalize(input: Tensor, ord: builtins.float = 2.0, dim: Axis = 1, eps: builtins.float = 1e-12) -> Tensor:
    """x divided by the norm of order `ord` (2 for Euclid's) of its vectors along axes, or by eps
    where that is greater."""
def bitwise_not(input: Tensor) -> Tensor:
    """Logical not of bool, bitwise not of integers, elementwise."""
def one_hot(input: Tensor, classes: builtins.int, dtype: DTypeLike = "float32") -> Tensor:
    """For each class number a row of `classes` elements with a one at its place, as a new last
    dimension; zeros for numbers beyond."""
def bitwise_or(input: Tensor, other: TensorLike) -> Tensor:
    """Logical or of bool, bitwise or of integers, elementwise."""
def outer(input: Tensor, other: TensorLike) -> Tensor:
    """Matrix of the products of each element of this vector with each of another."""
def pairwise_distance(input: Tensor, other: TensorLike, p: builtins.float = 2.0, eps: builtins.float = 1e-6, keepdim: builtins.bool = False) -> Tensor:
    """The p-norm of the difference from `other`, plus `eps` (usually 1e-6), along the last axis,
    which disappears."""
def pinv(input: Tensor) -> Tensor:
    """Moore's and Penrose's inverse; singular values below the precision of the type times the
    larger size count as zero."""
def pinv_rtol(input: Tensor, rtol: builtins.float) -> Tensor:
    """`pinv` where singular values not above `rtol` times the greatest count as zero."""
def pixel_shuffle(input: Tensor, factor: builtins.int) -> Tensor:
    """Channels spread over pixels `factor` times as fine: `[.., c·f², h, w]` becomes
    `[.., c, h·f, w·f]`."""
def pixel_unshuffle(input: Tensor, factor: builtins.int) -> Tensor:
    """Blocks of `factor` × `factor` pixels gathered into channels: the inverse of `pixel_shuffle`."""
def poisson_nll_loss(input: Tensor, target: TensorLike, log_input: builtins.bool | None = None, full: builtins.bool | None = None, eps: builtins.float | None = None, reduction: str | None = None) -> Tensor:
    """Negative log-likelihood of counts under Poisson distributions with these rates."""
def pow(input: Tensor, other: TensorLike) -> Tensor:
    """`a` to the power `b`, elementwise; for integers a negative exponent gives 0 (1 for base ±1).

    >>> tensor([2.0, 9.0]).pow(tensor([3.0, 0.5])).tolist()  # by hand
    [8.0, 3.0]"""
def prelu(input: Tensor, weight: TensorLike) -> Tensor:
    """x where it is positive, else x times a weight: a single one, or one for each channel, which
    is axis 1."""
def put_add(input: Tensor, index: TensorLike, src: TensorLike) -> Tensor:
    """Values added at places of the flattened tensor; negative places count from the end."""
def qr_full(input: Tensor) -> tuple[Tensor, Tensor]:
    """`qr` with a square Q, whose additional columns span what is left, and as many rows
    of R."""
def quantize(input: Tensor, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The numbers as `i8`, and an `f32` scale for each slice along an axis (which is kept, with size
    1): their product is near the numbers, off by half a scale at most."""
def quantized_linear(input: Tensor, weight: TensorLike, scale: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x wᵀ + b on the last dimension, with a weight and a scale from `quantize` along the
    weight's last axis. Each row of x is quantized on the way (a dynamically quantized layer)."""
def rad2deg(input: Tensor) -> Tensor:
    """Radians converted to degrees, elementwise."""
def random_bernoulli(key: TensorLike, p: TensorLike) -> Tensor:
    """Bool, true with the probability each element of `p` gives, from a key: i64, a seed and a
    counter."""
def random_bits(key: TensorLike, shape: ShapeLike) -> Tensor:
    """32 random bits for each element, u32, a function of the key and the element's place alone.
    A key is an i64 tensor of a seed and a counter, and perhaps the number of rows that come before
    these in a larger draw."""
def random_categorical(key: TensorLike, logits: TensorLike, samples: builtins.int) -> Tensor:
    """Classes drawn with probabilities softmax(logits) along the last axis, `samples` times
    independently, from a key: i64 of shape [samples, …]."""
def random_exponential(key: TensorLike, shape: ShapeLike) -> Tensor:
    """f32 numbers, exponentially distributed with mean 1, from a key: i64, a seed and a counter."""
def random_normal(key: TensorLike, shape: ShapeLike) -> Tensor:
    """f32 numbers, normally distributed with mean 0 and variance 1, from a key: i64, a seed and a
    counter."""
def random_normal_of(key: TensorLike, shape: ShapeLike, dtype: DTypeLike) -> Tensor:
    """Numbers of type `dtype`, normally distributed with mean 0 and variance 1, from a key."""
def random_permutation(key: TensorLike, size: builtins.int) -> Tensor:
    """The i64 numbers 0, 1, 2… up to `size` in random order, from a key: i64, a seed and a counter."""
def random_truncated_normal(key: TensorLike, shape: ShapeLike, lo: builtins.float, hi: builtins.float) -> Tensor:
    """f32 numbers in [lo, hi], distributed as the normal distribution with mean 0 and variance 1
    is there, from a key: i64, a seed and a counter."""
def random_uniform(key: TensorLike, shape: ShapeLike, lo: builtins.float, hi: builtins.float) -> Tensor:
    """f32 numbers evenly distributed in [lo, hi), from a key: i64, a seed and a counter."""
def random_uniform_of(key: TensorLike, shape: ShapeLike, lo: builtins.float, hi: builtins.float, dtype: DTypeLike) -> Tensor:
    """Numbers of type `dtype` evenly distributed in [lo, hi), from a key."""
def ravel(input: Tensor) -> Tensor:
    """All dimensions made one."""
def recip(input: Tensor) -> Tensor:
    """1 / x, elementwise; integers are converted to `f32`.

    >>> tensor([4.0, -0.5]).recip().tolist()  # by hand
    [0.25, -2.0]"""
def relu(input: Tensor) -> Tensor:
    """max(x, 0), elementwise."""
def relu6(input: Tensor) -> Tensor:
    """x held in [0, 6], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 7.0]).relu6().tolist()  # by hand
    [0.0, 0.5, 6.0]"""
def rem(input: Tensor, other: TensorLike) -> Tensor:
    """Remainder with the sign of the divisor, as Python's `%`, elementwise; integer division by 0 gives 0.

    >>> tensor([5.0, -5.0, 5.0]).rem(tensor([3.0, 3.0, -3.0])).tolist()  # Python manual: % has the sign of the second operand
    [2.0, 1.0, -1.0]"""
def repeat_interleave_by(input: Tensor, times: TensorLike, dim: Axis = None) -> Tensor:
    """Each element along an axis repeated as often as `times`, a vector of integers, says.

    The result's size depends on these, so they are computed at once."""
def rfft(input: Tensor, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a real tensor: the n/2 + 1 frequencies that determine the
    others, which are complex."""
def rms_norm(input: Tensor, axes: builtins.int, weight: TensorLike | None = None, eps: builtins.float = 1e-6) -> Tensor:
    """x divided by the root of its mean square over the last `axes` dimensions; then times a
    weight of their shape, if given."""
def rope(input: Tensor, cos: TensorLike, sin: TensorLike, interleaved: builtins.bool) -> Tensor:
    """Rotary position embedding: pairs along the last axis of `[…, L, E]` turned by angles given
    as cosines and sines `[L, E / 2]` (see `rope_table`). A pair is (i, i + E / 2), or
    neighbors (2 i, 2 i + 1) if `interleaved`."""
def rope_table(positions: TensorLike, width: builtins.int, base: builtins.float) -> tuple[Tensor, Tensor]:
    """Cosines and sines `[L, width / 2]` of the angles p / base^(2 i / width) for positions p `[L]`."""
def rsqrt(input: Tensor) -> Tensor:
    """1 / sqrt(x), elementwise.

    >>> tensor([1.0, 4.0, 0.25]).rsqrt().tolist()  # by hand
    [1.0, 0.5, 2.0]"""
def scaled_matmul(input: Tensor, other: TensorLike, scale: TensorLike, other_scale: TensorLike, bias: TensorLike | None = None, dtype: DTypeLike = "bfloat16") -> Tensor:
    """Matrix product of 8-bit floats, times a scale for each side: what the numbers were divided by
    before they were rounded to 8 bits. Summed in f32; the result is bf16, f16 or f32, and a bias is
    added to each row in that type."""
def searchsorted_right(input: Tensor, values: TensorLike) -> Tensor:
    """For each value, the number of elements of this ascending sequence that are not greater."""
def select(input: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """One element along an axis, which disappears; a negative index counts from the end."""
def selu(input: Tensor) -> Tensor:
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.

    >>> tensor([-1.0, 0.0, 1.0]).selu().tolist()  # Klambauer and others, equations 2 and 14
    [-1.1113307378125625, 0.0, 1.0507009873554805]"""
def bitwise_left_shift(input: Tensor, other: TensorLike) -> Tensor:
    """Bits of `a` moved `b` places up, elementwise; 0 for more than 63 places or fewer than none."""
def bitwise_right_shift(input: Tensor, other: TensorLike) -> Tensor:
    """Bits of `a` moved `b` places down keeping the sign, elementwise: `a / 2ᵇ` rounded down; as for 63 places beyond that."""
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098, -800.0]).sigmoid().tolist()  # by hand: the logit of 3/4 is log 3
    [0.5, 0.75, 0.0]"""
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign, elementwise; 0 of both zeros, and NaN stays NaN.

    >>> tensor([-1.5, 0.0, 2.0]).sign().tolist()  # by hand
    [-1.0, 0.0, 1.0]"""
def silu(input: Tensor) -> Tensor:
    """x sigmoid(x), elementwise; also known as swish.

    >>> tensor([0.0, 1.0986122886681098]).silu().tolist()  # by hand: 3/4 log 3
    [0.0, 0.8239592165010823]"""
def sin(input: Tensor) -> Tensor:
    """Sine of an angle in radians, elementwise.

    >>> tensor([0.0, 1.0]).sin().tolist()  # Abramowitz and Stegun, table 4.6
    [0.0, 0.8414709848078965]"""
def sinc(input: Tensor) -> Tensor:
    """sin(πx) / (πx), elementwise; 1 at 0."""
def sinh(input: Tensor) -> Tensor:
    """Hyperbolic sine, elementwise.

    >>> tensor([0.0, 1.0]).sinh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 1.1752011936438014]"""
def smooth_l1_loss(input: Tensor, target: TensorLike, beta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
    """d² / (2 beta) where the difference |d| from a target is below beta, else |d| − beta / 2,
    reduced."""
def softmax_cross_entropy(input: Tensor, target: TensorLike, dim: builtins.int = -1) -> Tensor:
    """−Σ p log softmax(x) along an axis, which disappears, for these logits x and a target
    distribution p of the same shape."""
def softmin(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """Softmax of the negative along an axis."""
def softplus(input: Tensor, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, elementwise; x itself where beta x is above `threshold`."""
def softshrink(input: Tensor, lambd: builtins.float = 0.5) -> Tensor:
    """x moved toward 0 by `lambda`, but not beyond 0, elementwise.

    >>> tensor([-1.0, 0.25, 2.0]).softshrink(0.5).tolist()  # by hand
    [-0.5, 0.0, 1.5]"""
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).softsign().tolist()  # by hand
    [-0.5, 0.0, 0.75]"""
def solve(input: Tensor, b: TensorLike) -> Tensor:
    """X with A X = B for this square matrix A; leading dimensions broadcast. `b` may also be a
    vector for each matrix, as in NumPy: then so is the result. A singular matrix is an error
    when the value is computed."""
def sort_descending(input: Tensor, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The elements along an axis in descending order, and the place each came from."""
def split_sizes(input: Tensor, sizes: ShapeLike, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Consecutive pieces of the given sizes along an axis. On an error each piece carries it."""
def sqrt(input: Tensor) -> Tensor:
    """Square root, elementwise; negative numbers give NaN."""
def square(input: Tensor) -> Tensor:
    """x times x, elementwise.

    >>> tensor([-1.5, 2.0]).square().tolist()  # by hand
    [2.25, 4.0]"""
def squeeze(input: Tensor, dim: Axis = None) -> Tensor:
    """Without the dimensions of size 1 among `axes`, or without all of size 1 for `..`;
    larger ones stay, as in PyTorch."""
def stop_gradient(input: Tensor) -> Tensor:
    """The same value; no gradient flows through it."""
def svd_full(input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`svd` with square U and V*, whose additional vectors span what is left."""
def svdvals(input: Tensor) -> Tensor:
    """Singular values in descending order."""
def take_along_axis(input: Tensor, index: TensorLike, dim: builtins.int = -1) -> Tensor:
    """Elements chosen along an axis by an index of the same rank, which broadcasts with the
    tensor beside the axis; negative places count from the end. Inverts `sort` and `argsort`."""
def tan(input: Tensor) -> Tensor:
    """Tangent of an angle in radians, elementwise.

    >>> tensor([0.0, 1.0]).tan().tolist()  # Abramowitz and Stegun, table 4.9
    [0.0, 1.5574077246549023]"""
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    >>> tensor([0.0, 1.0]).tanh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.7615941559557649]"""
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x), elementwise.

    >>> tensor([0.0, 1.0]).tanhshrink().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.23840584404423515]"""
def threshold(input: Tensor, limit: builtins.float, value: builtins.float) -> Tensor:
    """x where it is above `limit`, else `value`, elementwise.

    >>> tensor([0.25, 0.5, 2.0]).threshold(0.5, 9.0).tolist()  # by hand
    [9.0, 9.0, 2.0]"""
def to_complex(input: Tensor) -> Tensor:
    """As a complex tensor: itself, or the real parts of one."""
def top_k(input: Tensor, k: builtins.int = 0, dim: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The `k` greatest elements along an axis, greatest first, and their places."""
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of the last two dimensions; integers are summed in 64 bits."""
def triplet_margin_loss(input: Tensor, positive: TensorLike, negative: TensorLike, margin: builtins.float | None = None, norm: builtins.float | None = None, eps: builtins.float | None = None, swap: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
    """max(0, margin + |a − p| − |a − n|) for this anchor a, a positive p and a negative n."""
def trunc(input: Tensor) -> Tensor:
    """The whole part, elementwise: rounds toward zero.

    >>> tensor([-1.7, 1.7]).trunc().tolist()  # by hand
    [-1.0, 1.0]"""
def unbind(input: Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, one tensor each, without the axis; none along an empty axis."""
def unsqueeze(input: Tensor, dim: builtins.int = -1) -> Tensor:
    """With a new dimension of size 1 at `axis` of the result; -1 appends it."""
def vecdot(input: Tensor, other: TensorLike, dim: builtins.int = -1) -> Tensor:
    """Sums of products along one axis, of one size in both, of two tensors that broadcast."""
def vector_norm(input: Tensor, ord: builtins.float = 2.0, dim: Axis = None, keepdim: builtins.bool = False) -> Tensor:
    """The length of the vectors along axes (`..` for all), which disappear, by an order: 2 for
    Euclid's, 1 for the sum of magnitudes, infinity for the greatest, 0 for the number of
    elements that are not zero."""
def view_as_complex(input: Tensor) -> Tensor:
    """The complex numbers whose parts, real and imaginary, lie along the last dimension."""
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as their parts: a new last dimension of size 2, real and imaginary."""
def vstack(parts: Sequence[TensorLike]) -> Tensor:
    """Tensors on top of each other: along the first axis, vectors as rows."""
def xlog1py(input: Tensor, y: TensorLike) -> Tensor:
    """x log(1 + y), elementwise; 0 where x is 0."""
def xlogy(input: Tensor, y: TensorLike) -> Tensor:
    """x log(y), elementwise; 0 where x is 0."""
def bitwise_xor(input: Tensor, other: TensorLike) -> Tensor:
    """Exclusive or of bool, bitwise exclusive or of integers, elementwise."""
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
def subtract(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor: ...
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor: ...
def divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor: ...
def true_divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor: ...
def float_power(input: Any, exponent: Any) -> Tensor: ...
def heaviside(input: Any, values: Any) -> Tensor: ...
def gcd(input: Any, other: Any) -> Tensor: ...
def lcm(input: Any, other: Any) -> Tensor: ...
def frexp(input: Any) -> Any: ...
def ldexp(input: Any, other: Any) -> Tensor: ...
def isposinf(input: Any) -> Tensor: ...
def isneginf(input: Any) -> Tensor: ...
def isreal(input: Any) -> Tensor: ...
def sgn(input: Any) -> Tensor: ...
def logit(input: Any, eps: builtins.float | None = None) -> Tensor: ...
def polar(abs: Any, angle: Any) -> Tensor: ...
def conj_physical(input: Any) -> Tensor: ...
def resolve_conj(input: Any) -> Tensor: ...
def resolve_neg(input: Any) -> Tensor: ...
def fill(input: Any, value: Any) -> Tensor: ...
def isin(elements: Any, test_elements: Any, *, assume_unique: builtins.bool = False, invert: builtins.bool = False) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> builtins.bool: ...
def isclose(input: Tensor, other: Any, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8, equal_nan: builtins.bool = False) -> Tensor: ...
def allclose(input: Tensor, other: Any, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8, equal_nan: builtins.bool = False) -> builtins.bool: ...
def is_tensor(obj: Any) -> builtins.bool: ...
def is_floating_point(input: Tensor) -> builtins.bool: ...
def is_complex(input: Tensor) -> builtins.bool: ...
def is_signed(input: Tensor) -> builtins.bool: ...
def is_nonzero(input: Tensor) -> builtins.bool: ...
def numel(input: Tensor) -> builtins.int: ...
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool: ...
def from_numpy(ndarray: Any) -> Tensor: ...
def linspace(start: Any, end: Any = None, steps: builtins.int | None = None, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: Any = None, requires_grad: builtins.bool = False, endpoint: builtins.bool = True, **given: Any,) -> Tensor: ...
def logspace(start: Any, end: Any = None, steps: builtins.int | None = None, base: builtins.float = 10.0, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: Any = None, requires_grad: builtins.bool = False, **given: Any,) -> Tensor: ...
def as_tensor(data: Any, dtype: DTypeLike | None = None, device: Any = None) -> Tensor: ...
def asarray(obj: Any, *, dtype: DTypeLike | None = None, device: Any = None, copy: builtins.bool | None = None, requires_grad: builtins.bool = False) -> Tensor: ...
def array(obj: Any, *, dtype: DTypeLike | None = None, device: Any = None, copy: builtins.bool | None = None, requires_grad: builtins.bool = False) -> Tensor: ...
def scalar_tensor(s: Any, *, dtype: DTypeLike | None = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor: ...
def finfo(type: DTypeLike | None = None) -> Any: ...
def iinfo(type: DTypeLike) -> Any: ...
def promote_types(type1: DTypeLike, type2: DTypeLike) -> dtype: ...
def can_cast(from_: DTypeLike, to: DTypeLike) -> builtins.bool: ...
def result_type(tensor1: Any, tensor2: Any) -> dtype: ...
def get_default_dtype() -> dtype: ...
def set_default_dtype(d: DTypeLike) -> None: ...
def positive(input: Tensor) -> Tensor: ...
def signbit(input: Tensor) -> Tensor: ...
def real(input: Tensor) -> Tensor: ...
def imag(input: Tensor) -> Tensor: ...
def nextafter(input: Tensor, other: Any) -> Tensor: ...
def svd(input: Any, some: builtins.bool = True, compute_uv: builtins.bool = True) -> Any: ...
def qr(input: Any, some: builtins.bool = True) -> Any: ...
def lu(input: Any, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> Any: ...
def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Tensor: ...
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: builtins.bool = True, unpack_pivots: builtins.bool = True) -> Any: ...
def triangular_solve(input: Any, A: Any, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> Any: ...
def cholesky(input: Any, upper: builtins.bool = False) -> Tensor: ...
def cholesky_solve(B: Any, L: Any, upper: builtins.bool = False) -> Tensor: ...
def cholesky_inverse(L: Any, upper: builtins.bool = False) -> Tensor: ...
def pinverse(input: Any, rcond: builtins.float = 1e-15) -> Tensor: ...
def inverse(input: Any) -> Tensor: ...
def slogdet(input: Any) -> Any: ...
def geqrf(input: Any) -> Any: ...
def orgqr(input: Any, tau: Any) -> Tensor: ...
def ormqr(input: Any, tau: Any, other: Any, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor: ...
def svd_lowrank(A: Any, q: builtins.int = 6, niter: builtins.int = 2, M: Any = None) -> Any: ...
def pca_lowrank(A: Any, q: builtins.int | None = None, center: builtins.bool = True, niter: builtins.int = 2) -> Any: ...
def polygamma(n: builtins.int, input: Any) -> Tensor: ...
def igamma(input: Any, other: Any) -> Tensor: ...
def igammac(input: Any, other: Any) -> Tensor: ...
def gather(input: Any, dim: builtins.int, index: Any, *, sparse_grad: builtins.bool = False) -> Tensor: ...
def scatter(input: Any, dim: builtins.int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor: ...
def scatter_add(input: Any, dim: builtins.int, index: Any, src: Any) -> Tensor: ...
def scatter_reduce(input: Any, dim: builtins.int, index: Any, src: Any, reduce: str, *, include_self: builtins.bool = True) -> Tensor: ...
def index_add(input: Any, dim: builtins.int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor: ...
def index_copy(input: Any, dim: builtins.int, index: Any, source: Any) -> Tensor: ...
def index_fill(input: Any, dim: builtins.int, index: Any, value: Any) -> Tensor: ...
def index_reduce(input: Any, dim: builtins.int, index: Any, source: Any, reduce: str, *, include_self: builtins.bool = True) -> Tensor: ...
def index_select(input: Any, dim: builtins.int, index: Any) -> Tensor: ...
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: builtins.bool = False) -> Tensor: ...
def put(input: Any, index: Any, source: Any, accumulate: builtins.bool = False) -> Tensor: ...
def take_along_dim(input: Any, indices: Any, dim: builtins.int | None = None) -> Tensor: ...
def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor: ...
def atleast_1d(*tensors: Any) -> Any: ...
def atleast_2d(*tensors: Any) -> Any: ...
def atleast_3d(*tensors: Any) -> Any: ...
def block_diag(*tensors: Any) -> Tensor: ...
def cartesian_prod(*tensors: Any) -> Tensor: ...
def combinations(input: Any, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor: ...
def column_stack(tensors: Any) -> Tensor: ...
def dstack(tensors: Any) -> Tensor: ...
def fliplr(input: Any) -> Tensor: ...
def flipud(input: Any) -> Tensor: ...
def rot90(input: Any, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor: ...
def movedim(input: Any, source: Any, destination: Any) -> Tensor: ...
def moveaxis(input: Any, source: Any, destination: Any) -> Tensor: ...
def transpose(input: Any, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...
def swapaxes(input: Any, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...
def swapdims(input: Any, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...
def narrow(input: Any, dim: builtins.int, start: Any, length: builtins.int) -> Tensor: ...
def split_with_sizes(input: Any, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def tensor_split(input: Any, indices_or_sections: Any = None, dim: builtins.int = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]: ...
def hsplit(input: Any, indices_or_sections: Any, *more: builtins.int) -> tuple[Tensor, ...]: ...
def vsplit(input: Any, indices_or_sections: Any, *more: builtins.int) -> tuple[Tensor, ...]: ...
def dsplit(input: Any, indices_or_sections: Any, *more: builtins.int) -> tuple[Tensor, ...]: ...
def unfold(input: Any, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor: ...
def unflatten(input: Any, dim: builtins.int, sizes: Any) -> Tensor: ...
def sum_to_size(input: Any, size: Any, *more: builtins.int) -> Tensor: ...
def diagflat(input: Any, offset: builtins.int = 0) -> Tensor: ...
def constant_pad_nd(input: Any, pad: Sequence[builtins.int], value: Any = 0) -> Tensor: ...
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor: ...
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor: ...
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]: ...
def unsafe_chunk(input: Any, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def unsafe_split(input: Any, split_size: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: builtins.float) -> tuple[Tensor, ...]: ...
def native_group_norm(input: Any, weight: Any, bias: Any, N: builtins.int, C: builtins.int, HxW: builtins.int, group: builtins.int, eps: builtins.float) -> tuple[Tensor, ...]: ...
def native_batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: builtins.bool, momentum: builtins.float, eps: builtins.float) -> tuple[Tensor, ...]: ...
def grid_sampler(input: Any, grid: Any, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor: ...
def grid_sampler_2d(input: Any, grid: Any, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor: ...
def grid_sampler_3d(input: Any, grid: Any, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool) -> Tensor: ...
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor: ...
def vdot(input: Any, other: Any) -> Tensor: ...
def cdist(x1: Any, x2: Any, p: builtins.float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor: ...
def chain_matmul(*matrices: Any) -> Tensor: ...
def renorm(input: Any, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor: ...
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor: ...
def trapz(y: Any, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor: ...
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor: ...
def corrcoef(input: Any) -> Tensor: ...
def manual_seed(seed: builtins.int) -> Any: ...
def seed() -> builtins.int: ...
def initial_seed() -> builtins.int: ...
def get_rng_state() -> Tensor: ...
def set_rng_state(new_state: Tensor) -> None: ...
def rand(*size: Any, generator: Any | None = None, **settings: Any) -> Tensor: ...
def randn(*size: Any, generator: Any | None = None, **settings: Any) -> Tensor: ...
def rand_like(input: Tensor, *, dtype: DTypeLike | None = None, device: Any = None, generator: Any | None = None, **settings: Any) -> Tensor: ...
def randn_like(input: Tensor, *, dtype: DTypeLike | None = None, device: Any = None, generator: Any | None = None, **settings: Any) -> Tensor: ...
def randint(*args: Any, low: builtins.int | None = None, high: builtins.int | None = None, size: Any = None, generator: Any | None = None, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: Any = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False,) -> Tensor: ...
def randint_like(input: Tensor, *args: builtins.int, dtype: DTypeLike | None = None, device: Any = None, **settings: Any) -> Tensor: ...
def randperm(n: builtins.int, *, generator: Any | None = None, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: Any = None, requires_grad: builtins.bool = False, pin_memory: builtins.bool = False,) -> Tensor: ...
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any | None = None, **settings: Any) -> Tensor: ...
def bernoulli(input: Tensor, p: builtins.float | None = None, *, generator: Any | None = None) -> Tensor: ...
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Any | None = None) -> Tensor: ...
def sum(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
def prod(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
def mean(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
def nansum(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
def nanmean(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
def max(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, other: Tensor | None = None) -> Any: ...
def min(input: Tensor, dim: Any = None, keepdim: builtins.bool = False, *, other: Tensor | None = None) -> Any: ...
def amax(input: Tensor, dim: Any = None, keepdim: builtins.bool = False) -> Tensor: ...
def amin(input: Tensor, dim: Any = None, keepdim: builtins.bool = False) -> Tensor: ...
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any: ...
def median(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any: ...
def nanmedian(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any: ...
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> Any: ...
def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False) -> Any: ...
def std(input: Tensor, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor: ...
def var(input: Tensor, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor: ...
def std_mean(input: Tensor, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> tuple[Tensor, Tensor]: ...
def var_mean(input: Tensor, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> tuple[Tensor, Tensor]: ...
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor: ...
def norm(input: Tensor, p: builtins.float | str | None = "fro", dim: Any = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None) -> Tensor: ...
def cumsum(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
def cumprod(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
def cummax(input: Tensor, dim: builtins.int) -> Any: ...
def cummin(input: Tensor, dim: builtins.int) -> Any: ...
def quantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear") -> Tensor: ...
def nanquantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = "linear") -> Tensor: ...
def logsumexp(input: Tensor, dim: Any, keepdim: builtins.bool = False) -> Tensor: ...
def softmax(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
def log_softmax(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor: ...
def reshape(input: Tensor, shape: Any) -> Tensor: ...
def permute(input: Tensor, dims: Any) -> Tensor: ...
def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor: ...
def flip(input: Tensor, dims: Any, *more: builtins.int) -> Tensor: ...
def roll(input: Tensor, shifts: Any, dims: Any | None = None) -> Tensor: ...
def tile(input: Tensor, dims: Any, *more: builtins.int) -> Tensor: ...
def repeat_interleave(input: Tensor, repeats: Any = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor: ...
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor: ...
def concat(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor: ...
def concatenate(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor: ...
def split(tensor: Tensor, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]: ...
def einsum(equation: str, *operands: Any) -> Tensor: ...
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor: ...
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor: ...
def clip(input: Tensor, min: Any = None, max: Any = None) -> Tensor: ...
def take(input: Tensor, index: Any, dim: builtins.int | None = None) -> Tensor: ...
def triu(input: Tensor, diagonal: builtins.int = 0, *, k: builtins.int | None = None) -> Tensor: ...
def tril(input: Tensor, diagonal: builtins.int = 0, *, k: builtins.int | None = None) -> Tensor: ...
def pad(input: Tensor, pad: Any, mode: str = "constant", value: builtins.float | None = None) -> Tensor: ...
def broadcast_shapes(*shapes: Any) -> Size: ...
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]: ...
def broadcast_arrays(*tensors: Any) -> tuple[Tensor, ...]: ...
def round(input: Tensor, *, decimals: builtins.int = 0) -> Tensor: ...
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Any: ...
def argsort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> Tensor: ...
def msort(input: Tensor) -> Tensor: ...
def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> Any: ...
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any: ...
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any: ...
def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: str | None = None, sorter: Tensor | None = None,) -> Tensor: ...
def bucketize(input: Tensor, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False) -> Tensor: ...
def nonzero(input: Tensor, *, as_tuple: builtins.bool = False) -> Any: ...
def argwhere(input: Tensor) -> Tensor: ...
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any: ...
def stft(input: Any, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, pad_mode: str = "reflect", normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None,) -> Tensor: ...
def istft(input: Any, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Any = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False,) -> Tensor: ...
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: builtins.int = 1) -> tuple[Tensor, ...]: ...
def hann_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,) -> Tensor: ...
def hamming_window(window_length: builtins.int, periodic: builtins.bool = True, alpha: builtins.float = 0.54, beta: builtins.float = 0.46, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,) -> Tensor: ...
def blackman_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,) -> Tensor: ...
def bartlett_window(window_length: builtins.int, periodic: builtins.bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,) -> Tensor: ...
def kaiser_window(window_length: builtins.int, periodic: builtins.bool = True, beta: builtins.float = 12.0, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,) -> Tensor: ...
def bincount(input: Any, weights: Any = None, minlength: builtins.int = 0) -> Tensor: ...
def histc(input: Any, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor: ...
def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: builtins.bool = False) -> Any: ...
def histogramdd(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: builtins.bool = False) -> Any: ...
def as_strided(input: Any, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor: ...
def as_strided_copy(input: Any, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor: ...
def as_strided_scatter(input: Any, src: Any, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor: ...
def diagonal_scatter(input: Any, src: Any, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor: ...
def select_scatter(input: Any, src: Any, dim: builtins.int, index: builtins.int) -> Tensor: ...
def slice_scatter(input: Any, src: Any, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor: ...
def diagonal_copy(input: Any, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor: ...
def expand_copy(input: Any, size: Any) -> Tensor: ...
def permute_copy(input: Any, dims: Any) -> Tensor: ...
def transpose_copy(input: Any, dim0: builtins.int, dim1: builtins.int) -> Tensor: ...
def t_copy(input: Any) -> Tensor: ...
def unsqueeze_copy(input: Any, dim: builtins.int) -> Tensor: ...
def unfold_copy(input: Any, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor: ...
def view_copy(input: Any, size: Any) -> Tensor: ...
def narrow_copy(input: Any, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor: ...
def select_copy(input: Any, dim: builtins.int, index: builtins.int) -> Tensor: ...
def detach_copy(input: Any) -> Tensor: ...
def view_as_real_copy(input: Any) -> Tensor: ...
def view_as_complex_copy(input: Any) -> Tensor: ...
def squeeze_copy(input: Any, dim: Any = None) -> Tensor: ...
def unbind_copy(input: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def split_copy(input: Any, split_size: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes_copy(input: Any, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]: ...
def alias_copy(input: Any) -> Tensor: ...
absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
bitwise_invert = bitwise_not
expand_dims = unsqueeze
greater = gt
greater_equal = ge
isfinite = is_finite
isinf = is_inf
isnan = is_nan
less = lt
less_equal = le
logsigmoid = log_sigmoid
multiply = mul
negative = neg
not_equal = ne
reciprocal = recip
remainder = rem
scaled_dot_product_attention = attention
unstack = unbind
def segment_reduce(data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: builtins.int = 0, unsafe: builtins.bool = False, initial: Any = None) -> Tensor: ...
