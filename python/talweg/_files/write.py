"""Writes an archive that ``torch.load`` reads: a pickle of tensors, numbers, strings and containers, and one record a
storage."""

import io
import math
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from .. import _native
from .._checked import type_error, value_error
from .._native import Tensor
from .pt import BYTES_OF, STORAGE_OF

_ALIGNED = 64


class _Pickler:
    """A pickle of protocol 2, which every reader of PyTorch's files knows."""

    def __init__(self) -> None:
        self.out = io.BytesIO()
        self.records: list[Tensor] = []
        self._memo: dict[int, tuple[int, Any]] = {}  # objects are kept: their ids stay theirs
        self._path: list[int] = []

    def dump(self, value: Any) -> bytes:
        self.out.write(b"\x80\x02")
        self._value(value, "the value")
        self.out.write(b".")
        return self.out.getvalue()

    def _value(self, value: Any, path: str) -> None:
        if id(value) in self._path or len(self._path) > 400:
            raise value_error(f"save: {path} contains itself, or is nested too deep")
        known = self._memo.get(id(value))
        if known is not None:
            self.out.write(b"j" + struct.pack("<I", known[0]))
            return
        for kind, write in _WRITERS:
            if isinstance(value, kind):
                write(self, value, path)
                return
        if hasattr(value, "state_dict"):
            raise type_error(f"save: {path} is {type(value).__name__}: save its state_dict()")
        what = "tensors, arrays, numbers, strings, bytes, None, dtypes, devices, and dicts, lists, tuples and sets of them"
        raise type_error(f"save: {path} is {type(value).__name__}; a file holds {what}")

    def _keep(self, value: Any) -> None:
        self._memo[id(value)] = (len(self._memo), value)
        self.out.write(b"r" + struct.pack("<I", len(self._memo) - 1))

    # Plain values.

    def _none(self, value: None, path: str) -> None:
        self.out.write(b"N")

    def _bool(self, value: bool, path: str) -> None:
        self.out.write(b"\x88" if value else b"\x89")

    def _int(self, value: int, path: str) -> None:
        value = int(value)
        if -(2**31) <= value < 2**31:
            self.out.write(b"J" + struct.pack("<i", value))
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        self.out.write((b"\x8a" + bytes([len(data)]) if len(data) < 256 else b"\x8b" + struct.pack("<i", len(data))) + data)

    def _float(self, value: float, path: str) -> None:
        self.out.write(b"G" + struct.pack(">d", value))

    def _str(self, value: str, path: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self.out.write(b"X" + struct.pack("<I", len(data)) + data)

    def _call(self, name: str, path: str, *args: Any) -> None:
        module, _, attribute = name.rpartition(".")
        self.out.write(f"c{module}\n{attribute}\n(".encode())
        for a in args:
            self._value(a, path)
        self.out.write(b"tR")

    def _complex(self, value: complex, path: str) -> None:
        self._call("__builtin__.complex", path, value.real, value.imag)

    def _bytes(self, value: bytes, path: str) -> None:
        self._call("_codecs.encode", path, bytes(value).decode("latin-1"), "latin1")

    # Containers.

    def _within(self, value: Any, write: Callable[[], None]) -> None:
        self._path.append(id(value))
        write()
        self._path.pop()

    def _items(self, value: Any, path: str) -> None:
        self.out.write(b"(")
        for k, v in value.items():
            self._value(k, f"a key of {path}")
            self._value(v, _below(path, k))
        self.out.write(b"u")

    def _dict(self, value: dict[Any, Any], path: str) -> None:
        if isinstance(value, OrderedDict):
            self.out.write(b"ccollections\nOrderedDict\n)R")
        else:
            self.out.write(b"}")
        self._keep(value)
        self._within(value, lambda: self._items(value, path))

    def _list(self, value: list[Any], path: str) -> None:
        self.out.write(b"]")
        self._keep(value)

        def write() -> None:
            self.out.write(b"(")
            for i, v in enumerate(value):
                self._value(v, _below(path, i))
            self.out.write(b"e")

        self._within(value, write)

    def _tuple(self, value: tuple[Any, ...], path: str) -> None:
        is_size = type(value).__name__ == "Size"
        if type(value) is not tuple and not is_size and not hasattr(value, "_fields"):
            raise type_error(f"save: {path} is {type(value).__name__}: make it a tuple")
        if is_size:
            self.out.write(b"ctorch\nSize\n")

        def write() -> None:
            self.out.write(b"(")
            for i, v in enumerate(value):
                self._value(v, _below(path, i))
            self.out.write(b"t")

        self._within(value, write)
        if is_size:
            self.out.write(b"\x85R")

    def _set(self, value: Any, path: str) -> None:
        self._call(f"__builtin__.{'set' if isinstance(value, set) else 'frozenset'}", path, list(value))

    # Tensors and what belongs to them.

    def _dtype(self, value: Any, path: str) -> None:
        self.out.write(f"ctorch\n{value.name}\n".encode())

    def _tensor(self, value: Tensor, path: str) -> None:
        from ..nn import Parameter

        dtype, shape = value.dtype.name, tuple(value.shape)
        where = value.device
        location = str(getattr(where, "_value", None) or where)
        key, count = str(len(self.records)), math.prod(shape)
        self.records.append(value.detach())
        is_typed = dtype in STORAGE_OF
        is_parameter = isinstance(value, Parameter)
        if is_parameter:
            self.out.write(b"ctorch._utils\n_rebuild_parameter\n(")
        self.out.write(f"ctorch._utils\n_rebuild_tensor_{'v2' if is_typed else 'v3'}\n((".encode())
        self._str("storage", path)
        self.out.write(f"ctorch\n{STORAGE_OF[dtype]}\n".encode() if is_typed else b"ctorch.storage\nUntypedStorage\n")
        self._value(key, path)
        self._value(location, path)
        self._value(count if is_typed else count * np.dtype(BYTES_OF[dtype]).itemsize, path)
        self.out.write(b"tQ")
        strides, step = [], 1
        for d in reversed(shape):
            strides.append(step)
            step *= max(d, 1)
        for part in (0, shape, tuple(reversed(strides)), False if is_parameter else bool(value.requires_grad)):
            self._value(part, path)
        self.out.write(b"ccollections\nOrderedDict\n)R")
        if not is_typed:
            self._dtype(value.dtype, path)
        self.out.write(b"tR")
        if is_parameter:
            self._bool(bool(value.requires_grad), path)
            self.out.write(b"ccollections\nOrderedDict\n)RtR")
        self._keep(value)

    def _numpy_dtype(self, dtype: np.dtype, path: str) -> None:
        if dtype.kind not in "biufc":
            raise type_error(f"save: {path} is a NumPy array of {dtype}, not of numbers")
        self._call("numpy.dtype", path, dtype.str[1:], False, True)
        order = dtype.str[0]
        self._value((3, order, None, None, None, -1, -1, 0), path)
        self.out.write(b"b")

    def _array(self, value: np.ndarray, path: str) -> None:
        if type(value) is not np.ndarray:
            raise type_error(f"save: {path} is {type(value).__name__}, a subclass of NumPy's array")
        self.out.write(b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n")
        self._value((0,), path)
        self._value(b"b", path)
        self.out.write(b"tR")
        self._keep(value)
        self.out.write(b"(")
        self._value(1, path)
        self._value(value.shape, path)
        self._numpy_dtype(value.dtype, path)
        self._value(False, path)
        self._value(np.ascontiguousarray(value).tobytes(), path)
        self.out.write(b"tb")

    def _scalar(self, value: np.generic, path: str) -> None:
        self.out.write(b"cnumpy.core.multiarray\nscalar\n(")
        self._numpy_dtype(value.dtype, path)
        self._value(value.tobytes(), path)
        self.out.write(b"tR")


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path != "the value" else str(key)


class _Device(type):
    """Whether something is a device, whichever class that is."""

    def __instancecheck__(cls, value: Any) -> bool:
        import talweg

        return isinstance(talweg.device, type) and isinstance(value, talweg.device)


class _AnyDevice(metaclass=_Device):
    pass


def _device(p: _Pickler, value: Any, path: str) -> None:
    kind, _, index = str(getattr(value, "_value", None) or value).partition(":")
    p._call("torch.device", path, kind, *([int(index)] if index else []))


_WRITERS: list[tuple[Any, Callable[[Any, Any, str], None]]] = [
    (type(None), _Pickler._none),
    (_AnyDevice, _device),
    (Tensor, _Pickler._tensor),
    (np.ndarray, _Pickler._array),
    (np.generic, _Pickler._scalar),
    (bool, _Pickler._bool),
    (int, _Pickler._int),
    (float, _Pickler._float),
    (complex, _Pickler._complex),
    (str, _Pickler._str),
    ((bytes, bytearray), _Pickler._bytes),
    (dict, _Pickler._dict),
    (list, _Pickler._list),
    (tuple, _Pickler._tuple),
    ((set, frozenset), _Pickler._set),
    (_native.dtype, _Pickler._dtype),
]


def _content(tensor: Tensor) -> Any:
    """The elements as bytes, without a copy where NumPy has the type."""
    if tensor.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return tensor.__reduce__()[1][1]
    return np.ascontiguousarray(np.asarray(tensor)).reshape(-1).view("u1").data


def write(value: Any, file: IO[bytes], name: str = "archive") -> None:
    """Writes a value as PyTorch's archive."""
    pickler = _Pickler()
    data = pickler.dump(value)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def add(record: str, content: Any) -> None:
            info = zipfile.ZipInfo(f"{name}/{record}")
            # Records begin at multiples of 64 bytes, so that they can be mapped; large ones state their sizes before.
            start = file.tell() + 30 + len(info.filename.encode()) + 4 + (20 if len(content) * 1.05 > zipfile.ZIP64_LIMIT else 0)
            pad = -start % _ALIGNED
            info.extra = struct.pack("<HH", 0x4246, pad) + b"Z" * pad
            archive.writestr(info, content)

        add("data.pkl", data)
        add("byteorder", b"little")
        for i, tensor in enumerate(pickler.records):
            add(f"data/{i}", _content(tensor))
        add("version", b"3\n")
