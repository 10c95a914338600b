"""``tf.nn.rnn_cell``: cells with TensorFlow's variables and gate orders."""

# mypy: ignore-errors
from __future__ import annotations

import collections
from typing import Any

from . import nest
from .arrays import concat, ints, split, stack
from .constants import zeros
from .dtypes import float32
from .errors import invalid
from .graph import Tensor, convert_to_tensor, get_default_graph
from .initializers import Constant
from .maths import matmul, sigmoid, tanh
from .variables import AUTO_REUSE, get_variable, get_variable_scope, snake, variable_scope

LSTMStateTuple = collections.namedtuple("LSTMStateTuple", ["c", "h"])


class RNNCell:
    """One step of a recurrent network: ``output, state = cell(inputs, state)``."""

    state_size: Any
    output_size: Any

    def __init__(self, name: str | None = None, reuse: Any = None, dtype: Any = None, **_: Any):
        self._name, self._reuse, self._scope, self.dtype = name, reuse, None, dtype
        self.trainable_variables: list[Any] = []

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """One step. Variables are made in the first call and used again in the others."""
        inputs = convert_to_tensor(inputs)
        graph = get_default_graph()
        if self._scope is None:
            with variable_scope(scope if scope is not None else self._name or snake(type(self).__name__), reuse=self._reuse) as entered:
                self._scope = entered
                return self.call(inputs, state)
        again = self._scope
        old = get_variable_scope()
        reuse, again.reuse = again.reuse, again.reuse or AUTO_REUSE
        graph.variable_scope = again
        try:
            return self.call(inputs, state)
        finally:
            graph.variable_scope, again.reuse = old, reuse

    def call(self, inputs: Tensor, state: Any) -> Any:
        """The step itself."""
        raise NotImplementedError

    def zero_state(self, batch_size: Any, dtype: Any = float32) -> Any:
        """Zeros for the first step."""
        return nest.map_structure(lambda n: zeros(_rows(batch_size, n), dtype), self.state_size)

    @property
    def variables(self) -> list[Any]:
        """The variables of the cell."""
        return [] if self._scope is None else self._scope.global_variables()


def _rows(batch: Any, n: int) -> Any:
    return stack([ints(batch), convert_to_tensor(n)]) if isinstance(batch, Tensor) else [int(batch), n]


def _linear(x: Tensor, n: int, prefix: str = "", bias: float = 0.0, initializer: Any = None, bias_initializer: Any = None) -> Tensor:
    size = x.shape.as_list()[-1]
    if size is None:
        raise invalid("the last size of a cell's inputs must be known")
    w = get_variable(f"{prefix}kernel", [size, n], x.dtype, initializer)
    b = get_variable(f"{prefix}bias", [n], x.dtype, bias_initializer or Constant(bias, x.dtype))
    return matmul(x, w) + b


class BasicRNNCell(RNNCell):
    """``h = tanh(W [x, h] + b)``."""

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None, **settings: Any):
        super().__init__(name, reuse, dtype)
        self.state_size = self.output_size = num_units
        self._f = activation or tanh

    def call(self, inputs: Tensor, state: Any) -> Any:
        """The step itself."""
        h = self._f(_linear(concat([inputs, state], 1), self.state_size))
        return h, h


class GRUCell(RNNCell):
    """Gates ``r, u``, then the candidate from ``r * h``."""

    def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None, dtype: Any = None, **settings: Any):
        super().__init__(name, reuse, dtype)
        self.state_size = self.output_size = num_units
        self._f, self._kernel, self._bias = activation or tanh, kernel_initializer, bias_initializer

    def call(self, inputs: Tensor, state: Any) -> Any:
        """The step itself."""
        n = self.state_size
        gates = sigmoid(_linear(concat([inputs, state], 1), 2 * n, "gates/", 1.0, self._kernel, self._bias))
        r, u = split(gates, 2, 1)
        c = self._f(_linear(concat([inputs, r * state], 1), n, "candidate/", 0.0, self._kernel, self._bias))
        h = u * state + (1 - u) * c
        return h, h


