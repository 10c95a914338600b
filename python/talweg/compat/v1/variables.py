"""Variables, their scopes and assignments. A session owns the values."""

# mypy: ignore-errors
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from . import graph as g
from .dtypes import INT64, as_dtype, float32
from .errors import invalid, wrong_shape, wrong_type
from .graph import GraphKeys, Operation, Tensor, convert_to_tensor, get_default_graph, make
from .shapes import TensorShape


class VariableSynchronization:
    """Accepted and ignored: one process holds a variable."""

    AUTO = NONE = ON_WRITE = ON_READ = 0


class VariableAggregation:
    """Accepted and ignored: one process holds a variable."""

    NONE = SUM = MEAN = ONLY_FIRST_REPLICA = 0


class Variable:
    """A value that lives in a session between runs.

    >>> import talweg.compat.v1 as tf
    >>> w = tf.Variable(3.0, name="w")
    >>> with tf.Session() as sess:
    ...     sess.run(tf.global_variables_initializer())
    ...     float(sess.run(w.assign_add(1.0)))
    4.0
    """

    __array_priority__ = 100

    def __init__(
        self,
        initial_value: Any = None,
        trainable: Any = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        use_resource: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ):
        if initial_value is None:
            raise invalid("Variable: an initial_value is wanted")
        graph = get_default_graph()
        self.trainable, self.constraint = trainable is None or bool(trainable), constraint
        with graph.outside():
            if callable(initial_value):
                initial_value = initial_value()
            self.initial_value = convert_to_tensor(initial_value, dtype)
            static = self.initial_value.shape if validate_shape else TensorShape(None)
            self._ref = make("VariableV2", [], _unread, name or "Variable", self.initial_value.dtype, static, is_stateful=True)
            self._ref.is_ref = True
            self.op.attributes["variable"] = self
            with graph.name_scope(self.op.name + "/"):
                self.initializer = _assign("Assign", self, self.initial_value, lambda old, new: new, "Assign").op
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if self.trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        g.add_to_collections(keys, self)

    op = property(lambda self: self._ref.op)
    graph = property(lambda self: self._ref.graph)
    name = property(lambda self: self._ref.name)
    dtype = property(lambda self: self._ref.dtype)
    shape = property(lambda self: self._ref.shape)
    device = property(lambda self: "")

    def _as_graph_element(self) -> Tensor:
        return self._ref

    _as_tensor = _as_graph_element

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self._ref.shape

    def set_shape(self, shape: Any) -> None:
        """Adds what is known of the shape."""
        self._ref.set_shape(shape)

    def value(self) -> Tensor:
        """Its value as a tensor."""
        return self._ref

    def read_value(self) -> Tensor:
        """Its value at this point of a run."""
        from .arrays import identity

        return identity(self._ref, "read")

    def initialized_value(self) -> Tensor:
        """The first value, for the first values of other variables."""
        return self.initial_value

    def eval(self, session: Any = None, feed_dict: Any = None) -> Any:
        """Its value in a session."""
        return g._session(session).run(self._ref, feed_dict)

    def load(self, value: Any, session: Any = None) -> None:
        """Gives it a value in a session."""
        s = g._session(session)
        s.run(self.initializer, {self.initial_value: value})

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """The operation that gives it a value."""
        return assign(self, value, name=name)

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """The operation that adds to it."""
        return assign_add(self, delta, name=name)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """The operation that subtracts from it."""
        return assign_sub(self, delta, name=name)

    def scatter_add(self, sparse_delta: Any, indices: Any = None, **_: Any) -> Tensor:
        """Not there in this form: ``tf.scatter_add(ref, indices, updates)``."""
        raise invalid("use tf.scatter_add(ref, indices, updates)")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __getitem__(self, key: Any) -> Tensor:
        return self._ref[key]

    def __iter__(self) -> Any:
        raise wrong_type("a variable cannot be iterated over: use tf.unstack")

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}_ref>"


def _unread(*_: Any) -> Any:
    raise invalid("a variable is read by the session")


