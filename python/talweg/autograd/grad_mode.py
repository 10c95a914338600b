"""Whether what is computed is recorded for gradients."""

from typing import Any

from .._state import enable_grad, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]


def inference_mode(mode: Any = True) -> Any:
    """A scope or decorator without gradients; with ``mode=False`` with them. As a decorator it may stand without
    parentheses. Tensors made in it may be used outside, as those of ``no_grad``.

    >>> w = tw.tensor([1.0], requires_grad=True)
    >>> with tw.inference_mode():
    ...     (w * 2).requires_grad
    False
    """
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else enable_grad()
