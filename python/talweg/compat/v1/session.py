"""Sessions: the values of variables, and compiled plans for each set of fetches and fed shapes."""

# mypy: ignore-errors
from __future__ import annotations

import collections
import hashlib
from typing import Any, Iterable

import numpy as np

from ... import _native
from ...errors import FeedError
from . import graph as g
from .dtypes import FLOAT32, string
from .errors import FailedPreconditionError, invalid, located, unimplemented, wrong_type
from .graph import Operation, Tensor, as_array
from .infer import NeedValue
from .lowering import Build, Context, ancestors, uninitialized

PLANS_MAX = 64


class _Entry:
    """What a run of some fetches with some tensors fed consists of, whatever the sizes are."""

    def __init__(self, fetches: list[Any], fed: Iterable[Tensor]):
        self.fetches = fetches
        fed = set(fed)
        self.ops = ancestors(fetches, fed)
        self.fed = [t for t in fed if any(t in op.inputs for op in self.ops) or t in fetches]
        self.device = [op for op in self.ops if not op.is_host]
        self.host = sorted((op for op in self.ops if op.is_host), key=lambda op: op.id)
        # Tensors that Python computes and the device takes: computed by a separate run, then fed.
        taken = [t for op in self.device for t in op.inputs if t.op.is_host and t not in fed]
        self.staged = sorted({t.op for t in taken}, key=lambda op: op.id)
        if any(op.writes for s in self.staged for op in ancestors([s], fed)):
            raise unimplemented("a function of Python between an assignment and another operation of the same run: use two runs")
        wanted = [f for f in fetches if isinstance(f, Tensor) and not f.op.is_host]
        wanted += [t for op in self.host for t in op.inputs if not t.op.is_host]
        self.outputs = list(dict.fromkeys(wanted))
        self.random = [op for op in _with_bodies(self.device) if op.attributes.get("is_random")]
        self.by_value: list[Tensor] = []
        self.is_pure_host = not self.device


def _with_bodies(ops: Iterable[Operation]) -> list[Operation]:
    found = []
    for op in ops:
        found.append(op)
        for body in op.bodies:
            found += _with_bodies(body.ops)
    return found


class _Plan:
    """A compiled run: native fetches, placeholders, assignments."""

    def __init__(self, session: Session, entry: _Entry, feeds: dict[Tensor, Any], by_value: dict[Tensor, Any]):
        self.native = _native.Session()
        self.feeds = {}
        fed = {}
        for t in entry.fed + [t for op in entry.staged for t in op.outputs]:
            if t in by_value:
                fed[t] = _native.tensor(by_value[t], dtype=t.dtype.native)
            elif t.dtype.native is not None:
                self.feeds[t] = fed[t] = _native.placeholder(t.dtype.native, list(feeds[t].shape), t.op.name)
        build = Build(session, fed, by_value)
        build.random_ops = entry.random
        self.keys = _native.placeholder("int64", [len(entry.random), 2], "keys") if entry.random else None
        build.keys = self.keys
        ctx = Context(build)
        ctx.run(entry.device)
        self.fetches = [ctx.value(t) for t in entry.outputs]
        self.effects = [(f, len(values)) for f, values in build.effects]
        self.fetches += [v for _, values in build.effects for v in values]
        self.count = len(entry.outputs)
        self.reads = list(build.reads)
        self.written = list(ctx.state)
        if ctx.state:
            pairs = [(session._store(v, value), value) for v, value in ctx.state.items()]
            self.fetches.append(_native.Update(pairs))

    def run(self, session: Session, feeds: dict[Tensor, Any], keys: Any) -> list[Any]:
        missing = [v for v in self.reads if v not in session._initialized]
        if missing:
            raise FailedPreconditionError(located(uninitialized(missing)))
        given = {p: feeds[t] for t, p in self.feeds.items()}
        if self.keys is not None:
            given[self.keys] = keys
        made = self.native.run(self.fetches, given)
        session._initialized.update(self.written)
        arrays = [_array(t) for t in made if t is not None]
        i = self.count
        for f, n in self.effects:
            f(*arrays[i : i + n])
            i += n
        return arrays[: self.count]


def _array(t: Any) -> Any:
    array = np.array(t.to(FLOAT32).numpy() if str(t.dtype).endswith("bfloat16") else t.numpy())
    return array[()] if array.ndim == 0 else array


