"""Functions that are called with the gradient of a tensor."""

import weakref

from .. import _native
from .._checked import type_error
from .._native import Tensor


def register_hook(self: Tensor, hook) -> "_native.Hook":
    """Calls ``hook(grad)`` whenever a gradient of this tensor is taken; what it returns, unless ``None``, takes the
    gradient's place. Returns a handle with ``remove()``.

    >>> x = tw.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    >>> handle.remove()
    """
    if not callable(hook):
        raise type_error(f"register_hook: expected a function of the gradient, not {type(hook).__name__}")
    return _native.autograd_hook(self, hook, False)


def register_post_accumulate_grad_hook(self: Tensor, hook) -> "_native.Hook":
    """Calls ``hook(tensor)`` whenever ``backward`` has added to the ``grad`` of this leaf. Returns a handle with
    ``remove()``.

    >>> x = tw.tensor([1.0], requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
    >>> (x * 3).sum().backward()
    tensor([3.])
    """
    if not callable(hook):
        raise type_error(f"register_post_accumulate_grad_hook: expected a function of the tensor, not {type(hook).__name__}")
    if not self.is_leaf:
        raise type_error("register_post_accumulate_grad_hook: only leaves accumulate gradients; use register_hook")
    tensor = weakref.ref(self)

    def call():
        found = tensor()
        if found is not None:
            hook(found)

    return _native.autograd_hook(self, call, True)
