"""Gradients on and off, and tensors in files."""

import functools
import json
import os

from . import _native
from ._native import Tensor, is_grad_enabled
from ._checked import type_error, value_error


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


inference_mode = no_grad


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


# The tensor that holds the form of what was saved, as JSON, where that is not a plain dict of tensors.
_FORM = "__form__"
_PLAIN = (type(None), bool, int, float, str)


def _form(value, path, out):
    """What JSON says of a value; its tensors go to ``out`` under their paths."""
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        name = path or "tensor"
        out.append((name, value if isinstance(value, Tensor) else _native.tensor(value)))
        return {"tensor": name}
    if isinstance(value, _PLAIN):
        return {"value": value}
    below = lambda key: f"{path}.{key}" if path else str(key)  # noqa: E731
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, _PLAIN):
                raise type_error(f"save: {path or 'the value'} has a key that is {type(key).__name__}, not a string or a number")
        return {"dict": [[k, _form(v, below(k), out)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_form(v, below(i), out) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    known = "tensors, numbers, strings, None, and dicts, lists and tuples of them"
    raise type_error(f"save: {path or 'the value'} is {type(value).__name__}; a file holds {known}")


def _formed(form, tensors):
    (kind, value), *_ = form.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {k: _formed(v, tensors) for k, v in value}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_formed(v, tensors) for v in value)
    return value


def save(obj, path):
    """Writes tensors, such as ``model.state_dict()``, or dicts and lists with tensors, numbers and strings in them, as a
    safetensors file.

    The file appears whole or not at all. PyTorch's order of arguments; tensors are named by their path.

    >>> import talweg as tw
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> tw.save({"model": {"w": tw.ones(2)}, "epoch": 3}, path)
    >>> found = tw.load(path)
    >>> found["model"]["w"].tolist(), found["epoch"]
    ([1.0, 1.0], 3)
    """
    if isinstance(obj, (str, os.PathLike)):
        obj, path = path, obj
    out = []
    form = _form(obj, "", out)
    is_flat = "dict" in form and all(isinstance(k, str) and "tensor" in v for k, v in form["dict"])
    names = [n for n, _ in out]
    if len(set(names)) < len(names) or _FORM in names:
        raise value_error("save: two tensors have the same path: keys with dots in them clash with dicts of dicts")
    if not is_flat:
        out.append((_FORM, _native.tensor(list(json.dumps(form).encode()), dtype="uint8")))
    _native.save_tensors(os.fspath(path), out)


def load(path, map_location=None):
    """Reads what ``save`` has written; of any other safetensors file, its tensors by name. ``map_location``: the device
    to read to.

    >>> import talweg as tw
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> tw.save(tw.nn.Linear(2, 3).state_dict(), path)
    >>> sorted(tw.load(path))
    ['bias', 'weight']
    """
    tensors = dict(_native.load_tensors(os.fspath(path)))
    form = tensors.pop(_FORM, None)
    if map_location is not None:
        device = map_location if isinstance(map_location, str) else getattr(map_location, "_value", None) or str(map_location)
        tensors = {n: t.to_device(device) for n, t in tensors.items()}
    return tensors if form is None else _formed(json.loads(bytes(form.tolist())), tensors)


__all__ = ["no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "is_grad_enabled", "save", "load"]
