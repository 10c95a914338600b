"""Hooks of modules: functions called around ``forward`` and when gradients pass a module."""

import itertools

from .. import _native
from .._native import Tensor

_numbers = itertools.count()


class RemovableHandle:
    """Removes a hook: by ``remove()``, or at the end of a ``with`` block."""

    def __init__(self, *hooks):
        self.id = next(_numbers)
        self._hooks = hooks

    def remove(self):
        """Removes the hook."""
        for hooks in self._hooks:
            hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.remove()


def register(hooks, hook, prepend, *flags):
    """Adds a hook; ``flags`` are pairs of a dictionary and whether the hook is marked in it."""
    handle = RemovableHandle(hooks, *(marks for marks, _ in flags))
    hooks[handle.id] = hook
    for marks, is_set in flags:
        if is_set:
            marks[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def call(module, args, kwargs):
    """``module.forward`` with the module's hooks around it."""
    own = module.__dict__
    with_kwargs = own["_hooks_with_kwargs"]
    for number, hook in list(own["_forward_pre_hooks"].items()):
        if number in with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    gradients = None
    if own["_backward_hooks"] or own["_backward_pre_hooks"]:
        gradients = _Gradients(module)
        args = gradients.of_inputs(args)
    try:
        out = module.forward(*args, **kwargs)
    except Exception:
        for number, hook in list(own["_forward_hooks"].items()):
            if number in own["_hooks_always"]:
                _after(hook, number in with_kwargs, module, args, kwargs, None)
        raise
    for number, hook in list(own["_forward_hooks"].items()):
        changed = _after(hook, number in with_kwargs, module, args, kwargs, out)
        if changed is not None:
            out = changed
    return out if gradients is None else gradients.of_outputs(out)


def _after(hook, with_kwargs, module, args, kwargs, out):
    return hook(module, args, kwargs, out) if with_kwargs else hook(module, args, out)


def _differentiable(x):
    # In a trace nothing says yet what is differentiated.
    return isinstance(x, Tensor) and "float" in str(x.dtype) and (x.requires_grad or x.is_symbolic)


def _watched(tensors, seen):
    """The same tensors; ``seen`` gets their gradients, and returns those that pass on."""
    places = [i for i, x in enumerate(tensors) if _differentiable(x)]
    if not places:
        return tensors, False

    def rule(_inputs, _outputs, gradients):
        spread = [None] * len(tensors)
        for i, g in zip(places, gradients):
            spread[i] = g
        passed = seen(tuple(spread))
        return [passed[i] for i in places]

    same = _native.custom_gradient(lambda *xs: [x * 1 for x in xs], rule, tuple(tensors[i] for i in places))
    out = list(tensors)
    for i, x in zip(places, same):
        out[i] = x
    return out, True


class _Gradients:
    """The gradients that pass a module in one call: hooks see those of its outputs and of its inputs."""

    def __init__(self, module):
        self._module = module
        self._inputs = 0
        self._is_input_watched = False
        self._of_outputs = None

    def of_inputs(self, args):
        self._inputs = len(args)
        args, self._is_input_watched = _watched(list(args), self._at_inputs)
        return tuple(args)

    def of_outputs(self, out):
        single = isinstance(out, Tensor)
        if not single and not isinstance(out, (tuple, list)):
            return out
        watched, _ = _watched([out] if single else list(out), self._at_outputs)
        if single:
            return watched[0]
        return type(out)(*watched) if hasattr(out, "_fields") else type(out)(watched)

    def _at_outputs(self, gradients):
        for hook in list(self._module._backward_pre_hooks.values()):
            changed = hook(self._module, gradients)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        self._of_outputs = gradients
        if not self._is_input_watched:
            self._at_inputs((None,) * self._inputs)
        return gradients

    def _at_inputs(self, gradients):
        for hook in list(self._module._backward_hooks.values()):
            changed = hook(self._module, gradients, self._of_outputs)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        return gradients