class _Run:
    """One call of ``Session.run``: random operations draw once, however many stages it has."""

    def __init__(self, session: Session):
        self.session = session
        self.counts: dict[Operation, int] = {}

    def keys(self, ops: list[Operation]) -> np.ndarray:
        return np.array([self._key(op) for op in ops], np.int64)

    def _key(self, op: Operation) -> list[int]:
        if op not in self.counts:
            count = self.session._draws.get(op, 0)
            self.counts[op], self.session._draws[op] = count, count + 1
        seed, graph_seed = op.attributes["seed"], op.attributes["graph_seed"]
        what: Any = (graph_seed, seed if seed is not None else f"op {op.attributes['number']}")
        if seed is None and graph_seed is None:
            what = (self.session._entropy, op.id)
        digest = hashlib.blake2b(repr((what, self.counts[op])).encode(), digest_size=16).digest()
        return [int.from_bytes(digest[:8], "little") >> 2, int.from_bytes(digest[8:], "little") >> 2]


class Session:
    """Runs a graph and owns the values of its variables.

    Sizes that the graph leaves open are settled by the fed values. Each combination of fetches and fed shapes is
    compiled once; the 64 used last are kept.

    >>> import talweg.compat.v1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 2])
    >>> with tf.Session() as sess:
    ...     sess.run(tf.reduce_sum(x, 1), {x: [[1, 2], [3, 4], [5, 6]]}).tolist()
    [3.0, 7.0, 11.0]
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None):
        if target:
            raise unimplemented("Session(target): use `talweg launch` for several processes")
        self.graph = graph if graph is not None else g.get_default_graph()
        self._storage: dict[Any, Any] = {}
        self._initialized: set[Any] = set()
        self._entries: dict[Any, _Entry] = {}
        self._plans: collections.OrderedDict[Any, _Plan] = collections.OrderedDict()
        self._draws: dict[Operation, int] = {}
        self._entropy = tuple(_native.random_key().tolist())
        self._scopes: list[Any] = []
        self._closed = False
        self.compiles = 0

    @property
    def sess_str(self) -> str:
        """The target, which is empty."""
        return ""

    def _store(self, variable: Any, value: Any) -> Any:
        """The storage of a variable."""
        found = self._storage.get(variable)
        if found is None or tuple(found.shape) != tuple(value.shape):
            zeros = _native.zeros(list(value.shape), dtype=variable.dtype.native)
            found = _native.Tensor(zeros, variable=True, trainable=False, name=variable.op.name)
            if variable in self._storage:
                self._plans.clear()  # they refer to the old storage
            self._storage[variable] = found
        return found

    def _assign(self, variable: Any, value: Any) -> None:
        """Gives a variable a value outside of a run."""
        value = value.to(variable.dtype.native)
        _native.Update([(self._store(variable, value), value)]).apply()
        self._initialized.add(variable)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """The values of ``fetches`` in their nesting; ``None`` for operations."""
        if self._closed:
            raise invalid("the session is closed")
        flat: list[Any] = []
        form = _flatten(fetches, flat, self.graph)
        feeds = {}
        for key, value in (feed_dict or {}).items():
            self._feed(feeds, key, value)
        return _fill(form, self._execute(flat, feeds, _Run(self)))

    def _feed(self, feeds: dict[Tensor, Any], key: Any, value: Any) -> None:
        t = self.graph.as_graph_element(key)
        if not isinstance(t, Tensor):
            raise wrong_type(f"{key!r} is an operation: only tensors can be fed")
        if isinstance(value, Tensor):
            raise wrong_type(f"{t.name} was fed {value}: feed NumPy arrays, lists or numbers, not tensors of a graph")
        if t.dtype == string:
            array = as_array(value, string)
        else:
            array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
            kind = np.float32 if t.dtype.name == "bfloat16" else t.dtype.as_numpy_dtype
            if array.dtype.kind in "OSU":
                raise wrong_type(f"{t.name} of type {t.dtype.name} was fed {value!r:.60}")
            made = array.astype(kind, copy=False)
            if isinstance(value, float) and t.dtype.is_integer and made != array:
                raise wrong_type(f"{t.name} of type {t.dtype.name} was fed {value!r}")
            array = made
        if not t.shape.admits(array.shape):
            e = f"cannot feed value of shape {array.shape} for tensor {t.name!r}, which has shape {t.shape}"
            raise FeedError(located(e))
        feeds[t] = array

    def _execute(self, fetches: list[Any], feeds: dict[Tensor, Any], run: _Run) -> list[Any]:
        key = (tuple(map(id, fetches)), frozenset(map(id, feeds)))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(fetches, feeds)
            missing = [op for op in entry.ops if op.type == "Placeholder"]
            if missing:
                del self._entries[key]
                e = f"you must feed a value for placeholder {missing[0].name!r}"
                raise FeedError(located(f"{e} with dtype {missing[0].outputs[0].dtype.name}"))
        feeds = dict(feeds)
        for op in entry.staged:
            made = op.lower(run, *self._execute(list(op.inputs), feeds, run))
            feeds.update(zip(op.outputs, made if isinstance(made, (list, tuple)) else [made]))
        values: dict[Any, Any] = {t: a[()] if a.ndim == 0 else a for t, a in feeds.items()}
        if not entry.is_pure_host:
            plan = self._plan(entry, key, feeds, run)
            values.update(zip(entry.outputs, plan.run(self, feeds, run.keys(entry.random) if entry.random else None)))
        for op in entry.host:
            if op.outputs and op.outputs[0] in values:
                continue
            made = op.lower(run, *[values[t] for t in op.inputs])
            values.update(zip(op.outputs, made if isinstance(made, (list, tuple)) else [made]))
        return [values[f] if isinstance(f, Tensor) else None for f in fetches]

    def _plan(self, entry: _Entry, key: Any, feeds: dict[Tensor, Any], run: _Run) -> _Plan:
        for _ in range(64):
            by_value = {}
            for t in entry.by_value:
                by_value[t] = np.asarray(feeds[t] if t in feeds else self._execute([t], feeds, run)[0])
            shapes = tuple((id(t), feeds[t].shape) for t in entry.fed)
            shapes += tuple((id(t), feeds[t].shape) for op in entry.staged for t in op.outputs)
            full = (key, shapes, tuple((id(t), v.shape, v.tobytes()) for t, v in by_value.items()))
            plan = self._plans.get(full)
            if plan is not None:
                self._plans.move_to_end(full)
                return plan
            try:
                plan = _Plan(self, entry, feeds, by_value)
            except NeedValue as need:
                if need.tensor in entry.by_value:
                    raise invalid(f"the value of {need.tensor.name} cannot be computed before the run") from None
                entry.by_value.append(need.tensor)
                continue
            self.compiles += 1
            self._plans[full] = plan
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
            return plan
        raise invalid("too many sizes depend on computed values")

    def partial_run_setup(self, *_: Any, **__: Any) -> Any:
        """Not there: run the parts one after the other and keep what is needed in variables."""
        raise unimplemented("partial_run: fetch the intermediate values with run() and feed them to the next run()")

    partial_run = partial_run_setup

    def make_callable(self, fetches: Any, feed_list: Any = ()) -> Any:
        """A function of the fed values that runs ``fetches``."""
        return lambda *values: self.run(fetches, dict(zip(feed_list, values)))

    def list_devices(self) -> list[Any]:
        """The devices of the machine."""
        return _native.devices()

    def as_default(self) -> Any:
        """A scope in which ``eval`` and ``run`` of tensors and operations use this session."""
        return g._pushed(g._stack().sessions, self)

    def close(self) -> None:
        """Forgets variables and plans."""
        self._closed = True
        self._storage, self._initialized = {}, set()
        self._plans.clear()
        self._entries.clear()

    def __enter__(self) -> Session:
        scopes = [self.graph.as_default(), self.as_default()]
        for scope in scopes:
            scope.__enter__()
        self._scopes.append(scopes)
        return self

    def __exit__(self, *exception: Any) -> None:
        for scope in reversed(self._scopes.pop()):
            scope.__exit__(None, None, None)
        self.close()


class InteractiveSession(Session):
    """A session that is the default one from its construction until ``close``."""

    def __init__(self, target: str = "", graph: Any = None, config: Any = None):
        super().__init__(target, graph, config)
        g._stack().sessions.append(self)

    def close(self) -> None:
        """Ends it."""
        if self in g._stack().sessions:
            g._stack().sessions.remove(self)
        super().close()


def _flatten(x: Any, out: list[Any], graph: Any) -> Any:
    if isinstance(x, dict):
        return {k: _flatten(v, out, graph) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[_flatten(v, out, graph) for v in x])
    if isinstance(x, (list, tuple)):
        return type(x)(_flatten(v, out, graph) for v in x)
    if x is None:
        raise wrong_type("fetch argument None: a tensor, an operation or a name can be fetched")
    out.append(graph.as_graph_element(x))
    return len(out) - 1


def _fill(form: Any, values: list[Any]) -> Any:
    if isinstance(form, dict):
        return {k: _fill(v, values) for k, v in form.items()}
    if isinstance(form, tuple) and hasattr(form, "_fields"):
        return type(form)(*[_fill(v, values) for v in form])
    if isinstance(form, (list, tuple)):
        return type(form)(_fill(v, values) for v in form)
    return values[form]


class _Options:
    """A message of settings: any field may be read and set."""

    def __init__(self, *_: Any, **fields: Any):
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = made = _Options()
        return made


class ConfigProto(_Options):
    """Settings of TensorFlow's runtime; none changes a result, and all are ignored. ``TALWEG_THREADS`` sets threads."""


class GPUOptions(_Options):
    """Settings of TensorFlow's GPU memory; ignored."""


class RunOptions(_Options):
    """Settings of one run; ignored."""

    NO_TRACE, FULL_TRACE = 0, 3


class RunMetadata(_Options):
    """What a traced run would report; stays empty."""
