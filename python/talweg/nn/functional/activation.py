"""Activations and softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from .common import in_place, tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ... import DTypeLike

    class _InPlace(Protocol):
        __name__: str

        def __call__(self, input: Tensor, inplace: bool = False) -> Tensor: ...

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu",
    "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
]  # fmt: skip


def _plain(name: str, op: str | None = None, doc: str | None = None) -> Callable[[Tensor], Tensor]:
    """A function of one tensor without settings."""
    call = getattr(Tensor, op or name)

    def f(input: Tensor) -> Tensor:
        return call(tensor(input))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc or call.__doc__
    return f


def _with_inplace(name: str, op: str | None = None) -> _InPlace:
    """A function of one tensor that may change it."""
    call = op if callable(op) else getattr(Tensor, op or name)

    def f(input: Tensor, inplace: bool = False) -> Tensor:
        return in_place(input, call(tensor(input)), inplace)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = call.__doc__
    return f


def _silu(x):
    """x sigmoid(x), elementwise; also known as swish."""
    return x / ((-x).exp() + 1) if x.is_complex() else Tensor.silu(x)


tanh, sigmoid, logsigmoid = _plain("tanh"), _plain("sigmoid"), _plain("logsigmoid", "log_sigmoid")
softsign, tanhshrink = _plain("softsign"), _plain("tanhshrink")
relu, relu6, selu = (_with_inplace(n) for n in ("relu", "relu6", "selu"))
silu = _with_inplace("silu", _silu)
mish, hardsigmoid, hardswish = (_with_inplace(n) for n in ("mish", "hardsigmoid", "hardswish"))


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise value_error(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return tensor(input).gelu_tanh() if approximate == "tanh" else tensor(input).gelu()


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) below zero."""
    return in_place(input, tensor(input).elu(alpha), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) below zero."""
    return in_place(input, tensor(input).celu(alpha), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, and ``negative_slope`` x below zero."""
    return in_place(input, tensor(input).leaky_relu(negative_slope), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x between ``min_val`` and ``max_val``."""
    if min_val > max_val:
        raise value_error(f"hardtanh: min_val must not be greater than max_val, but {min_val} > {max_val}")
    return in_place(input, tensor(input).hardtanh(min_val, max_val), inplace)


def threshold(input: Tensor, threshold: float, value: Any, inplace: bool = False) -> Tensor:
    """x where it is above ``threshold``, else ``value``."""
    return in_place(input, tensor(input).threshold(threshold, value), inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""
    return tensor(input).softplus(beta, threshold)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards zero by ``lambd``."""
    return tensor(input).softshrink(lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and zero within ±``lambd``."""
    return tensor(input).hardshrink(lambd)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, and ``weight`` x below zero, one weight for all or one for each channel."""
    return tensor(input).prelu(weight)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """A leaky ReLU whose slope is drawn between ``lower`` and ``upper``; in inference it is their mean."""
    x = tensor(input)
    slope = _native.uniform(x.shape, lower, upper).astype(x.dtype) if training else (lower + upper) / 2
    return in_place(input, Tensor.where(x <= 0, x * slope, x), inplace)


def _in_place(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of a function."""

    def g(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return f(input, *args, **kwargs, inplace=True)

    g.__name__ = g.__qualname__ = f.__name__ + "_"
    g.__doc__ = f"``{f.__name__}`` in place."
    return g


relu_, selu_, elu_, celu_ = map(_in_place, (relu, selu, elu, celu))
leaky_relu_, hardtanh_, threshold_, rrelu_ = map(_in_place, (leaky_relu, hardtanh, threshold, rrelu))


def glu(input: Tensor, dim: int | None = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second."""
    return tensor(input).glu(dim)


def _dim(name, x, dim):
    """The dimension; where none is given, PyTorch's choice depends on the rank, which is refused if it is not the last."""
    if dim is not None:
        return dim
    if x.ndim > 2:
        raise value_error(f"{name}: give dim; without it PyTorch takes dimension {0 if x.ndim == 3 else 1} of {x.ndim}")
    return -1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type.

    >>> tw.nn.functional.softmax(tw.zeros(2, 4), dim=1, dtype=tw.float64).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    return x.softmax(_dim("softmax", x, dim))


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """``softmax`` of -x."""
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    return (-x).softmax(_dim("softmin", x, dim))


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """The logarithm of ``softmax``."""
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    return x.log_softmax(_dim("log_softmax", x, dim))


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int | None = -1) -> Tensor:
    """A sample of the categories; ``hard``: one-hot, with the gradient of the soft one."""
    logits = tensor(logits)
    noise = Tensor.random_exponential(_native.batch_key(logits), logits.shape).astype(logits.dtype)
    soft = ((logits - noise.log()) / tau).softmax(dim)
    if not hard:
        return soft
    axis = dim % max(soft.ndim, 1)
    one = soft.argmax(axis).one_hot(soft.shape[axis], soft.dtype).moveaxis(-1, axis)
    return (one - soft).stop_gradient() + soft


check(globals(), __all__)
