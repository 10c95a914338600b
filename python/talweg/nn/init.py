"""Initial values: each function fills a parameter in place and returns it, as PyTorch's do."""

from .. import _native
from .._state import no_grad


def _fill(tensor, values):
    with no_grad():
        return tensor.copy_(values)


def uniform_(tensor, a=0.0, b=1.0):
    """Uniform numbers from ``a`` to ``b``.

    >>> import talweg as tw
    >>> w = tw.nn.init.uniform_(tw.nn.Parameter(tw.zeros(4)), 1.0, 2.0)
    >>> bool((w >= 1.0).all())
    True
    """
    return _fill(tensor, _native.uniform(tensor.shape, a, b))


def normal_(tensor, mean=0.0, std=1.0):
    """Normal numbers.

    >>> import talweg as tw
    >>> tw.nn.init.normal_(tw.nn.Parameter(tw.zeros(4)), std=0.02).shape
    (4,)
    """
    return _fill(tensor, _native.randn(tensor.shape) * std + mean)


def constant_(tensor, val):
    """One number.

    >>> import talweg as tw
    >>> tw.nn.init.constant_(tw.nn.Parameter(tw.zeros(2)), 3.0).tolist()
    [3.0, 3.0]
    """
    return _fill(tensor, _native.full_like(tensor, val))


def zeros_(tensor):
    """Zeros.

    >>> import talweg as tw
    >>> tw.nn.init.zeros_(tw.nn.Parameter(tw.ones(2))).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def ones_(tensor):
    """Ones.

    >>> import talweg as tw
    >>> tw.nn.init.ones_(tw.nn.Parameter(tw.zeros(2))).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def _named(kind):
    def fill(tensor, gain=1.0):
        return _fill(tensor, _native.initial(kind, tensor.shape, gain))

    fill.__name__ = kind + "_"
    fill.__doc__ = f"Values of the kind {kind.replace('_', ' ')}."
    return fill


xavier_uniform_ = _named("xavier_uniform")
xavier_normal_ = _named("xavier_normal")
kaiming_uniform_ = _named("kaiming_uniform")
kaiming_normal_ = _named("kaiming_normal")
orthogonal_ = _named("orthogonal")


def trunc_normal_(tensor, std=1.0):
    """Normal numbers of at most two standard deviations.

    >>> import talweg as tw
    >>> w = tw.nn.init.trunc_normal_(tw.nn.Parameter(tw.zeros(100)))
    >>> bool((w.abs() <= 2.0).all())
    True
    """
    return _fill(tensor, _native.initial("truncated_normal", tensor.shape, std))
