"""Types of the package. Generated from the op table: TALWEG_BLESS=1 cargo test -p talweg-py writes it."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import compat as compat, cuda as cuda, distributed as distributed, errors as errors, fft as fft, linalg as linalg
from . import metrics as metrics
from . import nn as nn, optim as optim, random as random, testing as testing, train as train, utils as utils
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
from ._devices import GradScaler as GradScaler, autocast as autocast, device as device, devices as devices
from ._devices import get_default_device as get_default_device, set_default_device as set_default_device
from ._graph import Session as Session, Variable as Variable, cond as cond, fori_loop as fori_loop
from ._graph import scan as scan, while_loop as while_loop
from ._habits import *
from ._standard import *
from ._state import enable_grad as enable_grad, is_grad_enabled as is_grad_enabled, load as load
from ._state import no_grad as no_grad, save as save, set_grad_enabled as set_grad_enabled
from ._transforms import checkpoint as checkpoint, custom_gradient as custom_gradient, grad as grad
from ._transforms import hessian as hessian, jacobian as jacobian, jit as jit, jvp as jvp
from ._transforms import value_and_grad as value_and_grad, vmap as vmap

TensorLike: TypeAlias = "Tensor | np.ndarray | builtins.complex | builtins.float | builtins.int | builtins.bool | Sequence[Any]"
ShapeLike: TypeAlias = "builtins.int | Sequence[builtins.int]"
Axis: TypeAlias = "builtins.int | Sequence[builtins.int] | None"
DTypeLike: TypeAlias = "dtype | str | type | np.dtype[Any]"

__version__: str
__array_api_version__: str
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
def tensor(data: TensorLike, dtype: DTypeLike | None = None, *, device: str | None = None, copy: builtins.bool | None = None, requires_grad: builtins.bool = False) -> Tensor: ...
asarray = tensor
array = tensor
as_tensor = tensor
def placeholder(dtype: DTypeLike, shape: Sequence[builtins.int] | None = None, name: str = "placeholder") -> Tensor: ...
def zeros(shape: Any = ..., *sizes: int, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def ones(shape: Any = ..., *sizes: int, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def empty(shape: Any = ..., *sizes: int, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def rand(shape: Any = ..., *sizes: int, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def randn(shape: Any = ..., *sizes: int, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def full(shape: ShapeLike, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def zeros_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def ones_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def empty_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def full_like(x: Tensor, /, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def arange(start: builtins.float, stop: builtins.float | None = None, step: builtins.float | None = None, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def linspace(start: builtins.complex, stop: builtins.complex, /, num: builtins.int, *, dtype: DTypeLike | None = None, device: str | None = None, endpoint: Any = True) -> Tensor: ...
def eye(n_rows: builtins.int, n_cols: builtins.int | None = None, /, *, k: builtins.int = 0, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
def uniform(shape: ShapeLike, low: builtins.float = 0.0, high: builtins.float = 1.0, *, dtype: DTypeLike | None = None) -> Tensor: ...
def randint(low: builtins.int, high: builtins.int, shape: ShapeLike, *, dtype: DTypeLike | None = None) -> Tensor: ...
def randperm(n: builtins.int) -> Tensor: ...
def random_key(seed: builtins.int | None = None) -> Tensor: ...
def manual_seed(seed: builtins.int) -> None: ...
def from_dlpack(x: Any, /, *, device: str | None = None, copy: builtins.bool | None = None) -> Tensor: ...

class Tensor:
    """A multi-dimensional array: computed, or to be computed when somebody looks at it."""

    def __init__(self, data: TensorLike, *, dtype: DTypeLike | None = None, requires_grad: builtins.bool = False, variable: builtins.bool = False, trainable: builtins.bool = True, name: str = "") -> None: ...
    grad: Tensor | None
    data: Tensor
    requires_grad: builtins.bool
    @property
    def shape(self) -> tuple[builtins.int, ...]: ...
    @property
    def dtype(self) -> dtype: ...
    @property
    def ndim(self) -> builtins.int: ...
    @property
    def size(self) -> builtins.int: ...
    @property
    def nbytes(self) -> builtins.int: ...
    @property
    def device(self) -> str: ...
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
    def to(self, *args: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor: ...
    def float(self) -> Tensor: ...
    def double(self) -> Tensor: ...
    def half(self) -> Tensor: ...
    def bfloat16(self) -> Tensor: ...
    def int(self) -> Tensor: ...
    def long(self) -> Tensor: ...
    def short(self) -> Tensor: ...
    def bool(self) -> Tensor: ...
    def reshape(self, *shape: Any) -> Tensor: ...
    def view(self, *shape: Any) -> Tensor: ...
    def permute(self, *axes: Any) -> Tensor: ...
    def expand(self, *sizes: Any) -> Tensor: ...
    def repeat(self, *times: Any) -> Tensor: ...
    def t(self) -> Tensor: ...
    def amax(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor: ...
    def amin(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor: ...
    def clamp(self, min: Any = None, max: Any = None) -> Tensor: ...
    def clip(self, min: Any = None, max: Any = None) -> Tensor: ...
    def abs_(self) -> Tensor: ...
    def add_(self, other: TensorLike) -> Tensor: ...
    def sub_(self, other: TensorLike) -> Tensor: ...
    def mul_(self, other: TensorLike) -> Tensor: ...
    def div_(self, other: TensorLike) -> Tensor: ...
    def clamp_(self, min: Any = None, max: Any = None) -> Tensor: ...
    def exp_(self) -> Tensor: ...
    def neg_(self) -> Tensor: ...
    def sqrt_(self) -> Tensor: ...
    def relu_(self) -> Tensor: ...
    def round_(self) -> Tensor: ...
    def masked_fill_(self, mask: TensorLike, value: builtins.float) -> Tensor: ...
    def split(self, split_size_or_sections: ShapeLike, dim: builtins.int = 0, *, axis: builtins.int | None = None) -> list[Tensor]: ...
    def triu(self, diagonal: builtins.int = 0, *, k: builtins.int | None = None) -> Tensor: ...
    def tril(self, diagonal: builtins.int = 0, *, k: builtins.int | None = None) -> Tensor: ...
    def view_as(self, other: Tensor) -> Tensor: ...
    def expand_as(self, other: Tensor) -> Tensor: ...
    def isclose(self, other: TensorLike, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8, equal_nan: builtins.bool = False) -> Tensor: ...
    def allclose(self, other: TensorLike, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8, equal_nan: builtins.bool = False) -> builtins.bool: ...
    def contiguous(self) -> Tensor: ...
    def cpu(self) -> Tensor: ...
    def cuda(self, index: builtins.int = 0) -> Tensor: ...
    def to_device(self, device: str, /, *, stream: None = None) -> Tensor: ...
    def dim(self) -> builtins.int: ...
    def pad(self, widths: ShapeLike, mode: str = "constant", value: Any = 0.0) -> Tensor: ...
    def interpolate(self, size: ShapeLike | None = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = False) -> Tensor: ...
    def unique(self, return_inverse: Any = False, return_counts: Any = False) -> Any: ...
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
    def add(self, other: TensorLike) -> Tensor:
        """Sum, elementwise. For bool: logical or.

        >>> tensor([1.5, -2.0]).add(tensor([2.0, 0.5])).tolist()  # by hand
        [3.5, -1.5]"""
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
    def all(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Whether every element is not zero along axes (`..` for all), which disappear."""
    def aminmax(self, axis: Axis = None) -> tuple[Tensor, Tensor]:
        """The least and the greatest element along axes (`..` for all), which disappear."""
    def bitwise_and(self, other: TensorLike) -> Tensor:
        """Logical and of bool, bitwise and of integers, elementwise."""
    def angle(self) -> Tensor:
        """0 for numbers that are not negative, π for the others, elementwise; NaN stays NaN."""
    def any(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Whether some element is not zero along axes (`..` for all), which disappear."""
    def argmax(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """The place of the greatest element along an axis, which disappears, or in the flattened tensor
        for `..`; the first of equal ones."""
    def argmin(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """The place of the least element along an axis, which disappears, or in the flattened tensor
        for `..`; the first of equal ones."""
    def argsort(self, axis: builtins.int = -1) -> Tensor:
        """The places that would bring the elements along an axis into ascending order."""
    def argsort_descending(self, axis: builtins.int = -1) -> Tensor:
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
    def bincount(self, size_min: builtins.int = 0) -> Tensor:
        """How often each of the numbers 0, 1, 2… occurs, up to the greatest, at least `size_min`.

        The result's size depends on the values, so they are computed at once."""
    def bmm(self, other: TensorLike) -> Tensor:
        """Products of two lists of matrices of one length, without broadcasting."""
    def bottom_k(self, k: builtins.int = 0, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The `k` least elements along an axis, least first, and their places."""
    def broadcast_to(self, shape: ShapeLike) -> Tensor:
        """Repeated to a larger shape by NumPy's rule, without copying."""
    def bucketize(self, boundaries: TensorLike) -> Tensor:
        """For each element, the number of the interval between ascending boundaries it falls into."""
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
    def cholesky(self) -> Tensor:
        """The lower triangular matrix L with A = L Lᵀ; only A's lower triangle is read. A matrix
        that is not positive definite is an error when the value is computed."""
    def cholesky_upper(self) -> Tensor:
        """The upper triangular matrix U with A = Uᵀ U; only A's upper triangle is read."""
    def chunk(self, count: builtins.int, axis: builtins.int = 0) -> list[Tensor]:
        """At most `count` consecutive pieces of one size along an axis, the last one smaller if it
        does not divide: PyTorch's `chunk`."""
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
    def concat(parts: Sequence[TensorLike], axis: builtins.int = 0) -> Tensor:
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
    def cosine_similarity(self, other: TensorLike, axis: builtins.int = 1, eps: builtins.float = 1e-8) -> Tensor:
        """The cosine of the angle between vectors along an axis of the common shape; lengths count as
        at least `eps` (usually 1e-8)."""
    def count_nonzero(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """How many elements are not zero along axes (`..` for all), which disappear."""
    def cov(self, correction: builtins.float = 1.0) -> Tensor:
        """Covariances of the rows of a matrix: a variable a row, an observation a column; divided by
        the number of observations less `correction`."""
    def cross(self, other: TensorLike, axis: builtins.int = -1) -> Tensor:
        """Vector product along an axis of size 3; the other dimensions broadcast."""
    def cross_entropy(self, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, label_smoothing: builtins.float | None = None, reduction: str | None = None) -> Tensor:
        """Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class numbers `[N, *D]` or class
        probabilities `[N, C, *D]`."""
    def ctc_loss(self, targets: TensorLike, times: TensorLike, lengths: TensorLike, blank: builtins.int | None = None, zero_infinity: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
        """Connectionist temporal classification: how unlikely the targets `[N, S]` are under these
        log-probabilities `[T, N, C]`, of which `times` and `lengths` (`[N]`) count."""
    def cummax(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The greatest element so far along an axis and its place: the last of equal ones, NaN from the
        first NaN on."""
    def cummin(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The least element so far along an axis and its place: the last of equal ones, NaN from the
        first NaN on."""
    def cumprod(self, axis: builtins.int = -1) -> Tensor:
        """Running products along an axis; integers and bool are multiplied in 64 bits."""
    def cumsum(self, axis: builtins.int = -1) -> Tensor:
        """Running sums along an axis; integers and bool are summed in 64 bits."""
    def cumsum_reverse(self, axis: builtins.int = -1) -> Tensor:
        """Running sums along an axis from its end."""
    def deg2rad(self) -> Tensor:
        """Degrees converted to radians, elementwise."""
    def det(self) -> Tensor:
        """The determinant of a square matrix."""
    def diag(self, offset: builtins.int = 0) -> Tensor:
        """A vector as the diagonal `offset` of a matrix, or that diagonal of a matrix as a vector."""
    def diag_embed(self, offset: builtins.int = 0, axis1: builtins.int = -2, axis2: builtins.int = -1) -> Tensor:
        """The last dimension on the diagonal `offset` of new dimensions `axis1` and `axis2` of the
        result, zeros elsewhere."""
    def diagonal(self, offset: builtins.int = 0, axis1: builtins.int = 0, axis2: builtins.int = 1) -> Tensor:
        """The elements whose place along `axis2` is that along `axis1` plus `offset`, as a new last
        dimension."""
    def diff(self, n: builtins.int = 1, axis: builtins.int = -1) -> Tensor:
        """Differences of neighbors along an axis, taken `n` times."""
    def digamma(self) -> Tensor:
        """Digamma function: the slope of `lgamma`, elementwise.

        >>> tensor([1.0, 0.5, 2.0, -0.5]).digamma().tolist()  # Abramowitz and Stegun, 6.3.2 to 6.3.5
        [-0.5772156649015329, -1.9635100260214235, 0.4227843350984671, 0.03648997397857652]"""
    def dist(self, other: TensorLike, ord: builtins.float = 2.0) -> Tensor:
        """The norm of order `ord` of the difference to another tensor."""
    def div(self, other: TensorLike) -> Tensor:
        """True quotient, elementwise; integers are divided as `f32`.

        >>> tensor([1.5, -2.0]).div(tensor([2.0, 0.5])).tolist()  # by hand
        [0.75, -4.0]"""
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
    def flatten(self, start: builtins.int = 0, end: builtins.int = -1) -> Tensor:
        """The dimensions from `start` to `end`, both included, made one; a scalar becomes a vector."""
    def flip(self, axis: Axis = None) -> Tensor:
        """The order reversed along axes."""
    def float8_linear(self, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
        """An affine map of the last dimension, x wᵀ + b for a weight `[O, I]` and a bias `[O]`, whose
        products are those of 8-bit floats: x and w as f8e4m3, gradients as f8e5m2, each divided by a
        scale that makes use of the whole type. What `autocast` in f8e4m3 makes of `linear`."""
    def float_power(self, exponent: TensorLike) -> Tensor:
        """`self` to the power `exponent`, elementwise, computed in f64."""
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
    def fold(self, axis: builtins.int, step: builtins.int, length: builtins.int) -> Tensor:
        """Windows along an axis, `step` apart, their elements in the last dimension, added up where
        they overlap in an axis of `length` elements: the transpose of `unfold`."""
    def frac(self) -> Tensor:
        """x less its whole part, with the sign of x, elementwise.

        >>> tensor([1.25, -2.5]).frac().tolist()  # by hand
        [0.25, -0.5]"""
    def full_like(self, x: builtins.float) -> Tensor:
        """One number in this tensor's shape and type."""
    def gather(self, axis: builtins.int, index: TensorLike) -> Tensor:
        """Elements chosen along an axis by an index of the same rank: along axis 0 of a matrix,
        `y[i, j] = x[index[i, j], j]`."""
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
    def glu(self, axis: builtins.int = -1) -> Tensor:
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
    def histogram(self, bins: builtins.int, lo: builtins.float, hi: builtins.float) -> Tensor:
        """How many elements fall into each of `bins` equal intervals from `lo` to `hi`, which belongs
        to the last; others are not counted."""
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
    def index_add(self, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
        """Slices added at places along an axis: along axis 0, `x[index[i], ...] += src[i, ...]`."""
    def index_copy(self, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
        """Slices put at places along an axis: along axis 0, `x[index[i], ...] = src[i, ...]`."""
    def index_fill(self, axis: builtins.int, index: TensorLike, value: TensorLike) -> Tensor:
        """One value put into the slices at places along an axis."""
    def index_select(self, axis: builtins.int, index: TensorLike) -> Tensor:
        """`take` with the arguments in PyTorch's order and an index of one dimension."""
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
    def kthvalue(self, k: builtins.int = 0, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The `k`-th least element along an axis, counted from 1, and its place; the axis disappears."""
    def l1_loss(self, target: TensorLike, reduction: str = "mean") -> Tensor:
        """The absolute difference from a target, reduced."""
    def layer_norm(self, axes: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
        """x moved to mean 0 and scaled to variance 1 over the last `axes` dimensions; then times a
        weight and plus a bias of their shape, if given."""
    def ldexp(self, exponent: TensorLike) -> Tensor:
        """x times 2 to the power `exponent`, elementwise."""
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
    def log_softmax(self, axis: builtins.int = -1) -> Tensor:
        """The logarithm of softmax along an axis, computed without it."""
    def logaddexp(self, other: TensorLike) -> Tensor:
        """log(exp(a) + exp(b)) without overflow, elementwise."""
    def logaddexp2(self, other: TensorLike) -> Tensor:
        """log2(2^a + 2^b) without overflow, elementwise."""
    def logcumsumexp(self, axis: builtins.int = -1) -> Tensor:
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
    def logit(self) -> Tensor:
        """log(x / (1 - x)), elementwise; NaN outside [0, 1].

        >>> tensor([0.5, 0.75]).logit().tolist()  # by hand: log 3
        [0.0, 1.0986122886681098]"""
    def logit_eps(self, eps: builtins.float = 1e-5) -> Tensor:
        """log(x / (1 - x)), elementwise, with x moved into [eps, 1 - eps] first."""
    def logsumexp(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """log of the sum of exp(x) along axes (`..` for all), which disappear, without overflow."""
    def lstsq(self, b: TensorLike) -> Tensor:
        """The X of least length among those that make A X - B shortest, for this matrix A."""
    def lt(self, other: TensorLike) -> Tensor:
        """Whether `a < b`, elementwise; false where either is NaN.

        >>> tensor([1.0, 2.0, 3.0]).lt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
        [True, False, False]"""
    def lu(self) -> tuple[Tensor, Tensor, Tensor]:
        """A permutation matrix P, a unit lower triangular L and an upper triangular U with A = P L U."""
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
    def matrix_norm(self, norm: str | builtins.float, axes: tuple[builtins.int, builtins.int], keepdims: builtins.bool = False) -> Tensor:
        """The size of the matrices along two axes (rows, columns), which disappear."""
    def matrix_power(self, n: builtins.int = 1) -> Tensor:
        """A square matrix multiplied with itself `n` times; a negative power is that of the inverse."""
    def max(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """The greatest element along axes (`..` for all), which disappear; NaN if there is one. Equal
        elements share the gradient evenly; see `max_index` for the place."""
    def max_index(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
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
    def mean(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Arithmetic mean along axes (`..` for all), which disappear; integers are converted to f32."""
    def median(self, axis: Axis = None) -> Tensor:
        """The middle element along an axis, or of all for `..`; of an
        even number, the lower of the two in the middle. The axis disappears. Equal elements share
        the gradient of `..` evenly."""
    def median_index(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The middle element along an axis and its place;
        of an even number, the lower of the two in the middle. The axis disappears."""
    @staticmethod
    def meshgrid(axes: Sequence[TensorLike]) -> list[Tensor]:
        """For vectors of coordinates, the coordinates of each point of the grid they span: result i
        varies along axis i (PyTorch's and NumPy's `indexing="ij"`)."""
    def min(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """The least element along axes (`..` for all), which disappear; NaN if there is one. Equal
        elements share the gradient evenly; see `min_index` for the place."""
    def min_index(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
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
    def moveaxis(self, source: ShapeLike, destination: ShapeLike) -> Tensor:
        """Axes moved to other places; the others keep their order."""
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
    def nanmean(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Arithmetic mean with NaN left out, along axes (`..` for all), which disappear."""
    def nanmedian(self, axis: Axis = None) -> Tensor:
        """The middle element along an axis, or of all for `..`, with NaN left out; of an
        even number, the lower of the two in the middle. The axis disappears."""
    def nanmedian_index(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The middle element along an axis and its place, with NaN left out;
        of an even number, the lower of the two in the middle. The axis disappears."""
    def nansum(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Sum with NaN left out, along axes (`..` for all), which disappear; integers and
        bool are summed in 64 bits."""
    def narrow(self, axis: builtins.int, start: builtins.int, size: builtins.int) -> Tensor:
        """`size` elements from `start` on along one axis."""
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
    def nonzero(self) -> Tensor:
        """The places of the elements that are not zero: one row a place, one column a dimension.

        How many there are depends on the values, so they are computed at once."""
    def norm(self) -> Tensor:
        """The square root of the sum of all squares."""
    def normalize(self, ord: builtins.float = 2.0, axis: Axis = 1, eps: builtins.float = 1e-12) -> Tensor:
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
    def pairwise_distance(self, other: TensorLike, p: builtins.float = 2.0, eps: builtins.float = 1e-6, keepdims: builtins.bool = False) -> Tensor:
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
    def polygamma(self, n: builtins.int = 1) -> Tensor:
        """The n-th derivative of the digamma function, elementwise."""
    def pow(self, other: TensorLike) -> Tensor:
        """`a` to the power `b`, elementwise; for integers a negative exponent gives 0 (1 for base ±1).

        >>> tensor([2.0, 9.0]).pow(tensor([3.0, 0.5])).tolist()  # by hand
        [8.0, 3.0]"""
    def prelu(self, weight: TensorLike) -> Tensor:
        """x where it is positive, else x times a weight: a single one, or one for each channel, which
        is axis 1."""
    def prod(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Product along axes (`..` for all), which disappear; integers and bool are multiplied in 64 bits."""
    def put(self, index: TensorLike, src: TensorLike) -> Tensor:
        """Values put at places of the flattened tensor; negative places count from the end."""
    def put_add(self, index: TensorLike, src: TensorLike) -> Tensor:
        """Values added at places of the flattened tensor; negative places count from the end."""
    def qr(self) -> tuple[Tensor, Tensor]:
        """Q with orthonormal columns and upper triangular R with A = Q R."""
    def qr_full(self) -> tuple[Tensor, Tensor]:
        """`qr` with a square Q, whose additional columns span what is left, and as many rows
        of R."""
    def quantize(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
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
    def repeat_interleave(self, times: builtins.int, axis: Axis = None) -> Tensor:
        """Each element repeated along an axis, or of the flattened tensor for `..`."""
    def repeat_interleave_by(self, times: TensorLike, axis: Axis = None) -> Tensor:
        """Each element along an axis repeated as often as `times`, a vector of integers, says.

        The result's size depends on these, so they are computed at once."""
    def rfft(self, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
        """Discrete Fourier transform of a real tensor: the n/2 + 1 frequencies that determine the
        others, which are complex."""
    def rms_norm(self, axes: builtins.int, weight: TensorLike | None = None, eps: builtins.float = 1e-6) -> Tensor:
        """x divided by the root of its mean square over the last `axes` dimensions; then times a
        weight of their shape, if given."""
    def roll(self, shifts: ShapeLike, axis: Axis = None) -> Tensor:
        """The elements moved along axes; those that leave at one end come in at the other. For `..`
        there is one shift, through the flattened tensor."""
    def rope(self, cos: TensorLike, sin: TensorLike, interleaved: builtins.bool) -> Tensor:
        """Rotary position embedding: pairs along the last axis of `[…, L, E]` turned by angles given
        as cosines and sines `[L, E / 2]` (see `rope_table`). A pair is (i, i + E / 2), or
        neighbors (2 i, 2 i + 1) if `interleaved`."""
    @staticmethod
    def rope_table(positions: TensorLike, width: builtins.int, base: builtins.float) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[L, width / 2]` of the angles p / base^(2 i / width) for positions p `[L]`."""
    def rot90(self, k: builtins.int = 1, axes: tuple[builtins.int, builtins.int] = (0, 1)) -> Tensor:
        """Turned by `k` quarters from the first axis toward the second."""
    def round(self) -> Tensor:
        """The nearest whole number, elementwise; halves go to the even neighbor, as in NumPy.

        >>> tensor([0.5, 1.5, -2.5, 2.6]).round().tolist()  # NumPy manual: 0.5 rounds to 0, 1.5 to 2
        [0.0, 2.0, -2.0, 3.0]"""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x), elementwise.

        >>> tensor([1.0, 4.0, 0.25]).rsqrt().tolist()  # by hand
        [1.0, 0.5, 2.0]"""
    def scaled_matmul(self, other: TensorLike, scale: TensorLike, other_scale: TensorLike, bias: TensorLike | None = None, dtype: DTypeLike = "bfloat16") -> Tensor:
        """Matrix product of 8-bit floats, times a scale for each side: what the numbers were divided by
        before they were rounded to 8 bits. Summed in f32; the result is bf16, f16 or f32, and a bias is
        added to each row in that type."""
    def scatter(self, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
        """Values put at places along an axis: along axis 0 of a matrix,
        `x[index[i, j], j] = src[i, j]`. Of `src`, the part of the index's shape is used; of
        several values for one place the last stays."""
    def scatter_add(self, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
        """Values added at places along an axis: along axis 0 of a matrix,
        `x[index[i, j], j] += src[i, j]`. Of `src`, the part of the index's shape is used."""
    def scatter_reduce(self, axis: builtins.int, index: TensorLike, src: TensorLike, by: str, include_self: builtins.bool = True) -> Tensor:
        """Values combined at places along an axis: along axis 0 of a matrix, `src[i, j]` goes to
        `x[index[i, j], j]`. Without `include_self` the elements that are there count for nothing
        where a value comes."""
    def searchsorted(self, values: TensorLike) -> Tensor:
        """For each value, the place in this ascending sequence before which it would be inserted: the
        number of elements less than it."""
    def searchsorted_right(self, values: TensorLike) -> Tensor:
        """For each value, the number of elements of this ascending sequence that are not greater."""
    def select(self, axis: builtins.int, index: builtins.int) -> Tensor:
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
    def slogdet(self) -> tuple[Tensor, Tensor]:
        """The sign of the determinant and the logarithm of its magnitude."""
    def smooth_l1_loss(self, target: TensorLike, beta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
        """d² / (2 beta) where the difference |d| from a target is below beta, else |d| − beta / 2,
        reduced."""
    def softmax(self, axis: builtins.int = -1) -> Tensor:
        """exp(x) divided by its sum along an axis, without overflow."""
    def softmax_cross_entropy(self, target: TensorLike, axis: builtins.int = -1) -> Tensor:
        """−Σ p log softmax(x) along an axis, which disappears, for these logits x and a target
        distribution p of the same shape."""
    def softmin(self, axis: builtins.int = -1) -> Tensor:
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
    def sort(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The elements along an axis in ascending order, and the place each came from. Equal elements
        keep their order; NaN counts as greatest."""
    def sort_descending(self, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The elements along an axis in descending order, and the place each came from."""
    def split_sizes(self, sizes: ShapeLike, axis: builtins.int = 0) -> list[Tensor]:
        """Consecutive pieces of the given sizes along an axis. On an error each piece carries it."""
    def sqrt(self) -> Tensor:
        """Square root, elementwise; negative numbers give NaN."""
    def square(self) -> Tensor:
        """x times x, elementwise.

        >>> tensor([-1.5, 2.0]).square().tolist()  # by hand
        [2.25, 4.0]"""
    def squeeze(self, axis: Axis = None) -> Tensor:
        """Without the dimensions of size 1 among `axes`, or without all of size 1 for `..`;
        larger ones stay, as in PyTorch."""
    @staticmethod
    def stack(parts: Sequence[TensorLike], axis: builtins.int = 0) -> Tensor:
        """Tensors of one shape one after the other along a new axis, in their common type."""
    def std(self, axis: Axis = None, correction: builtins.float = 0.0, keepdims: builtins.bool = False) -> Tensor:
        """Standard deviation along axes (`..` for all), which disappear: the square root of `var`."""
    def stop_gradient(self) -> Tensor:
        """The same value; no gradient flows through it."""
    def sub(self, other: TensorLike) -> Tensor:
        """Difference, elementwise.

        >>> tensor([1.5, -2.0]).sub(tensor([2.0, 0.5])).tolist()  # by hand
        [-0.5, -2.5]"""
    def sum(self, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        """Sum along axes (`..` for all), which disappear; integers and bool are summed in 64 bits."""
    def svd(self) -> tuple[Tensor, Tensor, Tensor]:
        """U, s and V* with A = U diag(s) V*: the reduced singular value decomposition."""
    def svd_full(self) -> tuple[Tensor, Tensor, Tensor]:
        """`svd` with square U and V*, whose additional vectors span what is left."""
    def svdvals(self) -> Tensor:
        """Singular values in descending order."""
    def swapaxes(self, a: builtins.int, b: builtins.int) -> Tensor:
        """Two axes swapped: NumPy's name of `transpose(a, b)`."""
    def take(self, index: TensorLike, axis: builtins.int = 0) -> Tensor:
        """Slices chosen along an axis, which is replaced by the index's dimensions. Along axis 0,
        `y[i, ...] = x[index[i], ...]`: the lookup in an embedding."""
    def take_along_axis(self, index: TensorLike, axis: builtins.int = -1) -> Tensor:
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
    def tile(self, times: ShapeLike) -> Tensor:
        """The whole repeated along each dimension; missing counts in front are 1."""
    def to_complex(self) -> Tensor:
        """As a complex tensor: itself, or the real parts of one."""
    def top_k(self, k: builtins.int = 0, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
        """The `k` greatest elements along an axis, greatest first, and their places."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of the last two dimensions; integers are summed in 64 bits."""
    def transpose(self, a: builtins.int, b: builtins.int) -> Tensor:
        """Two dimensions swapped."""
    def triangular_solve(self, b: TensorLike, upper: builtins.bool | None = None, right: builtins.bool | None = None, unit: builtins.bool | None = None) -> Tensor:
        """X with A X = B (or X A = B) for this triangular matrix A; leading dimensions broadcast."""
    def triplet_margin_loss(self, positive: TensorLike, negative: TensorLike, margin: builtins.float | None = None, norm: builtins.float | None = None, eps: builtins.float | None = None, swap: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
        """max(0, margin + |a − p| − |a − n|) for this anchor a, a positive p and a negative n."""
    def trunc(self) -> Tensor:
        """The whole part, elementwise: rounds toward zero.

        >>> tensor([-1.7, 1.7]).trunc().tolist()  # by hand
        [-1.0, 1.0]"""
    def unbind(self, axis: builtins.int = 0) -> list[Tensor]:
        """The slices along an axis, one tensor each, without the axis; none along an empty axis."""
    def unflatten(self, axis: builtins.int, sizes: ShapeLike) -> Tensor:
        """One dimension split into several; one size may be -1: whatever is left."""
    def unfold(self, axis: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Windows of `size` elements along an axis, `step` apart; the elements of a window are a new
        last dimension."""
    def unsqueeze(self, axis: builtins.int = -1) -> Tensor:
        """With a new dimension of size 1 at `axis` of the result; -1 appends it."""
    def var(self, axis: Axis = None, correction: builtins.float = 0.0, keepdims: builtins.bool = False) -> Tensor:
        """Variance along axes (`..` for all), which disappear: squared distances from the mean, added
        and divided by their number less `correction`. 0 gives NumPy's default, the variance of the
        elements; 1 gives PyTorch's, the estimate from a sample."""
    def var_mean(self, axis: Axis = None, correction: builtins.float = 0.0) -> tuple[Tensor, Tensor]:
        """Variance and mean along axes, which disappear."""
    def vecdot(self, other: TensorLike, axis: builtins.int = -1) -> Tensor:
        """Sums of products along one axis, of one size in both, of two tensors that broadcast."""
    def vector_norm(self, ord: builtins.float = 2.0, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
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
    @staticmethod
    def where(cond: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
        """`a` where the condition holds, else `b`, elementwise; the two are promoted."""
    def xlog1py(self, y: TensorLike) -> Tensor:
        """x log(1 + y), elementwise; 0 where x is 0."""
    def xlogy(self, y: TensorLike) -> Tensor:
        """x log(y), elementwise; 0 where x is 0."""
    def bitwise_xor(self, other: TensorLike) -> Tensor:
        """Exclusive or of bool, bitwise exclusive or of integers, elementwise."""
    def zeros_like(self) -> Tensor:
        """Zeros of this tensor's shape and type."""
    bitwise_invert = bitwise_not
    divide = div
    equal = eq
    greater = gt
    greater_equal = ge
    isfinite = is_finite
    isinf = is_inf
    isnan = is_nan
    less = lt
    less_equal = le
    multiply = mul
    negative = neg
    not_equal = ne
    reciprocal = recip
    remainder = rem
    subtract = sub
    true_divide = div
    concatenate = concat
    expand_dims = unsqueeze
    arccos = acos
    arccosh = acosh
    arcsin = asin
    arcsinh = asinh
    arctan = atan
    arctan2 = atan2
    arctanh = atanh
    cat = concat
    swapdims = swapaxes
    movedim = moveaxis
    topk = top_k
    logsigmoid = log_sigmoid
    absolute = abs
    scaled_dot_product_attention = attention

def abs(x: Tensor, /) -> Tensor:
    """Absolute value, elementwise; the slope at 0 is 0.

    >>> tensor([-1.5, 0.0, 2.0]).abs().tolist()  # by hand
    [1.5, 0.0, 2.0]"""
def acos(x: Tensor, /) -> Tensor:
    """The angle in [0, π] with this cosine, elementwise; NaN outside [-1, 1]."""
def acosh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic cosine, elementwise; NaN below 1.

    >>> tensor([1.0, 2.0]).acosh().tolist()  # log(2 + sqrt 3)
    [0.0, 1.3169578969248166]"""
def adaptive_avg_pool1d(x: Tensor, /, out: ShapeLike) -> Tensor:
    """The means of `out` windows that cover `[N, C, L]` (or `[C, L]`)."""
def adaptive_avg_pool2d(x: Tensor, /, out: ShapeLike) -> Tensor:
    """The means of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`)."""
def adaptive_avg_pool3d(x: Tensor, /, out: ShapeLike) -> Tensor:
    """The means of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def adaptive_max_pool1d(x: Tensor, /, out: ShapeLike) -> Tensor:
    """The greatest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`)."""
def adaptive_max_pool1d_index(x: Tensor, /, out: ShapeLike) -> tuple[Tensor, Tensor]:
    """The greatest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`), and their places."""
def adaptive_max_pool2d(x: Tensor, /, out: ShapeLike) -> Tensor:
    """The greatest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`)."""
def adaptive_max_pool2d_index(x: Tensor, /, out: ShapeLike) -> tuple[Tensor, Tensor]:
    """The greatest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`), and their
    places in the flattened plane."""
def adaptive_max_pool3d(x: Tensor, /, out: ShapeLike) -> Tensor:
    """The greatest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def adaptive_max_pool3d_index(x: Tensor, /, out: ShapeLike) -> tuple[Tensor, Tensor]:
    """The greatest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`), and
    their places in the flattened volume."""
def add(x: Tensor, /, other: TensorLike) -> Tensor:
    """Sum, elementwise. For bool: logical or.

    >>> tensor([1.5, -2.0]).add(tensor([2.0, 0.5])).tolist()  # by hand
    [3.5, -1.5]"""
def addbmm(x: Tensor, /, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the sum of the products of two lists of matrices."""
def addcdiv(x: Tensor, /, a: TensorLike, b: TensorLike, value: builtins.float = 1.0) -> Tensor:
    """x + value (a / b), elementwise."""
def addcmul(x: Tensor, /, a: TensorLike, b: TensorLike, value: builtins.float = 1.0) -> Tensor:
    """x + value (a * b), elementwise."""
def addmm(x: Tensor, /, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the product of two matrices."""
def addmv(x: Tensor, /, matrix: TensorLike, vector: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the product of a matrix and a vector."""
def all(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether every element is not zero along axes (`..` for all), which disappear."""
def aminmax(x: Tensor, /, axis: Axis = None) -> tuple[Tensor, Tensor]:
    """The least and the greatest element along axes (`..` for all), which disappear."""
def bitwise_and(x: Tensor, /, other: TensorLike) -> Tensor:
    """Logical and of bool, bitwise and of integers, elementwise."""
def angle(x: Tensor, /) -> Tensor:
    """0 for numbers that are not negative, π for the others, elementwise; NaN stays NaN."""
def any(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether some element is not zero along axes (`..` for all), which disappear."""
def argmax(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The place of the greatest element along an axis, which disappears, or in the flattened tensor
    for `..`; the first of equal ones."""
def argmin(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The place of the least element along an axis, which disappears, or in the flattened tensor
    for `..`; the first of equal ones."""
def argsort_descending(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """The places that would bring the elements along an axis into descending order."""
def asin(x: Tensor, /) -> Tensor:
    """The angle in [-π/2, π/2] with this sine, elementwise; NaN outside [-1, 1]."""
def asinh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic sine, elementwise.

    >>> tensor([0.0, 1.0]).asinh().tolist()  # Abramowitz and Stegun, table 4.17: log(1 + sqrt 2)
    [0.0, 0.881373587019543]"""
def atan(x: Tensor, /) -> Tensor:
    """The angle in (-π/2, π/2) with this tangent, elementwise."""
def atan2(x: Tensor, /, other: TensorLike) -> Tensor:
    """The angle of the point (b, a) in (-π, π], elementwise: the inverse tangent of a / b in the right quadrant."""
def atanh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic tangent, elementwise; NaN outside [-1, 1].

    >>> tensor([0.0, 0.5]).atanh().tolist()  # log(3) / 2
    [0.0, 0.5493061443340549]"""
def attention(x: Tensor, /, k: TensorLike, v: TensorLike, mask: TensorLike | None = None, causal: builtins.bool | None = None, scale: builtins.float | None = None, grouped: builtins.bool | None = None, dropout: tuple[builtins.float, TensorLike] | None = None, query_lengths: TensorLike | None = None, key_lengths: TensorLike | None = None) -> Tensor:
    """Scaled dot-product attention of these queries `[…, H, L, E]` with keys `[…, H, S, E]` and
    values `[…, H, S, F]`."""
def avg_pool1d(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of `[N, C, L]` (or `[C, L]`)."""
def avg_pool2d(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of `[N, C, H, W]` (or `[C, H, W]`)."""
def avg_pool3d(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, ceil_mode: builtins.bool | None = None, count_include_pad: builtins.bool | None = None, divisor_override: builtins.int | None = None) -> Tensor:
    """The mean of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def baddbmm(x: Tensor, /, a: TensorLike, b: TensorLike, beta: builtins.float = 1.0, alpha: builtins.float = 1.0) -> Tensor:
    """beta times the tensor plus alpha times the products of two lists of matrices."""
def batch_norm(x: Tensor, /, mean: TensorLike, var: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """Each channel (axis 1) less a given mean, divided by the root of a given variance plus eps;
    then times a weight and plus a bias for each channel, if given: the form for inference.
    See `batch_norm_train` for the form that takes the statistics from the batch."""
def batch_norm_stats(x: Tensor, /, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel (axis 1) moved to mean 0 and scaled to variance 1 over the batch; then times a
    weight and plus a bias for each channel, if given. Gives the result, and the mean and the
    variance of the batch."""
def bilinear(x: Tensor, /, other: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """A map linear in this and another tensor: y[…, o] = a[…, i] w[o, i, j] b[…, j], plus a bias `[O]`."""
def binary_cross_entropy(x: Tensor, /, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of these probabilities with target probabilities, each element optionally
    weighted, reduced."""
def binary_cross_entropy_with_logits(x: Tensor, /, target: TensorLike, weight: TensorLike | None = None, pos_weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of the probabilities with these logits with target probabilities; each element
    and the positive class optionally weighted; reduced."""
def bincount(x: Tensor, /, size_min: builtins.int = 0) -> Tensor:
    """How often each of the numbers 0, 1, 2… occurs, up to the greatest, at least `size_min`.

    The result's size depends on the values, so they are computed at once."""
def bmm(x: Tensor, /, other: TensorLike) -> Tensor:
    """Products of two lists of matrices of one length, without broadcasting."""
def bottom_k(x: Tensor, /, k: builtins.int = 0, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The `k` least elements along an axis, least first, and their places."""
def broadcast_to(x: Tensor, /, shape: ShapeLike) -> Tensor:
    """Repeated to a larger shape by NumPy's rule, without copying."""
def bucketize(x: Tensor, /, boundaries: TensorLike) -> Tensor:
    """For each element, the number of the interval between ascending boundaries it falls into."""
def cast_like(x: Tensor, /, other: TensorLike) -> Tensor:
    """Converts to the element type of another tensor."""
def cdist(x: Tensor, /, other: TensorLike, p: builtins.float = 2.0) -> Tensor:
    """The p-norm of the difference of every vector `[…, I, M]` from every one of `other`
    `[…, J, M]`: `[…, I, J]`."""
def ceil(x: Tensor, /) -> Tensor:
    """The least whole number that is not less, elementwise.

    >>> tensor([-1.5, 1.5]).ceil().tolist()  # by hand
    [-1.0, 2.0]"""
def celu(x: Tensor, /, alpha: builtins.float = 1.0) -> Tensor:
    """x where it is positive, else alpha (exp(x / alpha) - 1), elementwise.

    >>> tensor([-2.0, 0.0, 3.0]).celu(2.0).tolist()  # by hand: 2 (1/e - 1)
    [-1.2642411176571153, 0.0, 3.0]"""
def cholesky(x: Tensor, /) -> Tensor:
    """The lower triangular matrix L with A = L Lᵀ; only A's lower triangle is read. A matrix
    that is not positive definite is an error when the value is computed."""
def cholesky_upper(x: Tensor, /) -> Tensor:
    """The upper triangular matrix U with A = Uᵀ U; only A's upper triangle is read."""
def chunk(x: Tensor, /, count: builtins.int, axis: builtins.int = 0) -> list[Tensor]:
    """At most `count` consecutive pieces of one size along an axis, the last one smaller if it
    does not divide: PyTorch's `chunk`."""
def clamp_max(x: Tensor, /, hi: TensorLike) -> Tensor:
    """x, or the bound where x is above it, elementwise."""
def clamp_min(x: Tensor, /, lo: TensorLike) -> Tensor:
    """x, or the bound where x is below it, elementwise."""
def cofactor(x: Tensor, /) -> Tensor:
    """The matrix of cofactors of a square matrix: what the determinant's gradient is."""
def col2im(x: Tensor, /, size: ShapeLike, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Columns `[N, C · KH · KW, L]` (or without N), each a window of an image of the given size,
    added up where they overlap: `[N, C, H, W]`. Of the options, stride, even padding and
    dilation count."""
def complex(re: TensorLike, im: TensorLike) -> Tensor:
    """Complex numbers of their real and imaginary parts, which are promoted and broadcast."""
def conv1d(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[O, C / groups, K]`, plus a bias `[O]`."""
def conv2d(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[O, C / groups, KH, KW]`, plus a
    bias `[O]`."""
def conv3d(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel `[O, C / groups, KD, KH, KW]`,
    plus a bias `[O]`."""
def conv_transpose1d(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Transposed convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[C, O / groups, K]`, plus a
    bias `[O]`."""
def conv_transpose2d(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Transposed convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[C, O / groups, KH, KW]`,
    plus a bias `[O]`."""
def conv_transpose3d(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """Transposed convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel
    `[C, O / groups, KD, KH, KW]`, plus a bias `[O]`."""
def copysign(x: Tensor, /, other: TensorLike) -> Tensor:
    """The absolute value of `a` with the sign of `b`, elementwise; -0 counts as negative.

    >>> tensor([1.5, 2.0, -3.0]).copysign(tensor([-1.0, -0.0, 2.0])).tolist()  # by hand
    [-1.5, -2.0, 3.0]"""
def cos(x: Tensor, /) -> Tensor:
    """Cosine of an angle in radians, elementwise.

    >>> tensor([0.0, 1.0]).cos().tolist()  # Abramowitz and Stegun, table 4.6
    [1.0, 0.5403023058681398]"""
def cosh(x: Tensor, /) -> Tensor:
    """Hyperbolic cosine, elementwise.

    >>> tensor([0.0, 1.0]).cosh().tolist()  # Abramowitz and Stegun, table 4.15
    [1.0, 1.5430806348152437]"""
def cosine_embedding_loss(x: Tensor, /, other: TensorLike, target: TensorLike, margin: builtins.float = 0.0, reduction: str = "mean") -> Tensor:
    """1 − cos where the target is 1, max(0, cos − margin) where it is −1, cos the cosine of the
    angle with `other` along the last axis, reduced."""
def cosine_similarity(x: Tensor, /, other: TensorLike, axis: builtins.int = 1, eps: builtins.float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis of the common shape; lengths count as
    at least `eps` (usually 1e-8)."""
def count_nonzero(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """How many elements are not zero along axes (`..` for all), which disappear."""
def cov(x: Tensor, /, correction: builtins.float = 1.0) -> Tensor:
    """Covariances of the rows of a matrix: a variable a row, an observation a column; divided by
    the number of observations less `correction`."""
def cross(x: Tensor, /, other: TensorLike, axis: builtins.int = -1) -> Tensor:
    """Vector product along an axis of size 3; the other dimensions broadcast."""
def cross_entropy(x: Tensor, /, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, label_smoothing: builtins.float | None = None, reduction: str | None = None) -> Tensor:
    """Cross entropy of these logits `[N, C, *D]` (or `[C]`) with class numbers `[N, *D]` or class
    probabilities `[N, C, *D]`."""
def ctc_loss(x: Tensor, /, targets: TensorLike, times: TensorLike, lengths: TensorLike, blank: builtins.int | None = None, zero_infinity: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
    """Connectionist temporal classification: how unlikely the targets `[N, S]` are under these
    log-probabilities `[T, N, C]`, of which `times` and `lengths` (`[N]`) count."""
def cummax(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The greatest element so far along an axis and its place: the last of equal ones, NaN from the
    first NaN on."""
def cummin(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The least element so far along an axis and its place: the last of equal ones, NaN from the
    first NaN on."""
def cumprod(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """Running products along an axis; integers and bool are multiplied in 64 bits."""
def cumsum(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """Running sums along an axis; integers and bool are summed in 64 bits."""
def cumsum_reverse(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """Running sums along an axis from its end."""
def deg2rad(x: Tensor, /) -> Tensor:
    """Degrees converted to radians, elementwise."""
def det(x: Tensor, /) -> Tensor:
    """The determinant of a square matrix."""
def diag(x: Tensor, /, offset: builtins.int = 0) -> Tensor:
    """A vector as the diagonal `offset` of a matrix, or that diagonal of a matrix as a vector."""
def diag_embed(x: Tensor, /, offset: builtins.int = 0, axis1: builtins.int = -2, axis2: builtins.int = -1) -> Tensor:
    """The last dimension on the diagonal `offset` of new dimensions `axis1` and `axis2` of the
    result, zeros elsewhere."""
def diagonal(x: Tensor, /, offset: builtins.int = 0, axis1: builtins.int = 0, axis2: builtins.int = 1) -> Tensor:
    """The elements whose place along `axis2` is that along `axis1` plus `offset`, as a new last
    dimension."""
def digamma(x: Tensor, /) -> Tensor:
    """Digamma function: the slope of `lgamma`, elementwise.

    >>> tensor([1.0, 0.5, 2.0, -0.5]).digamma().tolist()  # Abramowitz and Stegun, 6.3.2 to 6.3.5
    [-0.5772156649015329, -1.9635100260214235, 0.4227843350984671, 0.03648997397857652]"""
def dist(x: Tensor, /, other: TensorLike, ord: builtins.float = 2.0) -> Tensor:
    """The norm of order `ord` of the difference to another tensor."""
def div(x: Tensor, /, other: TensorLike) -> Tensor:
    """True quotient, elementwise; integers are divided as `f32`.

    >>> tensor([1.5, -2.0]).div(tensor([2.0, 0.5])).tolist()  # by hand
    [0.75, -4.0]"""
def dot(x: Tensor, /, other: TensorLike) -> Tensor:
    """Sum of the products of two vectors of one length."""
def dropout(x: Tensor, /, p: builtins.float, key: TensorLike) -> Tensor:
    """Each element 0 with probability `p`, else divided by `1 - p`, from a key: i64, a seed and a
    counter."""
def dropout_channels(x: Tensor, /, p: builtins.float, key: TensorLike) -> Tensor:
    """Each channel (axis 1) of each example as a whole 0 with probability `p`, else divided by
    `1 - p`."""
def eig(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """Eigenvalues of a square matrix, in no order, and eigenvectors as columns of length 1; both
    complex. Of a symmetric or Hermitian matrix `eigh` gives real ones, ascending."""
def eigh(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending, and eigenvectors as columns; the
    lower triangle is read."""
def eigh_of(x: Tensor, /, triangle: str) -> tuple[Tensor, Tensor]:
    """`eigh`, reading the given triangle."""
def eigvals(x: Tensor, /) -> Tensor:
    """Eigenvalues of a square matrix, in no order."""
def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of a symmetric or Hermitian matrix, ascending; the lower triangle is read."""
def eigvalsh_of(x: Tensor, /, triangle: str) -> Tensor:
    """`eigvalsh`, reading the given triangle."""
def elu(x: Tensor, /, alpha: builtins.float = 1.0) -> Tensor:
    """x where it is positive, else alpha (exp(x) - 1), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).elu(2.0).tolist()  # by hand: 2 (1/e - 1)
    [-1.2642411176571153, 0.0, 3.0]"""
def embedding(x: Tensor, /, index: TensorLike) -> Tensor:
    """Rows of this table `[V, E]` at an index of any shape."""
def embedding_padded(x: Tensor, /, index: TensorLike, padding: builtins.int) -> Tensor:
    """Rows of this table `[V, E]`, of which the row `padding` (counted from the end if negative)
    collects no gradient."""
def entr(x: Tensor, /) -> Tensor:
    """-x log(x), elementwise; 0 at 0, -inf below."""
def eq(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether `a` equals `b`, elementwise; NaN equals nothing.

    >>> tensor([1.0, 2.0]).eq(tensor([2.0, 2.0])).tolist()  # by hand
    [False, True]"""
def erf(x: Tensor, /) -> Tensor:
    """Error function 2/sqrt(π) ∫₀ˣ exp(-t²) dt, elementwise.

    >>> tensor([0.0, 0.5, 1.0]).erf().tolist()  # Abramowitz and Stegun, table 7.1
    [0.0, 0.5204998778130465, 0.8427007929497149]"""
def erfc(x: Tensor, /) -> Tensor:
    """1 - erf(x) without cancellation for large x, elementwise.

    >>> tensor([0.0, 0.5, 1.0]).erfc().tolist()  # Abramowitz and Stegun, table 7.1
    [1.0, 0.4795001221869535, 0.1572992070502851]"""
def erfcx(x: Tensor, /) -> Tensor:
    """exp(x²) erfc(x) without overflow, elementwise.

    >>> tensor([0.0, 1.0, 100.0]).erfcx().tolist()  # Abramowitz and Stegun, table 7.2 and 7.1.23
    [1.0, 0.427583576155807, 0.005641613782989433]"""
def erfinv(x: Tensor, /) -> Tensor:
    """The number with this error function, elementwise; NaN outside [-1, 1]."""
def exp(x: Tensor, /) -> Tensor:
    """Exponential, elementwise."""
def exp2(x: Tensor, /) -> Tensor:
    """2 to the power x, elementwise.

    >>> tensor([0.0, 3.0, -1.0]).exp2().tolist()  # by hand
    [1.0, 8.0, 0.5]"""
def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1 without cancellation near 0, elementwise.

    >>> tensor([0.0, 1.0, 1e-10]).expm1().tolist()  # series e - 1 = 1 + 1/2 + 1/6 + …
    [0.0, 1.718281828459045, 1.00000000005e-10]"""
def fftn(x: Tensor, /, axes: ShapeLike, norm: str) -> Tensor:
    """`fft` along several axes, one after the other."""
def flatten(x: Tensor, /, start: builtins.int = 0, end: builtins.int = -1) -> Tensor:
    """The dimensions from `start` to `end`, both included, made one; a scalar becomes a vector."""
def flip(x: Tensor, /, axis: Axis = None) -> Tensor:
    """The order reversed along axes."""
def float8_linear(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """An affine map of the last dimension, x wᵀ + b for a weight `[O, I]` and a bias `[O]`, whose
    products are those of 8-bit floats: x and w as f8e4m3, gradients as f8e5m2, each divided by a
    scale that makes use of the whole type. What `autocast` in f8e4m3 makes of `linear`."""
def float_power(x: Tensor, /, exponent: TensorLike) -> Tensor:
    """`self` to the power `exponent`, elementwise, computed in f64."""
def floor(x: Tensor, /) -> Tensor:
    """The greatest whole number that is not greater, elementwise.

    >>> tensor([-1.5, 1.5]).floor().tolist()  # by hand
    [-2.0, 1.0]"""
def floor_divide(x: Tensor, /, other: TensorLike) -> Tensor:
    """Quotient rounded down, elementwise, as Python's `//`: of floats, `a - a % b` divided by b. An infinite dividend
    gives an infinite quotient, as the array API wants; integer division by 0 gives 0.

    >>> tensor([7.0, -7.0, 7.0]).floor_divide(tensor([2.0, 2.0, -2.0])).tolist()  # Python manual: // rounds toward minus infinity
    [3.0, -4.0, -4.0]"""
def fmax(x: Tensor, /, other: TensorLike) -> Tensor:
    """The greater of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient."""
def fmin(x: Tensor, /, other: TensorLike) -> Tensor:
    """The lesser of two, elementwise; a NaN is ignored where the other is a number. At a tie each gets half of the gradient."""
def fmod(x: Tensor, /, other: TensorLike) -> Tensor:
    """Remainder with the sign of `a`, as C's `fmod`, elementwise; integer division by 0 gives 0.

    >>> tensor([5.0, -5.0, 5.0]).fmod(tensor([3.0, 3.0, -3.0])).tolist()  # C standard: fmod has the sign of the first operand
    [2.0, -2.0, 2.0]"""
def fold(x: Tensor, /, axis: builtins.int, step: builtins.int, length: builtins.int) -> Tensor:
    """Windows along an axis, `step` apart, their elements in the last dimension, added up where
    they overlap in an axis of `length` elements: the transpose of `unfold`."""
def frac(x: Tensor, /) -> Tensor:
    """x less its whole part, with the sign of x, elementwise.

    >>> tensor([1.25, -2.5]).frac().tolist()  # by hand
    [0.25, -0.5]"""
def gather(x: Tensor, /, axis: builtins.int, index: TensorLike) -> Tensor:
    """Elements chosen along an axis by an index of the same rank: along axis 0 of a matrix,
    `y[i, j] = x[index[i, j], j]`."""
def gaussian_nll_loss(x: Tensor, /, target: TensorLike, variance: TensorLike, full: builtins.bool, eps: builtins.float = 1e-6, reduction: str = "mean") -> Tensor:
    """Negative log-likelihood of a target under a normal distribution with this mean and the given
    variance (at least `eps`, usually 1e-6); with its constant term if `full`; reduced. A variance
    without the last dimension is that of whole rows."""
def ge(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether `a >= b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).ge(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [False, True, True]"""
def gelu(x: Tensor, /) -> Tensor:
    """x Φ(x) with the normal distribution function Φ, elementwise; exact, by the error function."""
def gelu_tanh(x: Tensor, /) -> Tensor:
    """x Φ(x) with Φ approximated by tanh, elementwise: 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).

    >>> tensor([0.0, 1.0, -1.0]).gelu_tanh().tolist()  # hand arithmetic of the formula
    [0.0, 0.8411919906082768, -0.15880800939172324]"""
def global_avg_pool(x: Tensor, /) -> Tensor:
    """The mean of each channel of `[N, C, *S]`: `[N, C]`."""
def global_max_pool(x: Tensor, /) -> Tensor:
    """The greatest element of each channel of `[N, C, *S]`: `[N, C]`."""
def glu(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second half."""
def grid_sample(x: Tensor, /, grid: TensorLike, mode: str | None = None, padding: str | None = None, align_corners: builtins.bool | None = None) -> Tensor:
    """An image `[N, C, *S]` read at places `[N, *Q, D]`; see the row for what places mean."""
def group_norm(x: Tensor, /, groups: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """Channels (axis 1) in groups, each group of each example moved to mean 0 and scaled to
    variance 1; then times a weight and plus a bias for each channel, if given."""
def gt(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether `a > b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).gt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [False, False, True]"""
def hardshrink(x: Tensor, /, lambd: builtins.float = 0.5) -> Tensor:
    """x, but 0 where its size is not above `lambda`, elementwise.

    >>> tensor([-1.0, 0.25, 0.5, 2.0]).hardshrink(0.5).tolist()  # by hand
    [-1.0, 0.0, 0.0, 2.0]"""
def hardsigmoid(x: Tensor, /) -> Tensor:
    """(x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 3.0]).hardsigmoid().tolist()  # by hand
    [0.0, 0.5, 0.75, 1.0]"""
def hardswish(x: Tensor, /) -> Tensor:
    """x times (x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 6.0]).hardswish().tolist()  # by hand
    [0.0, 0.0, 1.125, 6.0]"""
def hardtanh(x: Tensor, /, lo: builtins.float = -1.0, hi: builtins.float = 1.0) -> Tensor:
    """x held in [lo, hi], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 3.0]).hardtanh(-1.0, 1.0).tolist()  # by hand
    [-1.0, 0.5, 1.0]"""
def hinge_embedding_loss(x: Tensor, /, target: TensorLike, margin: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
    """This distance where the target is 1, max(0, margin − distance) where it is −1, reduced."""
def histogram(x: Tensor, /, bins: builtins.int, lo: builtins.float, hi: builtins.float) -> Tensor:
    """How many elements fall into each of `bins` equal intervals from `lo` to `hi`, which belongs
    to the last; others are not counted."""
def hstack(parts: Sequence[TensorLike]) -> Tensor:
    """Tensors side by side: along the second axis, vectors along their only one."""
def huber_loss(x: Tensor, /, target: TensorLike, delta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
    """d² / 2 where the difference |d| from a target is at most delta, else
    delta (|d| − delta / 2), reduced."""
def hypot(x: Tensor, /, other: TensorLike) -> Tensor:
    """sqrt(a² + b²) without overflow, elementwise."""
def i0(x: Tensor, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0, elementwise.

    >>> tensor([0.0, 1.0, -2.0]).i0().tolist()  # Abramowitz and Stegun, table 9.8
    [1.0, 1.2660658777520084, 2.2795853023360673]"""
def i1(x: Tensor, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1, elementwise.

    >>> tensor([0.0, 1.0, -2.0]).i1().tolist()  # Abramowitz and Stegun, table 9.8
    [0.0, 0.5651591039924851, -1.590636854637329]"""
def ifft(x: Tensor, /, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `fft`."""
def ifftn(x: Tensor, /, axes: ShapeLike, norm: str) -> Tensor:
    """`ifft` along several axes, one after the other."""
def im2col(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | str | None = None, dilation: ShapeLike | None = None, groups: builtins.int | None = None, output_padding: ShapeLike | None = None) -> Tensor:
    """The windows of `[N, C, H, W]` (or `[C, H, W]`) as columns `[N, C · KH · KW, L]`. Of the
    options, stride, even padding and dilation count."""
def index_add(x: Tensor, /, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
    """Slices added at places along an axis: along axis 0, `x[index[i], ...] += src[i, ...]`."""
def index_copy(x: Tensor, /, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
    """Slices put at places along an axis: along axis 0, `x[index[i], ...] = src[i, ...]`."""
def index_fill(x: Tensor, /, axis: builtins.int, index: TensorLike, value: TensorLike) -> Tensor:
    """One value put into the slices at places along an axis."""
def index_select(x: Tensor, /, axis: builtins.int, index: TensorLike) -> Tensor:
    """`take` with the arguments in PyTorch's order and an index of one dimension."""
def inner(x: Tensor, /, other: TensorLike) -> Tensor:
    """Sums of products over the last dimension of both tensors."""
def instance_norm(x: Tensor, /, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """Each channel (axis 1) of each example moved to mean 0 and scaled to variance 1; then times
    a weight and plus a bias for each channel, if given."""
def int_matmul(x: Tensor, /, other: TensorLike) -> Tensor:
    """Matrix product of matrices of 8-bit integers (`i8` or `u8`, each side its own), summed in `i32`:
    what quantized models are made of."""
def inv(x: Tensor, /) -> Tensor:
    """The inverse of a square matrix; a singular one is an error when the value is computed."""
def irfft(x: Tensor, /, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
    """The real numbers whose Fourier transform starts with these frequencies:
    the inverse of `rfft`. Without `n` there are twice as many as frequencies, less 2."""
def is_finite(x: Tensor, /) -> Tensor:
    """Whether it is neither infinite nor NaN, elementwise."""
def is_inf(x: Tensor, /) -> Tensor:
    """Whether it is infinite, of either sign, elementwise."""
def is_nan(x: Tensor, /) -> Tensor:
    """Whether it is not a number, elementwise."""
def kl_div(x: Tensor, /, target: TensorLike, log_target: builtins.bool = False, reduction: str = "mean") -> Tensor:
    """Kullback-Leibler divergence of these log-probabilities from a target, which is given as its
    logarithm if `log_target`, reduced ([`Reduction::BatchMean` is the mathematical one)."""
def kron(x: Tensor, /, other: TensorLike) -> Tensor:
    """Kronecker product: every element replaced by itself times the other tensor."""
def kthvalue(x: Tensor, /, k: builtins.int = 0, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The `k`-th least element along an axis, counted from 1, and its place; the axis disappears."""
def l1_loss(x: Tensor, /, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The absolute difference from a target, reduced."""
def layer_norm(x: Tensor, /, axes: builtins.int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: builtins.float = 1e-5) -> Tensor:
    """x moved to mean 0 and scaled to variance 1 over the last `axes` dimensions; then times a
    weight and plus a bias of their shape, if given."""
def ldexp(x: Tensor, /, exponent: TensorLike) -> Tensor:
    """x times 2 to the power `exponent`, elementwise."""
def le(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether `a <= b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).le(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [True, True, False]"""
def leaky_relu(x: Tensor, /, slope: builtins.float = 0.01) -> Tensor:
    """x where it is positive, else `slope` times x, elementwise.

    >>> tensor([-2.0, 0.0, 3.0]).leaky_relu(0.25).tolist()  # by hand
    [-0.5, 0.0, 3.0]"""
def lerp(x: Tensor, /, end: TensorLike, weight: TensorLike) -> Tensor:
    """`self + weight (end - self)`, elementwise."""
def lgamma(x: Tensor, /) -> Tensor:
    """Logarithm of the absolute value of the gamma function, elementwise.

    >>> tensor([1.0, 5.0, 0.5, -0.5]).lgamma().tolist()  # log 4!, log sqrt(π), log(2 sqrt(π))
    [0.0, 3.1780538303479458, 0.5723649429247001, 1.2655121234846454]"""
def linear(x: Tensor, /, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """An affine map of the last dimension: x wᵀ + b for a weight `[O, I]` and a bias `[O]`."""
def local_response_norm(x: Tensor, /, size: builtins.int, alpha: builtins.float = 1e-4, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
    """x divided by (k + alpha m)^beta, where m is the mean square over `size` neighboring
    channels (axis 1), counting missing ones as 0."""
def log(x: Tensor, /) -> Tensor:
    """Natural logarithm, elementwise; negative numbers give NaN."""
def log10(x: Tensor, /) -> Tensor:
    """Logarithm to base 10, elementwise; negative numbers give NaN."""
def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x) without cancellation near 0, elementwise."""
def log2(x: Tensor, /) -> Tensor:
    """Logarithm to base 2, elementwise; negative numbers give NaN.

    >>> tensor([1.0, 8.0, 0.5]).log2().tolist()  # by hand
    [0.0, 3.0, -1.0]"""
def log_ndtr(x: Tensor, /) -> Tensor:
    """The logarithm of `ndtr` without underflow, elementwise."""
def log_sigmoid(x: Tensor, /) -> Tensor:
    """log(sigmoid(x)) without overflow, elementwise."""
def log_softmax(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """The logarithm of softmax along an axis, computed without it."""
def logaddexp(x: Tensor, /, other: TensorLike) -> Tensor:
    """log(exp(a) + exp(b)) without overflow, elementwise."""
def logaddexp2(x: Tensor, /, other: TensorLike) -> Tensor:
    """log2(2^a + 2^b) without overflow, elementwise."""
def logcumsumexp(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """The logarithm of the running sums of the exponentials along an axis, without overflow."""
def logdet(x: Tensor, /) -> Tensor:
    """The logarithm of the determinant: NaN where it is negative."""
def logical_and(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether both differ from 0, elementwise, for any element types."""
def logical_not(x: Tensor, /) -> Tensor:
    """Whether it is 0 or false, elementwise, for any element type."""
def logical_or(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether either differs from 0, elementwise, for any element types."""
def logical_xor(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether exactly one differs from 0, elementwise, for any element types."""
def logit(x: Tensor, /) -> Tensor:
    """log(x / (1 - x)), elementwise; NaN outside [0, 1].

    >>> tensor([0.5, 0.75]).logit().tolist()  # by hand: log 3
    [0.0, 1.0986122886681098]"""
def logit_eps(x: Tensor, /, eps: builtins.float = 1e-5) -> Tensor:
    """log(x / (1 - x)), elementwise, with x moved into [eps, 1 - eps] first."""
def logsumexp(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """log of the sum of exp(x) along axes (`..` for all), which disappear, without overflow."""
def lstsq(x: Tensor, /, b: TensorLike) -> Tensor:
    """The X of least length among those that make A X - B shortest, for this matrix A."""
def lt(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether `a < b`, elementwise; false where either is NaN.

    >>> tensor([1.0, 2.0, 3.0]).lt(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [True, False, False]"""
def lu(x: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
    """A permutation matrix P, a unit lower triangular L and an upper triangular U with A = P L U."""
def margin_ranking_loss(x: Tensor, /, other: TensorLike, target: TensorLike, margin: builtins.float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, margin − t (this − other)) for a target t of 1 (this above) or −1 (other above),
    reduced."""
def masked_fill(x: Tensor, /, mask: TensorLike, value: TensorLike) -> Tensor:
    """`value` where the mask holds, else the element. The value takes the tensor's type."""
def masked_select(x: Tensor, /, mask: TensorLike) -> Tensor:
    """The elements where the mask holds, in row-major order; the two broadcast.

    How many there are depends on the mask's values, so the mask is computed at once."""
def matmul(x: Tensor, /, other: TensorLike) -> Tensor:
    """Matrix product with NumPy's rules: vectors are rows on the left and columns on the right,
    leading dimensions broadcast."""
def matrix_exp(x: Tensor, /) -> Tensor:
    """The exponential of a square matrix, or of each of a batch."""
def matrix_norm(x: Tensor, /, norm: str | builtins.float, axes: tuple[builtins.int, builtins.int], keepdims: builtins.bool = False) -> Tensor:
    """The size of the matrices along two axes (rows, columns), which disappear."""
def matrix_power(x: Tensor, /, n: builtins.int = 1) -> Tensor:
    """A square matrix multiplied with itself `n` times; a negative power is that of the inverse."""
def max(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The greatest element along axes (`..` for all), which disappear; NaN if there is one. Equal
    elements share the gradient evenly; see `max_index` for the place."""
def max_index(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The greatest element along one axis, which disappears, and its place: the first of equal ones,
    which alone gets the gradient."""
def max_pool1d(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
    """The greatest element of each window of `[N, C, L]` (or `[C, L]`)."""
def max_pool1d_index(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    """`max_pool1d` with the place of each greatest element."""
def max_pool2d(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
    """The greatest element of each window of `[N, C, H, W]` (or `[C, H, W]`)."""
def max_pool2d_index(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    """`max_pool2d` with the place of each greatest element in the flattened plane."""
def max_pool3d(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> Tensor:
    """The greatest element of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`)."""
def max_pool3d_index(x: Tensor, /, window: ShapeLike, stride: ShapeLike | None = None, padding: ShapeLike | None = None, dilation: ShapeLike | None = None, ceil_mode: builtins.bool | None = None) -> tuple[Tensor, Tensor]:
    """`max_pool3d` with the place of each greatest element in the flattened volume."""
def maximum(x: Tensor, /, other: TensorLike) -> Tensor:
    """The greater of two, elementwise; NaN if either is. At a tie each gets half of the gradient.

    >>> tensor([1.0, 5.0]).maximum(tensor([2.0, 4.0])).tolist()  # by hand
    [2.0, 5.0]"""
def mean(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Arithmetic mean along axes (`..` for all), which disappear; integers are converted to f32."""
def median(x: Tensor, /, axis: Axis = None) -> Tensor:
    """The middle element along an axis, or of all for `..`; of an
    even number, the lower of the two in the middle. The axis disappears. Equal elements share
    the gradient of `..` evenly."""
def median_index(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The middle element along an axis and its place;
    of an even number, the lower of the two in the middle. The axis disappears."""
def min(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The least element along axes (`..` for all), which disappear; NaN if there is one. Equal
    elements share the gradient evenly; see `min_index` for the place."""
def min_index(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The least element along one axis, which disappears, and its place: the first of equal ones,
    which alone gets the gradient."""
def minimum(x: Tensor, /, other: TensorLike) -> Tensor:
    """The lesser of two, elementwise; NaN if either is. At a tie each gets half of the gradient.

    >>> tensor([1.0, 5.0]).minimum(tensor([2.0, 4.0])).tolist()  # by hand
    [1.0, 4.0]"""
def mish(x: Tensor, /) -> Tensor:
    """x tanh(softplus(x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098]).mish().tolist()  # by hand: tanh(log 4) = 15/17
    [0.0, 0.969363784118920]"""
def mm(x: Tensor, /, other: TensorLike) -> Tensor:
    """Product of two matrices, without broadcasting."""
def moveaxis(x: Tensor, /, source: ShapeLike, destination: ShapeLike) -> Tensor:
    """Axes moved to other places; the others keep their order."""
def mse_loss(x: Tensor, /, target: TensorLike, reduction: str = "mean") -> Tensor:
    """The squared difference from a target, reduced."""
def mul(x: Tensor, /, other: TensorLike) -> Tensor:
    """Product, elementwise. For bool: logical and.

    >>> tensor([1.5, -2.0]).mul(tensor([2.0, 0.5])).tolist()  # by hand
    [3.0, -1.0]"""
def mv(x: Tensor, /, vector: TensorLike) -> Tensor:
    """Product of a matrix and a vector."""
def mvlgamma(x: Tensor, /, p: builtins.int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension `p`, elementwise:
    p (p - 1) / 4 log π + Σ lgamma(x - i / 2) for i from 0 to p - 1."""
def nan_to_num(x: Tensor, /, nan: builtins.float = 0.0, posinf: builtins.float = 1.7976931348623157e308, neginf: builtins.float = -1.7976931348623157e308) -> Tensor:
    """x with NaN, inf and -inf replaced by numbers, elementwise; finite numbers beyond the element
    type's greatest become that."""
def nanmean(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Arithmetic mean with NaN left out, along axes (`..` for all), which disappear."""
def nanmedian(x: Tensor, /, axis: Axis = None) -> Tensor:
    """The middle element along an axis, or of all for `..`, with NaN left out; of an
    even number, the lower of the two in the middle. The axis disappears."""
def nanmedian_index(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The middle element along an axis and its place, with NaN left out;
    of an even number, the lower of the two in the middle. The axis disappears."""
def nansum(x: Tensor, /, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Sum with NaN left out, along axes (`..` for all), which disappear; integers and
    bool are summed in 64 bits."""
def narrow(x: Tensor, /, axis: builtins.int, start: builtins.int, size: builtins.int) -> Tensor:
    """`size` elements from `start` on along one axis."""
def ndtr(x: Tensor, /) -> Tensor:
    """The probability that a normal variable is not above x, elementwise.

    >>> tensor([0.0, 1.0, -1.0]).ndtr().tolist()  # Abramowitz and Stegun, table 26.1
    [0.5, 0.8413447460685429, 0.15865525393145707]"""
def ne(x: Tensor, /, other: TensorLike) -> Tensor:
    """Whether `a` differs from `b`, elementwise; NaN differs from everything.

    >>> tensor([1.0, 2.0, 3.0]).ne(tensor([2.0, 2.0, 2.0])).tolist()  # by hand
    [True, False, True]"""
def neg(x: Tensor, /) -> Tensor:
    """Negative, elementwise.

    >>> tensor([1.5, -2.0]).neg().tolist()  # by hand
    [-1.5, 2.0]"""
def nll_loss(x: Tensor, /, target: TensorLike, weight: TensorLike | None = None, ignore_index: builtins.int | None = None, reduction: str | None = None) -> Tensor:
    """Minus these log-probabilities `[N, C, *D]` (or `[C]`) at the classes `[N, *D]`."""
def norm(x: Tensor, /) -> Tensor:
    """The square root of the sum of all squares."""
def normalize(x: Tensor, /, ord: builtins.float = 2.0, axis: Axis = 1, eps: builtins.float = 1e-12) -> Tensor:
    """x divided by the norm of order `ord` (2 for Euclid's) of its vectors along axes, or by eps
    where that is greater."""
def bitwise_not(x: Tensor, /) -> Tensor:
    """Logical not of bool, bitwise not of integers, elementwise."""
def one_hot(x: Tensor, /, classes: builtins.int, dtype: DTypeLike = "float32") -> Tensor:
    """For each class number a row of `classes` elements with a one at its place, as a new last
    dimension; zeros for numbers beyond."""
def bitwise_or(x: Tensor, /, other: TensorLike) -> Tensor:
    """Logical or of bool, bitwise or of integers, elementwise."""
def outer(x: Tensor, /, other: TensorLike) -> Tensor:
    """Matrix of the products of each element of this vector with each of another."""
def pairwise_distance(x: Tensor, /, other: TensorLike, p: builtins.float = 2.0, eps: builtins.float = 1e-6, keepdims: builtins.bool = False) -> Tensor:
    """The p-norm of the difference from `other`, plus `eps` (usually 1e-6), along the last axis,
    which disappears."""
def pinv(x: Tensor, /) -> Tensor:
    """Moore's and Penrose's inverse; singular values below the precision of the type times the
    larger size count as zero."""
def pinv_rtol(x: Tensor, /, rtol: builtins.float) -> Tensor:
    """`pinv` where singular values not above `rtol` times the greatest count as zero."""
def pixel_shuffle(x: Tensor, /, factor: builtins.int) -> Tensor:
    """Channels spread over pixels `factor` times as fine: `[.., c·f², h, w]` becomes
    `[.., c, h·f, w·f]`."""
def pixel_unshuffle(x: Tensor, /, factor: builtins.int) -> Tensor:
    """Blocks of `factor` × `factor` pixels gathered into channels: the inverse of `pixel_shuffle`."""
def poisson_nll_loss(x: Tensor, /, target: TensorLike, log_input: builtins.bool | None = None, full: builtins.bool | None = None, eps: builtins.float | None = None, reduction: str | None = None) -> Tensor:
    """Negative log-likelihood of counts under Poisson distributions with these rates."""
def polygamma(x: Tensor, /, n: builtins.int = 1) -> Tensor:
    """The n-th derivative of the digamma function, elementwise."""
def pow(x: Tensor, /, other: TensorLike) -> Tensor:
    """`a` to the power `b`, elementwise; for integers a negative exponent gives 0 (1 for base ±1).

    >>> tensor([2.0, 9.0]).pow(tensor([3.0, 0.5])).tolist()  # by hand
    [8.0, 3.0]"""
def prelu(x: Tensor, /, weight: TensorLike) -> Tensor:
    """x where it is positive, else x times a weight: a single one, or one for each channel, which
    is axis 1."""
def put(x: Tensor, /, index: TensorLike, src: TensorLike) -> Tensor:
    """Values put at places of the flattened tensor; negative places count from the end."""
def put_add(x: Tensor, /, index: TensorLike, src: TensorLike) -> Tensor:
    """Values added at places of the flattened tensor; negative places count from the end."""
def qr(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """Q with orthonormal columns and upper triangular R with A = Q R."""
def qr_full(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """`qr` with a square Q, whose additional columns span what is left, and as many rows
    of R."""
def quantize(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The numbers as `i8`, and an `f32` scale for each slice along an axis (which is kept, with size
    1): their product is near the numbers, off by half a scale at most."""
def quantized_linear(x: Tensor, /, weight: TensorLike, scale: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x wᵀ + b on the last dimension, with a weight and a scale from `quantize` along the
    weight's last axis. Each row of x is quantized on the way (a dynamically quantized layer)."""
def rad2deg(x: Tensor, /) -> Tensor:
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
def ravel(x: Tensor, /) -> Tensor:
    """All dimensions made one."""
def recip(x: Tensor, /) -> Tensor:
    """1 / x, elementwise; integers are converted to `f32`.

    >>> tensor([4.0, -0.5]).recip().tolist()  # by hand
    [0.25, -2.0]"""
def relu(x: Tensor, /) -> Tensor:
    """max(x, 0), elementwise."""
def relu6(x: Tensor, /) -> Tensor:
    """x held in [0, 6], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 7.0]).relu6().tolist()  # by hand
    [0.0, 0.5, 6.0]"""
def rem(x: Tensor, /, other: TensorLike) -> Tensor:
    """Remainder with the sign of the divisor, as Python's `%`, elementwise; integer division by 0 gives 0.

    >>> tensor([5.0, -5.0, 5.0]).rem(tensor([3.0, 3.0, -3.0])).tolist()  # Python manual: % has the sign of the second operand
    [2.0, 1.0, -1.0]"""
def repeat_interleave(x: Tensor, /, times: builtins.int, axis: Axis = None) -> Tensor:
    """Each element repeated along an axis, or of the flattened tensor for `..`."""
def repeat_interleave_by(x: Tensor, /, times: TensorLike, axis: Axis = None) -> Tensor:
    """Each element along an axis repeated as often as `times`, a vector of integers, says.

    The result's size depends on these, so they are computed at once."""
def rfft(x: Tensor, /, n: builtins.int | None = None, axis: builtins.int | None = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform of a real tensor: the n/2 + 1 frequencies that determine the
    others, which are complex."""
def rms_norm(x: Tensor, /, axes: builtins.int, weight: TensorLike | None = None, eps: builtins.float = 1e-6) -> Tensor:
    """x divided by the root of its mean square over the last `axes` dimensions; then times a
    weight of their shape, if given."""
def rope(x: Tensor, /, cos: TensorLike, sin: TensorLike, interleaved: builtins.bool) -> Tensor:
    """Rotary position embedding: pairs along the last axis of `[…, L, E]` turned by angles given
    as cosines and sines `[L, E / 2]` (see `rope_table`). A pair is (i, i + E / 2), or
    neighbors (2 i, 2 i + 1) if `interleaved`."""
def rope_table(positions: TensorLike, width: builtins.int, base: builtins.float) -> tuple[Tensor, Tensor]:
    """Cosines and sines `[L, width / 2]` of the angles p / base^(2 i / width) for positions p `[L]`."""
def rot90(x: Tensor, /, k: builtins.int = 1, axes: tuple[builtins.int, builtins.int] = (0, 1)) -> Tensor:
    """Turned by `k` quarters from the first axis toward the second."""
def round(x: Tensor, /) -> Tensor:
    """The nearest whole number, elementwise; halves go to the even neighbor, as in NumPy.

    >>> tensor([0.5, 1.5, -2.5, 2.6]).round().tolist()  # NumPy manual: 0.5 rounds to 0, 1.5 to 2
    [0.0, 2.0, -2.0, 3.0]"""
def rsqrt(x: Tensor, /) -> Tensor:
    """1 / sqrt(x), elementwise.

    >>> tensor([1.0, 4.0, 0.25]).rsqrt().tolist()  # by hand
    [1.0, 0.5, 2.0]"""
def scaled_matmul(x: Tensor, /, other: TensorLike, scale: TensorLike, other_scale: TensorLike, bias: TensorLike | None = None, dtype: DTypeLike = "bfloat16") -> Tensor:
    """Matrix product of 8-bit floats, times a scale for each side: what the numbers were divided by
    before they were rounded to 8 bits. Summed in f32; the result is bf16, f16 or f32, and a bias is
    added to each row in that type."""
def scatter(x: Tensor, /, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
    """Values put at places along an axis: along axis 0 of a matrix,
    `x[index[i, j], j] = src[i, j]`. Of `src`, the part of the index's shape is used; of
    several values for one place the last stays."""
def scatter_add(x: Tensor, /, axis: builtins.int, index: TensorLike, src: TensorLike) -> Tensor:
    """Values added at places along an axis: along axis 0 of a matrix,
    `x[index[i, j], j] += src[i, j]`. Of `src`, the part of the index's shape is used."""
def scatter_reduce(x: Tensor, /, axis: builtins.int, index: TensorLike, src: TensorLike, by: str, include_self: builtins.bool = True) -> Tensor:
    """Values combined at places along an axis: along axis 0 of a matrix, `src[i, j]` goes to
    `x[index[i, j], j]`. Without `include_self` the elements that are there count for nothing
    where a value comes."""
def searchsorted_right(x: Tensor, /, values: TensorLike) -> Tensor:
    """For each value, the number of elements of this ascending sequence that are not greater."""
def select(x: Tensor, /, axis: builtins.int, index: builtins.int) -> Tensor:
    """One element along an axis, which disappears; a negative index counts from the end."""
def selu(x: Tensor, /) -> Tensor:
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.

    >>> tensor([-1.0, 0.0, 1.0]).selu().tolist()  # Klambauer and others, equations 2 and 14
    [-1.1113307378125625, 0.0, 1.0507009873554805]"""
def bitwise_left_shift(x: Tensor, /, other: TensorLike) -> Tensor:
    """Bits of `a` moved `b` places up, elementwise; 0 for more than 63 places or fewer than none."""
def bitwise_right_shift(x: Tensor, /, other: TensorLike) -> Tensor:
    """Bits of `a` moved `b` places down keeping the sign, elementwise: `a / 2ᵇ` rounded down; as for 63 places beyond that."""
def sigmoid(x: Tensor, /) -> Tensor:
    """1 / (1 + exp(-x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098, -800.0]).sigmoid().tolist()  # by hand: the logit of 3/4 is log 3
    [0.5, 0.75, 0.0]"""
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 by the sign, elementwise; 0 of both zeros, and NaN stays NaN.

    >>> tensor([-1.5, 0.0, 2.0]).sign().tolist()  # by hand
    [-1.0, 0.0, 1.0]"""
def silu(x: Tensor, /) -> Tensor:
    """x sigmoid(x), elementwise; also known as swish.

    >>> tensor([0.0, 1.0986122886681098]).silu().tolist()  # by hand: 3/4 log 3
    [0.0, 0.8239592165010823]"""
def sin(x: Tensor, /) -> Tensor:
    """Sine of an angle in radians, elementwise.

    >>> tensor([0.0, 1.0]).sin().tolist()  # Abramowitz and Stegun, table 4.6
    [0.0, 0.8414709848078965]"""
def sinc(x: Tensor, /) -> Tensor:
    """sin(πx) / (πx), elementwise; 1 at 0."""
def sinh(x: Tensor, /) -> Tensor:
    """Hyperbolic sine, elementwise.

    >>> tensor([0.0, 1.0]).sinh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 1.1752011936438014]"""
def slogdet(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The sign of the determinant and the logarithm of its magnitude."""
def smooth_l1_loss(x: Tensor, /, target: TensorLike, beta: builtins.float = 1.0, reduction: str = "mean") -> Tensor:
    """d² / (2 beta) where the difference |d| from a target is below beta, else |d| − beta / 2,
    reduced."""
def softmax(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """exp(x) divided by its sum along an axis, without overflow."""
def softmax_cross_entropy(x: Tensor, /, target: TensorLike, axis: builtins.int = -1) -> Tensor:
    """−Σ p log softmax(x) along an axis, which disappears, for these logits x and a target
    distribution p of the same shape."""
def softmin(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """Softmax of the negative along an axis."""
def softplus(x: Tensor, /, beta: builtins.float = 1.0, threshold: builtins.float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, elementwise; x itself where beta x is above `threshold`."""
def softshrink(x: Tensor, /, lambd: builtins.float = 0.5) -> Tensor:
    """x moved toward 0 by `lambda`, but not beyond 0, elementwise.

    >>> tensor([-1.0, 0.25, 2.0]).softshrink(0.5).tolist()  # by hand
    [-0.5, 0.0, 1.5]"""
def softsign(x: Tensor, /) -> Tensor:
    """x / (1 + |x|), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).softsign().tolist()  # by hand
    [-0.5, 0.0, 0.75]"""
def solve(x: Tensor, /, b: TensorLike) -> Tensor:
    """X with A X = B for this square matrix A; leading dimensions broadcast. `b` may also be a
    vector for each matrix, as in NumPy: then so is the result. A singular matrix is an error
    when the value is computed."""
def sort_descending(x: Tensor, /, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The elements along an axis in descending order, and the place each came from."""
def split_sizes(x: Tensor, /, sizes: ShapeLike, axis: builtins.int = 0) -> list[Tensor]:
    """Consecutive pieces of the given sizes along an axis. On an error each piece carries it."""
def sqrt(x: Tensor, /) -> Tensor:
    """Square root, elementwise; negative numbers give NaN."""
def square(x: Tensor, /) -> Tensor:
    """x times x, elementwise.

    >>> tensor([-1.5, 2.0]).square().tolist()  # by hand
    [2.25, 4.0]"""
def squeeze(x: Tensor, /, axis: Axis = None) -> Tensor:
    """Without the dimensions of size 1 among `axes`, or without all of size 1 for `..`;
    larger ones stay, as in PyTorch."""
def stack(parts: Sequence[TensorLike], axis: builtins.int = 0) -> Tensor:
    """Tensors of one shape one after the other along a new axis, in their common type."""
def std(x: Tensor, /, axis: Axis = None, correction: builtins.float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    """Standard deviation along axes (`..` for all), which disappear: the square root of `var`."""
def stop_gradient(x: Tensor, /) -> Tensor:
    """The same value; no gradient flows through it."""
def sub(x: Tensor, /, other: TensorLike) -> Tensor:
    """Difference, elementwise.

    >>> tensor([1.5, -2.0]).sub(tensor([2.0, 0.5])).tolist()  # by hand
    [-0.5, -2.5]"""
def svd(x: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
    """U, s and V* with A = U diag(s) V*: the reduced singular value decomposition."""
def svd_full(x: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
    """`svd` with square U and V*, whose additional vectors span what is left."""
def svdvals(x: Tensor, /) -> Tensor:
    """Singular values in descending order."""
def swapaxes(x: Tensor, /, a: builtins.int, b: builtins.int) -> Tensor:
    """Two axes swapped: NumPy's name of `transpose(a, b)`."""
def take_along_axis(x: Tensor, /, index: TensorLike, axis: builtins.int = -1) -> Tensor:
    """Elements chosen along an axis by an index of the same rank, which broadcasts with the
    tensor beside the axis; negative places count from the end. Inverts `sort` and `argsort`."""
def tan(x: Tensor, /) -> Tensor:
    """Tangent of an angle in radians, elementwise.

    >>> tensor([0.0, 1.0]).tan().tolist()  # Abramowitz and Stegun, table 4.9
    [0.0, 1.5574077246549023]"""
def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent, elementwise.

    >>> tensor([0.0, 1.0]).tanh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.7615941559557649]"""
def tanhshrink(x: Tensor, /) -> Tensor:
    """x - tanh(x), elementwise.

    >>> tensor([0.0, 1.0]).tanhshrink().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.23840584404423515]"""
def threshold(x: Tensor, /, limit: builtins.float, value: builtins.float) -> Tensor:
    """x where it is above `limit`, else `value`, elementwise.

    >>> tensor([0.25, 0.5, 2.0]).threshold(0.5, 9.0).tolist()  # by hand
    [9.0, 9.0, 2.0]"""
def tile(x: Tensor, /, times: ShapeLike) -> Tensor:
    """The whole repeated along each dimension; missing counts in front are 1."""
def to_complex(x: Tensor, /) -> Tensor:
    """As a complex tensor: itself, or the real parts of one."""
def top_k(x: Tensor, /, k: builtins.int = 0, axis: builtins.int = -1) -> tuple[Tensor, Tensor]:
    """The `k` greatest elements along an axis, greatest first, and their places."""
def trace(x: Tensor, /) -> Tensor:
    """The sum of the diagonal of the last two dimensions; integers are summed in 64 bits."""
def transpose(x: Tensor, /, a: builtins.int, b: builtins.int) -> Tensor:
    """Two dimensions swapped."""
def triangular_solve(x: Tensor, /, b: TensorLike, upper: builtins.bool | None = None, right: builtins.bool | None = None, unit: builtins.bool | None = None) -> Tensor:
    """X with A X = B (or X A = B) for this triangular matrix A; leading dimensions broadcast."""
def triplet_margin_loss(x: Tensor, /, positive: TensorLike, negative: TensorLike, margin: builtins.float | None = None, norm: builtins.float | None = None, eps: builtins.float | None = None, swap: builtins.bool | None = None, reduction: str | None = None) -> Tensor:
    """max(0, margin + |a − p| − |a − n|) for this anchor a, a positive p and a negative n."""
def trunc(x: Tensor, /) -> Tensor:
    """The whole part, elementwise: rounds toward zero.

    >>> tensor([-1.7, 1.7]).trunc().tolist()  # by hand
    [-1.0, 1.0]"""
def unbind(x: Tensor, /, axis: builtins.int = 0) -> list[Tensor]:
    """The slices along an axis, one tensor each, without the axis; none along an empty axis."""
def unflatten(x: Tensor, /, axis: builtins.int, sizes: ShapeLike) -> Tensor:
    """One dimension split into several; one size may be -1: whatever is left."""
def unfold(x: Tensor, /, axis: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
    """Windows of `size` elements along an axis, `step` apart; the elements of a window are a new
    last dimension."""
def unsqueeze(x: Tensor, /, axis: builtins.int = -1) -> Tensor:
    """With a new dimension of size 1 at `axis` of the result; -1 appends it."""
def var(x: Tensor, /, axis: Axis = None, correction: builtins.float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    """Variance along axes (`..` for all), which disappear: squared distances from the mean, added
    and divided by their number less `correction`. 0 gives NumPy's default, the variance of the
    elements; 1 gives PyTorch's, the estimate from a sample."""
def var_mean(x: Tensor, /, axis: Axis = None, correction: builtins.float = 0.0) -> tuple[Tensor, Tensor]:
    """Variance and mean along axes, which disappear."""
def vecdot(x: Tensor, /, other: TensorLike, axis: builtins.int = -1) -> Tensor:
    """Sums of products along one axis, of one size in both, of two tensors that broadcast."""
def vector_norm(x: Tensor, /, ord: builtins.float = 2.0, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The length of the vectors along axes (`..` for all), which disappear, by an order: 2 for
    Euclid's, 1 for the sum of magnitudes, infinity for the greatest, 0 for the number of
    elements that are not zero."""
def view_as_complex(x: Tensor, /) -> Tensor:
    """The complex numbers whose parts, real and imaginary, lie along the last dimension."""
def view_as_real(x: Tensor, /) -> Tensor:
    """Complex numbers as their parts: a new last dimension of size 2, real and imaginary."""
def vstack(parts: Sequence[TensorLike]) -> Tensor:
    """Tensors on top of each other: along the first axis, vectors as rows."""
def xlog1py(x: Tensor, /, y: TensorLike) -> Tensor:
    """x log(1 + y), elementwise; 0 where x is 0."""
def xlogy(x: Tensor, /, y: TensorLike) -> Tensor:
    """x log(y), elementwise; 0 where x is 0."""
def bitwise_xor(x: Tensor, /, other: TensorLike) -> Tensor:
    """Exclusive or of bool, bitwise exclusive or of integers, elementwise."""
