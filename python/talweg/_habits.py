"""Spellings that people type by habit, of PyTorch and NumPy, where neither the table nor the standard has them."""

from . import _native
from ._native import Tensor, dtype
from ._state import no_grad
from ._checked import checked

_here = {"long": dtype("int64"), "double": dtype("float64"), "half": dtype("float16"), "inference_mode": no_grad}


def _public(f):
    """Makes a function part of the package."""
    _here[f.__name__] = checked(f)
    return f


@_public
def is_tensor(x):
    """True for a tensor.

    >>> import talweg as tw
    >>> tw.is_tensor(tw.zeros(1)), tw.is_tensor([0.0])
    (True, False)
    """
    return isinstance(x, Tensor)


@_public
def isclose(x, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """True where elements differ by at most ``atol + rtol * |other|``.

    >>> import talweg as tw
    >>> tw.isclose(tw.tensor([1.0, 2.0]), tw.tensor([1.0, 2.1])).tolist()
    [True, False]
    """
    x, other = _native.tensor(x), _native.tensor(other)
    near = (x == other) | (((x - other).abs() <= atol + rtol * other.abs()) & other.isfinite())
    return near | (x.isnan() & other.isnan()) if equal_nan else near


@_public
def allclose(x, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """True if all elements are close.

    >>> import talweg as tw
    >>> tw.allclose(tw.ones(3), tw.ones(3) + 1e-7)
    True
    """
    return bool(isclose(x, other, rtol, atol, equal_nan).all())


@_public
def rand_like(x, dtype=None):
    """Uniform random numbers from 0 to 1 in the shape of another tensor.

    >>> import talweg as tw
    >>> tw.rand_like(tw.zeros(2, 3)).shape
    (2, 3)
    """
    return _native.rand(x.shape, dtype=dtype or x.dtype)


@_public
def randn_like(x, dtype=None):
    """Normal random numbers in the shape of another tensor.

    >>> import talweg as tw
    >>> tw.randn_like(tw.zeros(2, 3)).shape
    (2, 3)
    """
    return _native.randn(x.shape, dtype=dtype or x.dtype)


@_public
def normal(mean=0.0, std=1.0, size=()):
    """Normal random numbers.

    >>> import talweg as tw
    >>> tw.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    return _native.randn(size) * std + mean


@_public
def bernoulli(p):
    """1 with the probability that each element states, else 0.

    >>> import talweg as tw
    >>> tw.bernoulli(tw.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    return Tensor.random_bernoulli(_native.random_key(), p).astype(p.dtype)


_split = Tensor.split


@_public
def split(x, split_size_or_sections, dim=0, *, axis=None):
    """Parts of one size along an axis, or of several sizes.

    >>> import talweg as tw
    >>> [t.tolist() for t in tw.split(tw.arange(5), [2, 3])]
    [[0, 1], [2, 3, 4]]
    >>> [t.tolist() for t in tw.split(tw.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    sizes, dim = split_size_or_sections, dim if axis is None else axis
    return _split(x, sizes, dim) if isinstance(sizes, int) else x.split_sizes(sizes, dim)


def _triangle(name):
    op = getattr(Tensor, name)

    def part(x, /, diagonal=0, *, k=None):
        return op(x, diagonal if k is None else k)

    part.__name__, part.__doc__ = name, op.__doc__
    setattr(Tensor, name, part)
    return _public(part)


triu, tril = _triangle("triu"), _triangle("tril")

Tensor.split = split


def view_as(x, other):
    return x.reshape(other.shape)


def expand_as(x, other):
    return x.broadcast_to(other.shape)


Tensor.view_as, Tensor.expand_as = checked(view_as), checked(expand_as)
Tensor.isclose, Tensor.allclose = isclose, allclose

globals().update(_here)
__all__ = sorted(_here)
