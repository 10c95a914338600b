"""Recurrent layers and cells. Each way through a layer is one ``scan`` in the graph, whatever the length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, type_error, value_error, warn
from ..._native import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from .common import Described, parameter, placed, shown, size

if TYPE_CHECKING:
    from typing import Any

    from ... import DTypeLike

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]


def _rnn(activation):
    def step(x, state, weight, bias, proj):
        return (activation(x + state[0].linear(weight)),)

    return step


def _lstm(x, state, weight, bias, proj):
    # The parts are added one by one: then the whole cell is one loop over the state.
    gates = [a + b for a, b in zip(x.chunk(4, -1), state[0].linear(weight).chunk(4, -1))]
    i, f, g, o = gates
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if proj is None else h.linear(proj), c)


def _gru(x, state, weight, bias, proj):
    xs, hs = x.chunk(3, -1), state[0].linear(weight).chunk(3, -1)
    if bias is not None:
        hs = [h + b for h, b in zip(hs, bias.chunk(3, -1))]
    r, z = (xs[0] + hs[0]).sigmoid(), (xs[1] + hs[1]).sigmoid()
    n = (xs[2] + r * hs[2]).tanh()
    return (n + z * (state[0] - n),)


# What a step computes, the parts its weights consist of, the tensors of its state, and whether both biases are added
# to the same sum, so that one addition for all steps does.
_CELLS = {
    "RNN_TANH": (_rnn(Tensor.tanh), 1, 1, True),
    "RNN_RELU": (_rnn(Tensor.relu), 1, 1, True),
    "LSTM": (_lstm, 4, 2, True),
    "GRU": (_gru, 3, 1, False),
}


def _biases(mode, bias_ih, bias_hh):
    """The bias of the inputs' part and that of the state's."""
    if bias_ih is None or not _CELLS[mode][3]:
        return bias_ih, bias_hh
    return bias_ih + bias_hh, None


class RNNBase(Described):
    """Layers on top of each other, of any cell."""

    def __init__(
        self, mode: bool, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        if mode not in _CELLS:
            raise value_error(f"{name}: there is no mode {mode!r}; there are {sorted(_CELLS)}")
        self.mode, self.bias, self.batch_first, self.bidirectional = mode, bias, batch_first, bidirectional
        self.input_size, self.hidden_size = size(self, "input_size", input_size), size(self, "hidden_size", hidden_size, 1)
        self.num_layers, self.proj_size = size(self, "num_layers", num_layers, 1), size(self, "proj_size", proj_size)
        if not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise value_error(f"{name}: dropout must lie between 0 and 1, not {dropout}")
        if dropout > 0 and self.num_layers == 1:
            warn(f"{name}: dropout is between layers, so with one layer it has no effect")
        if self.proj_size and mode != "LSTM":
            raise value_error(f"{name}: proj_size is for LSTM")
        if self.proj_size >= self.hidden_size:
            raise value_error(f"{name}: proj_size {proj_size} must be smaller than hidden_size {hidden_size}")
        self.dropout = float(dropout)
        self._make(mode.partition("_")[0])
        placed(self, device, dtype)

    def _suffixes(self, layer):
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def _make(self, row):
        self.__dict__["_row"] = row
        settings = dict(num_layers=self.num_layers, bias=bool(self.bias), bidirectional=bool(self.bidirectional))
        if self.proj_size:
            settings["proj_size"] = self.proj_size
        self._make_parameters(input_size=self.input_size, hidden_size=self.hidden_size, **settings)
        for name in [n for n, p in self._parameters.items() if p is None]:  # PyTorch has none of these names then
            del self._parameters[name]

    def flatten_parameters(self) -> None:
        """Nothing: weights need not lie one after the other here."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each way through each layer."""
        return [self._weights(s) for layer in range(self.num_layers) for s in self._suffixes(layer)]

    def _weights(self, suffix):
        names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
        return [getattr(self, n + suffix) for n in names if hasattr(self, n + suffix)]

    def _start(self, x, rows, state):
        """The state to begin with, checked."""
        count, ways = _CELLS[self.mode][2], self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(ways, rows, self.proj_size or self.hidden_size), (ways, rows, self.hidden_size)][:count]
        if state is None:
            zeros = {shape: _native.zeros(*shape, dtype=x.dtype) for shape in shapes}
            return [zeros[shape] for shape in shapes]
        state = [state] if isinstance(state, Tensor) else list(state)
        if len(state) != count:
            raise value_error(f"{type(self).__name__}: the state consists of {count} tensors, not {len(state)}")
        for s, shape in zip(state, shapes):
            if tuple(s.shape) != shape:
                raise value_error(f"{type(self).__name__}: the state must be {shape}, not {tuple(s.shape)}")
        return state

    def _pass(self, x, inside, state, suffix):
        """One way over the steps ``[T, N, width]``: the visible state at each, and the last state."""
        get = lambda name: getattr(self, name + suffix, None)  # noqa: E731
        cell = _CELLS[self.mode][0]
        of_input, of_state = _biases(self.mode, get("bias_ih"), get("bias_hh"))
        # The inputs' part of all steps at once: one large product instead of many small ones.
        rows = x.linear(get("weight_ih"), of_input)
        weight, proj = get("weight_hh"), get("weight_hr")

        def step(state, row):
            next_state = cell(row[0], state, weight, of_state, proj)
            if len(row) == 1:
                return next_state, next_state[0]
            kept = tuple(Tensor.where(row[1], n, s) for n, s in zip(next_state, state))
            return kept, Tensor.where(row[1], next_state[0], 0.0)

        # Backwards, what fills up a sequence comes first and leaves the state as it is.
        xs = (rows,) if inside is None else (rows, inside)
        last, seen = _native.scan(step, tuple(state), xs, length=None, reverse=suffix.endswith("_reverse"))
        return seen, last

    def _run(self, x, state, lengths):
        """Of sequences ``[T, N, width]``."""
        steps, rows, width = x.shape
        if width != self.input_size:
            raise value_error(f"{type(self).__name__}: expected inputs of size {self.input_size}, not {width}")
        _native.check_types(type(self).__name__, [x, self.weight_ih_l0], False)
        inside = None
        if lengths is not None:
            lengths = F.common.tensor(lengths)
            if tuple(lengths.shape) != (rows,) or not str(lengths.dtype).endswith("int64"):
                raise value_error(f"{type(self).__name__}: lengths must be int64 of shape {(rows,)}, not {tuple(lengths.shape)}")
            inside = (_native.arange(steps).unsqueeze(-1) < lengths).unsqueeze(-1)
        start = self._start(x, rows, state)
        ends = [[] for _ in start]
        at = 0
        for layer in range(self.num_layers):
            if layer > 0:
                x = F.dropout(x, self.dropout, self.training)
            seen = []
            for suffix in self._suffixes(layer):
                visible, last = self._pass(x, inside, [s.select(0, at) for s in start], suffix)
                seen.append(visible)
                for e, s in zip(ends, last):
                    e.append(s)
                at += 1
            x = seen[0] if len(seen) == 1 else Tensor.concat(seen, -1)
        return x, tuple(Tensor.stack(e, 0) for e in ends)

    def forward(self, input: Tensor, hx: Any = None, *, lengths: Any = None) -> Any:
        """The visible state at every step, and the last state.

        With ``lengths`` of sequences that are filled up at the end, results after a sequence's end are zero, and its
        last state is that of its own last step: what packed sequences do, in any order.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if not isinstance(input, Tensor):
            raise type_error(f"{type(self).__name__}: expected a tensor or a PackedSequence, not {type(input).__name__}")
        if input.ndim not in (2, 3):
            raise value_error(f"{type(self).__name__}: expected 2 or 3 dimensions, not {input.ndim}")
        is_single = input.ndim == 2
        if is_single:
            x, hx = input.unsqueeze(1), self._each(hx, lambda s: s.unsqueeze(1))
        else:
            x = input.transpose(0, 1) if self.batch_first else input
        y, last = self._run(x, hx, lengths)
        if is_single:
            y, last = y.squeeze(1), tuple(s.squeeze(1) for s in last)
        elif self.batch_first:
            y = y.transpose(0, 1)
        return y, last[0] if len(last) == 1 else last

    @staticmethod
    def _each(state, f):
        if state is None:
            return None
        return f(state) if isinstance(state, Tensor) else tuple(map(f, state))

    def _packed(self, packed, hx):
        x, lengths = pad_packed_sequence(packed)
        # Padded sequences are in the caller's order again, as is the state.
        y, last = self._run(x, hx, lengths)
        is_sorted = packed.sorted_indices is None
        y = pack_padded_sequence(y, lengths, enforce_sorted=is_sorted)
        return y, last[0] if len(last) == 1 else last

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        plain = dict(proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False)
        settings = {k: getattr(self, k) for k, v in plain.items() if getattr(self, k) != v}
        return f"{text}, {shown(**settings)}" if settings else text


class RNN(RNNBase):
    """Elman's recurrent network.

    >>> y, h = tw.nn.RNN(3, 4)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    (talweg.Size([5, 2, 4]), talweg.Size([1, 2, 4]))
    """

    if TYPE_CHECKING:

        def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]: ...

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise value_error(f"RNN: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        settings = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, *settings)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory; the state is the pair (h, c).

    >>> y, (h, c) = tw.nn.LSTM(3, 4, batch_first=True)(tw.randn(2, 5, 3))
    >>> y.shape, h.shape, c.shape
    (talweg.Size([2, 5, 4]), talweg.Size([1, 2, 4]), talweg.Size([1, 2, 4]))
    """

    if TYPE_CHECKING:

        def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        settings = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__("LSTM", input_size, hidden_size, *settings)


