"""PyTorch's files: read without running their pickle, and written so that ``torch.load`` reads them.

Both layouts are read: the zip archive of today (``data.pkl`` and one record a storage) and the older sequence of
pickles followed by the storages. Records of an archive must not be compressed, as PyTorch never does, nor overlap.
"""

import math
import struct
import sys
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _native
from .._native import Tensor
from ..errors import FormatError
from .unpickle import Global, Pending, Unpickler

MAGIC = 0x1950A86A20F9469CFC6C
ELEMENTS = {  # of PyTorch's storages: talweg's type, and NumPy's with the same bytes
    "FloatStorage": ("float32", "<f4"),
    "DoubleStorage": ("float64", "<f8"),
    "HalfStorage": ("float16", "<f2"),
    "BFloat16Storage": ("bfloat16", "<u2"),
    "LongStorage": ("int64", "<i8"),
    "IntStorage": ("int32", "<i4"),
    "ShortStorage": ("int16", "<i2"),
    "CharStorage": ("int8", "<i1"),
    "ByteStorage": ("uint8", "<u1"),
    "BoolStorage": ("bool", "<u1"),
    "ComplexFloatStorage": ("complex64", "<c8"),
    "ComplexDoubleStorage": ("complex128", "<c16"),
}
BYTES_OF = dict(ELEMENTS.values()) | {  # types without a storage class of their own
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "float8_e4m3fn": "<u1",
    "float8_e5m2": "<u1",
}
STORAGE_OF = {dtype: name for name, (dtype, _) in ELEMENTS.items()}
ALIASES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16"}
# Tensors may take more memory than their file, as views of one storage and expanded ones do, up to this.
FREE_BYTES = 256 << 20


def dtype_of(name: Any) -> Any:
    """An element type by its name: the object of the package itself."""
    import talweg

    if name not in BYTES_OF:
        raise FormatError(f"there is no element type {name!r:.40}")
    return getattr(talweg, name)


class _Storage:
    """A storage that tensors refer to."""

    def __init__(self, key: str, dtype: str | None, count: int, location: str) -> None:
        self.key, self.dtype, self.count, self.location = key, dtype, count, location


def _whole(x: Any, what: str) -> int:
    if type(x) is not int or not 0 <= x < 2**62:
        raise FormatError(f"a tensor has the {what} {x!r}")
    return x


def _sizes(x: Any, what: str) -> tuple[int, ...]:
    if not isinstance(x, (tuple, list)) or len(x) > 64:
        raise FormatError(f"a tensor has the {what} {x!r:.80}")
    return tuple(_whole(d, what) for d in x)


