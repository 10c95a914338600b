"""What ``tw.compile`` makes of a module."""

from . import _native
from .nn.module import Module


class OptimizedModule(Module):
    """A module whose calls are compiled; parameters, attributes and modes are those of ``_orig_mod``.

    >>> layer = tw.nn.Linear(2, 3)
    >>> compiled = tw.compile(layer)
    >>> compiled.weight is layer.weight
    True
    """

    def __init__(self, module, compiled):
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self.__dict__["_compiled"] = compiled(module.__call__)

    def forward(self, *args, **kwargs):
        module = self._orig_mod
        if module.training and _native.is_grad_enabled() and next(module.buffers(), None) is not None:
            # No gradient flows from a jitted function that assigns variables, as norm layers do in training. Called as it
            # is, the module becomes part of the graph of the step, which is compiled as well.
            return module(*args, **kwargs)
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return super().__getattr__(name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if name in ("_orig_mod", "training"):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def extra_repr(self):
        return ""
