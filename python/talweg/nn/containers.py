"""Modules and parameters in lists and dictionaries."""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import TYPE_CHECKING

from .._checked import check, type_error
from .._native import Tensor
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Self

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _at(index, size):
    i = operator.index(index)
    if not -size <= i < size:
        raise IndexError(f"index {i} is out of range for {size} entries")
    return str(i % size)


class _List(Module):
    """Modules under the names 0, 1, 2, ..."""

    def _renumbered(self, modules):
        self._modules.clear()
        for i, m in enumerate(modules):
            self.add_module(str(i), m)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, list(self._modules)[int(_at(index, len(self)))], module)

    def __delitem__(self, index):
        kept = list(self._modules.items())
        if isinstance(index, slice):
            del kept[index]
        else:
            del kept[int(_at(index, len(self)))]
        self._renumbered([m for _, m in kept])

    def __repr__(self) -> str:
        # Equal neighbors are shown once.
        runs = []
        for i, m in enumerate(self._modules.values()):
            text = repr(m)
            if runs and runs[-1][2] == text and isinstance(self, ModuleList):
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        names, lines = list(self._modules), []
        for first, last, text in runs:
            head = f"({names[first]})" if first == last else f"({first}-{last})"
            text = text if first == last else f"{last - first + 1} x {text}"
            lines.append(f"{head}: " + text.replace("\n", "\n  "))
        return f"{self._get_name()}(" + ("\n  " + "\n  ".join(lines) + "\n)" if lines else ")")

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Any) -> Self:
        """Adds modules at the end."""
        for m in list(modules):
            self.append(m)
        return self

    def insert(self, index: Any, module: Module) -> Self:
        """Adds a module before another."""
        modules = list(self)
        modules.insert(index, module)
        self._renumbered(modules)
        return self

    def pop(self, key: Any) -> Module:
        """Removes a module and returns it."""
        m = self[key]
        del self[key]
        return m


class Sequential(_List):
    """Modules one after the other.

    >>> model = tw.nn.Sequential(tw.nn.Linear(4, 8), tw.nn.ReLU(), tw.nn.Linear(8, 2))
    >>> model(tw.ones(1, 4)).shape, len(model)
    (talweg.Size([1, 2]), 3)
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], dict):
            items = modules[0].items()
        else:
            items = ((str(i), m) for i, m in enumerate(modules))
        for name, m in items:
            if not isinstance(m, Module):
                raise type_error(f"Sequential: part {name} is {type(m).__name__}, not a module")
            self.add_module(name, m)

    def forward(self, input: Tensor) -> Tensor:
        for m in self._modules.values():
            input = m(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[int(_at(index, len(self)))]

    def __delitem__(self, index):
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [names[int(_at(index, len(self)))]]:
            delattr(self, name)
        if all(n.isdigit() for n in self._modules):
            self._renumbered(list(self))

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise type_error(f"Sequential: expected another Sequential, not {type(other).__name__}")
        return Sequential(*self, *other)


class ModuleList(_List):
    """Modules by number.

    >>> layers = tw.nn.ModuleList(tw.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Any = None) -> None:
        self.extend(modules or ())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[_at(index, len(self))]

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __iadd__(self, modules):
        return self.extend(modules)

    def __contains__(self, module):
        return any(m is module for m in self)


class ModuleDict(Module):
    """Modules by name.

    >>> heads = tw.nn.ModuleDict({"a": tw.nn.Linear(2, 1)})
    >>> list(heads.keys()), heads["a"](tw.ones(1, 2)).shape
    (['a'], talweg.Size([1, 1]))
    """

    def __init__(self, modules: Any = None) -> None:
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: Any) -> Any:
        return self._modules[key]

    def __setitem__(self, key: Any, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        return self._modules.values()

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: Any) -> Module:
        """Removes a module and returns it."""
        return self._modules.pop(key)

    def update(self, modules: Any) -> None:
        """Adds modules from a dictionary or from pairs."""
        for name, m in modules.items() if hasattr(modules, "items") else modules:
            self[name] = m


def _kept(value):
    """Tensors in containers of parameters become parameters."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """Parameters by number.

    >>> len(tw.nn.ParameterList([tw.zeros(2), tw.zeros(3)]))
    2
    """

    def __init__(self, values: Any = None) -> None:
        self.__dict__["_size"] = 0
        self.extend(values or ())

    def append(self, value: Any) -> Self:
        """Adds a parameter at the end."""
        self.__dict__["_size"] += 1
        setattr(self, str(self._size - 1), _kept(value))
        return self

    def extend(self, values: Any) -> Self:
        """Adds parameters at the end."""
        for v in list(values):
            self.append(v)
        return self

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, _at(index, len(self)))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, _at(index, len(self)), _kept(value))

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values):
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n  ".join(f"({i}): {type(v).__name__} of size {tuple(v.shape)}" for i, v in enumerate(self) if isinstance(v, Tensor))


class ParameterDict(Module):
    """Parameters by name.

    >>> p = tw.nn.ParameterDict({"scale": tw.ones(2)})
    >>> p["scale"].shape, list(p.state_dict())
    (talweg.Size([2]), ['scale'])
    """

    def __init__(self, parameters: Iterable[Tensor] | None = None) -> None:
        self.__dict__["_keys"] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: Any) -> Any:
        return getattr(self, str(key)) if key in self._keys else self._keys[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._keys[key] = None
        setattr(self, str(key), _kept(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, str(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def keys(self) -> Iterable[Any]:
        return self._keys.keys()

    def values(self) -> list[Any]:
        return [self[k] for k in self._keys]

    def items(self) -> list[tuple[Any, Any]]:
        return [(k, self[k]) for k in self._keys]

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def pop(self, key: Any) -> Any:
        """Removes a parameter and returns it."""
        v = self[key]
        del self[key]
        return v

    def clear(self) -> None:
        """Removes all parameters."""
        for k in list(self._keys):
            del self[k]

    def update(self, parameters: Iterable[Tensor]) -> None:
        """Adds parameters from a dictionary or from pairs."""
        for k, v in parameters.items() if hasattr(parameters, "items") else parameters:
            self[k] = v

    def extra_repr(self) -> str:
        return "\n  ".join(f"({k}): {type(v).__name__} of size {tuple(v.shape)}" for k, v in self.items() if isinstance(v, Tensor))


check(globals(), __all__)
