"""Hooks of modules: functions called around ``forward`` and when gradients pass a module."""

import functools
import itertools
from collections import OrderedDict

from .. import _native
from .._native import Tensor

_numbers = itertools.count()

# Hooks of all modules, which are called before a module's own.
everywhere = {
    "_forward_pre_hooks": OrderedDict(),
    "_forward_hooks": OrderedDict(),
    "_backward_pre_hooks": OrderedDict(),
    "_backward_hooks": OrderedDict(),
    "_hooks_with_kwargs": {},
    "_hooks_always": {},
}
# Their handles.
active: dict[int, bool] = {}


def of(module, kind):
    """The hooks of a kind: those of all modules, then a module's own."""
    return [*everywhere[kind].items(), *module.__dict__[kind].items()]


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
    with_kwargs = {**everywhere["_hooks_with_kwargs"], **module.__dict__["_hooks_with_kwargs"]}
    always = {**everywhere["_hooks_always"], **module.__dict__["_hooks_always"]}
    for number, hook in of(module, "_forward_pre_hooks"):
        if number in with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    gradients = None
    if (of(module, "_backward_hooks") or of(module, "_backward_pre_hooks")) and _native.is_grad_enabled():
        gradients = _Gradients(module)
        args = gradients.of_inputs(args)
    try:
        out = module.forward(*args, **kwargs)
    except Exception:
        for number, hook in of(module, "_forward_hooks"):
            if number in always:
                _after(hook, number in with_kwargs, module, args, kwargs, None)
        raise
    for number, hook in of(module, "_forward_hooks"):
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
        for _, hook in of(self._module, "_backward_pre_hooks"):
            changed = hook(self._module, gradients)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        self._of_outputs = gradients
        return gradients

    def _at_inputs(self, gradients):
        for _, hook in of(self._module, "_backward_hooks"):
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


def register_module_forward_pre_hook(hook):
    """``hook(module, args)`` is called before ``forward`` of every module; what it returns replaces the arguments.

    >>> seen = []
    >>> handle = tw.nn.modules.module.register_module_forward_pre_hook(lambda module, args: seen.append(type(module).__name__))
    >>> y = tw.nn.ReLU()(tw.ones(2))
    >>> handle.remove()
    >>> seen
    ['ReLU']
    """
    return register(everywhere["_forward_pre_hooks"], hook, False, (active, True))


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """``hook(module, args, output)`` is called after ``forward`` of every module; what it returns replaces the output."""
    flags = (everywhere["_hooks_with_kwargs"], with_kwargs), (everywhere["_hooks_always"], always_call), (active, True)
    return register(everywhere["_forward_hooks"], hook, False, *flags)


def register_module_full_backward_pre_hook(hook):
    """``hook(module, grad_output)`` is called when gradients reach the outputs of any module."""
    watch_backward()
    return register(everywhere["_backward_pre_hooks"], hook, False, (active, True))


def register_module_full_backward_hook(hook):
    """``hook(module, grad_input, grad_output)`` is called when gradients have passed any module."""
    watch_backward()
    return register(everywhere["_backward_hooks"], hook, False, (active, True))
