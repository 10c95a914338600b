"""Activations and softmax."""

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from .common import in_place, tensor

__all__ = []


def _public(f):
    __all__.append(f.__name__)
    return f


def _plain(name, op=None, doc=None):
    """A function of one tensor without settings."""
    call = getattr(Tensor, op or name)

    def f(input):
        return call(tensor(input))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc or call.__doc__
    return _public(f)


def _with_inplace(name, op=None):
    """A function of one tensor that may change it."""
    call = op if callable(op) else getattr(Tensor, op or name)

    def f(input, inplace=False):
        return in_place(input, call(tensor(input)), inplace)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = call.__doc__
    return _public(f)


def _silu(x):
    """x sigmoid(x), elementwise; also known as swish."""
    return x / ((-x).exp() + 1) if x.is_complex() else Tensor.silu(x)


tanh, sigmoid, logsigmoid = _plain("tanh"), _plain("sigmoid"), _plain("logsigmoid", "log_sigmoid")
softsign, tanhshrink = _plain("softsign"), _plain("tanhshrink")
relu, relu6, selu = (_with_inplace(n) for n in ("relu", "relu6", "selu"))
silu = _with_inplace("silu", _silu)
mish, hardsigmoid, hardswish = (_with_inplace(n) for n in ("mish", "hardsigmoid", "hardswish"))


@_public
def gelu(input, approximate="none"):
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise value_error(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return tensor(input).gelu_tanh() if approximate == "tanh" else tensor(input).gelu()


@_public
def elu(input, alpha=1.0, inplace=False):
    """x, and alpha (exp(x) - 1) below zero."""
    return in_place(input, tensor(input).elu(alpha), inplace)


@_public
def celu(input, alpha=1.0, inplace=False):
    """x, and alpha (exp(x / alpha) - 1) below zero."""
    return in_place(input, tensor(input).celu(alpha), inplace)


@_public
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x, and ``negative_slope`` x below zero."""
    return in_place(input, tensor(input).leaky_relu(negative_slope), inplace)


@_public
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x between ``min_val`` and ``max_val``."""
    return in_place(input, tensor(input).hardtanh(min_val, max_val), inplace)


@_public
def threshold(input, threshold, value, inplace=False):
    """x where it is above ``threshold``, else ``value``."""
    return in_place(input, tensor(input).threshold(threshold, value), inplace)


@_public
def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""
    return tensor(input).softplus(beta, threshold)


@_public
def softshrink(input, lambd=0.5):
    """x moved towards zero by ``lambd``."""
    return tensor(input).softshrink(lambd)


@_public
def hardshrink(input, lambd=0.5):
    """x, and zero within ±``lambd``."""
    return tensor(input).hardshrink(lambd)


@_public
def prelu(input, weight):
    """x, and ``weight`` x below zero, one weight for all or one for each channel."""
    return tensor(input).prelu(weight)


@_public
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """A leaky ReLU whose slope is drawn between ``lower`` and ``upper``; in inference it is their mean."""
    x = tensor(input)
    slope = _native.uniform(x.shape, lower, upper).astype(x.dtype) if training else (lower + upper) / 2
    return in_place(input, Tensor.where(x < 0, x * slope, x), inplace)


def _in_place(f):
    """The in-place form of a function."""

    def g(input, *args, **kwargs):
        return f(input, *args, **kwargs, inplace=True)

    g.__name__ = g.__qualname__ = f.__name__ + "_"
    g.__doc__ = f"``{f.__name__}`` in place."
    return _public(g)


relu_, selu_, elu_, celu_ = map(_in_place, (relu, selu, elu, celu))
leaky_relu_, hardtanh_, threshold_, rrelu_ = map(_in_place, (leaky_relu, hardtanh, threshold, rrelu))


@_public
def glu(input, dim=-1):
    """The first half of a dimension times the sigmoid of the second."""
    return tensor(input).glu(dim)


def _dim(name, x, dim):
    """The dimension; where none is given, PyTorch's choice depends on the rank, which is refused if it is not the last."""
    if dim is not None:
        return dim
    if x.ndim > 2:
        raise value_error(f"{name}: give dim; without it PyTorch takes dimension {0 if x.ndim == 3 else 1} of {x.ndim}")
    return -1


@_public
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type.

    >>> import talweg as tw
    >>> tw.nn.functional.softmax(tw.zeros(2, 4), dim=1, dtype=tw.float64).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    return x.softmax(_dim("softmax", x, dim))


@_public
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """``softmax`` of -x."""
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    return (-x).softmax(_dim("softmin", x, dim))


@_public
def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of ``softmax``."""
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    return x.log_softmax(_dim("log_softmax", x, dim))


@_public
def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
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
