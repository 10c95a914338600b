"""Devices as objects."""

import builtins
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._checked import type_error, value_error
from .errors import DeviceError

if TYPE_CHECKING:
    _native: Any
else:
    from . import _native

F = TypeVar("F", bound=Callable[..., Any])


class device(str):
    """A device, ``"cpu"`` or ``"cuda:0"``; as a scope or decorator, tensors are made there.

    What uses a tensor is computed where the tensor is; tensors on the host go wherever they are needed. A device is a
    string as well: functions take either. Inside a jitted function a scope is a constraint: its ops run on that device,
    and what they need is sent there (``tw.config.set_logical_devices``, ``tw.colocate_with``).

    >>> tw.device("cuda", 1).type, tw.device("cuda:1").index, tw.device("cpu").index
    ('cuda', 1, None)
    >>> with tw.device("cpu"):
    ...     x = tw.ones(3)
    >>> x.device
    device(type='cpu')
    """

    _before: list[Any]

    def __new__(cls, type: "str | int" = "cpu", index: "int | None" = None) -> "device":
        if isinstance(type, int):
            type, index = "cuda", type
        if not isinstance(type, str):
            raise type_error(f"device: expected a name such as 'cuda:0', not {builtins.type(type).__name__}")
        kind, colon, number = type.partition(":")
        if colon and (index is not None or not number.isdigit()):
            raise value_error(f"device: expected a name such as 'cuda:0', not {str(type)!r}")
        if index is not None and not isinstance(index, int):
            raise type_error(f"device: index must be an int, not {builtins.type(index).__name__}")
        if kind not in ("cpu", "cuda") and type not in _native.devices():
            if kind == "meta":
                _native.zeros((), device="meta")  # says what to write instead
            known = ", ".join(_native.devices())
            raise DeviceError(_native.located(f'there is no device "{type}"; there are {known}'))
        self = str.__new__(cls, type if index is None else f"{type}:{index}")
        self._before = []
        return self

    @property
    def type(self) -> str:
        """The kind of device: ``"cpu"``, ``"cuda"``."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> "int | None":  # type: ignore[override]
        """Its number among those of its kind, or ``None``."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> Any:
        return device, (str(self),)

    def __enter__(self) -> "device":
        self._before.append(_native.set_device(named(self)))
        return self

    def __exit__(self, *_exception: Any) -> None:
        _native.set_device(self._before.pop())

    def __call__(self, f: F) -> F:
        @functools.wraps(f)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with device(self):
                return f(*args, **kwargs)

        return inside  # type: ignore[return-value]


# Names that were looked at before.
_NAMED: "dict[Any, str | None]" = {None: None, "cpu": "cpu"}


class _Gpu(threading.local):
    """The GPU that ``"cuda"`` is for a thread."""

    number = 0


GPU = _Gpu()


def named(where: Any) -> Any:
    """The name that the engine knows a device by, of a device, a string or the number of a GPU."""
    found = f"cuda:{GPU.number}" if where == "cuda" else _NAMED.get(where)
    if found is None and where is not None:
        found = _NAMED[where] = _named(where)
    return found


def _named(where: Any) -> str:
    where = where if isinstance(where, device) else device(where)
    if where.type != "cpu":
        return str(where)
    # The host is one device, unless it is divided into logical ones.
    return str(where) if _native.logical_devices() else "cpu"


def forget_names() -> None:
    """Looks at names again, as there are other logical devices."""
    _NAMED.clear()
    _NAMED.update({None: None, "cpu": "cpu"})