def _operators() -> None:
    words = "add sub mul truediv floordiv mod pow matmul and or xor".split()
    words = words + ["r" + w for w in words] + "lt le gt ge".split()
    for word in words:
        name = f"__{word}__"
        setattr(Variable, name, lambda self, other, name=name: getattr(self._ref, name)(other))
    for word in ("neg", "abs", "invert"):
        name = f"__{word}__"
        setattr(Variable, name, lambda self, name=name: getattr(self._ref, name)())


_operators()


def variable_of(x: Any) -> Variable:
    """The variable that a reference means."""
    if isinstance(x, Tensor) and x.is_ref:
        x = x.op.attributes["variable"]
    if not isinstance(x, Variable):
        raise wrong_type(f"only a variable can be assigned, not {x}")
    return x


def _assign(kind: str, ref: Any, value: Any, f: Callable[..., Any], name: str | None, is_shape_checked: bool = True) -> Tensor:
    v = variable_of(ref)
    value = convert_to_tensor(value, v.dtype)
    if is_shape_checked and kind == "Assign" and not v.shape.is_compatible_with(value.shape):
        raise wrong_shape(f"assign: {v.name} has shape {v.shape}, the value {value.shape}")

    def lower(ctx: Any, new: Any) -> Any:
        made = new if kind == "Assign" else f(ctx.read(v), new)
        if is_shape_checked and not v.shape.is_compatible_with(tuple(made.shape)):
            raise wrong_shape(f"assign: {v.name} has shape {v.shape}, the value {tuple(made.shape)}")
        return ctx.write(v, made)

    return make(kind, [value], lower, name or kind, v.dtype, v.shape, writes=(v,))


def assign(ref: Any, value: Any, validate_shape: Any = True, use_locking: Any = None, name: str | None = None) -> Tensor:
    """The operation that gives a variable a value; its output is the new value."""
    return _assign("Assign", ref, value, lambda old, new: new, name, validate_shape is not False)


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """The operation that adds to a variable."""
    return _assign("AssignAdd", ref, value, lambda old, new: old + new, name)


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """The operation that subtracts from a variable."""
    return _assign("AssignSub", ref, value, lambda old, new: old - new, name)


def _scatter(kind: str, f: Callable[..., Any]) -> Callable[..., Tensor]:
    def call(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
        v = variable_of(ref)
        i, u = convert_to_tensor(indices), convert_to_tensor(updates, v.dtype)

        def lower(ctx: Any, places: Any, rows: Any) -> Any:
            old = ctx.read(v)
            flat = places.reshape(-1).to(INT64)
            rows = rows.broadcast_to([*places.shape, *old.shape[1:]]).reshape([flat.shape[0], *old.shape[1:]])
            return ctx.write(v, f(old, flat, rows))

        return make(kind, [i, u], lower, name, v.dtype, v.shape, writes=(v,))

    return call


scatter_update = _scatter("ScatterUpdate", lambda v, i, u: v.index_copy(0, i, u))
scatter_add = _scatter("ScatterAdd", lambda v, i, u: v.index_add(0, i, u))
scatter_sub = _scatter("ScatterSub", lambda v, i, u: v.index_add(0, i, -u))
scatter_mul = _scatter("ScatterMul", lambda v, i, u: v.index_copy(0, i, v.index_select(0, i) * u))


# Collections.


def global_variables(scope: str | None = None) -> list[Variable]:
    """The variables of the default graph."""
    return g.get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


all_variables = global_variables


def local_variables(scope: str | None = None) -> list[Variable]:
    """The local variables of the default graph, such as the counters of metrics."""
    return g.get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Variable]:
    """The variables that ``MODEL_VARIABLES`` holds."""
    return g.get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Variable]:
    """The variables whose averages are kept."""
    return g.get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The variables that optimizers change."""
    return g.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def variables_initializer(var_list: Any, name: str = "init") -> Operation:
    """The operation that gives variables their first values."""
    from .control_flow import group

    return group(*[v.initializer for v in var_list], name=name)


initialize_variables = variables_initializer


def global_variables_initializer() -> Operation:
    """The operation that gives all variables their first values."""
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer() -> Operation:
    """The operation that gives all local variables their first values."""
    return variables_initializer(local_variables(), "init_local")


initialize_local_variables = local_variables_initializer


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Nothing: there are no tables."""
    from .arrays import no_op

    return no_op(name)


