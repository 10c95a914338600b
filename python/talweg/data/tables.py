"""Tables: chosen columns of CSV and Parquet files, read and checked at once."""

import copy
import os
from collections.abc import Sequence
from typing import Any, Self

from .. import _native
from .._checked import key_error, type_error
from .._native import Tensor
from ..utils.data import Dataset


class Table(Dataset[dict[str, Any]]):
    """The columns of a table by name: tensors with the rows along the first dimension, lists of tensors where rows
    differ in length, or lists of strings. A row is a dict, so that a ``DataLoader`` makes dicts of batches.

    ``classes`` has the names of the classes of each column of categories.
    """

    def __init__(self, columns: dict[str, Any], classes: dict[str, list[str]]) -> None:
        self.columns, self.classes = columns, classes

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            if index not in self.columns:
                raise key_error(f"Table: there is no column {index!r}, only {list(self.columns)}")
            return self.columns[index]
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} does not exist: the table has {len(self)}")
        return {name: column[index] for name, column in self.columns.items()}

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        at = _native.tensor(indices, dtype="int64")
        parts = {n: c.index_select(0, at) if isinstance(c, Tensor) else [c[i] for i in indices] for n, c in self.columns.items()}
        return [{n: p[i] for n, p in parts.items()} for i in range(len(indices))]


class _Reader:
    """The fields to read from the columns of a file."""

    def __init__(self) -> None:
        self._fields: list[tuple[str, str, list[str], str, int, list[str] | None]] = []

    def _with(self, *field: Any) -> Self:
        made = copy.copy(self)
        made._fields = [*self._fields, field]
        return made

    def numbers(self, name: str, columns: str | Sequence[str], dtype: Any = "float32") -> Self:
        """A numeric field: one column is a scalar per row, several are a vector."""
        kind = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
        if kind is None:
            raise type_error(f"numbers: {dtype!r} is no element type")
        return self._with(name, "numbers", [columns] if isinstance(columns, str) else list(columns), kind, 0, None)

    def label(self, name: str, column: str, classes: int) -> Self:
        """A field of class labels from 0 to ``classes - 1``; others are refused."""
        return self._with(name, "label", [column], "int64", classes, None)

    def category(self, name: str, column: str, classes: Sequence[str] | None = None) -> Self:
        """A field of class labels from class names: the given ones, or those that occur, in alphabetical order."""
        return self._with(name, "category", [column], "int64", 0, None if classes is None else list(classes))

    def text(self, name: str, column: str) -> Self:
        """A field of strings."""
        return self._with(name, "text", [column], "", 0, None)


def _table(read: tuple[list[tuple[str, Any]], list[tuple[str, list[str]]]]) -> Table:
    return Table(dict(read[0]), dict(read[1]))


class Csv(_Reader):
    """A reader of comma-separated files. Without a ``header`` columns are called ``"0"``, ``"1"`` and so on.

    A cell that does not fit is an error that names file, line and column.

    >>> text = "length,width,species\\n5.1,3.5,setosa\\n7.0,3.2,versicolor\\n"
    >>> iris = Csv().numbers("x", ["length", "width"]).category("y", "species").parse(text)
    >>> iris["x"].shape, iris["y"].tolist(), iris.classes["y"]
    (talweg.Size([2, 2]), [0, 1], ['setosa', 'versicolor'])
    """

    def __init__(self, delimiter: str = ",", header: bool = True) -> None:
        super().__init__()
        if not isinstance(delimiter, str) or len(delimiter.encode()) != 1:
            raise type_error(f"Csv: the delimiter is one character, not {delimiter!r}")
        self._delimiter, self._header = ord(delimiter), header

    def read(self, path: str | os.PathLike[str]) -> Table:
        """Reads a file."""
        return _table(_native.read_csv(os.fspath(path), self._fields, self._delimiter, self._header))

    def parse(self, text: str | bytes, name: str = "text") -> Table:
        """Reads a text; ``name`` is for messages."""
        content = text.encode() if isinstance(text, str) else text
        return _table(_native.read_csv(name, self._fields, self._delimiter, self._header, content))


class Parquet(_Reader):
    """A reader of Parquet files, not compressed or by Snappy or Zstandard. ``numbers`` of one column of lists makes a
    list of tensors.

    It is there if talweg was built with the feature ``parquet``, as wheels are; if not, ``read`` says so.
    """

    def read(self, path: str | os.PathLike[str]) -> Table:
        """Reads a file."""
        return _table(_native.read_parquet(os.fspath(path), self._fields))


__all__ = ["Csv", "Parquet", "Table"]
