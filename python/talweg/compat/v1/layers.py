"""``tf.layers``: functions that make their variables, and the classes behind them."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any, Callable

from . import graph as g
from . import nn
from .arrays import reshape, shape
from .control_flow import cond
from .errors import invalid, wrong_shape
from .graph import GraphKeys, Tensor, convert_to_tensor, get_default_graph
from .initializers import Ones, Zeros
from .maths import tensordot
from .nn import _pair
from .variables import Variable, assign_sub, get_variable, get_variable_scope, snake, variable_scope


class Layer:
    """A layer: variables are made at the first call and shared by later ones."""

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, _scope: Any = None, _reuse: Any = None, **_: Any):
        self.trainable, self._wanted, self._scope, self._reuse, self.built = trainable, name or _scope, None, _reuse, False
        self.weights: list[Variable] = []
        self._base = type(self).__name__

    def build(self, input_shape: Any) -> None:
        """Makes the variables."""
        self.built = True

    def call(self, inputs: Any, **settings: Any) -> Any:
        """The layer itself."""
        raise NotImplementedError

    def add_weight(self, name: str, shape: Any, initializer: Any = None, regularizer: Any = None, trainable: bool = True, constraint: Any = None, dtype: Any = None) -> Variable:
        """A variable of the layer."""
        v = get_variable(name, shape, dtype or self._dtype, initializer, regularizer, trainable and self.trainable, constraint=constraint)
        self.weights.append(v)
        return v

    add_variable = add_weight

    def __call__(self, inputs: Any, *args: Any, **settings: Any) -> Any:
        """The layer of an input."""
        x = convert_to_tensor(inputs)
        self._dtype = x.dtype
        if self._scope is None:
            name = self._wanted
            with variable_scope(name, default_name=None if name else snake(self._base), reuse=self._reuse) as entered:
                self._scope = entered
                self.name = entered.name
                self.build(x.shape)
                self.built = True
                return self.call(x, *args, **settings)
        graph, old = get_default_graph(), get_variable_scope()
        graph.variable_scope = self._scope
        try:
            with graph.name_scope(self._scope.name.rsplit("/", 1)[-1]):
                return self.call(x, *args, **settings)
        finally:
            graph.variable_scope = old

    apply = __call__
    variables = property(lambda self: list(self.weights))
    trainable_variables = property(lambda self: [v for v in self.weights if v.trainable])
    trainable_weights = trainable_variables
    non_trainable_variables = property(lambda self: [v for v in self.weights if not v.trainable])
    updates = property(lambda self: self.__dict__.get("_updates", []))


def _last(input_shape: Any, axis: int = -1) -> int:
    size = input_shape.as_list()[axis]
    if size is None:
        raise wrong_shape(f"the size of axis {axis} of the inputs, {input_shape}, must be known")
    return size


class Dense(Layer):
    """``activation(x @ kernel + bias)``."""

    def __init__(self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None, bias_initializer: Any = Zeros, kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **settings: Any):
        super().__init__(trainable, name, **settings)
        self.units, self.activation, self.use_bias = units, activation, use_bias
        self._k = dict(initializer=kernel_initializer, regularizer=kernel_regularizer, constraint=kernel_constraint)
        self._b = dict(initializer=bias_initializer, regularizer=bias_regularizer, constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        self.kernel = self.add_weight("kernel", [_last(input_shape), self.units], **self._k)
        self.bias = self.add_weight("bias", [self.units], **self._b) if self.use_bias else None

    def call(self, inputs: Any, **settings: Any) -> Any:
        """The layer itself."""
        y = nn.matmul(inputs, self.kernel) if len(inputs.shape) == 2 else tensordot(inputs, self.kernel, 1)
        y = y if self.bias is None else nn.bias_add(y, self.bias)
        return y if self.activation is None else self.activation(y)


class Conv2D(Layer):
    """A convolution of images."""

    _rank = 2

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str = "channels_last", dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None, bias_initializer: Any = Zeros, kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **settings: Any):
        super().__init__(trainable, name, **settings)
        self.filters, self.padding, self.data_format = filters, padding.upper(), data_format
        self.first = data_format == "channels_first"
        n = self._rank
        self.kernel_size, self.strides, self.dilation = ([v] * n if isinstance(v, int) else list(v) for v in (kernel_size, strides, dilation_rate))
        self.activation, self.use_bias = activation, use_bias
        self._k = dict(initializer=kernel_initializer, regularizer=kernel_regularizer, constraint=kernel_constraint)
        self._b = dict(initializer=bias_initializer, regularizer=bias_regularizer, constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        channels = _last(input_shape, 1 if self.first else -1)
        self.kernel = self.add_weight("kernel", [*self.kernel_size, channels, self.filters], **self._k)
        self.bias = self.add_weight("bias", [self.filters], **self._b) if self.use_bias else None

    def _convolved(self, x: Any) -> Any:
        return nn.conv2d(x, self.kernel, self.strides, self.padding, data_format="NCHW" if self.first else "NHWC", dilations=self.dilation)

    def call(self, inputs: Any, **settings: Any) -> Any:
        """The layer itself."""
        y = self._convolved(inputs)
        y = y if self.bias is None else nn.bias_add(y, self.bias, "NCHW" if self.first else "NHWC")
        return y if self.activation is None else self.activation(y)


class Conv1D(Conv2D):
    """A convolution of sequences."""

    _rank = 1

    def _convolved(self, x: Any) -> Any:
        return nn.conv1d(x, self.kernel, self.strides[0], self.padding, data_format="NCW" if self.first else None, dilations=self.dilation[0])


class Conv2DTranspose(Conv2D):
    """A transposed convolution of images."""

    def build(self, input_shape: Any) -> None:
        """Makes kernel and bias."""
        channels = _last(input_shape, 1 if self.first else -1)
        self.kernel = self.add_weight("kernel", [*self.kernel_size, self.filters, channels], **self._k)
        self.bias = self.add_weight("bias", [self.filters], **self._b) if self.use_bias else None

    def _convolved(self, x: Any) -> Any:
        now, at = shape(x), 2 if self.first else 1
        known = x.shape.as_list()

        def size(i: int) -> Any:
            n = known[at + i] if known[at + i] is not None else now[at + i]
            grown = n * self.strides[i]
            return grown + max(self.kernel_size[i] - self.strides[i], 0) if self.padding == "VALID" else grown

        batch = known[0] if known[0] is not None else now[0]
        target = [batch, self.filters, size(0), size(1)] if self.first else [batch, size(0), size(1), self.filters]
        return nn.conv2d_transpose(x, self.kernel, target, self.strides, self.padding, "NCHW" if self.first else "NHWC")


class SeparableConv2D(Conv2D):
    """A depthwise convolution, then one of 1×1."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str = "channels_last", dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None, use_bias: bool = True, depthwise_initializer: Any = None, pointwise_initializer: Any = None, bias_initializer: Any = Zeros, name: str | None = None, **settings: Any):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, None, bias_initializer, name=name, **settings)
        self._multiplier, self._inits = depth_multiplier, (depthwise_initializer, pointwise_initializer)

    def build(self, input_shape: Any) -> None:
        """Makes both kernels and the bias."""
        channels = _last(input_shape, 1 if self.first else -1)
        self.depthwise_kernel = self.add_weight("depthwise_kernel", [*self.kernel_size, channels, self._multiplier], self._inits[0])
        self.pointwise_kernel = self.add_weight("pointwise_kernel", [1, 1, channels * self._multiplier, self.filters], self._inits[1])
        self.bias = self.add_weight("bias", [self.filters], **self._b) if self.use_bias else None

    def _convolved(self, x: Any) -> Any:
        form = "NCHW" if self.first else "NHWC"
        return nn.separable_conv2d(x, self.depthwise_kernel, self.pointwise_kernel, _pair(self.strides, self.first, "strides"), self.padding, self.dilation, data_format=form)