def is_variable_initialized(variable: Any) -> Tensor:
    """Whether a variable has a value in the session."""
    v = variable_of(variable)
    return make("IsVariableInitialized", [], lambda run: v in run.session._initialized, None, "bool", [], is_host=True)


def report_uninitialized_variables(var_list: Any = None, name: str | None = None) -> Tensor:
    """The names of variables without a value in the session."""
    import numpy as np

    listed = list(var_list) if var_list is not None else global_variables() + local_variables()

    def lower(run: Any) -> Any:
        missing = [v.op.name.encode() for v in listed if v not in run.session._initialized]
        return np.array(missing, object)

    return make("ReportUninitialized", [], lower, name, "string", [None], is_host=True)


def assert_variables_initialized(var_list: Any = None) -> Operation:
    """The operation that fails if a variable has no value."""
    listed = list(var_list) if var_list is not None else global_variables()
    from .control_flow import group

    return group(*[v.read_value() for v in listed])


# Scopes.


class _Reuse:
    def __repr__(self) -> str:
        return "AUTO_REUSE"


AUTO_REUSE = _Reuse()


class VariableScope:
    """A prefix and settings for ``get_variable``."""

    def __init__(self, reuse: Any, name: str = "", **settings: Any):
        self.reuse, self.name, self.settings = reuse, name, settings

    original_name_scope = property(lambda self: self.name + "/" if self.name else "")
    initializer = property(lambda self: self.settings.get("initializer"))
    regularizer = property(lambda self: self.settings.get("regularizer"))
    dtype = property(lambda self: self.settings.get("dtype") or float32)

    def reuse_variables(self) -> None:
        """From now on, ``get_variable`` returns variables that exist."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """The initializer of variables without one."""
        self.settings["initializer"] = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """The regularizer of variables without one."""
        self.settings["regularizer"] = regularizer

    def get_collection(self, name: str) -> list[Any]:
        """The members of a collection in this scope."""
        return g.get_collection(name, self.name + "/" if self.name else None)

    def global_variables(self) -> list[Variable]:
        """The variables in this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def trainable_variables(self) -> list[Variable]:
        """The trained variables in this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)


def get_variable_scope() -> VariableScope:
    """The present scope."""
    graph = get_default_graph()
    if graph.variable_scope is None:
        graph.variable_scope = VariableScope(False)
    return graph.variable_scope


@contextlib.contextmanager
def variable_scope(
    name_or_scope: Any,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Prefixes the names of variables; ``reuse`` says whether ``get_variable`` makes or finds them."""
    graph, outer = get_default_graph(), get_variable_scope()
    if isinstance(name_or_scope, VariableScope):
        full, base, settings = name_or_scope.name, name_or_scope, dict(name_or_scope.settings)
        reused = base.reuse
    else:
        short = name_or_scope
        if short is None:
            if default_name is None:
                raise invalid("variable_scope: a name or a default_name is wanted")
            short = _unique_scope(graph, outer.name, default_name)
        full = f"{outer.name}/{short}" if outer.name and short else short or outer.name
        settings, reused = dict(outer.settings), outer.reuse
    given = dict(initializer=initializer, regularizer=regularizer, dtype=dtype, constraint=constraint, custom_getter=custom_getter)
    settings.update({k: v for k, v in given.items() if v is not None})
    inner = VariableScope(reused if not reuse else reuse, full, **settings)
    scope = graph.name_scope((full.rsplit("/", 1)[-1] or None) if auxiliary_name_scope else graph._scope + "/")
    graph.variable_scope = inner
    try:
        with scope:
            yield inner
    finally:
        graph.variable_scope = outer


def _unique_scope(graph: Any, prefix: str, name: str) -> str:
    used = graph.__dict__.setdefault("_variable_scopes", {})
    key = f"{prefix}/{name}"
    count = used.get(key, 0)
    used[key] = count + 1
    return name if count == 0 else f"{name}_{count}"