class BasicLSTMCell(RNNCell):
    """An LSTM with gates in the order ``i, j, f, o``; ``forget_bias`` is added to ``f``."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None, **settings: Any):
        super().__init__(name, reuse, dtype)
        self._n, self._forget, self._tuple, self._f = num_units, forget_bias, state_is_tuple, activation or tanh
        self.output_size = num_units
        self.state_size = LSTMStateTuple(num_units, num_units) if state_is_tuple else 2 * num_units

    def call(self, inputs: Tensor, state: Any) -> Any:
        """The step itself."""
        c, h = state if self._tuple else split(state, 2, 1)
        i, j, f, o = split(_linear(concat([inputs, h], 1), 4 * self._n), 4, 1)
        c = c * sigmoid(f + self._forget) + sigmoid(i) * self._f(j)
        h = self._f(c) * sigmoid(o)
        return h, LSTMStateTuple(c, h) if self._tuple else concat([c, h], 1)


class LSTMCell(RNNCell):
    """An LSTM with peepholes, clipping and a projection."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: Any = None,
        initializer: Any = None,
        num_proj: Any = None,
        proj_clip: Any = None,
        num_unit_shards: Any = None,
        num_proj_shards: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **settings: Any,
    ):
        super().__init__(name, reuse, dtype)
        self._n, self._peep, self._clip, self._init = num_units, use_peepholes, cell_clip, initializer
        self._proj, self._proj_clip, self._forget, self._tuple = num_proj, proj_clip, forget_bias, state_is_tuple
        self._f = activation or tanh
        self.output_size = num_proj or num_units
        self.state_size = LSTMStateTuple(num_units, self.output_size) if state_is_tuple else num_units + self.output_size

    def call(self, inputs: Tensor, state: Any) -> Any:
        """The step itself."""
        from .maths import clip_by_value

        c, h = state if self._tuple else split(state, [self._n, self.output_size], 1)
        i, j, f, o = split(_linear(concat([inputs, h], 1), 4 * self._n, initializer=self._init), 4, 1)

        def peep(word: str, x: Any) -> Any:
            return get_variable(f"w_{word}_diag", [self._n], inputs.dtype, self._init) * x if self._peep else 0.0

        c = sigmoid(f + self._forget + peep("f", c)) * c + sigmoid(i + peep("i", c)) * self._f(j)
        if self._clip is not None:
            c = clip_by_value(c, -self._clip, self._clip)
        h = sigmoid(o + peep("o", c)) * self._f(c)
        if self._proj:
            h = matmul(h, get_variable("projection/kernel", [self._n, self._proj], inputs.dtype, self._init))
            if self._proj_clip is not None:
                h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, LSTMStateTuple(c, h) if self._tuple else concat([c, h], 1)


class MultiRNNCell(RNNCell):
    """Cells one above the other."""

    def __init__(self, cells: Any, state_is_tuple: bool = True, name: str | None = None):
        super().__init__(name)
        self._cells = list(cells)
        if not state_is_tuple:
            raise invalid("MultiRNNCell: states are tuples")
        if len({id(c) for c in self._cells}) != len(self._cells):
            raise invalid("MultiRNNCell: the same cell twice shares its weights; make one for each layer")
        self.state_size = tuple(c.state_size for c in self._cells)
        self.output_size = self._cells[-1].output_size

    def call(self, inputs: Tensor, state: Any) -> Any:
        """The step itself."""
        after = []
        for i, (cell, s) in enumerate(zip(self._cells, state)):
            with variable_scope(f"cell_{i}", reuse=get_variable_scope().reuse):
                inputs, s = cell(inputs, s)
            after.append(s)
        return inputs, tuple(after)


class _Wrapper(RNNCell):
    def __init__(self, cell: RNNCell, **_: Any):
        super().__init__()
        self._cell = cell
        self.state_size, self.output_size = cell.state_size, cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any = float32) -> Any:
        """Zeros for the first step."""
        return self._cell.zero_state(batch_size, dtype)


class DropoutWrapper(_Wrapper):
    """Dropout of a cell's inputs, outputs and states."""

    def __init__(self, cell: RNNCell, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0, state_keep_prob: Any = 1.0, variational_recurrent: bool = False, input_size: Any = None, dtype: Any = None, seed: Any = None, dropout_state_filter_visitor: Any = None):
        super().__init__(cell)
        if variational_recurrent:
            from .errors import unimplemented

            raise unimplemented("DropoutWrapper(variational_recurrent=True)")
        self._keep, self._seed = (input_keep_prob, output_keep_prob, state_keep_prob), seed

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """One step."""
        from .nn import dropout

        def drop(x: Any, p: Any) -> Any:
            return x if isinstance(p, (int, float)) and p >= 1 else dropout(x, p, seed=self._seed)

        keep = self._keep
        out, after = self._cell(drop(inputs, keep[0]), state, scope)
        if isinstance(after, LSTMStateTuple):
            after = LSTMStateTuple(after.c, drop(after.h, keep[2]))
        elif not nest.is_nested(after):
            after = drop(after, keep[2])
        return drop(out, keep[1]), after


class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """One step."""
        out, after = self._cell(inputs, state, scope)
        return out + inputs, after


class DeviceWrapper(_Wrapper):
    """The cell itself: the device is ignored."""

    def __init__(self, cell: RNNCell, device: Any):
        super().__init__(cell)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """One step."""
        return self._cell(inputs, state, scope)


