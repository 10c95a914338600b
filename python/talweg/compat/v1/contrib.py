"""``tf.contrib``: the parts that most programs take from it: initializers, regularizers, layers, cells."""

# mypy: ignore-errors
from __future__ import annotations

import types
from typing import Any

from . import initializers, maths, nn, rnn, rnn_cell
from . import layers as _layers
from .errors import unimplemented
from .graph import Tensor


def l2_regularizer(scale: float, scope: Any = None) -> Any:
    """``scale`` times half the sum of squares."""
    return (lambda _: None) if scale == 0.0 else lambda w: maths.multiply(nn.l2_loss(w), scale)


def l1_regularizer(scale: float, scope: Any = None) -> Any:
    """``scale`` times the sum of absolute values."""
    return (lambda _: None) if scale == 0.0 else lambda w: maths.multiply(maths.reduce_sum(maths.abs(w)), scale)


def xavier_initializer(uniform: bool = True, seed: Any = None, dtype: Any = "float32") -> Any:
    """Glorot's initializer."""
    return initializers.VarianceScaling(1.0, "fan_avg", "uniform" if uniform else "truncated_normal", seed, dtype)


def variance_scaling_initializer(factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: Any = None, dtype: Any = "float32") -> Any:
    """He's initializer by default."""
    return initializers.VarianceScaling(factor, mode.lower(), "uniform" if uniform else "truncated_normal", seed, dtype)


def fully_connected(inputs: Any, num_outputs: int, activation_fn: Any = nn.relu, normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = None, weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros, biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None) -> Tensor:
    """A dense layer, with ReLU unless ``activation_fn`` says otherwise."""
    return _finished(
        lambda use_bias: _layers.dense(inputs, num_outputs, use_bias=use_bias, kernel_initializer=weights_initializer or xavier_initializer(), kernel_regularizer=weights_regularizer, bias_initializer=biases_initializer or initializers.Zeros, trainable=trainable, name=scope, reuse=reuse),
        activation_fn, normalizer_fn, normalizer_params, biases_initializer,
    )  # fmt: skip


def conv2d(inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME", data_format: Any = None, rate: Any = 1, activation_fn: Any = nn.relu, normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = None, weights_regularizer: Any = None, biases_initializer: Any = initializers.Zeros, biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None) -> Tensor:
    """A convolution, with ReLU unless ``activation_fn`` says otherwise."""
    form = "channels_first" if data_format == "NCHW" else "channels_last"
    return _finished(
        lambda use_bias: _layers.conv2d(inputs, num_outputs, kernel_size, stride, padding.lower(), form, rate, use_bias=use_bias, kernel_initializer=weights_initializer or xavier_initializer(), kernel_regularizer=weights_regularizer, bias_initializer=biases_initializer or initializers.Zeros, trainable=trainable, name=scope, reuse=reuse),
        activation_fn, normalizer_fn, normalizer_params, biases_initializer,
    )  # fmt: skip


def _finished(layer: Any, activation: Any, normalizer: Any, settings: Any, bias: Any) -> Tensor:
    y = layer(normalizer is None and bias is not None)
    if normalizer is not None:
        y = normalizer(y, **(settings or {}))
    return y if activation is None else activation(y)


def batch_norm(inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001, activation_fn: Any = None, param_initializers: Any = None, param_regularizers: Any = None, updates_collections: Any = "update_ops", is_training: Any = True, reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, fused: Any = None, data_format: str = "NHWC", scope: Any = None, **_: Any) -> Tensor:
    """Batch normalization whose updates are in ``UPDATE_OPS``."""
    if updates_collections != "update_ops":
        raise unimplemented("contrib.layers.batch_norm(updates_collections=None): run the operations of tf.GraphKeys.UPDATE_OPS")
    axis = 1 if data_format == "NCHW" else -1
    y = _layers.batch_normalization(inputs, axis, decay, epsilon, center, scale, training=is_training, trainable=trainable, name=scope, reuse=reuse)
    return y if activation_fn is None else activation_fn(y)


def dropout(inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True, outputs_collections: Any = None, scope: Any = None, seed: Any = None) -> Tensor:
    """Dropout in training."""
    return _layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, training=is_training)


def max_pool2d(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The maximum of windows."""
    return nn.max_pool(inputs, kernel_size, stride, padding, data_format, scope)


def avg_pool2d(inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """The mean of windows."""
    return nn.avg_pool(inputs, kernel_size, stride, padding, data_format, scope)


def sequence_loss(logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True, average_across_batch: bool = True, softmax_loss_function: Any = None, name: str | None = None) -> Tensor:
    """Weighted cross entropy of sequences."""
    each = nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits) * weights
    if average_across_timesteps and average_across_batch:
        return maths.reduce_sum(each) / (maths.reduce_sum(weights) + 1e-12)
    if average_across_batch:
        return maths.reduce_sum(each, 0) / (maths.reduce_sum(weights, 0) + 1e-12)
    if average_across_timesteps:
        return maths.reduce_sum(each, 1) / (maths.reduce_sum(weights, 1) + 1e-12)
    return each


layers = types.SimpleNamespace(
    l1_regularizer=l1_regularizer,
    l2_regularizer=l2_regularizer,
    xavier_initializer=xavier_initializer,
    xavier_initializer_conv2d=xavier_initializer,
    variance_scaling_initializer=variance_scaling_initializer,
    fully_connected=fully_connected,
    linear=lambda inputs, num_outputs, **settings: fully_connected(inputs, num_outputs, activation_fn=None, **settings),
    conv2d=conv2d,
    batch_norm=batch_norm,
    dropout=dropout,
    flatten=_layers.flatten,
    max_pool2d=max_pool2d,
    avg_pool2d=avg_pool2d,
)
rnn = types.SimpleNamespace(**{k: v for k, v in vars(rnn_cell).items() if isinstance(v, type)}, static_rnn=rnn.static_rnn)
seq2seq = types.SimpleNamespace(sequence_loss=sequence_loss)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"talweg.compat.v1.contrib has layers, rnn and seq2seq.sequence_loss, not {name!r}")
