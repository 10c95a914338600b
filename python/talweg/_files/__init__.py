"""Tensors in files: ``save`` and ``load`` with PyTorch's meaning, in formats that hold data and no code.

| ending | written | read |
|---|---|---|
| ``.safetensors`` | safetensors; nested values as JSON in one tensor more | any file of that format |
| ``.npy``, ``.npz`` | NumPy's | NumPy's, without objects |
| any other, such as ``.pt`` and ``.pth``, and file objects | PyTorch's archive | PyTorch's archives and older files |

What a file is, its content says, not its name.
"""

import json
import math
import mmap as _mmap
import os
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from .. import _native
from .._checked import checked, file_error, type_error, value_error
from .._native import Tensor
from ..errors import DeviceError, Error, FormatError
from . import pt, write as _write

# The tensor that holds the form of what was saved, as JSON, where that is not a plain dict of tensors.
_FORM = "__form__"
_PLAIN = (type(None), bool, int, float, str)
# An archive of NumPy's may be this much larger than its file, or this many bytes in any case.
_RATIO_MAX, _BYTES_MAX = 100, 1 << 30


# safetensors: the form of nested values.


def _form(value: Any, path: str, out: list[tuple[str, Tensor]]) -> dict[str, Any]:
    """What JSON says of a value; its tensors go to ``out`` under their paths."""
    name = path or "tensor"
    if isinstance(value, (Tensor, np.ndarray)) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        out.append((name, value if isinstance(value, Tensor) else _native.tensor(value)))
        return {"array" if isinstance(value, np.ndarray) else "tensor": name}
    if isinstance(value, np.generic):
        return {"scalar": [value.dtype.str, value.tobytes().hex()]}
    if isinstance(value, _write._AnyDevice):  # which may be a string
        return {"device": str(getattr(value, "_value", None) or value)}
    if isinstance(value, _PLAIN):
        return {"value": value}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, _native.dtype):
        return {"dtype": value.name}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, _PLAIN):
                raise type_error(f"save: {path or 'the value'} has a key that is {type(key).__name__}, not a string or a number")
        return {_kind(value, dict): [[k, _form(v, _below(path, k), out)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return {_kind(value, list): [_form(v, _below(path, i), out) for i, v in enumerate(value)]}
    if hasattr(value, "state_dict"):
        raise type_error(f"save: {path or 'the value'} is {type(value).__name__}: save its state_dict()")
    known = "tensors, arrays, numbers, strings, bytes, None, dtypes, devices, and dicts, lists, tuples and sets of them"
    raise type_error(f"save: {path or 'the value'} is {type(value).__name__}; a file holds {known}")


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _kind(value: Any, plain: type) -> str:
    """The name of a container in a form."""
    name = type(value).__name__
    names = {"dict": "dict", "OrderedDict": "ordered", "list": "list", "tuple": "tuple", "Size": "size", "set": "set", "frozenset": "frozenset"}
    return names.get(name, "tuple" if isinstance(value, tuple) else "dict" if plain is dict else "list")


def _formed(form: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(form, dict) or len(form) != 1:
        raise FormatError("load: the form of the file is broken")
    ((kind, value),) = form.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "array":
        return np.array(tensors[value])
    if kind in ("dict", "ordered"):
        return (dict if kind == "dict" else OrderedDict)((k, _formed(v, tensors)) for k, v in value)
    makers: dict[str, Callable[..., Any]] = {"list": list, "tuple": tuple, "size": pt._size, "set": set, "frozenset": frozenset}
    if kind in makers:
        return makers[kind]([_formed(v, tensors) for v in value])
    others: dict[str, Callable[[Any], Any]] = {
        "value": lambda v: v,
        "bytes": bytes.fromhex,
        "complex": lambda v: complex(*v),
        "dtype": pt.dtype_of,
        "device": pt._device,
        "scalar": lambda v: np.frombuffer(bytes.fromhex(v[1]), np.dtype(v[0]))[0],
    }
    return others[kind](value)


def _save_safetensors(obj: Any, path: str) -> None:
    out: list[tuple[str, Tensor]] = []
    form = _form(obj, "", out)
    is_flat = "dict" in form and all(isinstance(k, str) and "tensor" in v for k, v in form["dict"])
    names = [n for n, _ in out]
    if len(set(names)) < len(names) or _FORM in names:
        raise value_error("save: two tensors have the same path: keys with dots in them clash with dicts of dicts")
    if not is_flat:
        out.append((_FORM, _native.tensor(list(json.dumps(form).encode()), dtype="uint8")))
    _native.save_tensors(path, out)


def _load_safetensors(path: str, place: Callable[[str], str | None]) -> Any:
    tensors = dict(_native.load_tensors(path))
    form, where = tensors.pop(_FORM, None), place("cpu")
    if where is not None:
        tensors = {n: t.to_device(where) for n, t in tensors.items()}
    if form is None:
        return tensors
    try:
        return _formed(json.loads(bytes(form.tolist())), tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as e:
        raise FormatError(f"load: the form of the file is broken: {e}") from None


# NumPy's.


def _save_numpy(obj: Any, file: IO[bytes], is_archive: bool) -> None:
    def array(value: Any, name: str) -> np.ndarray:
        if isinstance(value, Tensor) and value.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise type_error(f"save: NumPy has no type {value.dtype.name}: convert {name}, or write another format")
        found = np.asarray(value.detach() if isinstance(value, Tensor) else value)
        if found.dtype.kind not in "biufcUS":
            raise type_error(f"save: {name} is {type(value).__name__}; NumPy's files hold tensors, arrays and numbers")
        return found

    if not is_archive:
        np.save(file, array(obj, "the value"), allow_pickle=False)
    elif isinstance(obj, dict):
        if not all(isinstance(k, str) for k in obj):
            raise type_error("save: the names in an .npz file are strings")
        np.savez(file, **{k: array(v, k) for k, v in obj.items()})
    else:
        parts = obj if isinstance(obj, (list, tuple)) else [obj]
        np.savez(file, *(array(v, str(i)) for i, v in enumerate(parts)))


def _tensor_of(array: np.ndarray, shares: bool) -> Any:
    if array.dtype.kind not in "biufc":
        return array if array.dtype.kind in "US" else _refuse(array)
    return pt.made_of(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")), array.dtype.name, shares)


def _refuse(array: np.ndarray) -> None:
    raise FormatError(f"load: NumPy arrays of type {array.dtype} hold no numbers")


def _load_npy(data: memoryview, shares: bool) -> Any:
    """An array of NumPy's: the header is checked against the bytes before anything is allocated."""
    file = pt._Bytes(data)
    try:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        if version[0] not in read:
            raise FormatError(f"load: NumPy's layout {version} is not known")
        shape, is_fortran, dtype = read[version[0]](file)
    except Error:
        raise
    except Exception as e:
        raise FormatError(f"load: the header of a NumPy file is broken: {e}") from None
    if dtype.hasobject or dtype.kind not in "biufcUS":
        raise FormatError(f"load: a NumPy file of {dtype} holds no numbers; objects would have to be unpickled")
    if any(d < 0 for d in shape) or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise FormatError(f"load: a NumPy file of shape {shape} has {len(data) - file.tell()} bytes")
    array = np.frombuffer(data[file.tell() :], dtype).reshape(shape, order="F" if is_fortran else "C")
    return _tensor_of(array, shares)


def _load_npz(data: memoryview) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(pt._Bytes(data)) as archive:
            entries = archive.infolist()
            packed, total = sum(e.compress_size for e in entries), sum(e.file_size for e in entries)
            if packed > len(data) or total > max(_BYTES_MAX, _RATIO_MAX * len(data)):
                raise FormatError(f"load: the archive of {len(data)} bytes says that it holds {total}")
            found = {}
            for entry in entries:
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise FormatError(f"load: {entry.filename} is compressed in a way that NumPy does not write")
                with archive.open(entry) as part:
                    content = part.read(entry.file_size + 1)
                if len(content) != entry.file_size:
                    raise FormatError(f"load: {entry.filename} is not as long as the archive says")
                found[entry.filename.removesuffix(".npy")] = _load_npy(memoryview(content), False)
            return found
    except Error:
        raise
    except Exception as e:
        raise FormatError(f"load: the archive cannot be read: {e}") from None


# Where tensors go.


class _Where:
    """In the place of a storage that a ``map_location`` function gets: it says where it wants it."""

    def __init__(self, location: str) -> None:
        self.location = location

    def cpu(self) -> "_Where":
        return _Where("cpu")

    def cuda(self, device: Any = 0) -> "_Where":
        return _Where(device if isinstance(device, str) else f"cuda:{device or 0}")


def _placing(map_location: Any) -> Callable[[str], str | None]:
    """A function from where a tensor was to where it goes; ``None``: the host."""
    name = lambda d: d if isinstance(d, str) else str(getattr(d, "_value", None) or d)  # noqa: E731

    def place(location: str) -> str | None:
        if map_location is None:
            to = location
        elif isinstance(map_location, dict):
            to = name(map_location.get(location, location))
        elif callable(map_location) and not isinstance(map_location, _write._AnyDevice):
            found = map_location(_Where("cpu"), location)
            to = location if found is None else getattr(found, "location", "cpu")
        else:
            to = name(map_location)
        to = "cuda:0" if to == "cuda" else to
        if to.startswith("cuda") and to not in _native.devices():
            hint = "" if map_location is not None else "; give map_location='cpu'"
            raise DeviceError(_native.located(f"load: the tensors are for {to}, and there is no such device{hint}"))
        return None if to == "cpu" else to

    return place


# Files.


def _is_file(f: Any, method: str) -> bool:
    return hasattr(f, method) and not isinstance(f, (str, os.PathLike))


def _replace(path: str, fill: Callable[[IO[bytes]], None]) -> None:
    """Writes a file that appears whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=f".{os.path.basename(path)}.", delete=False)
    except OSError as e:
        raise file_error(f"save: cannot write {path}: {e.strerror}", e) from None
    try:
        with file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(file.name, 0o666 & ~mask)
        os.replace(file.name, path)
    except BaseException as e:
        os.unlink(file.name)
        if isinstance(e, OSError) and not isinstance(e, Error):
            raise file_error(f"save: cannot write {path}: {e.strerror}", e) from None
        raise


@checked
def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], *, pickle_protocol: int = 2) -> None:
    """Writes tensors, such as ``model.state_dict()``, or dicts and lists with tensors, arrays, numbers and strings.

    A path that ends in ``.safetensors``, ``.npy`` or ``.npz`` is written in that format, any other, such as ``.pt``,
    and a file object as PyTorch's archive, which ``torch.load`` reads. The file is written atomically. Objects
    of other classes are refused: files hold data, not code. ``pickle_protocol`` has no effect.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "state.pt")
    >>> tw.save({"model": {"w": tw.ones(2)}, "epoch": 3}, path)
    >>> found = tw.load(path)
    >>> found["model"]["w"].tolist(), found["epoch"]
    ([1.0, 1.0], 3)
    """
    if isinstance(obj, (str, os.PathLike)) and not isinstance(f, (str, os.PathLike)) and not _is_file(f, "write"):
        obj, f = f, obj
    if _is_file(f, "write"):
        import io

        whole = io.BytesIO()
        _write.write(obj, whole)
        f.write(whole.getvalue())  # type: ignore[union-attr]
        return
    path = os.fspath(f)  # type: ignore[arg-type]
    ending = os.path.splitext(path)[1].lower()
    if ending == ".safetensors":
        _save_safetensors(obj, path)
    elif ending in (".npy", ".npz"):
        _replace(path, lambda file: _save_numpy(obj, file, ending == ".npz"))
    else:
        _replace(path, lambda file: _write.write(obj, file, os.path.splitext(os.path.basename(path))[0] or "archive"))


@checked
def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None
) -> Any:
    """Reads what ``save`` has written, and safetensors, ``.npy``, ``.npz`` and PyTorch's ``.pt`` files of others.

    No code of a file is run, with ``weights_only`` or without: of PyTorch's files the pickle is read as data, and a
    class that is no data is an error that names it. A file that is broken or hostile is a ``FormatError``.
    ``map_location``: the device to read to, a dict of devices, or a function, as in PyTorch. ``mmap``: floats of a
    ``.pt`` or ``.npy`` file stay in the file until they are used.

    >>> import io
    >>> file = io.BytesIO()
    >>> tw.save(tw.nn.Linear(2, 3).state_dict(), file)
    >>> _ = file.seek(0)
    >>> sorted(tw.load(file))
    ['bias', 'weight']
    """
    place = _placing(map_location)
    if _is_file(f, "read"):
        if mmap:
            raise value_error("load: mmap=True needs the path of a file, not a file object")
        data = f.read()  # type: ignore[union-attr]
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise type_error("load: the file is open as text: open it with 'rb'")
        return _loaded(memoryview(data).cast("B"), None, place, False, "the file")
    path = os.fspath(f)  # type: ignore[arg-type]
    try:
        with open(path, "rb") as file:
            whole = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except OSError as e:
        raise file_error(f"load: cannot read {path}: {e.strerror or e}", e) from None
    return _loaded(memoryview(whole), path, place, bool(mmap), path)


def _loaded(data: memoryview, path: str | None, place: Callable[[str], str | None], shares: bool, name: str) -> Any:
    try:
        if bytes(data[:6]) == b"\x93NUMPY":
            return _moved(_load_npy(data, shares), place)
        if bytes(data[:4]) in (b"PK\x03\x04", b"PK\x05\x06"):
            if _is_numpy(data):
                return {k: _moved(v, place) for k, v in _load_npz(data).items()}
            return pt.read(data, place, shares)
        if pt.is_old(data):
            return pt.read(data, place, shares)
        if bytes(data[:2]) in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
            raise FormatError("the file is a pickle of Python's own; save it with tw.save or torch.save")
        if path is not None:
            return _load_safetensors(path, place)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(data)
            file.flush()
            return _load_safetensors(file.name, place)
    except FormatError as e:
        text = str(e)
        raise FormatError(text if "(at " in text else _native.located(f"load: {name}: {text.removeprefix('load: ')}")) from None


def _is_numpy(data: memoryview) -> bool:
    try:
        with zipfile.ZipFile(pt._Bytes(data)) as archive:
            names = archive.namelist()
    except Exception as e:
        raise FormatError(f"load: the archive cannot be read: {e}") from None
    return all(n.endswith(".npy") for n in names)


def _moved(value: Any, place: Callable[[str], str | None]) -> Any:
    where = place("cpu")
    return value.to_device(where) if where is not None and isinstance(value, Tensor) else value


# Memory of others.


@checked
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector of the bytes of an object with the buffer protocol: ``count`` elements from byte ``offset`` on.

    Floats use the object's memory, so that who writes there changes the tensor; other types are copied.

    >>> tw.frombuffer(bytearray(b"abcd"), dtype=tw.uint8, offset=1).tolist()
    [98, 99, 100]
    """
    name = _native.dtype(dtype).name if isinstance(dtype, str) else dtype.name
    if name not in pt.BYTES_OF:
        raise type_error(f"frombuffer: there are no bytes of type {name}")
    raw, view = np.dtype(pt.BYTES_OF[name]), memoryview(buffer).cast("B")
    if not view.nbytes:
        raise value_error("frombuffer: the buffer is empty")
    if not 0 <= offset < view.nbytes:
        raise value_error(f"frombuffer: offset {offset} is outside of the buffer of {view.nbytes} bytes")
    if count == 0 or count < -1:
        raise value_error(f"frombuffer: count is positive, or -1 for all that is left, not {count}")
    left = view.nbytes - offset
    if count < 0 and left % raw.itemsize:
        raise value_error(f"frombuffer: {left} bytes are not a multiple of the element size of {raw.itemsize} bytes")
    count = left // raw.itemsize if count < 0 else count
    if count * raw.itemsize > left:
        raise value_error(f"frombuffer: {count} elements of {raw.itemsize} bytes are more than the {left} bytes from {offset} on")
    made = pt.made_of(np.frombuffer(view, raw, count, offset), name, True)
    return _native.tensor(made, requires_grad=True) if requires_grad else made


@checked
def from_file(filename: str | os.PathLike[str], shared: bool | None = None, size: int = 0, *, dtype: Any = None) -> Tensor:
    """A vector of ``size`` elements of a file of plain numbers, float32 unless ``dtype`` says otherwise.

    Floats stay in the file until they are used. Writing through to the file (``shared=True``) is refused.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> _ = open(path, "wb").write(b"abc")
    >>> tw.from_file(path, size=2, dtype=tw.uint8).tolist()
    [97, 98]
    """
    if shared:
        raise value_error("from_file: a tensor does not write to its file; read with shared=False and write with tw.save")
    dtype = _native.dtype("float32") if dtype is None else dtype
    path = os.fspath(filename)
    try:
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            whole = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ) if length else b""
    except OSError as e:
        raise file_error(f"from_file: cannot read {path}: {e.strerror or e}", e) from None
    if size < 1:
        return _native.zeros(0, dtype=dtype)
    return frombuffer(whole, dtype=dtype, count=size)


__all__ = ["from_file", "frombuffer", "load", "save"]
