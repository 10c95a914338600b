"""Initializers: each function fills a parameter in place and returns it, as PyTorch's do."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from .. import _native
from .._checked import check, type_error, value_error
from .._native import Tensor
from .._state import no_grad

if TYPE_CHECKING:
    from typing import Any
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal",
    "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_",
    "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip


def _fill(tensor, values):
    if not isinstance(tensor, Tensor):
        raise type_error(f"expected a tensor to fill, not {type(tensor).__name__}")
    with no_grad():
        return tensor.copy_(values)


def _plain_generator(generator):
    """The thread's generator, or a seed from the given one."""
    if generator is None:
        return _native.random_key()
    seed = getattr(generator, "initial_seed", None)
    if callable(seed):
        raise value_error("generator: use tw.manual_seed, which seeds what nn.init draws")
    raise type_error(f"generator: expected None, not {type(generator).__name__}")


def _uniform(tensor, a, b, generator=None):
    return Tensor.random_uniform(_plain_generator(generator), tensor.shape, float(a), float(b))


def _normal(tensor, generator=None):
    return Tensor.random_normal(_plain_generator(generator), tensor.shape)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform distribution from ``a`` to ``b``.

    >>> w = tw.nn.init.uniform_(tw.nn.Parameter(tw.zeros(4)), 1.0, 2.0)
    >>> bool((w >= 1.0).all())
    True
    """
    return _fill(tensor, _uniform(tensor, a, b, generator))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal distribution.

    >>> tw.nn.init.normal_(tw.nn.Parameter(tw.zeros(4)), std=0.02).shape
    talweg.Size([4])
    """
    values = _normal(tensor, generator)
    return _fill(tensor, values if (mean, std) == (0.0, 1.0) else values * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None,
) -> Tensor:
    """Truncated normal distribution between ``a`` and ``b``.

    >>> w = tw.nn.init.trunc_normal_(tw.nn.Parameter(tw.zeros(100)), std=0.5, a=-0.5, b=0.5)
    >>> bool((w.abs() <= 0.5).all())
    True
    """
    low, high = (a - mean) / std, (b - mean) / std
    values = Tensor.random_truncated_normal(_plain_generator(generator), tensor.shape, low, high)
    return _fill(tensor, values * std + mean)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """A constant.

    >>> tw.nn.init.constant_(tw.nn.Parameter(tw.zeros(2)), 3.0).tolist()
    [3.0, 3.0]
    """
    return _fill(tensor, _native.full_like(tensor, val))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> tw.nn.init.zeros_(tw.nn.Parameter(tw.ones(2))).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones.

    >>> tw.nn.init.ones_(tw.nn.Parameter(tw.zeros(2))).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere.

    >>> tw.nn.init.eye_(tw.nn.Parameter(tw.zeros(2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if tensor.ndim != 2:
        raise value_error(f"eye_: a matrix has 2 dimensions, not {tensor.ndim}")
    return _fill(tensor, _native.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution that is the identity, for as many channels as there are.

    >>> w = tw.nn.init.dirac_(tw.nn.Parameter(tw.zeros(1, 1, 3)))
    >>> w.tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5):
        raise value_error(f"dirac_: a convolution's weight has 3, 4 or 5 dimensions, not {tensor.ndim}")
    if tensor.shape[0] % groups:
        raise value_error(f"dirac_: {groups} groups do not divide {tensor.shape[0]} outputs")
    out, into, *kernel = tensor.shape
    channels = _native.eye(out // groups, into).tile((groups, 1))
    window = _native.ones(())
    for k in kernel:
        window = window.unsqueeze(-1) * (_native.arange(k) == k // 2).astype("float32")
    return _fill(tensor, channels.reshape(out, into, *[1] * len(kernel)) * window)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal distribution, with a fraction of each column set to zero.

    >>> w = tw.nn.init.sparse_(tw.nn.Parameter(tw.zeros(10, 4)), sparsity=0.3)
    >>> (w == 0).sum(0).tolist()
    [3, 3, 3, 3]
    """
    if tensor.ndim != 2:
        raise value_error(f"sparse_: a matrix has 2 dimensions, not {tensor.ndim}")
    zeros = math.ceil(sparsity * tensor.shape[0])
    rank = _uniform(tensor, 0.0, 1.0, generator).argsort(0).argsort(0)
    return _fill(tensor, Tensor.where(rank < zeros, 0.0, _normal(tensor, generator) * std))


def calculate_gain(nonlinearity: str, param: Tensor | None = None) -> float:
    """The recommended gain for an activation.

    >>> round(tw.nn.init.calculate_gain("relu"), 4), round(tw.nn.init.calculate_gain("tanh"), 4)
    (1.4142, 1.6667)
    """
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1 + slope**2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        raise value_error(f"calculate_gain: there is no nonlinearity {nonlinearity!r}; there are {sorted(gains)}, leaky_relu, linear")
    return gains[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor):
    """Fan-in and fan-out of a weight ``[out, in, *kernel]``."""
    if tensor.ndim < 2:
        raise value_error(f"a tensor of {tensor.ndim} dimensions has no fan in and fan out")
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def _fan(tensor, mode):
    if mode not in ("fan_in", "fan_out"):
        raise value_error(f"mode is 'fan_in' or 'fan_out', not {mode!r}")
    return _calculate_fan_in_and_fan_out(tensor)[0 if mode == "fan_in" else 1]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Glorot's uniform initialization (Glorot and Bengio 2010).

    >>> bool((tw.nn.init.xavier_uniform_(tw.nn.Parameter(tw.zeros(2, 4))).abs() <= 1.0).all())
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Glorot's normal initialization (Glorot and Bengio 2010).

    >>> tw.nn.init.xavier_normal_(tw.nn.Parameter(tw.zeros(2, 4))).shape
    talweg.Size([2, 4])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming(tensor, a, mode, nonlinearity):
    if 0 in tensor.shape:
        warnings.warn("a tensor without elements has no initial values", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None,
) -> Tensor:
    """He's uniform initialization (He and others 2015).

    >>> w = tw.nn.init.kaiming_uniform_(tw.nn.Parameter(tw.zeros(2, 6)), mode="fan_in", nonlinearity="relu")
    >>> bool((w.abs() <= 1.0).all())
    True
    """
    std = _kaiming(tensor, a, mode, nonlinearity)
    return tensor if std is None else uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None,
) -> Tensor:
    """He's normal initialization (He and others 2015).

    >>> tw.nn.init.kaiming_normal_(tw.nn.Parameter(tw.zeros(2, 6)), mode="fan_out").shape
    talweg.Size([2, 6])
    """
    std = _kaiming(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Orthonormal rows, or columns if there are fewer of them (Saxe and others 2014).

    >>> w = tw.nn.init.orthogonal_(tw.nn.Parameter(tw.zeros(3, 3)))
    >>> bool(tw.allclose(w @ w.T, tw.eye(3), atol=1e-5))
    True
    """
    if tensor.ndim < 2:
        raise value_error(f"orthogonal_: expected 2 or more dimensions, not {tensor.ndim}")
    if generator is not None:
        _plain_generator(generator)
    return _fill(tensor, _native.orthogonal(tensor.shape, float(gain)))


def _old(f: _F) -> _F:
    """PyTorch's deprecated name of a function, without the underscore."""

    def g(*args, **kwargs):
        warnings.warn(f"nn.init.{f.__name__[:-1]} is PyTorch's old name of nn.init.{f.__name__}", FutureWarning, stacklevel=2)
        return f(*args, **kwargs)

    g.__name__ = g.__qualname__ = f.__name__[:-1]
    g.__doc__ = f"PyTorch's old name of ``{f.__name__}``."
    return g


uniform, normal, constant, eye, dirac, sparse = map(_old, (uniform_, normal_, constant_, eye_, dirac_, sparse_))
xavier_uniform, xavier_normal, kaiming_uniform = map(_old, (xavier_uniform_, xavier_normal_, kaiming_uniform_))
kaiming_normal, orthogonal = map(_old, (kaiming_normal_, orthogonal_))

check(globals(), __all__)
