"""The deferred graph: operations and tensors with partial shapes, scopes, collections.

Nothing here computes. ``lowering`` turns the part of a graph that a run needs into Talweg tensors, once for each
set of fed shapes.
"""

# mypy: ignore-errors
from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .site import PACKAGE
from .dtypes import DType, as_dtype
from .errors import invalid, wrong_shape, wrong_type
from .shapes import TensorShape


class GraphKeys:
    """Names of the standard collections."""

    GLOBAL_VARIABLES = VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    METRIC_VARIABLES = "metric_variables"
    SUMMARIES = "summaries"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    UPDATE_OPS = "update_ops"
    TRAIN_OP = "train_op"
    GLOBAL_STEP = "global_step"
    TABLE_INITIALIZERS = "table_initializer"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"


def _site() -> tuple[str, int]:
    """The line of the program that makes an operation."""
    frame: Any = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class Operation:
    """A node of the graph. ``lower(ctx, *values)`` returns Talweg tensors for its outputs.

    ``writes`` are the variables it assigns. ``is_host`` operations run in Python on NumPy arrays, after the device's
    part; ``bodies`` are the functions of control flow.
    """

    def __init__(self, graph: Graph, kind: str, name: str, inputs: Sequence[Tensor], lower: Callable[..., Any]):
        self.graph, self.type, self.name, self.inputs, self.lower = graph, kind, name, list(inputs), lower
        self.id = graph._next_id()
        self.block = graph._block
        self.control_inputs: list[Operation] = []
        self.writes: tuple[Any, ...] = ()
        self.bodies: tuple[Any, ...] = ()
        self.is_host = self.is_stateful = self.is_constant = False
        self.outputs: list[Tensor] = []
        self.attributes: dict[str, Any] = {}
        self.site = _site()

    @property
    def values(self) -> Callable[[], list[Tensor]]:
        """A function that returns the outputs, as TensorFlow has it."""
        return lambda: self.outputs

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs it in a session, the default one if none is given."""
        _session(session).run(self, feed_dict)

    def get_attr(self, name: str) -> Any:
        """An attribute."""
        return self.attributes[name]

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class Tensor:
    """A value that a session computes. Operators make further operations; ``==`` compares identities."""

    __array_priority__ = 100

    def __init__(self, op: Operation, index: int, dtype: DType, shape: TensorShape):
        self.op, self.value_index, self.dtype, self._shape = op, index, dtype, shape
        self.is_ref = False

    graph = property(lambda self: self.op.graph)
    name = property(lambda self: f"{self.op.name}:{self.value_index}")
    shape = property(lambda self: self._shape)
    device = property(lambda self: "")

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Adds what the program knows of the shape; an error if that contradicts."""
        try:
            self._shape = self._shape.merge_with(shape)
        except ValueError as e:
            raise wrong_shape(f"set_shape of {self.name}: {e}") from None

    def consumers(self) -> list[Operation]:
        """The operations that take it."""
        return [op for op in self.graph.get_operations() if self in op.inputs]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value in a session, the default one if none is given."""
        return _session(session).run(self, feed_dict)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        return f'Tensor("{self.name}", shape={self._shape}, dtype={self.dtype.name})'

    def _no_value(self, *_: Any) -> Any:
        e = f"{self.name} has no value while the graph is being built: use tf.cond, tf.map_fn, or session.run"
        raise wrong_type(e)

    __bool__ = __iter__ = __len__ = __float__ = __int__ = __index__ = __array__ = _no_value


class Block:
    """The operations of a function inside the graph: a branch of ``cond``, the body of a loop."""

    def __init__(self, graph: Graph, parent: Block | None):
        self.graph, self.parent = graph, parent
        self.params: list[Tensor] = []
        self.outputs: list[Any] = []
        self.ops: list[Operation] = []

    def encloses(self, block: Block | None) -> bool:
        """True for itself and the blocks inside."""
        while block is not None and block is not self:
            block = block.parent
        return block is self

    def captures(self) -> list[Tensor]:
        """Tensors from outside that the operations take."""
        found = [t for op in self.ops for t in op.inputs] + [t for t in self.outputs if isinstance(t, Tensor)]
        return list(dict.fromkeys(t for t in found if not self.encloses(t.op.block)))

    def control_captures(self) -> list[Operation]:
        """Operations outside that those inside wait for."""
        found = [c for op in self.ops for c in op.control_inputs]
        return list(dict.fromkeys(c for c in found if not self.encloses(c.block)))

    def writes(self) -> tuple[Any, ...]:
        """The variables that operations inside assign."""
        return tuple(dict.fromkeys(v for op in self.ops for v in op.writes))


class Graph:
    """Operations, their names and collections."""

    def __init__(self) -> None:
        self._ops: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._names: dict[str, int] = {}
        self._collections: dict[str, list[Any]] = {}
        self._scope = ""
        self._control: list[list[Operation]] = []
        self._block: Block | None = None
        self._id = 0
        self.seed: int | None = None
        self.variable_scope: Any = None
        self.variables: dict[str, Any] = {}
        self.finalized = False

    def _next_id(self) -> int:
        self._id += 1
        return self._id

    # Names.

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """The name in the present scope, with a number if it is taken."""
        full = f"{self._scope}/{name}" if self._scope else name
        return self._unique(full, mark_as_used)

    def _unique(self, full: str, mark: bool = True) -> str:
        key = full.lower()
        count = self._names.get(key)
        made = full
        while count is not None and made.lower() in self._names:
            made, count = f"{full}_{count}", count + 1
        if mark:
            self._names[key] = count if count is not None else 1
            self._names.setdefault(made.lower(), 1)
        return made

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefixes the names of operations; a name that ends in ``/`` is entered again."""
        old = self._scope
        if not name:
            self._scope = ""
        elif name.endswith("/"):
            self._scope = name[:-1]
        else:
            self._scope = self.unique_name(name)
        try:
            yield self._scope + "/" if self._scope else ""
        finally:
            self._scope = old

    def get_name_scope(self) -> str:
        """The present prefix."""
        return self._scope

    # Operations.

    def add(self, op: Operation) -> None:
        """Puts an operation in the graph, with the control dependencies of the scope."""
        if self.finalized:
            raise invalid("the graph is finalized and cannot be changed")
        waits = [c for layer in self._control for c in layer]
        op.control_inputs = list(dict.fromkeys(waits))
        self._by_name[op.name] = op
        self._ops.append(op)
        if op.block is not None:
            op.block.ops.append(op)

    @contextlib.contextmanager
    def control_dependencies(self, inputs: Any) -> Iterator[None]:
        """Operations made inside run after ``inputs``; ``None`` clears the dependencies."""
        old = self._control
        self._control = [] if inputs is None else [*old, [as_operation(x) for x in inputs]]
        try:
            yield
        finally:
            self._control = old

    @contextlib.contextmanager
    def block(self) -> Iterator[Block]:
        """Operations made inside belong to a function."""
        old, control, self._block = self._block, self._control, Block(self, self._block)
        self._control = []
        try:
            yield self._block
        finally:
            self._block, self._control = old, control

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Operations made inside belong to the graph itself: variables and their initial values."""
        old, control, self._block, self._control = self._block, self._control, None, []
        try:
            yield
        finally:
            self._block, self._control = old, control

    def get_operations(self) -> list[Operation]:
        """All operations, in the order in which they were made."""
        return list(self._ops)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of a name."""
        if name not in self._by_name:
            raise _missing(self, name)
        return self._by_name[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor of a name such as ``"logits:0"``."""
        op, _, index = name.partition(":")
        if not index.isdigit():
            raise invalid(f"{name!r} names an operation: a tensor is {name + ':0'!r}")
        outputs = self.get_operation_by_name(op).outputs
        if int(index) >= len(outputs):
            raise invalid(f"{name!r}: the operation has {len(outputs)} outputs")
        return outputs[int(index)]

    def as_graph_element(self, x: Any) -> Any:
        """The tensor or operation that a name or variable means."""
        if isinstance(x, str):
            return self.get_tensor_by_name(x) if ":" in x else self.get_operation_by_name(x)
        x = x._as_graph_element() if hasattr(x, "_as_graph_element") else x
        if not isinstance(x, (Tensor, Operation)):
            raise wrong_type(f"{type(x).__name__} is no element of a graph: a tensor, an operation or a name is")
        if x.graph is not self:
            raise invalid(f"{x.name} is of another graph")
        return x

    def finalize(self) -> None:
        """From now on, new operations are errors."""
        self.finalized = True

    def as_default(self) -> Any:
        """A scope in which operations go to this graph."""
        return _pushed(_stack().graphs, self)

    def device(self, device_name_or_function: Any) -> Any:
        """Accepted and ignored: ``talweg.device`` places a whole session."""
        return contextlib.nullcontext()

    # Collections.

    def add_to_collection(self, name: str, value: Any) -> None:
        """Appends to a collection."""
        self._collections.setdefault(name, []).append(value)

    def get_collection_ref(self, name: str) -> list[Any]:
        """The collection itself."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """A copy of a collection; ``scope`` is a regular expression for the beginning of names."""
        import re

        found = list(self._collections.get(name, []))
        return found if scope is None else [x for x in found if re.match(scope, getattr(x, "name", ""))]

    def get_all_collection_keys(self) -> list[str]:
        """The names of the collections that hold something."""
        return [k for k, v in self._collections.items() if v]

    def clear_collection(self, name: str) -> None:
        """Empties a collection."""
        self._collections.pop(name, None)


def _missing(graph: Graph, name: str) -> Exception:
    import difflib

    near = difflib.get_close_matches(name, graph._by_name, 1)
    from .errors import NotFoundError, located

    hint = f"; nearest: {near[0]!r}" if near else ""
    return NotFoundError(located(f"the graph has no operation {name!r}{hint}"))


class _Stack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.sessions: list[Any] = []
        self.default = Graph()


_STACK = _Stack()


def _stack() -> _Stack:
    return _STACK


@contextlib.contextmanager
def _pushed(stack: list[Any], x: Any) -> Iterator[Any]:
    stack.append(x)
    try:
        yield x
    finally:
        stack.remove(x)


def get_default_graph() -> Graph:
    """The graph that operations are added to."""
    return _STACK.graphs[-1] if _STACK.graphs else _STACK.default


def reset_default_graph() -> None:
    """A new graph in place of the default one."""
    if _STACK.graphs:
        raise invalid("reset_default_graph cannot be used inside Graph().as_default()")
    _STACK.default = Graph()


def get_default_session() -> Any:
    """The session of the innermost ``with``, or ``None``."""
    return _STACK.sessions[-1] if _STACK.sessions else None


def _session(session: Any) -> Any:
    found = session if session is not None else get_default_session()
    if found is None:
        raise invalid("there is no default session: use `with sess.as_default():` or pass session=")
    return found


def as_operation(x: Any) -> Operation:
    """The operation of a tensor or variable, or itself."""
    x = x._as_graph_element() if hasattr(x, "_as_graph_element") else x
    if isinstance(x, Tensor):
        return x.op
    if not isinstance(x, Operation):
        raise wrong_type(f"{type(x).__name__} is neither a tensor nor an operation")
    return x


def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Any:
    """Prefixes the names of operations made inside."""
    return get_default_graph().name_scope(name if name is not None else default_name)


def control_dependencies(control_inputs: Any) -> Any:
    """Operations made inside run after ``control_inputs``."""
    return get_default_graph().control_dependencies(control_inputs)


def add_to_collection(name: str, value: Any) -> None:
    """Appends to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Appends to several collections of the default graph."""
    for name in [names] if isinstance(names, str) else names or ():
        add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """A copy of a collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """A collection of the default graph."""
    return get_default_graph().get_collection_ref(key)


def device(name: Any) -> Any:
    """Accepted and ignored: ``talweg.device`` places a whole session."""
    return contextlib.nullcontext()


def container(name: str) -> Any:
    """Accepted and ignored: a session owns its variables."""
    return contextlib.nullcontext()


# Making operations.


def make(
    kind: str,
    inputs: Sequence[Any],
    lower: Callable[..., Any],
    name: str | None = None,
    dtype: Any = None,
    shape: Any = None,
    outputs: Sequence[tuple[Any, Any]] | None = None,
    **settings: Any,
) -> Any:
    """A new operation's output, or list of outputs where ``outputs`` gives several types and shapes.

    Without ``dtype`` and ``shape`` both are inferred by lowering the operation for sample sizes.
    """
    graph = next((t.graph for t in inputs), None) or get_default_graph()
    if any(t.graph is not graph for t in inputs):
        raise invalid(f"{kind}: the inputs are of different graphs")
    op = Operation(graph, kind, _op_name(graph, name or kind), inputs, lower)
    for k, v in settings.items():
        setattr(op, k, v)
    if outputs is not None:
        made = [(as_dtype(d), TensorShape(s)) for d, s in outputs]
    elif dtype is not None and shape is not None:
        made = [(as_dtype(dtype), TensorShape(shape))]
    else:
        from .infer import infer

        made = infer(op, dtype)
    op.outputs = [Tensor(op, i, d, s) for i, (d, s) in enumerate(made)]
    graph.add(op)
    return op.outputs[0] if outputs is None and len(made) == 1 else op.outputs


def _op_name(graph: Graph, name: str) -> str:
    return graph._unique(name[:-1]) if name.endswith("/") else graph.unique_name(name)


_CONVERT: list[tuple[type, Callable[..., Tensor]]] = []


def register_tensor_conversion_function(base_type: Any, conversion_func: Callable[..., Any], priority: int = 100) -> None:
    """``conversion_func(value, dtype, name, as_ref)`` makes tensors of objects of a type."""
    _CONVERT.append((base_type, lambda value, dtype, name: conversion_func(value, dtype=dtype, name=name, as_ref=False)))


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> Tensor:
    """A tensor of a number, list, NumPy array, variable or tensor. The type of a tensor never changes silently."""
    dtype = None if dtype is None else as_dtype(dtype)
    if hasattr(value, "_as_tensor"):
        value = value._as_tensor()
    if isinstance(value, Tensor):
        if dtype is not None and value.dtype != dtype:
            e = f"a tensor of type {value.dtype.name} where {dtype.name} is wanted: {value}; use tf.cast"
            raise wrong_type(e)
        return value
    for kind, make_of in _CONVERT:
        if isinstance(value, kind):
            return make_of(value, dtype, name)
    if isinstance(value, TensorShape):
        value = np.array([int(d) for d in value], np.int32)
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        from .arrays import stack

        return stack([convert_to_tensor(v, dtype or _type_inside(value)) for v in value], name=name or "packed")
    if dtype is None and preferred_dtype is not None:
        try:
            return constant(value, preferred_dtype, name=name)
        except TypeError:
            pass
    return constant(value, dtype, name=name)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(v) for v in value)
    return isinstance(value, Tensor) or hasattr(value, "_as_tensor")