class BatchNormalization(Layer):
    """Normalized by the batch in training and by moving averages otherwise.

    The operations that update the averages are in ``UPDATE_OPS``; a training step must run them.
    """

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True, beta_initializer: Any = Zeros, gamma_initializer: Any = Ones, moving_mean_initializer: Any = Zeros, moving_variance_initializer: Any = Ones, beta_regularizer: Any = None, gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None, renorm: bool = False, renorm_clipping: Any = None, renorm_momentum: float = 0.99, fused: Any = None, trainable: bool = True, name: str | None = None, virtual_batch_size: Any = None, adjustment: Any = None, **settings: Any):
        super().__init__(trainable, name, **settings)
        if renorm or virtual_batch_size is not None or adjustment is not None:
            from .errors import unimplemented

            raise unimplemented("batch_normalization with renorm, virtual_batch_size or adjustment")
        self.axis, self.momentum, self.epsilon, self.center, self.scale = axis, momentum, epsilon, center, scale
        self._inits = (beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer)
        self._decays = (beta_regularizer, gamma_regularizer)

    def build(self, input_shape: Any) -> None:
        """Makes scale, offset and averages."""
        n = [_last(input_shape, self.axis if isinstance(self.axis, int) else self.axis[0])]
        self.gamma = self.add_weight("gamma", n, self._inits[1], self._decays[1]) if self.scale else None
        self.beta = self.add_weight("beta", n, self._inits[0], self._decays[0]) if self.center else None
        self.moving_mean = self.add_weight("moving_mean", n, self._inits[2], trainable=False)
        self.moving_variance = self.add_weight("moving_variance", n, self._inits[3], trainable=False)

    def call(self, inputs: Any, training: Any = False) -> Any:
        """The layer itself."""
        rank = len(inputs.shape)
        at = (self.axis if isinstance(self.axis, int) else self.axis[0]) % rank
        axes = [i for i in range(rank) if i != at]
        is_static = isinstance(training, (bool, int))
        if is_static and not training:
            mean, variance = self.moving_mean.read_value(), self.moving_variance.read_value()
        else:
            mean, variance = nn.moments(inputs, axes)
            used = variance
            if rank == 4 and at in (1, 3):  # TensorFlow's fused kernel keeps the unbiased variance of images
                count = nn.cast(_count(inputs, axes), inputs.dtype)
                used = variance * (count / (count - 1.0))
            if not is_static:
                flag = convert_to_tensor(training, "bool")
                own, old = (mean, variance), (self.moving_mean, self.moving_variance)
                mean, variance = cond(flag, lambda: own, lambda: tuple(v.read_value() for v in old))
                keep = cond(flag, lambda: convert_to_tensor(1.0 - self.momentum), lambda: convert_to_tensor(0.0))
                self._update((own[0], used), keep)
            else:
                self._update((mean, used), 1.0 - self.momentum)
        form = [1] * rank
        form[at] = -1
        parts = [None if p is None else reshape(p, form) for p in (mean, variance, self.beta, self.gamma)]
        return nn.batch_normalization(inputs, *parts, self.epsilon)

    def _update(self, moments: Any, keep: Any) -> None:
        averages = (self.moving_mean, self.moving_variance)
        made = [assign_sub(v, (v - m) * keep) for v, m in zip(averages, moments)]
        self.__dict__.setdefault("_updates", []).extend(t.op for t in made)
        for t in made:
            g.add_to_collection(GraphKeys.UPDATE_OPS, t.op)


