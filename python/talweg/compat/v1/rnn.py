"""``tf.nn.dynamic_rnn`` and its kin: recurrent networks over time."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import talweg as tw

from . import nest
from .arrays import expand_dims, reverse_sequence, shape, transpose
from .constants import range_, zeros_like
from .control_flow import scanned
from .errors import invalid
from .graph import Tensor, convert_to_tensor, make
from .maths import cast, less
from .variables import variable_scope


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: Any = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> Any:
    """A cell over ``[batch, time, ...]`` or, with ``time_major``, ``[time, batch, ...]``: outputs and last state.

    After a sequence's end its outputs are zeros and its state stays.
    """
    x = convert_to_tensor(inputs)
    if not time_major:
        order = [1, 0, *range(2, len(x.shape))]
        x = transpose(x, order)
    with variable_scope(scope if scope is not None else "rnn"):
        if initial_state is None:
            if dtype is None:
                raise invalid("dynamic_rnn: give dtype or initial_state")
            known = x.shape.as_list()[1]
            initial_state = cell.zero_state(shape(x)[1] if known is None else known, dtype)
        state = nest.map_structure(convert_to_tensor, initial_state)
        ends = None if sequence_length is None else cast(sequence_length, "int32")

        def step(carry: Any, row: list[Tensor]) -> Any:
            out, after = cell(row[0], carry)
            if ends is None:
                return after, out
            goes_on = expand_dims(less(row[1], ends), 1)
            out = _select(goes_on, out, zeros_like(out))
            return nest.map_structure(lambda new, old: _select(goes_on, new, old), after, carry), out

        rows = [x] if ends is None else [x, range_(shape(x)[0])]
        last, outputs = scanned(step, state, rows, name="while")
    if not time_major:
        outputs = transpose(outputs, [1, 0, *range(2, len(outputs.shape))])
    return outputs, last


def _select(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``where`` with a column of conditions."""
    lower = lambda ctx, c, x, y: tw.where(c.reshape([-1] + [1] * (x.ndim - 1)), x, y)  # noqa: E731
    return make("Select", [condition, a, b], lower, None, a.dtype, a.shape.merge_with(b.shape))


def static_rnn(cell: Any, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None) -> Any:
    """A cell over a list of inputs: the list of outputs and the last state."""
    xs = [convert_to_tensor(x) for x in inputs]
    if not xs:
        raise invalid("static_rnn: there are no inputs")
    with variable_scope(scope if scope is not None else "rnn"):
        state = initial_state
        if state is None:
            known = xs[0].shape.as_list()[0]
            state = cell.zero_state(shape(xs[0])[0] if known is None else known, dtype or xs[0].dtype)
        ends = None if sequence_length is None else cast(sequence_length, "int32")
        outputs = []
        for t, x in enumerate(xs):
            out, after = cell(x, state)
            if ends is not None:
                goes_on = expand_dims(less(convert_to_tensor(t), ends), 1)
                out = _select(goes_on, out, zeros_like(out))
                after = nest.map_structure(lambda new, old: _select(goes_on, new, old), after, state)
            state = after
            outputs.append(out)
    return outputs, state


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: Any = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> Any:
    """Two cells, one of which reads from the end: pairs of outputs and of states."""
    x = convert_to_tensor(inputs)
    time, batch = (0, 1) if time_major else (1, 0)

    def flipped(t: Tensor) -> Tensor:
        from .arrays import reverse

        return reverse(t, [time]) if sequence_length is None else reverse_sequence(t, sequence_length, time, batch)

    with variable_scope(scope if scope is not None else "bidirectional_rnn"):
        with variable_scope("fw"):
            ahead, last = dynamic_rnn(cell_fw, x, sequence_length, initial_state_fw, dtype, time_major=time_major)
        with variable_scope("bw"):
            back, first = dynamic_rnn(cell_bw, flipped(x), sequence_length, initial_state_bw, dtype, time_major=time_major)
    return (ahead, flipped(back)), (last, first)


