"""Event files that TensorBoard reads: TFRecords of ``Event`` messages, written by hand."""

# mypy: ignore-errors
from __future__ import annotations

import os
import socket
import struct
import time
from typing import Any

import numpy as np


def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _table()


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> int:
    """The checksum as TFRecords have it."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """A TFRecord: length, its checksum, the data, its checksum."""
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data))


def read_records(path: Any) -> list[bytes]:
    """The records of a file, with their checksums checked."""
    with open(path, "rb") as f:
        data = f.read()
    out, at = [], 0
    while at < len(data):
        head = data[at : at + 8]
        (n,) = struct.unpack("<Q", head)
        body = data[at + 12 : at + 12 + n]
        if struct.unpack("<I", data[at + 8 : at + 12])[0] != masked_crc(head):
            raise ValueError("a length's checksum is wrong")
        if struct.unpack("<I", data[at + 12 + n : at + 16 + n])[0] != masked_crc(body):
            raise ValueError("a record's checksum is wrong")
        out.append(body)
        at += 16 + n
    return out


# Protocol buffers: a key of the field's number and kind, then the value.


def varint(n: int) -> bytes:
    """An integer, seven bits a byte."""
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append((n & 127) | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def whole(field: int, n: int) -> bytes:
    """A field of an integer."""
    return varint(field << 3) + varint(n)


def double(field: int, x: float) -> bytes:
    """A field of a float64."""
    return varint(field << 3 | 1) + struct.pack("<d", x)


def single(field: int, x: float) -> bytes:
    """A field of a float32."""
    return varint(field << 3 | 5) + struct.pack("<f", x)


def blob(field: int, data: bytes | str) -> bytes:
    """A field of bytes, text or a message."""
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def _doubles(field: int, xs: Any) -> bytes:
    return blob(field, np.asarray(xs, "<f8").tobytes())


def scalar_value(tag: str, x: float) -> bytes:
    """A ``Summary`` with a number."""
    return blob(1, blob(1, tag) + single(2, float(x)))


def _edges() -> np.ndarray:
    positive, x = [], 1e-12
    while x < 1e20:
        positive.append(x)
        x *= 1.1
    return np.array([-v for v in reversed(positive)] + [0.0] + positive + [np.finfo(np.float64).max])


_EDGES = _edges()


def histogram_value(tag: str, values: Any) -> bytes:
    """A ``Summary`` with a histogram."""
    x = np.asarray(values, np.float64).reshape(-1)
    counts = np.bincount(np.searchsorted(_EDGES, x, "left").clip(0, len(_EDGES) - 1), minlength=len(_EDGES))
    used = np.nonzero(counts)[0]
    low, high = (used[0], used[-1] + 1) if len(used) else (0, 1)
    low = max(0, low - 1)
    small = float(x.min()) if x.size else 0.0
    large = float(x.max()) if x.size else 0.0
    histogram = double(1, small) + double(2, large) + double(3, x.size) + double(4, x.sum()) + double(5, (x * x).sum())
    histogram += _doubles(6, _EDGES[low:high]) + _doubles(7, counts[low:high])
    return blob(1, blob(1, tag) + blob(5, histogram))


def image_value(tag: str, pixels: np.ndarray) -> bytes:
    """A ``Summary`` with an image of uint8 pixels ``[height, width, channels]``."""
    h, w, c = pixels.shape
    image = whole(1, h) + whole(2, w) + whole(3, c) + blob(4, png(pixels))
    return blob(1, blob(1, tag) + blob(4, image))


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of uint8 pixels."""
    import zlib

    h, w, c = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[i].tobytes() for i in range(h))
    head = struct.pack(">IIBBBBB", w, h, 8, {1: 0, 2: 4, 3: 2, 4: 6}[c], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def text_value(tag: str, text: bytes) -> bytes:
    """A ``Summary`` with text."""
    tensor = whole(1, 7) + blob(2, b"") + blob(8, text)  # DT_STRING, a scalar
    metadata = blob(1, blob(1, "text"))
    return blob(1, blob(1, tag) + blob(9, metadata) + blob(8, tensor))


def graph_def(graph: Any) -> bytes:
    """A ``GraphDef`` with names, kinds and inputs."""
    out = b""
    for op in graph.get_operations():
        node = blob(1, op.name) + blob(2, op.type)
        for t in op.inputs:
            node += blob(3, t.op.name if t.value_index == 0 else t.name)
        for c in op.control_inputs:
            node += blob(3, "^" + c.name)
        out += blob(1, node)
    return out


class EventFile:
    """A file of events."""

    _count = 0

    def __init__(self, folder: Any, suffix: str = ""):
        os.makedirs(folder, exist_ok=True)
        EventFile._count += 1
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{EventFile._count}{suffix}"
        self.path = os.path.join(folder, name)
        self._file = open(self.path, "ab")
        self.add(blob(3, "brain.Event:2"))

    def add(self, what: bytes, step: int | None = None) -> None:
        """An event: a field and the step."""
        event = double(1, time.time()) + (b"" if step is None else whole(2, int(step))) + what
        self._file.write(record(event))

    def flush(self) -> None:
        """Writes what waits."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
