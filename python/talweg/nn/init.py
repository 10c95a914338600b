"""Initial values: each function fills a parameter in place and returns it, as PyTorch's do."""

from .. import _native
from .._state import no_grad


def _fill(tensor, values):
    with no_grad():
        return tensor.copy_(values)


def uniform_(tensor, a=0.0, b=1.0):
    """Uniform numbers from ``a`` to ``b``."""
    return _fill(tensor, _native.uniform(tensor.shape, a, b))


def normal_(tensor, mean=0.0, std=1.0):
    """Normal numbers."""
    return _fill(tensor, _native.randn(tensor.shape) * std + mean)


def constant_(tensor, val):
    """One number."""
    return _fill(tensor, _native.full_like(tensor, val))


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor):
    """Ones."""
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
    """Normal numbers of at most two standard deviations."""
    return _fill(tensor, _native.initial("truncated_normal", tensor.shape, std))
