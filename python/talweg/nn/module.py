"""Modules: trees of named parameters."""

from collections import OrderedDict

from .. import _native
from .._native import Tensor
from .._checked import check, key_error, type_error, value_error
from .._graph import Variable, _VariableType


class Parameter(Variable, metaclass=_VariableType):
    """A tensor that a module trains. Any trainable variable is one.

    >>> import talweg as tw
    >>> p = tw.nn.Parameter(tw.zeros(2))
    >>> p.requires_grad, isinstance(p, tw.nn.Parameter)
    (True, True)
    """

    _trained = True

    def __new__(cls, data, requires_grad=True):
        return Tensor(data, variable=True, trainable=requires_grad)


def _join(prefix, name):
    return f"{prefix}.{name}" if prefix else name


class Module:
    """The base of models: a subclass sets modules and parameters as attributes and has ``forward``.

    >>> class Mlp(Module):
    ...     def __init__(self):
    ...         self.hidden = Linear(4, 8)
    ...         self.out = Linear(8, 2)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    """

    @property
    def training(self):
        """Whether it behaves as in training. A jitted function that asks is traced for each answer."""
        return self._own_mode().training

    @training.setter
    def training(self, mode):
        self._own_mode().training = bool(mode)
        self._set_mode(bool(mode))

    def _own_mode(self):
        # Subclasses need not call ``Module.__init__``.
        mode = self.__dict__.get("_mode")
        if mode is None:
            mode = self.__dict__["_mode"] = _native.Mode()
        return mode

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def __setattr__(self, name, value):
        # A parameter that is there keeps its identity: optimizers hold on to it.
        if isinstance(value, Module) or (isinstance(value, Tensor) and value.is_variable):
            order = self.__dict__.setdefault("_order", [])
            if name not in order:
                order.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name in self.__dict__.get("_order", []):
            self._order.remove(name)
        object.__delattr__(self, name)

    def register_parameter(self, name, param):
        """The same as setting an attribute."""
        setattr(self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that is part of the state but not trained."""
        buffer = Tensor(tensor, variable=True, trainable=False)
        setattr(self, name, buffer)
        if not persistent:
            self._order.remove(name)

    def add_module(self, name, module):
        """The same as setting an attribute."""
        setattr(self, name, module)

    def _entries(self):
        """Own variables and modules, by name and in order."""
        for name in self.__dict__.get("_order", []):
            value = self.__dict__.get(name)
            if isinstance(value, (Module, Tensor)):
                yield name, value

    def named_children(self):
        for name, value in self._entries():
            if isinstance(value, Module):
                yield name, value

    def children(self):
        return (m for _, m in self.named_children())

    def named_modules(self, prefix="", memo=None):
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(_join(prefix, name), memo)

    def modules(self):
        return (m for _, m in self.named_modules())

    def _own_state(self):
        """Own variables by name, with whether each is a parameter."""
        for name, value in self._entries():
            if isinstance(value, Tensor) and value.is_variable:
                yield name, value

    def _all_state(self):
        for prefix, module in self.named_modules():
            for name, value in module._own_state():
                yield _join(prefix, name), value

    def named_parameters(self):
        """Trained variables with their paths; a shared one stands under its first."""
        seen = set()
        for name, value in self._all_state():
            key = value.variable_id
            if value.is_parameter and key not in seen:
                seen.add(key)
                yield name, value

    def parameters(self):
        return (p for _, p in self.named_parameters())

    def named_buffers(self):
        return ((n, v) for n, v in self._all_state() if not v.is_parameter)

    def buffers(self):
        return (b for _, b in self.named_buffers())

    def state_dict(self):
        """Parameters and buffers by path: what a file needs."""
        return OrderedDict((n, v.detach()) for n, v in self._all_state())

    def load_state_dict(self, state, strict=True):
        """Takes values by path; arrays of other libraries are converted. Nothing changes if one does not fit."""
        mine = dict(self._all_state())
        missing = [n for n in mine if n not in state]
        # PyTorch counts batches beside the running averages; nothing here needs the count.
        unexpected = [n for n in state if n not in mine and not n.endswith("num_batches_tracked")]
        if strict and (missing or unexpected):
            raise key_error(f"load_state_dict: missing {missing}, unexpected {unexpected}")
        values = {}
        for name, variable in mine.items():
            if name not in state:
                continue
            value = state[name] if isinstance(state[name], Tensor) else Tensor(_host(state[name]))
            if value.shape != variable.shape:
                raise value_error(f"load_state_dict: {name} is {variable.shape}, but the value is {value.shape}")
            values[name] = value.astype(variable.dtype)
        for name, value in values.items():
            mine[name].assign(value)
        return missing, unexpected

    def train(self, mode=True):
        """Switches to training, or with ``False`` to inference."""
        for m in self.modules():
            m.training = mode
        return self

    def _set_mode(self, mode):
        """For layers that have a mode of their own."""

    def eval(self):
        """Switches to inference."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Freezes or unfreezes all parameters."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def zero_grad(self):
        """Forgets all collected gradients."""
        for p in self.parameters():
            p.grad = None

    def apply(self, f):
        """Calls ``f`` with every module, the innermost first."""
        for child in self.children():
            child.apply(f)
        f(self)
        return self

    def to(self, device):
        """Moves all parameters and buffers to a device; what the model computes is computed there.

        Types stay: ``tw.autocast`` computes in 16 bits with parameters in ``float32``.
        """
        if not isinstance(device, str):
            raise type_error(f"Module.to: expected a device such as 'cuda:0', not {device!r}; for types see tw.autocast")
        for _, tensor in self._all_state():
            _native.move_to(tensor, device)
        return self

    def cuda(self, index=0):
        """Moves everything to a GPU."""
        return self.to(f"cuda:{index}")

    def cpu(self):
        """Moves everything to the host."""
        return self.to("cpu")

    def num_parameters(self):
        """Number of trained elements."""
        return sum(p.size for p in self.parameters())

    def extra_repr(self):
        """What stands between the brackets of ``repr``."""
        return ""

    def __repr__(self):
        lines = [f"  ({n}): " + repr(m).replace("\n", "\n  ") for n, m in self.named_children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return f"{head}\n" + "\n".join(lines) + "\n)" if lines else f"{head})"


def _host(value):
    """A tensor of another library as something that can be read: PyTorch's must leave autograd first."""
    return value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value


class Sequential(Module):
    """Modules one after the other.

    >>> import talweg as tw
    >>> model = tw.nn.Sequential(tw.nn.Linear(4, 8), tw.nn.ReLU(), tw.nn.Linear(8, 2))
    >>> model(tw.ones(1, 4)).shape, len(model)
    ((1, 2), 3)
    """

    def __init__(self, *modules):
        if len(modules) == 1 and isinstance(modules[0], dict):
            items = modules[0].items()
        else:
            items = ((str(i), m) for i, m in enumerate(modules))
        for name, m in items:
            if not isinstance(m, Module):
                raise type_error(f"Sequential: part {name} is {type(m).__name__}, not a module")
            setattr(self, name, m)

    def forward(self, x):
        for m in self.children():
            x = m(x)
        return x

    def append(self, module):
        setattr(self, str(len(self)), module)
        return self

    def __len__(self):
        return len(self.__dict__.get("_order", []))

    def __iter__(self):
        return iter(list(self.children()))

    def __getitem__(self, index):
        parts = list(self.children())[index]
        return Sequential(*parts) if isinstance(index, slice) else parts


class ModuleList(Module):
    """Modules by number.

    >>> import talweg as tw
    >>> layers = tw.nn.ModuleList(tw.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules=()):
        for m in modules:
            self.append(m)

    append = Sequential.append
    __len__ = Sequential.__len__
    __iter__ = Sequential.__iter__

    def extend(self, modules):
        for m in modules:
            self.append(m)
        return self

    def __getitem__(self, index):
        parts = list(self.children())[index]
        return ModuleList(parts) if isinstance(index, slice) else parts


class ModuleDict(Module):
    """Modules by name.

    >>> import talweg as tw
    >>> heads = tw.nn.ModuleDict({"a": tw.nn.Linear(2, 1)})
    >>> list(heads.keys()), heads["a"](tw.ones(1, 2)).shape
    (['a'], (1, 1))
    """

    def __init__(self, modules=None):
        for name, m in (modules or {}).items():
            setattr(self, name, m)

    def __getitem__(self, name):
        return dict(self.named_children())[name]

    def __setitem__(self, name, module):
        setattr(self, name, module)

    def keys(self):
        return dict(self.named_children()).keys()

    def items(self):
        return dict(self.named_children()).items()

    def __len__(self):
        return len(self.__dict__.get("_order", []))


class ParameterList(Module):
    """Parameters by number.

    >>> import talweg as tw
    >>> len(tw.nn.ParameterList([tw.zeros(2), tw.zeros(3)]))
    2
    """

    def __init__(self, parameters=()):
        for p in parameters:
            self.append(p)

    def append(self, parameter):
        setattr(self, str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def __len__(self):
        return len(self.__dict__.get("_order", []))

    def __getitem__(self, index):
        return [v for _, v in self._own_state()][index]

    def __iter__(self):
        return iter([v for _, v in self._own_state()])


check(globals(), ["ModuleDict", "ModuleList", "ParameterList", "Sequential"])
