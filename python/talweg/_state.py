"""Gradients on and off, and tensors in files."""

import functools
import os

from . import _native
from ._native import Tensor, is_grad_enabled
from ._checked import type_error


class _Grad:
    """A scope, and a decorator, in which results record or do not record what they depend on."""

    def __init__(self, on):
        self._on = on
        self._before = []

    def __enter__(self):
        self._before.append(_native.set_grad_enabled(self._on))
        return self

    def __exit__(self, *_exception):
        _native.set_grad_enabled(self._before.pop())

    def __call__(self, f):
        @functools.wraps(f)
        def inside(*args, **kwargs):
            with _Grad(self._on):
                return f(*args, **kwargs)

        return inside


def no_grad(f=None):
    """A scope or decorator in which no gradient is prepared.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """
    scope = _Grad(False)
    return scope if f is None else scope(f)


def enable_grad(f=None):
    """A scope or decorator in which gradients are prepared, inside of ``no_grad``.

    >>> import talweg as tw
    >>> x = tw.tensor(2.0, requires_grad=True)
    >>> with tw.no_grad(), tw.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True
    """
    scope = _Grad(True)
    return scope if f is None else scope(f)


class set_grad_enabled(_Grad):
    """Turns gradients on or off at once; as a scope, until its end.

    >>> import talweg as tw
    >>> with tw.set_grad_enabled(False):
    ...     tw.is_grad_enabled()
    False
    """

    def __init__(self, on):
        super().__init__(on)
        self._before.append(_native.set_grad_enabled(on))

    def __enter__(self):
        return self


def _named(value, path, out):
    if isinstance(value, Tensor):
        out.append((path, value))
    elif isinstance(value, dict):
        for k, v in value.items():
            _named(v, f"{path}.{k}" if path else str(k), out)
    elif hasattr(value, "__array__"):
        out.append((path, _native.tensor(value)))
    else:
        raise type_error(f"save: {path or 'the value'} is {type(value).__name__}, not a tensor or a dict of tensors")


def save(tensors, path):
    """Writes a dict of tensors, such as ``model.state_dict()``, as a safetensors file.

    The file appears whole or not at all. PyTorch's order of arguments; the names are the keys.

    >>> import talweg as tw
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> tw.save({"w": tw.ones(2)}, path)
    >>> tw.load(path)["w"].tolist()
    [1.0, 1.0]
    """
    if isinstance(tensors, (str, os.PathLike)):
        tensors, path = path, tensors
    if isinstance(tensors, Tensor):
        tensors = {"tensor": tensors}
    out = []
    _named(tensors, "", out)
    _native.save_tensors(os.fspath(path), out)


def load(path):
    """Reads every tensor of a safetensors file: a dict by name.

    >>> import talweg as tw
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> tw.save(tw.nn.Linear(2, 3).state_dict(), path)
    >>> sorted(tw.load(path))
    ['bias', 'weight']
    """
    return dict(_native.load_tensors(os.fspath(path)))


__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled", "save", "load"]
