"""Gradients cut off before a step."""

from .. import _native


def clip_grad_norm_(parameters, max_norm):
    """Scales gradients so that their common norm is at most ``max_norm``; the norm before.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_norm_([w], 1.0).item(), w.grad.tolist()
    (5.0, [0.6, 0.8])
    """
    return _native.clip_grad_norm(list(parameters), max_norm)


def clip_grad_value_(parameters, clip_value):
    """Cuts gradients off at ±``clip_value``.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0, 0.5], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> tw.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.5]
    """
    _native.clip_grad_value(list(parameters), clip_value)
