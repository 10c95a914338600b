"""Models as GGUF files, which ggml's programs read: weights in blocks stay as they are."""

# mypy: ignore-errors
import os
import struct

import numpy as np

import talweg as tw
from .._checked import type_error, value_error
from .layers import BLOCK, BlockLinear

_ALIGN = 32
# ggml's numbers of types.
_TYPES = {"float32": 0, "float16": 1, "int8": 24, "int16": 25, "int32": 26, "int64": 27, "float64": 28, "bfloat16": 30}
_BLOCKS = {"q4_0": 2, "q8_0": 8}


def _text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def _value(name, x):
    """A value of the metadata with its type."""
    if isinstance(x, bool):
        return struct.pack("<I?", 7, x)
    if isinstance(x, int):
        return struct.pack("<Iq", 11, x) if x < 0 or x >= 2**32 else struct.pack("<II", 4, x)
    if isinstance(x, float):
        return struct.pack("<If", 6, x)
    if isinstance(x, str):
        return struct.pack("<I", 8) + _text(x)
    if isinstance(x, (list, tuple)) and x:
        parts = [_value(name, y) for y in x]
        if len({p[:4] for p in parts}) > 1 or isinstance(x[0], (list, tuple)):
            raise type_error(f"save_gguf: {name}: a list has values of one kind, and no lists")
        return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(parts)) + b"".join(p[4:] for p in parts)
    raise type_error(f"save_gguf: {name}: expected a bool, a number, a text or a list of them, not {x!r}")


def _tensors(model):
    """Name, ggml's type, sizes (rows first) and bytes of each parameter and buffer."""
    blocks = {f"{n}.weight".lstrip("."): m for n, m in model.named_modules() if isinstance(m, BlockLinear)}
    for name, t in model.state_dict().items():
        data = np.ascontiguousarray(t.detach().numpy()) if t.dtype != tw.bfloat16 else None
        if name in blocks:
            form = blocks[name].format
            each = {"q4_0": 2 + BLOCK // 2, "q8_0": 2 + BLOCK}[form]
            yield name, _BLOCKS[form], (t.shape[0], t.shape[1] // each * BLOCK), data.tobytes()
            continue
        kind = str(t.dtype).rpartition(".")[2]
        if kind not in _TYPES:
            raise value_error(f"save_gguf: {name} is {kind}, which GGUF files do not have")
        if data is None:
            # The upper halves: the conversion to f32 is exact.
            data = (t.detach().to(tw.float32).numpy().view(np.uint32) >> 16).astype(np.uint16)
        yield name, _TYPES[kind], tuple(t.shape) or (1,), data.tobytes()


def save_gguf(model, path, *, architecture="talweg", metadata=None, names=None):
    """Writes the parameters and buffers of a model as a GGUF file of version 3. Layers of ``tw.compress(model, "int4")``
    keep their blocks (``q4_0``, and ``q8_0`` with ``"int8"``); everything else keeps its type.

    ``metadata`` is a dict of further keys. ``names`` is a function or a dict from names here to names in the file, such as
    those of llama.cpp (``blk.0.attn_q.weight``). Returns the size of the file.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "small.gguf")
    >>> small, _ = tw.compress(tw.nn.Sequential(tw.nn.Linear(32, 4)), "int4", calibrate=[tw.ones(1, 32)], min_gain=0.0)
    >>> save_gguf(small, path) == os.path.getsize(path)
    True
    """
    rename = names if callable(names) else (lambda n: (names or {}).get(n, n))
    keys = {"general.architecture": architecture, "general.alignment": _ALIGN, **(metadata or {})}
    infos, data, at, seen = [], [], 0, set()
    for name, kind, shape, raw in _tensors(model):
        name = rename(name)
        if name in seen:
            raise value_error(f"save_gguf: two tensors have the name {name!r}")
        if len(shape) > 4:
            raise value_error(f"save_gguf: {name} has {len(shape)} dimensions; GGUF files have 4 at most")
        seen.add(name)
        # Sizes are written with the fastest dimension first.
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos.append(_text(name) + sizes + struct.pack("<IQ", kind, at))
        raw += bytes(-len(raw) % _ALIGN)
        data.append(raw)
        at += len(raw)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
    head += b"".join(_text(k) + _value(k, v) for k, v in keys.items()) + b"".join(infos)
    head += bytes(-len(head) % _ALIGN)
    part = f"{path}.part"
    with open(part, "wb") as f:
        f.write(head)
        f.writelines(data)
    os.replace(part, path)
    return len(head) + at
