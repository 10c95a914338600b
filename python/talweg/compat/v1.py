"""TensorFlow 1's names, for programs that define a graph and then run it.

``import talweg.compat.v1 as tf`` in place of ``import tensorflow as tf``. What ``Session.run`` returns are
NumPy arrays, as there.
"""

import types

import talweg as _tw
from talweg import *  # noqa: F403
from talweg import Session as _Session
from talweg import Tensor, Update, train  # noqa: F401
from talweg import bool, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, zeros, ones, matmul  # noqa: F401
from talweg import placeholder  # noqa: F401

_initial = []


class Variable:
    """A trained variable; ``initialize_all_variables`` gives it its first value again."""

    def __new__(cls, initial_value, trainable=True, name="", dtype=None):
        initial = initial_value if isinstance(initial_value, Tensor) else _tw.tensor(initial_value, dtype)
        variable = _tw.Variable(initial, trainable=trainable, name=name, dtype=dtype)
        _initial.append((variable, initial))
        return variable


def random_uniform(shape, minval=0.0, maxval=1.0, dtype=float32, seed=None):
    """Uniform random numbers."""
    if seed is not None:
        _tw.manual_seed(seed)
    return _tw.uniform(shape, minval, maxval, dtype=dtype)


def random_normal(shape, mean=0.0, stddev=1.0, dtype=float32, seed=None):
    """Normal random numbers."""
    if seed is not None:
        _tw.manual_seed(seed)
    return _tw.randn(shape, dtype=dtype) * stddev + mean


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=float32):
    """Normal random numbers of at most two standard deviations."""
    key = _tw.random_key()
    return _tw.Tensor.random_truncated_normal(key, shape, -2.0, 2.0).astype(dtype) * stddev + mean


def constant(value, dtype=None, shape=None):
    """A tensor of given numbers."""
    t = _tw.tensor(value, dtype)
    return t if shape is None else t.broadcast_to(shape)


def global_variables_initializer():
    """The update that gives every variable its first value."""
    return Update(list(_initial))


initialize_all_variables = global_variables_initializer


def reduce_mean(x, axis=None, keepdims=False):
    """The mean along axes."""
    return x.mean(axis, keepdims)


def reduce_sum(x, axis=None, keepdims=False):
    """The sum along axes."""
    return x.sum(axis, keepdims)


def reduce_max(x, axis=None, keepdims=False):
    """The largest element along axes."""
    return x.amax(axis, keepdims)


def cast(x, dtype):
    """Converted to another element type."""
    return x.astype(dtype)


def assign(variable, value):
    """The update that gives a variable a value."""
    return Update([(variable, value)])


def argmax(x, axis=0):
    """The place of the largest element."""
    return x.argmax(axis)


def equal(a, b):
    """True where both are the same."""
    return a == b


def group(*updates):
    """Several fetches as one."""
    return list(updates)


def while_loop(cond, body, loop_vars, maximum_iterations=None):
    """``loop_vars = body(*loop_vars)`` while ``cond(*loop_vars)`` holds; gradients flow through it.

    At most ``maximum_iterations`` times, as in TensorFlow.
    """

    def listed(values):
        return list(values) if isinstance(values, (list, tuple)) else [values]

    def test(state):
        go_on = cond(*state[1])
        return go_on if maximum_iterations is None else go_on & (state[0] < maximum_iterations)

    def step(state):
        return [state[0] + 1, listed(body(*state[1]))]

    start = [v if isinstance(v, Tensor) else _tw.tensor(v) for v in loop_vars]
    last = _tw.while_loop(test, step, [_tw.tensor(0), start])[1]
    return last[0] if len(last) == 1 else last


class Session(_Session):
    """Runs graphs and returns NumPy arrays."""

    def run(self, fetches, feed_dict=None):
        return _arrays(super().run(fetches, feed_dict))


def _arrays(value):
    if isinstance(value, dict):
        return {k: _arrays(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_arrays(v) for v in value)
    return value.numpy() if isinstance(value, Tensor) else value


def _softmax_cross_entropy(logits, labels):
    return logits.softmax_cross_entropy(labels, -1)


def _sparse_cross_entropy(labels, logits):
    return logits.cross_entropy(labels, reduction="none")


nn = types.SimpleNamespace(
    relu=Tensor.relu,
    relu6=Tensor.relu6,
    elu=Tensor.elu,
    sigmoid=Tensor.sigmoid,
    tanh=Tensor.tanh,
    softmax=Tensor.softmax,
    log_softmax=Tensor.log_softmax,
    softplus=Tensor.softplus,
    softmax_cross_entropy_with_logits=_softmax_cross_entropy,
    sparse_softmax_cross_entropy_with_logits=_sparse_cross_entropy,
    bias_add=Tensor.add,
)
