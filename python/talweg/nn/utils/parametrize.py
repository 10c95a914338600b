"""Parameters that are computed from others at each read: ``weight = f(original)``."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from ..._state import no_grad
from ..containers import ModuleDict, ModuleList
from ..parameter import Parameter

if TYPE_CHECKING:
    from typing import Any

    from ...nn.module import Module

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "type_before_parametrizations",
]  # fmt: skip


class ParametrizationList(ModuleList):
    """The functions that make a parameter, in order, and what they are made of: ``original``, or ``original0``, ...

    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> [n for n, _ in layer.parametrizations.weight.named_parameters()]
    ['original0', 'original1']
    """

    def __init__(self, modules: Any, original: Tensor) -> None:
        super().__init__(modules)
        value = original
        for m in reversed(list(self)):
            if hasattr(m, "right_inverse"):
                value = m.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        values = {"original": value} if self.is_tensor else {f"original{i}": v for i, v in enumerate(value)}
        self.__dict__["_names"] = list(values)
        for name, v in values.items():
            if isinstance(original, Parameter):
                same = isinstance(v, Parameter)
                setattr(self, name, v if same else Parameter(v.detach(), original.requires_grad))
            else:
                self.register_buffer(name, v)

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals to what the functions make ``value`` of: each needs a ``right_inverse``."""
        with no_grad():
            for m in reversed(list(self)):
                if not hasattr(m, "right_inverse"):
                    raise value_error(f"{type(m).__name__} has no right_inverse, which the assignment of a value needs")
                value = m.right_inverse(value)
            values = [value] if self.is_tensor else list(value)
            if len(values) != len(self._names):
                raise value_error(f"right_inverse returned {len(values)} tensors for {', '.join(self._names)}")
            for name, v in zip(self._names, values):
                getattr(self, name).copy_(v)

    def forward(self) -> Tensor:
        values = [getattr(self, n) for n in self._names]
        first, *rest = list(self)
        x = first(*values)
        for m in rest:
            x = m(x)
        return x


# The values of parametrizations in a scope of `cached`, by their list.
_CACHE: ContextVar[dict[Any, Tensor] | None] = ContextVar("cached", default=None)


def _attribute(name):
    def read(self):
        made, cache = self.parametrizations[name], _CACHE.get()
        # What a traced function reads is its own: a value of elsewhere would be fixed in it.
        if cache is None or _native.is_tracing():
            return made()
        if made not in cache:
            cache[made] = made()
        return cache[made]

    return property(read, lambda self, value: self.parametrizations[name].right_inverse(value))


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """``module.tensor_name`` becomes ``parametrization(original)``. An assignment to it goes through ``right_inverse``.

    >>> class Symmetric(tw.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = tw.nn.Linear(3, 3)
    >>> layer = tw.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    kind = "_parameters" if tensor_name in module._parameters else "_buffers"
    original = module.__dict__[kind].get(tensor_name)
    if original is None:
        raise value_error(f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}")
    made = ParametrizationList([parametrization], original)
    if not unsafe and tuple(made().shape) != tuple(original.shape):
        raise value_error(f"register_parametrization: the result is {tuple(made().shape)}, not {tuple(original.shape)}; or unsafe=True")
    del module.__dict__[kind][tensor_name]
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
        cls = type(module)
        body = {"__module__": cls.__module__, "_plain_class": cls, "__reduce_ex__": _reduce}
        module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)
    setattr(type(module), tensor_name, _attribute(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def _reduce(self, protocol):
    return _rebuild, (self._plain_class, list(self.parametrizations.keys()), dict(self.__dict__))


def _rebuild(cls, names, state):
    """A module with parametrizations from its pickle, or a copy of one."""
    module = cls.__new__(cls)
    body = {"__module__": cls.__module__, "_plain_class": cls, "__reduce_ex__": _reduce}
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {**body, **{n: _attribute(n) for n in names}})
    module.__dict__.update(state)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if a module, or one of its tensors, has parametrizations.

    >>> tw.nn.utils.parametrize.is_parametrized(tw.nn.Linear(2, 2))
    False
    """
    own = module._modules.get("parametrizations")
    if not isinstance(own, ModuleDict) or len(own) == 0:
        return False
    return True if tensor_name is None else tensor_name in own


def type_before_parametrizations(module: Module) -> type:
    """The class of a module as if it had no parametrizations.

    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> tw.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module)._plain_class if is_parametrized(module) else type(module)


@contextlib.contextmanager
def cached() -> Any:
    """A scope in which each parametrization is computed once, when it is first read.

    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> with tw.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    if _CACHE.get() is not None:  # an outer scope keeps the values
        yield
        return
    before = _CACHE.set({})
    try:
        yield
    finally:
        _CACHE.reset(before)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """The tensor is an ordinary one again: with the value it has, or what it was made of.

    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> layer = tw.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> isinstance(layer.weight, tw.nn.Parameter)
    True
    """
    if not is_parametrized(module, tensor_name):
        raise value_error(f"remove_parametrizations: {tensor_name!r} has no parametrization")
    made = module.parametrizations[tensor_name]
    if not leave_parametrized and not made.is_tensor:
        raise value_error("remove_parametrizations: leave_parametrized=False needs one original tensor")
    first = getattr(made, made._names[0])
    value = made().detach() if leave_parametrized else first
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if len(module.parametrizations) == 0:
        delattr(module, "parametrizations")
        module.__class__ = type(module)._plain_class
    if isinstance(first, Parameter):
        module.register_parameter(tensor_name, value if isinstance(value, Parameter) else Parameter(value, first.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    return module


check(globals(), [n for n in __all__ if n[0].islower()])
