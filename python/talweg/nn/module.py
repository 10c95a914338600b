"""Modules: trees of parameters, buffers and modules, as PyTorch's."""

from __future__ import annotations

import os
from collections import OrderedDict, namedtuple
from typing import TYPE_CHECKING

from .. import _native
from .._checked import key_error, type_error, value_error
from .._graph import has_grad
from .._native import Tensor
from . import hooks, state
from .parameter import Parameter, _Buffer, as_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, ParamSpec, Protocol, Self, TypeVar

    from .. import DTypeLike

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class _Forward(Protocol[P, R]):
        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    class _Call:
        """A call has the arguments and the result of ``forward``."""

        def __get__(self, module: _Forward[P, R], cls: Any = None) -> Callable[P, R]: ...

_OWN = ("_parameters", "_buffers", "_modules")
# The path of each variable that a plan may name.
_PATHS: dict[int, str] = {}


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    def __repr__(self) -> str:
        return "<All keys matched successfully>" if not self.missing_keys and not self.unexpected_keys else super().__repr__()


class Module:
    """The base of models: a subclass sets modules and parameters as attributes and has ``forward``.

    >>> class Mlp(tw.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = tw.nn.Linear(4, 8)
    ...         self.out = tw.nn.Linear(8, 2)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> Mlp()(tw.ones(3, 4)).shape
    talweg.Size([3, 2])
    """

    def __new__(cls, *_args, **_kwargs):
        # Here and not in __init__: subclasses need not call it.
        self = object.__new__(cls)
        self.__dict__.update(
            _train_mode=_native.Mode(),
            _parameters={},
            _buffers={},
            _modules={},
            _non_persistent_buffers_set=set(),
            _forward_pre_hooks=OrderedDict(),
            _forward_hooks=OrderedDict(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _hooks_with_kwargs={},
            _hooks_always={},
        )
        return self

    def __init__(self) -> None:
        pass

    @property
    def training(self) -> bool:
        """True in training, False in inference. A jitted function that reads it is traced once per mode."""
        return self.__dict__["_train_mode"].training

    @training.setter
    def training(self, mode: bool) -> None:
        self.__dict__["_train_mode"].training = bool(mode)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    if TYPE_CHECKING:
        __call__: _Call
    else:

        def __call__(self, *args, **kwargs):
            own = self.__dict__
            if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
                return hooks.call(self, args, kwargs)
            if hooks.active:
                return hooks.call(self, args, kwargs)
            return self.forward(*args, **kwargs)

    # Attributes.

    def __getattr__(self, name: str) -> Any:
        # Only what is not an ordinary attribute comes here.
        own = self.__dict__
        for kind in _OWN:
            entries = own.get(kind)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name, value):
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif name in own["_parameters"]:
            if value is not None:
                raise type_error(
                    f"cannot assign {type(value).__name__} as parameter {name!r}: expected nn.Parameter or None "
                    f"(to change its values: with tw.no_grad(): module.{name}.copy_(values))"
                )
            own["_parameters"][name] = None
        elif isinstance(value, Module):
            self._forget(name, "_modules")
            own["_modules"][name] = value
        elif name in own["_modules"]:
            if value is not None:
                raise type_error(f"cannot assign {type(value).__name__} as child module {name!r}: expected nn.Module or None")
            own["_modules"][name] = None
        elif name in own["_buffers"]:
            self._set_buffer(name, value)
        elif isinstance(getattr(type(self), name, None), property):  # such as a parametrized tensor
            object.__setattr__(self, name, value)
        elif isinstance(value, _Buffer) or (isinstance(value, Tensor) and value.is_variable and not value.is_parameter):
            self._forget(name)
            self.register_buffer(name, value, getattr(value, "persistent", True))
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name, value):
        if value is not None and not isinstance(value, Tensor):
            raise type_error(f"cannot assign {type(value).__name__} as buffer {name!r}: expected a tensor or None")
        old = self._buffers[name]
        if value is not None and old is not None and value.is_symbolic and (value.shape, value.dtype) == (old.shape, old.dtype):
            # A traced function changes variables; a stand-in must not outlive it.
            old.assign(value)
        else:
            self._buffers[name] = None if value is None else as_variable(value)

    def _forget(self, name, kept=None):
        """Removes an entry of every kind but one, in which it keeps its position."""
        own = self.__dict__
        own.pop(name, None)
        for kind in _OWN:
            if kind != kept:
                own[kind].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name):
        if any(name in self.__dict__[kind] for kind in _OWN):
            self._forget(name)
        else:
            object.__delattr__(self, name)

    def __dir__(self):
        names = [*object.__dir__(self), *self._parameters, *self._buffers, *self._modules]
        return sorted({n for n in names if not n[:1].isdigit()})

    def _check_name(self, kind, name):
        if not isinstance(name, str):
            raise type_error(f"the name of a {kind} is a str, not {type(name).__name__}")
        if "." in name or not name:
            raise key_error(f"the name of a {kind} is not empty and has no dot: {name!r}")

    def register_parameter(self, name: str, param: Tensor) -> None:
        """Registers a parameter; ``None`` registers the name without one."""
        self._check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise key_error(f"attribute {name!r} already exists")
        if param is not None and not isinstance(param, Parameter):
            raise type_error(f"cannot assign {type(param).__name__} as parameter {name!r}: expected nn.Parameter or None")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Registers a tensor that is part of the state but not trained; ``state_dict`` has it if it is persistent."""
        self._check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise key_error(f"attribute {name!r} already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise type_error(f"cannot assign {type(tensor).__name__} as buffer {name!r}: expected a tensor or None")
        self._buffers[name] = None if tensor is None else as_variable(tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module) -> None:
        """Registers a module."""
        self._check_name("module", name)
        if module is not None and not isinstance(module, Module):
            raise type_error(f"add_module: {name} is {type(module).__name__}, not a module")
        if hasattr(self, name) and name not in self._modules:
            raise key_error(f"attribute {name!r} already exists")
        self._modules[name] = module

    def register_module(self, name: str, module: Module) -> None:
        """The same as ``add_module``."""
        self.add_module(name, module)

    # Walks.

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Modules that are attributes, with their names; each once."""
        seen = set()
        for name, m in self._modules.items():
            if m is not None and id(m) not in seen:
                seen.add(id(m))
                yield name, m

    def children(self) -> Iterator[Module]:
        """Modules that are attributes."""
        return (m for _, m in self.named_children())

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths."""
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, m in self._modules.items():
            if m is not None:
                yield from m.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def _named_entries(self, kind, prefix, recurse, remove_duplicate):
        seen = set()
        for path, m in self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]:
            for name, t in m.__dict__[kind].items():
                if t is None or (remove_duplicate and t.variable_id in seen):
                    continue
                seen.add(t.variable_id)
                yield (f"{path}.{name}" if path else name), t

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Tensor]]:
        """Parameters with their paths; a shared one under its first, unless duplicates are asked for."""
        return self._named_entries("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """Parameters, each once."""
        if recurse and "TALWEG_MESH" in os.environ:
            self._name_parameters()
        return (p for _, p in self.named_parameters("", recurse))

    def _name_parameters(self):
        """Names variables by their paths, the longest that is known of each: plans of meshes are patterns over them."""
        for name, p in self.named_parameters():
            if len(name) > len(_PATHS.get(p.variable_id, "")):
                _PATHS[p.variable_id] = name
                _native.name_variable(p, name)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their paths."""
        return self._named_entries("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
        return (b for _, b in self.named_buffers("", recurse))

    def _all_state(self):
        """Every variable that ``state_dict`` has, with its path: a tied one under each of its paths."""
        return ((n, v) for n, v in self.state_dict(keep_vars=True).items() if isinstance(v, Tensor))

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"encoder.layers.0"``."""
        m = self
        for name in target.split(".") if target else []:
            if name not in m._modules:
                raise AttributeError(f"{type(m).__name__} has no module {name!r}")
            m = m._modules[name]
        return m

    def set_submodule(self, target: Tensor, module: Module, strict: bool = False) -> None:
        """Replaces the module at a path."""
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and name not in parent._modules:
            raise AttributeError(f"{type(parent).__name__} has no module {name!r}")
        setattr(parent, name, module)

    def _get_entry(self, target, kind, what):
        path, _, name = target.rpartition(".")
        m = self.get_submodule(path)
        if m.__dict__[kind].get(name) is None:
            raise AttributeError(f"{type(m).__name__} has no {what} {name!r}")
        return m.__dict__[kind][name]

    def get_parameter(self, target: str) -> Tensor:
        """The parameter at a path."""
        return self._get_entry(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        return self._get_entry(target, "_buffers", "buffer")

    # State.

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by path; with ``keep_vars`` the variables themselves."""
        destination = OrderedDict() if destination is None else destination
        return state.collect(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Adds the parameters and buffers of this module itself."""
        for name, t in [*self._parameters.items(), *self._buffers.items()]:
            if t is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = t if keep_vars else t.detach()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Loads values by path; arrays of other libraries are converted. Nothing changes if one does not fit.

        With ``assign``, tensors replace parameters and buffers, their types included, instead of being copied into them.
        """
        missing, unexpected = state.load(self, state_dict, strict, assign)
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Loads the parameters and buffers of this module itself; a subclass may rename keys first."""
        state.load_own(self, state_dict, prefix, local_metadata, missing_keys, error_msgs)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, prefix, keep_vars)`` is called before ``state_dict`` reads this module."""
        return hooks.register(self.__dict__.setdefault("_state_dict_pre_hooks", OrderedDict()), hook, False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, state_dict, prefix, local_metadata)`` is called after ``state_dict`` has read this module."""
        return hooks.register(self.__dict__.setdefault("_state_dict_hooks", OrderedDict()), hook, False)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``."""
        return hooks.register(self.__dict__.setdefault("_load_state_dict_pre_hooks", OrderedDict()), hook, False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """``hook(module, incompatible_keys)`` may remove keys from the lists."""
        return hooks.register(self.__dict__.setdefault("_load_state_dict_post_hooks", OrderedDict()), hook, False)

    # Modes, types and devices.

    def train(self, mode: bool = True) -> Self:
        """Switches to training, or with ``False`` to inference."""
        if not isinstance(mode, bool):
            raise value_error("train: the mode is True or False")
        self.training = mode
        for m in self.children():
            m.train(mode)
        return self

    def eval(self) -> Self:
        """Switches to inference."""
        return self.train(False)

    def export(self, directory: Any, *examples: Any, **options: Any) -> None:
        """Writes the module as a model that ``talweg serve`` serves: ``tw.export`` in inference mode.

        ``examples`` are example inputs. Without ``dynamic_shapes`` the first axis of every input is free and named
        ``batch``. Other options are those of ``tw.export``.

        >>> import tempfile, talweg as tw
        >>> with tempfile.TemporaryDirectory() as d:
        ...     tw.nn.Linear(3, 2).export(d + "/linear/1", tw.zeros(1, 3))
        ...     tw.serve.load(d + "/linear/1").inputs[0]["shape"]
        ['batch', 3]
        """
        from .._export import export

        modes = [(m, m.training) for m in self.modules()]
        options.setdefault("dynamic_shapes", [{0: "batch"} if x.ndim else {} for x in examples])
        self.eval()
        try:
            export(self, directory, examples, **options)
        finally:
            for module, mode in modes:
                module.training = mode

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freezes or unfreezes all parameters."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients of all parameters, or sets them to zero."""
        for p in self.parameters():
            p.grad = None if set_to_none or not has_grad(p) else _native.zeros_like(p.grad)

    def apply(self, fn: Callable[..., Any]) -> Self:
        """Calls ``fn`` with every module, the innermost first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, and floating-point ones to a type: ``to(device)``, ``to(dtype)``,
        ``to(device, dtype)``, ``to(tensor)``.

        A parameter of another type is another parameter: make optimizers after that. ``tw.autocast`` computes in
        16 bits with parameters in ``float32``.
        """
        device, dtype = state.place(args, kwargs)
        return state.convert(self, device, dtype)

    def type(self, dst_type: DTypeLike) -> Self:
        """Floating-point parameters and buffers in another type."""
        return self.to(dtype=dst_type)

    def float(self) -> Self:
        """Floating-point parameters and buffers in ``float32``."""
        return self.to(dtype="float32")

    def double(self) -> Self:
        """Floating-point parameters and buffers in ``float64``."""
        return self.to(dtype="float64")

    def half(self) -> Self:
        """Floating-point parameters and buffers in ``float16``."""
        return self.to(dtype="float16")

    def bfloat16(self) -> Self:
        """Floating-point parameters and buffers in ``bfloat16``."""
        return self.to(dtype="bfloat16")

    def cuda(self, device: str | None = None) -> Self:
        """Moves everything to a GPU."""
        return self.to(device="cuda" if device is None else device)

    def cpu(self) -> Self:
        """Moves everything to the host."""
        return self.to(device="cpu")

    def to_empty(self, *, device: str | None, recurse: bool = True) -> Self:
        """Moves everything to a device, where values are uninitialized until they are set."""
        return self.to(device=device)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: modules are compiled anyway. ``tw.jit`` also skips the tracing."""

    def share_memory(self) -> None:
        """Sharing parameters with other processes, which is not supported."""
        raise value_error("share_memory: processes share parameters by `talweg launch` or tw.distributed: use one of them")

    # Hooks.

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> Any:
        """``hook(module, args)`` is called before ``forward`` and may return other arguments."""
        return hooks.register(self._forward_pre_hooks, hook, prepend, (self._hooks_with_kwargs, with_kwargs))

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False,
    ) -> Any:
        """``hook(module, args, output)`` is called after ``forward`` and may return another output.

        >>> shapes, layer = [], tw.nn.Linear(4, 2)
        >>> with layer.register_forward_hook(lambda module, args, output: shapes.append(output.shape)):
        ...     y = layer(tw.ones(3, 4))
        >>> shapes
        [talweg.Size([3, 2])]
        """
        flags = [(self._hooks_with_kwargs, with_kwargs), (self._hooks_always, always_call)]
        return hooks.register(self._forward_hooks, hook, prepend, *flags)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """``hook(module, grad_output)`` is called when the gradients of the outputs are known, and may return others."""
        hooks.watch_backward()
        return hooks.register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """``hook(module, grad_input, grad_output)`` is called when the gradients of the inputs are known, and may
        return others.

        A call whose result is never differentiated is kept: run those in ``tw.no_grad()``.

        >>> seen, layer = [], tw.nn.Linear(4, 2)
        >>> handle = layer.register_full_backward_hook(lambda module, given, out: seen.append(out[0].tolist()))
        >>> layer(tw.ones(1, 4)).sum().backward()
        >>> seen
        [[[1.0, 1.0]]]
        """
        hooks.watch_backward()
        return hooks.register(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> None:
        """PyTorch's deprecated form, whose gradients are not those of the module's inputs."""
        raise value_error("register_backward_hook: use register_full_backward_hook")

    # Text.

    def num_parameters(self) -> int:
        """Number of elements of all parameters."""
        return sum(p.numel() for p in self.parameters())

    def extra_repr(self) -> str:
        """The settings between the parentheses of ``repr``."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def __repr__(self) -> str:
        extra, children = self.extra_repr(), [(n, m) for n, m in self._modules.items()]
        if not children:
            return f"{self._get_name()}({extra})" if "\n" not in extra else f"{self._get_name()}(\n  {extra}\n)"
        lines = [extra] if extra else []
        lines += [f"({n}): " + repr(m).replace("\n", "\n  ") for n, m in children]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __setstate__(self, saved):
        self.__dict__.update(saved)
