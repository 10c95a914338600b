"""Gradients cut off before a step."""

from .. import _native


def clip_grad_norm_(parameters, max_norm):
    """Scales gradients so that their common norm is at most ``max_norm``; the norm before."""
    return _native.clip_grad_norm(list(parameters), max_norm)


def clip_grad_value_(parameters, clip_value):
    """Cuts gradients off at ±``clip_value``."""
    _native.clip_grad_value(list(parameters), clip_value)
