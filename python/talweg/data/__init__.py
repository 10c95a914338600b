"""Readers of files, images with their augmentation, text with tokenizers; ``transforms`` and ``datasets`` have
torchvision's names. Batches are made by ``tw.utils.data.DataLoader``."""

import os

from .. import _native
from .._checked import check
from .._native import Tensor
from ..utils.data import shard
from . import datasets, transforms
from .images import Augment, Augmented, decode_image, encode_png, read_image, read_picture
from .tables import Csv, Parquet, Table
from .text import Bpe, Bytes, Chars, Lines, Text, read_text


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """The tensor of an IDX file, as MNIST has them, gzipped or not.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "labels-idx1-ubyte")
    >>> _ = open(path, "wb").write(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    >>> read_idx(path).tolist()
    [7, 9]
    """
    return _native.read_idx(os.fspath(path))


__all__ = [
    "Augment",
    "Augmented",
    "Bpe",
    "Bytes",
    "Chars",
    "Csv",
    "Lines",
    "Parquet",
    "Table",
    "Text",
    "datasets",
    "decode_image",
    "encode_png",
    "read_idx",
    "read_image",
    "read_picture",
    "read_text",
    "shard",
    "transforms",
]

check(globals(), [n for n in __all__ if n not in ("datasets", "transforms")])