def _type_inside(value: Any) -> DType | None:
    if isinstance(value, (list, tuple)):
        return next((d for d in map(_type_inside, value) if d is not None), None)
    return value.dtype if isinstance(value, Tensor) or hasattr(value, "_as_tensor") else None


def as_array(value: Any, dtype: DType | None = None) -> np.ndarray:
    """A NumPy array of a Python value, with TensorFlow's types: ints are int32, floats are float32."""
    if isinstance(value, Tensor):
        raise wrong_type(f"{value.name} is a tensor of the graph, not a value")
    if hasattr(value, "numpy") and not isinstance(value, (np.ndarray, np.generic)):
        value = value.numpy()
    typed = isinstance(value, (np.ndarray, np.generic))
    try:
        array = np.asarray(value)
    except ValueError:
        raise invalid(f"the rows of {value!r:.80} have different lengths") from None
    if array.dtype.kind in "OSU":
        if array.dtype.kind == "O" and not all(isinstance(v, (str, bytes)) for v in array.flat):
            raise wrong_type(f"cannot make a tensor of {value!r:.80}")
        if dtype is not None and dtype.native is not None:
            raise wrong_type(f"expected {dtype.name}, got {value!r:.60} of type 'str' instead")
        return np.array([v.encode() if isinstance(v, str) else bytes(v) for v in array.flat], object).reshape(array.shape)
    if dtype is None:
        defaults = {"i": np.int32, "f": np.float32, "u": np.int32} if not typed else {}
        want = defaults.get(array.dtype.kind)
        if want is np.int32 and array.size and max(abs(int(array.max())), abs(int(array.min()))) > 2**31 - 1:
            want = np.int64
        return array if want is None else array.astype(want)
    if dtype.native is None:
        raise wrong_type(f"expected string, got {value!r:.60} instead")
    if not typed and array.size and (array.dtype.kind, dtype.is_integer or dtype.is_bool) == ("f", True):
        raise wrong_type(f"expected {dtype.name}, got {value!r:.60} of type 'float' instead")
    if not typed and array.size and (array.dtype.kind == "b") != dtype.is_bool:
        raise wrong_type(f"expected {dtype.name}, got {value!r:.60} of type '{array.dtype}' instead")
    if dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array.astype(dtype.as_numpy_dtype)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None, verify_shape: bool = False) -> Tensor:
    """A tensor of given values; of a shape, filled up with the last value.

    >>> import talweg.compat.v1 as tf
    >>> tf.constant(2.0, shape=[3]).shape
    TensorShape([Dimension(3)])
    """
    from ... import _native

    dtype = None if dtype is None else as_dtype(dtype)
    array = as_array(value, dtype)
    if shape is not None:
        sizes = [int(d) for d in TensorShape(shape).sizes]
        count = int(np.prod(sizes))
        if array.size > count or (verify_shape and list(array.shape) != sizes):
            raise wrong_shape(f"constant: {array.size} values for shape {TensorShape(shape)}")
        flat = array.reshape(-1)
        array = np.concatenate([flat, np.repeat(flat[-1:], count - flat.size)]).reshape(sizes)
    dtype = dtype or as_dtype(array.dtype)
    array = np.array(array)
    array.setflags(write=False)
    is_text = dtype.native is None
    lower = (lambda *_: array) if is_text else lambda ctx: _native.tensor(array, dtype=dtype.native)
    t = make("Const", [], lower, name, dtype, array.shape, is_constant=True, is_host=is_text)
    t.op.attributes["value"] = array
    return t