@contextlib.contextmanager
def variable_op_scope(values: Any, name_or_scope: Any, default_name: str | None = None, **settings: Any) -> Iterator[VariableScope]:
    """``variable_scope`` under its old name."""
    with variable_scope(name_or_scope, default_name, values, **settings) as scope:
        yield scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: Any = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Variable:
    """A new variable of the scope, or the one of that name if the scope reuses."""
    scope = get_variable_scope()
    full = f"{scope.name}/{name}" if scope.name else name
    getter = custom_getter or scope.settings.get("custom_getter")
    settings = dict(initializer=initializer, regularizer=regularizer, trainable=trainable, collections=collections)
    settings.update(validate_shape=validate_shape, constraint=constraint)
    if getter is not None:
        return getter(lambda name, shape=None, dtype=None, **kw: _found(scope, name, shape, dtype, **{**settings, **kw}), full, shape=shape, dtype=dtype, **settings)
    return _found(scope, full, shape, dtype, **settings)


def _found(scope: VariableScope, full: str, shape: Any, dtype: Any, **settings: Any) -> Variable:
    graph = get_default_graph()
    old = graph.variables.get(full)
    if old is not None and scope.reuse:
        if shape is not None and not old.shape.is_compatible_with(shape):
            raise wrong_shape(f"get_variable: {full} has shape {old.shape}, and {TensorShape(shape)} is wanted")
        if dtype is not None and old.dtype != as_dtype(dtype):
            raise wrong_type(f"get_variable: {full} is {old.dtype.name}, and {as_dtype(dtype).name} is wanted")
        return old
    if old is not None:
        e = "did you mean reuse=True or reuse=tf.AUTO_REUSE in variable_scope?"
        raise invalid(f"get_variable: {full} exists already, made at {old.op.site[0]}:{old.op.site[1]}; {e}")
    if scope.reuse is True:
        raise invalid(f"get_variable: {full} does not exist; did you mean reuse=tf.AUTO_REUSE?")
    return _new(scope, full, shape, dtype, **settings)


def _new(scope: VariableScope, full: str, shape: Any, dtype: Any, **settings: Any) -> Variable:
    from .initializers import GlorotUniform, Zeros

    graph = get_default_graph()
    make_of = settings["initializer"] if settings["initializer"] is not None else scope.initializer
    kind = as_dtype(dtype or scope.dtype)
    if make_of is None:
        make_of = GlorotUniform() if kind.is_floating else Zeros()
    make_of = make_of() if isinstance(make_of, type) else make_of
    if callable(make_of):
        static = TensorShape(shape)
        if shape is None or not static.is_fully_defined():
            raise wrong_shape(f"get_variable: the shape of {full} must be known, not {static}")
        sizes = static.as_list()

        def first() -> Any:
            try:
                return make_of(sizes, dtype=kind, partition_info=None)
            except TypeError as e:
                if "partition_info" not in str(e):
                    raise
                return make_of(sizes, dtype=kind)

        initial: Any = first
    else:
        initial = convert_to_tensor(make_of, dtype)
        if shape is not None and not initial.shape.is_compatible_with(shape):
            raise wrong_shape(f"get_variable: {full} of shape {TensorShape(shape)} has an initial value of {initial.shape}")
    with graph.outside(), graph.name_scope(None):
        trainable = settings["trainable"] if settings["trainable"] is not None else True
        constraint = settings["constraint"] or scope.settings.get("constraint")
        v = Variable(initial, trainable, settings["collections"], settings["validate_shape"], name=full, constraint=constraint)
    graph.variables[full] = v
    decay = settings["regularizer"] or scope.regularizer
    if decay is not None:
        with graph.name_scope(full + "/Regularizer/"):
            loss = decay(v)
        if loss is not None:
            g.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return v


def get_local_variable(name: str, *args: Any, **settings: Any) -> Variable:
    """``get_variable`` of a local variable, which is not trained."""
    settings.update(trainable=False, collections=[GraphKeys.LOCAL_VARIABLES])
    return get_variable(name, *args, **settings)


def snake(name: str) -> str:
    """The name of a class as a scope: ``BasicLSTMCell`` is ``basic_lstm_cell``."""
    import re

    words = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", words).lower()


def no_regularizer(_: Any) -> None:
    """For variables that are not regularized."""


__all__ = [n for n, v in list(globals().items()) if not n.startswith("_") and getattr(v, "__module__", "") == __name__]
