"""``tf.summary``: values for TensorBoard."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import numpy as np

from . import events
from .dtypes import string
from .errors import unimplemented
from .graph import GraphKeys, Tensor, add_to_collections, convert_to_tensor, get_collection, get_default_graph, make


def _summary(kind: str, name: str, inputs: list[Tensor], f: Any, collections: Any) -> Tensor:
    graph = get_default_graph()
    scope = graph.get_name_scope()
    tag = f"{scope}/{name}" if scope else name
    safe = name.replace(" ", "_")
    t = make(kind, inputs, lambda run, *arrays: f(tag, *arrays), safe, string, [], is_host=True)
    add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, t)
    return t


def scalar(name: str, tensor: Any, collections: Any = None, family: Any = None) -> Tensor:
    """A number in each run."""
    x = convert_to_tensor(tensor)
    x.shape.merge_with([])
    return _summary("ScalarSummary", name, [x], lambda tag, a: events.scalar_value(tag, float(a)), collections)


def histogram(name: str, values: Any, collections: Any = None, family: Any = None) -> Tensor:
    """The distribution of values in each run."""
    return _summary("HistogramSummary", name, [convert_to_tensor(values)], events.histogram_value, collections)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: Any = None) -> Tensor:
    """Images ``[batch, height, width, channels]``: uint8, or floats that are scaled to 0..255."""

    def encode(tag: str, a: Any) -> bytes:
        out = b""
        for i, pixels in enumerate(a[:max_outputs]):
            if pixels.dtype != np.uint8:
                low, high = float(pixels.min()), float(pixels.max())
                scaled = pixels * (255.0 / high if high > 0 else 0.0) if low >= 0 else pixels * (127.0 / max(-low, high)) + 128
                pixels = np.clip(scaled, 0, 255).astype(np.uint8)
            out += events.image_value(f"{tag}/image/{i}" if max_outputs > 1 else f"{tag}/image", pixels)
        return out

    x = convert_to_tensor(tensor)
    x.shape.with_rank(4)
    return _summary("ImageSummary", name, [x], encode, collections)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Text in each run."""
    f = lambda tag, a: events.text_value(tag, a if isinstance(a, bytes) else bytes(np.asarray(a).item()))  # noqa: E731
    return _summary("TextSummary", name, [convert_to_tensor(tensor)], f, collections)


def audio(*_: Any, **__: Any) -> Tensor:
    """Not there."""
    raise unimplemented("summary.audio")


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries as one."""
    ts = [convert_to_tensor(t) for t in inputs]
    t = make("MergeSummary", ts, lambda run, *parts: b"".join(parts), name, string, [], is_host=True)
    add_to_collections(collections or (), t)
    return t


def merge_all(key: str = GraphKeys.SUMMARIES, scope: Any = None, name: str | None = None) -> Tensor | None:
    """All summaries of the graph as one; ``None`` if there are none."""
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None


class Summary:
    """A summary that a program makes: ``Summary(value=[Summary.Value(tag="loss", simple_value=1.0)])``."""

    class Value:
        """A tag and a number."""

        def __init__(self, tag: str = "", simple_value: float = 0.0):
            self.tag, self.simple_value = tag, simple_value

    def __init__(self, value: Any = ()):
        self.value = _Values(value)

    def SerializeToString(self) -> bytes:
        """The message's bytes."""
        return b"".join(events.scalar_value(v.tag, v.simple_value) for v in self.value)


class _Values(list):
    def add(self, tag: str = "", simple_value: float = 0.0) -> Any:
        self.append(Summary.Value(tag, simple_value))
        return self[-1]


class FileWriter:
    """Writes event files for TensorBoard.

    >>> import talweg.compat.v1 as tf, tempfile
    >>> writer = tf.summary.FileWriter(tempfile.mkdtemp())
    >>> writer.add_summary(tf.Session().run(tf.summary.scalar("loss", 0.5)), global_step=1)
    >>> writer.close()
    """

    def __init__(self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120, graph_def: Any = None, filename_suffix: Any = None, session: Any = None):
        self._dir, self._suffix = logdir, filename_suffix or ""
        self._file: Any = events.EventFile(logdir, self._suffix)
        if graph is not None:
            self.add_graph(graph)

    def get_logdir(self) -> Any:
        """The folder."""
        return self._dir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Writes what a run of a summary returned."""
        data = summary.SerializeToString() if hasattr(summary, "SerializeToString") else bytes(summary)
        self._open().add(events.blob(5, data), None if global_step is None else int(global_step))

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Writes the names, kinds and inputs of operations."""
        self._open().add(events.blob(4, events.graph_def(graph)), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Nothing: runs are not traced this way."""

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Nothing."""

    def _open(self) -> Any:
        if self._file is None:
            self._file = events.EventFile(self._dir, self._suffix)
        return self._file

    def reopen(self) -> None:
        """Goes on in a new file."""
        self._open()

    def flush(self) -> None:
        """Writes what waits."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class FileWriterCache:
    """One writer for each folder."""

    _writers: dict[str, FileWriter] = {}

    @classmethod
    def get(cls, logdir: str) -> FileWriter:
        """The writer of a folder."""
        return cls._writers.setdefault(logdir, FileWriter(logdir))

    @classmethod
    def clear(cls) -> None:
        """Closes all."""
        for w in cls._writers.values():
            w.close()
        cls._writers.clear()
