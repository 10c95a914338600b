"""``tf.app``, ``tf.flags``, ``tf.logging`` and ``tf.gfile``."""

# mypy: ignore-errors
from __future__ import annotations

import glob
import logging as _logging
import os
import shutil
import sys
from typing import Any, Iterator

from .errors import invalid


class _Flags:
    """The values of flags, read from the command line when one is first asked for."""

    def __init__(self) -> None:
        self.__dict__.update(_defined={}, _values=None, _rest=[])

    def _define(self, name: str, default: Any, text: Any, parse: Any) -> None:
        self._defined[name] = (default, text, parse)
        if self._values is not None:
            self.__dict__["_values"] = None

    def _parse(self, argv: Any = None) -> list[str]:
        argv = list(sys.argv if argv is None else argv)
        values = {k: d for k, (d, _, _) in self._defined.items()}
        rest, i = argv[:1], 1
        while i < len(argv):
            word = argv[i]
            i += 1
            name, has_value, value = word.lstrip("-").partition("=")
            if not word.startswith("-") or name.removeprefix("no") not in self._defined and name not in self._defined:
                rest.append(word)
                continue
            if name not in self._defined:
                values[name.removeprefix("no")] = False
                continue
            parse = self._defined[name][2]
            if not has_value and parse is not _boolean:
                if i >= len(argv):
                    raise invalid(f"flag --{name} wants a value")
                value, i = argv[i], i + 1
            values[name] = parse(value or "true") if parse is _boolean else parse(value)
        self.__dict__.update(_values={**values, **(self._values or {})} if argv is None else values, _rest=rest)
        return rest

    def __call__(self, argv: Any = None, known_only: bool = False) -> list[str]:
        return self._parse(argv)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._values is None:
            self._parse()
        if name not in self._values:
            raise AttributeError(f"there is no flag {name!r}")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if self._values is None:
            self._parse()
        self._values[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._defined)

    def flag_values_dict(self) -> dict[str, Any]:
        """Names and values."""
        return {k: getattr(self, k) for k in self._defined}


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "t", "1", "yes", ""):
        return True
    if text.lower() in ("false", "f", "0", "no"):
        return False
    raise invalid(f"{text!r} is neither true nor false")


class flags:
    """``tf.flags`` and ``tf.app.flags``."""

    FLAGS = _Flags()

    DEFINE_string = staticmethod(lambda name, default, help=None, **_: flags.FLAGS._define(name, default, help, str))
    DEFINE_integer = staticmethod(lambda name, default, help=None, **_: flags.FLAGS._define(name, default, help, int))
    DEFINE_float = staticmethod(lambda name, default, help=None, **_: flags.FLAGS._define(name, default, help, float))
    DEFINE_boolean = staticmethod(lambda name, default, help=None, **_: flags.FLAGS._define(name, default, help, _boolean))
    DEFINE_bool = DEFINE_boolean
    DEFINE_list = staticmethod(lambda name, default, help=None, **_: flags.FLAGS._define(name, default, help, lambda s: s.split(",")))
    DEFINE_enum = staticmethod(lambda name, default, enum_values, help=None, **_: flags.FLAGS._define(name, default, help, str))

    @staticmethod
    def mark_flag_as_required(name: str, **_: Any) -> None:
        """Accepted; the value is checked by the program."""


class app:
    """``tf.app``."""

    flags = flags

    @staticmethod
    def run(main: Any = None, argv: Any = None) -> None:
        """Parses flags, calls ``main(argv)`` and leaves with its result."""
        rest = flags.FLAGS._parse(argv)
        main = main or sys.modules["__main__"].main
        sys.exit(main(rest))


class logging:
    """``tf.logging``."""

    DEBUG, INFO, WARN, ERROR, FATAL = 10, 20, 30, 40, 50
    WARNING = WARN
    _log = _logging.getLogger("talweg.compat.v1")

    @classmethod
    def set_verbosity(cls, level: int) -> None:
        """Shows messages of that level and above."""
        if not cls._log.handlers:
            handler = _logging.StreamHandler()
            handler.setFormatter(_logging.Formatter("%(levelname)s:tensorflow:%(message)s"))
            cls._log.addHandler(handler)
            cls._log.propagate = False
        cls._log.setLevel(level)

    @classmethod
    def get_verbosity(cls) -> int:
        """The level."""
        return cls._log.getEffectiveLevel()

    debug, info, warn, warning, error, fatal = _log.debug, _log.info, _log.warning, _log.warning, _log.error, _log.critical

    @classmethod
    def log(cls, level: int, msg: Any, *args: Any) -> None:
        """A message."""
        cls._log.log(level, msg, *args)

    @classmethod
    def log_every_n(cls, level: int, msg: Any, n: int, *args: Any) -> None:
        """A message at every n-th call."""
        counts = cls.__dict__.get("_counts") or {}
        counts[msg] = counts.get(msg, -1) + 1
        cls._counts = counts
        if counts[msg] % n == 0:
            cls._log.log(level, msg, *args)


class GFile:
    """A local file."""

    def __init__(self, name: Any, mode: str = "r"):
        self._name, self._mode, self._file = name, mode, None

    def _open(self) -> Any:
        if self._file is None:
            self._file = open(self._name, self._mode)
        return self._file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open(), name)

    def __iter__(self) -> Any:
        return iter(self._open())

    def __enter__(self) -> GFile:
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def size(self) -> int:
        """Bytes."""
        return os.path.getsize(self._name)


class gfile:
    """``tf.gfile``: local files."""

    GFile = Open = FastGFile = GFile
    Exists = staticmethod(os.path.exists)
    IsDirectory = staticmethod(os.path.isdir)
    ListDirectory = staticmethod(os.listdir)
    Glob = staticmethod(lambda pattern: sorted(glob.glob(pattern)))
    MkDir = staticmethod(os.mkdir)
    MakeDirs = staticmethod(lambda path: os.makedirs(path, exist_ok=True))
    Remove = staticmethod(os.remove)
    DeleteRecursively = staticmethod(shutil.rmtree)
    Rename = staticmethod(lambda old, new, overwrite=False: os.replace(old, new) if overwrite else os.rename(old, new))
    Copy = staticmethod(lambda old, new, overwrite=False: shutil.copyfile(old, new))
    Walk = staticmethod(os.walk)
    Stat = staticmethod(os.stat)