class Reader:
    """Makes tensors of the records of a file."""

    def __init__(self, record: Callable[[_Storage], memoryview], size: int, place: Callable[[str], str | None], shares: bool) -> None:
        self._record, self._place, self._shares = record, place, shares
        self._left = size + FREE_BYTES
        self._made: dict[Any, Tensor] = {}
        self._records: dict[str, memoryview] = {}
        self.is_swapped = False

    def storage(self, key: Any) -> _Storage:
        """What a persistent id stands for."""
        if type(key) is not tuple or len(key) not in (5, 6) or key[0] != "storage" or not isinstance(key[1], Global):
            raise FormatError(f"the file refers to {key!r:.80}, which is no storage")
        _, kind, name, location, count = key[:5]
        if len(key) == 6 and key[5] is not None:
            raise FormatError("the file holds a view of a storage, as PyTorch before 0.4 wrote them: save it again")
        dtype = ELEMENTS.get(kind.name.rsplit(".", 1)[1], (None,))[0]
        if dtype is None and not kind.name.endswith("UntypedStorage"):
            raise FormatError(f"{kind.name} is no storage that talweg reads")
        return _Storage(str(name), dtype, _whole(count, "count"), str(location))

    def tensor(self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Tensor:
        """A tensor of a storage; ``_rebuild_tensor_v2``."""
        requires_grad = rest[0] if rest else False
        return self._tensor(storage, getattr(storage, "dtype", None), offset, size, stride, requires_grad)

    def typed(self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, *rest: Any) -> Tensor:
        """A tensor of a storage of bytes; ``_rebuild_tensor_v3``."""
        return self._tensor(storage, dtype.name if isinstance(dtype, _native.dtype) else None, offset, size, stride, requires_grad)

    def _tensor(self, storage: Any, dtype: Any, offset: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
        if not isinstance(storage, _Storage) or dtype not in BYTES_OF:
            raise FormatError(f"a tensor has no storage that talweg reads, or elements of type {dtype}")
        offset, size, stride = _whole(offset, "offset"), _sizes(size, "size"), _sizes(stride, "stride")
        if len(size) != len(stride):
            raise FormatError(f"a tensor of {len(size)} dimensions has {len(stride)} strides")
        key = (storage.key, dtype, offset, size, stride, bool(requires_grad))
        if key in self._made:
            return self._made[key]
        raw = np.dtype(BYTES_OF[dtype])
        if storage.key not in self._records:
            self._records[storage.key] = self._record(storage)
        data = self._records[storage.key]
        width = raw.itemsize if storage.dtype is not None else 1
        if storage.count * width != len(data):
            raise FormatError(f"storage {storage.key} has {len(data)} bytes, not {storage.count * width}")
        last = offset + sum((d - 1) * s for d, s in zip(size, stride)) if 0 not in size else -1
        if last >= len(data) // raw.itemsize:
            raise FormatError(f"a tensor reaches to element {last} of a storage of {len(data) // raw.itemsize}")
        self._left -= math.prod(size) * raw.itemsize
        if self._left < 0:
            raise FormatError("the tensors of the file take far more memory than the file: it is no saved model")
        elements = np.frombuffer(data[: len(data) // raw.itemsize * raw.itemsize], raw)
        if 0 in size:
            array = np.zeros(size, raw)
        else:
            array = np.lib.stride_tricks.as_strided(elements[offset:], size, [s * raw.itemsize for s in stride], writeable=False)
        made = made_of(array.byteswap() if self.is_swapped else array, dtype, self._shares)
        where = self._place(storage.location)
        if where is not None:
            made = made.to_device(where)
        if requires_grad:
            made = _native.tensor(made, requires_grad=True)
        self._made[key] = made
        return made


def made_of(array: np.ndarray, dtype: str, shares: bool = False) -> Tensor:
    """A tensor of the bytes of an array; with ``shares`` over its memory where that can be."""
    if dtype in ("bool", "bfloat16") or dtype.startswith("float8"):
        data = np.ascontiguousarray(array).tobytes()
        if dtype == "bool":
            data = (np.frombuffer(data, "u1") != 0).tobytes()
        return _native._rebuild(Tensor, data, _native.dtype(dtype), list(array.shape), False, False)
    if shares and array.flags.c_contiguous and array.flags.aligned:
        shared = _native.share(array)
        if shared is not None:
            return shared
    return _native.tensor(np.ascontiguousarray(array).reshape(array.shape))


# What a pickle may name.


def _parameter(data: Any, requires_grad: Any, hooks: Any = None, state: Any = None) -> Any:
    from ..nn import Parameter

    if not isinstance(data, Tensor):
        raise FormatError("a parameter is made of something that is no tensor")
    return Parameter(data.detach(), requires_grad=bool(requires_grad))


def _from_type(f: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes of its own, which are left out."""
    if not isinstance(f, Global) or type(args) is not tuple:
        raise FormatError("the file makes a tensor by something that is no function of PyTorch's")
    return f(*args)


def _size(parts: Any = ()) -> Any:
    import talweg

    return getattr(talweg, "Size", tuple)(_sizes(parts, "size"))


def _device(kind: Any, index: Any = None) -> Any:
    import talweg

    name = str(kind) if index is None else f"{kind}:{_whole(index, 'device')}"
    try:
        return talweg.device(name)
    except Exception as e:
        raise FormatError(f"the file names the device {name!r:.40}: {e}") from None


def _encode(text: Any, coding: Any = "latin1") -> bytes:
    if type(text) is not str or coding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise FormatError("the file encodes something that is no text")
    return text.encode(coding)


def _numpy_dtype(name: Any, *flags: Any) -> Pending:
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    if type(text) is not str or not text or text[-1:].isalpha() and text != "?" or text.lstrip("<>=|")[0] not in "biufc?":
        raise FormatError(f"the file holds a NumPy type {text!r:.40}, which is not one of numbers")

    def build(state: Any) -> np.dtype:
        if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "=") or any(state[2:5]):
            raise FormatError(f"the NumPy type {text} has a state that is none")
        return np.dtype(text).newbyteorder(state[1]) if state[1] in "<>" else np.dtype(text)

    found = Pending(build)
    found.value, found.is_built = np.dtype(text), False
    return found


def _numpy_array(dtype: Any, shape: Any, order: Any, data: Any) -> np.ndarray:
    shape = _sizes(shape, "shape")
    data = data.encode("latin-1") if type(data) is str else data  # as Python 2 has written it
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufc" or not isinstance(data, (bytes, bytearray)):
        raise FormatError("the file holds a NumPy array that is not one of numbers")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise FormatError(f"a NumPy array of shape {shape} has {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if order else "C").copy()


def _reconstruct(kind: Any, shape: Any, code: Any) -> Pending:
    if not isinstance(kind, Global) or kind.name != "numpy.ndarray":
        raise FormatError("the file holds a subclass of NumPy's array")

    def build(state: Any) -> np.ndarray:
        if type(state) is not tuple or len(state) != 5:
            raise FormatError("a NumPy array has a state that is none")
        return _numpy_array(state[2], state[1], state[3], state[4])

    return Pending(build)


def _scalar(dtype: Any, data: Any = b"") -> Any:
    return _numpy_array(dtype, (), False, data)[()]


def _default(factory: Any = None, *rest: Any) -> Any:
    known = {"list": list, "dict": dict, "int": int, "float": float, "set": set}
    name = factory.name.rsplit(".", 1)[1] if isinstance(factory, Global) else None
    if factory is not None and name not in known:
        raise FormatError("the file holds a defaultdict whose default is a function")
    return defaultdict(known[name] if name else None, *rest)


def table(reader: Reader) -> dict[str, Any]:
    """Everything that a pickle may name."""
    calls: dict[str, Callable[..., Any] | None] = {
        "torch._utils._rebuild_tensor": reader.tensor,
        "torch._utils._rebuild_tensor_v2": reader.tensor,
        "torch._utils._rebuild_tensor_v3": reader.typed,
        "torch._utils._rebuild_parameter": _parameter,
        "torch._utils._rebuild_parameter_with_state": _parameter,
        "torch._tensor._rebuild_from_type_v2": _from_type,
        "torch.Tensor": None,
        "torch.nn.parameter.Parameter": None,
        "torch.nn.parameter.Buffer": None,
        "torch.storage.UntypedStorage": None,
        "torch.UntypedStorage": None,
        "torch.Size": _size,
        "torch.device": _device,
        "collections.OrderedDict": lambda items=(): OrderedDict(items),
        "collections.Counter": lambda items=(): Counter(items),
        "collections.defaultdict": _default,
        "_codecs.encode": _encode,
        "numpy.dtype": _numpy_dtype,
        "numpy.ndarray": None,
    }
    for module in ("numpy._core", "numpy.core"):
        calls[f"{module}.multiarray._reconstruct"] = _reconstruct
        calls[f"{module}.multiarray.scalar"] = _scalar
        calls[f"{module}.numeric._frombuffer"] = lambda data, dtype, shape, order: _numpy_array(dtype, shape, order == "F", data)
    plain = {"set": set, "frozenset": frozenset, "complex": complex, "bytearray": bytearray, "list": list, "dict": dict}
    for module in ("builtins", "__builtin__"):
        calls |= {f"{module}.{name}": _plain(f) for name, f in plain.items()}
        calls |= {f"{module}.{name}": None for name in ("int", "float")}
    calls |= {f"torch.{name}": None for name in ELEMENTS}
    found: dict[str, Any] = {name: Global(name, call) for name, call in calls.items()}
    names = {**{n: n for n in BYTES_OF}, **ALIASES}
    return found | {f"torch.{name}": dtype_of(dtype) for name, dtype in names.items()}


def _plain(kind: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any) -> Any:
        if any(isinstance(a, int) and kind is bytearray for a in args):
            raise FormatError("the file makes bytes of a length alone")
        return kind(*args)

    return make


# Files.


def read(data: memoryview, place: Callable[[str], str | None], shares: bool) -> Any:
    """The object of a file of PyTorch's."""
    return _read_zip(data, place, shares) if data[:4] == b"PK\x03\x04" else _read_old(data, place, shares)


def is_old(data: memoryview) -> bool:
    """Whether a file begins as those of the older layout do: with a pickle of the magic number."""
    return bytes(data[:1]) == b"\x80" and struct.pack("<Q", MAGIC & (2**64 - 1)) in bytes(data[:40])


def records_of(data: memoryview) -> dict[str, memoryview]:
    """The records of an archive by name, none of them compressed or overlapping."""
    try:
        with zipfile.ZipFile(_Bytes(data)) as archive:
            entries = archive.infolist()
    except Exception as e:
        raise FormatError(f"the archive cannot be read: {e}") from None
    found, spans = {}, []
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise FormatError(f"the record {entry.filename} is compressed or encrypted, as no file of PyTorch's is")
        start = entry.header_offset
        head = data[start : start + 30]
        if start < 0 or len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise FormatError(f"the record {entry.filename} is not where the archive says")
        names, extra = struct.unpack("<HH", head[26:30])
        start += 30 + names + extra
        end = start + entry.file_size
        if end > len(data):
            raise FormatError(f"the record {entry.filename} reaches beyond the end of the file")
        if entry.filename in found:
            raise FormatError(f"the archive has two records {entry.filename}")
        found[entry.filename] = (data[start:end], entry.CRC)
        spans.append((entry.header_offset, end))
    spans.sort()
    if any(end > start for (_, end), (start, _) in zip(spans, spans[1:])):
        raise FormatError("records of the archive overlap")
    return found


class _Bytes:
    """A file over memory, without a copy of it."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        at = offset + (0, self._at, len(self._data))[whence]
        if at < 0:
            raise ValueError("before the beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def read(self, n: int = -1) -> bytes:
        end = len(self._data) if n is None or n < 0 else self._at + n
        part = bytes(self._data[self._at : end])
        self._at += len(part)
        return part


def _read_zip(data: memoryview, place: Callable[[str], str | None], shares: bool) -> Any:
    records = records_of(data)
    roots = [n.removesuffix("data.pkl") for n in records if n.endswith("/data.pkl") and n.count("/") == 1]
    if len(roots) != 1:
        raise FormatError("the archive is no file of PyTorch's: it has no data.pkl in its folder")
    root = roots[0]
    if root + "constants.pkl" in records or any(n.startswith(root + "code/") for n in records):
        raise FormatError("the file is a TorchScript program; save model.state_dict() with torch.save instead")

    def record(name: str) -> memoryview:
        if name not in records:
            raise FormatError(f"the archive has no record {name}")
        content, crc = records[name]
        if not shares and zlib.crc32(content) != crc:
            raise FormatError(f"the record {name} is damaged: its checksum differs")
        return content

    reader = Reader(lambda s: record(f"{root}data/{s.key}"), len(data), place, shares)
    order = bytes(record(root + "byteorder")) if root + "byteorder" in records else sys.byteorder.encode()
    if order not in (b"little", b"big"):
        raise FormatError(f"the byte order {order!r:.40} is none")
    reader.is_swapped = order == b"big"
    return Unpickler(record(root + "data.pkl"), table(reader), reader.storage).load()


def _read_old(data: memoryview, place: Callable[[str], str | None], shares: bool) -> Any:
    start = Unpickler(data, {}, None)
    if start.load() != MAGIC:
        raise FormatError("the file is neither safetensors, NumPy's nor PyTorch's")
    version, system = start.load(), start.load()
    if version != 1001 or type(system) is not dict or system.get("little_endian") is not True:
        raise FormatError(f"PyTorch's layout {version!r:.40} is not known, or is of a big-endian machine")
    # The storages follow the object that refers to them: it is read twice, first for their types.
    storages: dict[str, _Storage] = {}
    empty = np.zeros(1, "u1")

    def seen(key: Any) -> _Storage:
        found = reader.storage(key)
        storages.setdefault(found.key, found)
        return found

    class Types(Reader):
        def _tensor(self, *args: Any) -> Tensor:
            return _native.tensor(0.0)

    reader = Types(lambda s: memoryview(empty), len(data), place, shares)
    first = Unpickler(data, table(reader), seen)
    first.at = start.at
    first.load()
    keys = first.load()
    if type(keys) is not list or not all(type(k) is str for k in keys):
        raise FormatError("the file does not list its storages")
    records, at = {}, first.at
    for key in keys:
        if key not in storages or storages[key].dtype is None:
            raise FormatError(f"the file has a storage {key!r:.40} that nothing refers to, or that has no type")
        width = np.dtype(BYTES_OF[storages[key].dtype]).itemsize
        if at + 8 > len(data) or struct.unpack("<q", data[at : at + 8])[0] != storages[key].count:
            raise FormatError(f"the storage {key} is cut short, or not as long as the tensors say")
        end = at + 8 + storages[key].count * width
        if end > len(data):
            raise FormatError(f"the storage {key} is cut short")
        records[key], at = data[at + 8 : end], end

    def record(storage: _Storage) -> memoryview:
        if storage.key not in records:
            raise FormatError(f"the file has no storage {storage.key}")
        return records[storage.key]

    reader = Reader(record, len(data), place, False)
    second = Unpickler(data, table(reader), reader.storage)
    second.at = start.at
    return second.load()