class GRU(RNNBase):
    """Gated recurrent units.

    >>> y, h = tw.nn.GRU(3, 4, bidirectional=True)(tw.randn(5, 2, 3))
    >>> y.shape, h.shape
    (talweg.Size([5, 2, 8]), talweg.Size([2, 2, 4]))
    """

    if TYPE_CHECKING:

        def forward(self, input: Any, hx: Any = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]: ...

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        settings = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *settings)


class RNNCellBase(Module):
    """One step of a recurrent layer."""

    def _make(self, mode, input_size, hidden_size, bias, device, dtype):
        self.input_size, self.hidden_size = size(self, "input_size", input_size), size(self, "hidden_size", hidden_size, 1)
        self._kind, self.bias = mode, bias
        rows = _CELLS[mode][1] * self.hidden_size
        self.weight_ih, self.weight_hh = parameter(rows, self.input_size), parameter(rows, self.hidden_size)
        self.register_parameter("bias_ih", parameter(rows) if bias else None)
        self.register_parameter("bias_hh", parameter(rows) if bias else None)
        self.reset_parameters()
        placed(self, device, dtype)

    def reset_parameters(self) -> None:
        """Uniform in ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def _step(self, input, state):
        if input.ndim not in (1, 2):
            raise value_error(f"{type(self).__name__}: expected 1 or 2 dimensions, not {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise value_error(f"{type(self).__name__}: expected inputs of size {self.input_size}, not {input.shape[-1]}")
        if state is None:
            zero = _native.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype)
            state = (zero,) * _CELLS[self._kind][2]
        of_input, of_state = _biases(self._kind, self.bias_ih, self.bias_hh)
        return _CELLS[self._kind][0](input.linear(self.weight_ih, of_input), state, self.weight_hh, of_state, None)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text = text if self.bias else f"{text}, bias={self.bias}"
        return text if getattr(self, "nonlinearity", "tanh") == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of Elman's network.

    >>> tw.nn.RNNCell(3, 4)(tw.ones(2, 3)).shape
    talweg.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if nonlinearity not in ("tanh", "relu"):
            raise value_error(f"RNNCell: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
        self.nonlinearity = nonlinearity
        self._make(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        return self._step(input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    >>> h, c = tw.nn.LSTMCell(3, 4)(tw.ones(2, 3))
    >>> h.shape, c.shape
    (talweg.Size([2, 4]), talweg.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._make("LSTM", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        return self._step(input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> tw.nn.GRUCell(3, 4)(tw.ones(2, 3)).shape
    talweg.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._make("GRU", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        return self._step(input, None if hx is None else (hx,))[0]


check(globals(), __all__)
