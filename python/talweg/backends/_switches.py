"""Modules whose attributes are switches."""

from __future__ import annotations

import sys
from types import ModuleType

from .. import _native
from .._checked import type_error


class Switches(ModuleType):
    """A module of which some attributes are switches of the native side."""

    _switches: dict[str, str] = {}

    def __getattr__(self, name: str) -> bool:
        if name in self._switches:
            return _native.get_switch(self._switches[name])
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._switches:
            super().__setattr__(name, value)
            return
        if not isinstance(value, bool):
            raise type_error(f"{self.__name__}.{name}: expected True or False, not {value!r}")
        _native.set_switch(self._switches[name], value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._switches]


def install(name: str, switches: dict[str, str]) -> None:
    """Makes attributes of a module switches."""
    module = sys.modules[name]
    module.__class__ = Switches
    module.__dict__["_switches"] = switches