def _count(x: Tensor, axes: list[int]) -> Tensor:
    sizes = shape(x)
    n = sizes[axes[0]]
    for a in axes[1:]:
        n = n * sizes[a]
    return n


class Dropout(Layer):
    """Dropout with probability ``rate`` in training."""

    def __init__(self, rate: Any = 0.5, noise_shape: Any = None, seed: Any = None, name: str | None = None, **settings: Any):
        super().__init__(name=name, **settings)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Any, training: Any = False) -> Any:
        """The layer itself."""
        dropped = lambda: nn.dropout(inputs, rate=self.rate, noise_shape=self.noise_shape, seed=self.seed)  # noqa: E731
        if isinstance(training, (bool, int)):
            return dropped() if training else inputs * 1.0
        return cond(convert_to_tensor(training, "bool"), dropped, lambda: inputs * 1.0)


class Flatten(Layer):
    """All dimensions but the first as one."""

    def __init__(self, data_format: Any = "channels_last", **settings: Any):
        super().__init__(**settings)

    def call(self, inputs: Any, **_: Any) -> Any:
        """The layer itself."""
        rest = inputs.shape.as_list()[1:]
        if None in rest:
            return reshape(inputs, [shape(inputs)[0], -1])
        first = inputs.shape.as_list()[0]
        return reshape(inputs, [-1 if first is None else first, math.prod(rest)])


def _layer(kind: type, wants_training: bool = False) -> Callable[..., Any]:
    """The function of a layer's class."""

    def call(inputs: Any, *args: Any, training: Any = False, reuse: Any = None, **settings: Any) -> Any:
        made = kind(*args, _reuse=reuse, **settings)
        return made(inputs, training=training) if wants_training else made(inputs)

    call.__name__ = snake(kind.__name__)
    call.__doc__ = f"``{kind.__name__}(...)`` of inputs; ``reuse`` shares variables of the same name."
    return call


dense, conv2d, conv1d, flatten = _layer(Dense), _layer(Conv2D), _layer(Conv1D), _layer(Flatten)
conv2d_transpose, separable_conv2d = _layer(Conv2DTranspose), _layer(SeparableConv2D)
batch_normalization, dropout = _layer(BatchNormalization, True), _layer(Dropout, True)


def _pool(kind: str, f: Callable[..., Any]) -> Callable[..., Any]:
    def call(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last", name: str | None = None) -> Any:
        return f(inputs, pool_size, strides, padding.upper(), "NCHW" if data_format == "channels_first" else "NHWC", name)

    call.__doc__ = f"The {kind} of windows of images."
    return call


max_pooling2d, average_pooling2d = _pool("maximum", nn.max_pool), _pool("mean", nn.avg_pool)


def _pool1d(f: Callable[..., Any]) -> Callable[..., Any]:
    def call(inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last", name: str | None = None) -> Any:
        from .arrays import expand_dims, squeeze

        if data_format != "channels_last":
            raise invalid("pooling of sequences wants channels_last")
        k, s = (v if isinstance(v, int) else v[0] for v in (pool_size, strides))
        return squeeze(f(expand_dims(inputs, 2), [k, 1], [s, 1], padding.upper(), "NHWC", name), [2])

    call.__doc__ = "Windows of sequences."
    return call


max_pooling1d, average_pooling1d = _pool1d(nn.max_pool), _pool1d(nn.avg_pool)
