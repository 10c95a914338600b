"""Hooks of modules: functions called around ``forward`` and when gradients pass a module."""

import functools
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
    if (own["_backward_hooks"] or own["_backward_pre_hooks"]) and _native.is_grad_enabled():
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


class _Gradients:
    """The gradients that pass a module in one call: hooks see those of its outputs and of its inputs.

    The graph is cut before and after the module. When ``backward`` has reached the cut after it, hooks see that gradient,
    it goes on through the module, hooks see what arrives at the cut before it, and that goes on to what came before.
    """

    def __init__(self, module):
        self._module = module
        self._args = self._inputs = self._outs = self._results = ()
        self._of_outputs = None

    def of_inputs(self, args):
        """The arguments after a cut."""
        self._args = args
        if _is_traced(args):
            args, _ = _watched(list(args), self._at_inputs)
            return tuple(args)
        self._inputs = tuple(_leaf(x) for x in args)
        _tape.append(self.carry_inputs)
        return tuple(x if leaf is None else leaf * 1 for x, leaf in zip(args, self._inputs))

    def of_outputs(self, out):
        """The results after a cut."""
        single = isinstance(out, Tensor)
        if not single and not isinstance(out, (tuple, list)):
            return out
        outs = [out] if single else list(out)
        if _is_traced(outs):
            made, _ = _watched(outs, self._at_traced_outputs)
        elif not any(map(_differentiable, outs)):
            return out
        else:
            self._outs, self._results = tuple(outs), tuple(_leaf(x) for x in outs)
            _tape.append(self.carry_outputs)
            made = [x if leaf is None else leaf * 1 for x, leaf in zip(outs, self._results)]
        if single:
            return made[0]
        return type(out)(*made) if hasattr(out, "_fields") else type(out)(made)

    def carry_outputs(self):
        """Carries gradients over the cut after the module; False if none has arrived."""
        gradients = _arrived(self._results)
        self._of_outputs = None
        if all(g is None for g in gradients):
            return False
        _backward(self._outs, self._at_outputs(gradients))
        return True

    def carry_inputs(self):
        """Carries gradients over the cut before the module; False if none has reached its outputs."""
        if self._of_outputs is None:
            return False
        _backward(self._args, self._at_inputs(_arrived(self._inputs)))
        return True

    def _at_traced_outputs(self, gradients):
        gradients = self._at_outputs(gradients)
        if not any(map(_differentiable, self._args)):
            self._at_inputs((None,) * len(self._args))
        return gradients

    def _at_outputs(self, gradients):
        for hook in list(self._module._backward_pre_hooks.values()):
            changed = hook(self._module, gradients)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        self._of_outputs = gradients
        return gradients

    def _at_inputs(self, gradients):
        for hook in list(self._module._backward_hooks.values()):
            changed = hook(self._module, gradients, self._of_outputs)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        return gradients


def _is_traced(tensors):
    return any(isinstance(x, Tensor) and x.is_symbolic for x in tensors)


def _arrived(leaves):
    """The gradients at a cut, which are then forgotten."""
    gradients = tuple(None if leaf is None else leaf.grad for leaf in leaves)
    for leaf in leaves:
        if leaf is not None:
            leaf.grad = None
    return gradients


def _leaf(x):
    return Tensor(x.detach(), variable=True) if _differentiable(x) else None


def _backward(tensors, gradients):
    """Propagates gradients of several tensors to their dependencies."""
    pairs = [(x, g) for x, g in zip(tensors, gradients) if g is not None and _differentiable(x)]
    if pairs:
        _native_backward(sum((x * g.stop_gradient()).sum() for x, g in pairs))


def _watched(tensors, seen):
    """The same tensors in a trace; ``seen`` gets their gradients, and returns those that pass on."""
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


# Cuts over which gradients have not been carried yet, oldest first.
_tape = []
_native_backward = Tensor.backward


def watch_backward():
    """From now on ``backward`` serves modules with hooks; called when the first hook is registered."""
    global _native_backward
    if getattr(Tensor.backward, "serves_hooks", False):
        return
    _native_backward = Tensor.backward

    @functools.wraps(_native_backward)
    def backward(self, *args, **kwargs):
        _native_backward(self, *args, **kwargs)
        for carry in reversed(list(_tape)):
            if carry() and not kwargs.get("retain_graph"):
                _tape.remove(carry)

    backward.serves_hooks = True
    Tensor.backward = backward

