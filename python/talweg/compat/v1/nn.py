"""``tf.nn``: layers of neural networks as functions. Images are NHWC unless ``data_format`` says NCHW."""

# mypy: ignore-errors
from __future__ import annotations

import collections
from typing import Any, Callable

import talweg as tw

from ... import _native
from . import rnn_cell  # noqa: F401
from .arrays import _sizes, ints, reshape, shape
from .dtypes import FLOAT32, INT32, INT64, int32
from .errors import invalid, unimplemented, wrong_shape, wrong_type
from .graph import Tensor, convert_to_tensor, make
from .infer import shape_value
from .maths import (  # noqa: F401
    add,
    cast,
    exp,
    floating,
    log_sigmoid,
    matmul,
    reduce_mean,
    reduce_sum,
    rsqrt,
    same_type,
    sigmoid,
    softplus,
    softsign,
    square,
    tanh,
)
from .randoms import drawn
from .rnn import bidirectional_dynamic_rnn, dynamic_rnn, static_rnn  # noqa: F401
from .sampling import (  # noqa: F401
    fixed_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    nce_loss,
    sampled_softmax_loss,
    uniform_candidate_sampler,
)
from .shapes import TensorShape

_T = _native.Tensor

relu = floating("Relu", lambda x: x.relu())
relu6 = floating("Relu6", lambda x: x.relu().clamp_max(6.0))
elu = floating("Elu", lambda x: x.elu())
selu = floating("Selu", lambda x: x.selu())
swish = floating("Swish", lambda x: x * x.sigmoid())


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """``x``, and ``alpha * x`` where it is negative."""
    x = convert_to_tensor(features)
    return make("LeakyRelu", [x], lambda ctx, v: tw.where(v > 0, v, v * alpha), name, x.dtype, x.shape)


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """``relu`` of ``x`` and of ``-x`` side by side."""
    return make("CRelu", [convert_to_tensor(features)], lambda ctx, v: tw.concat([v.relu(), (-v).relu()], axis), name)


def _over_axis(kind: str, f: Callable[..., Any]) -> Callable[..., Tensor]:
    def call(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
        x = convert_to_tensor(logits)
        a = axis if axis is not None else -1 if dim is None else dim
        return make(kind, [x], lambda ctx, v: f(v, a), name, x.dtype, x.shape)

    call.__doc__ = f"TensorFlow's ``{kind}`` along an axis, the last one if none is given."
    return call


softmax = _over_axis("Softmax", lambda v, a: v.softmax(a))
log_softmax = _over_axis("LogSoftmax", lambda v, a: v.log_softmax(a))


# Losses of logits.


def softmax_cross_entropy_with_logits_v2(_sentinel: Any = None, labels: Any = None, logits: Any = None, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """``-Σ labels log softmax(logits)``. Gradients flow to both."""
    if _sentinel is not None or labels is None or logits is None:
        raise invalid("softmax_cross_entropy_with_logits: pass labels= and logits= by name")
    y, x = convert_to_tensor(labels), convert_to_tensor(logits)
    same_type("softmax_cross_entropy_with_logits", y, x)
    a = axis if axis is not None else -1 if dim is None else dim
    joined = _merged("softmax_cross_entropy_with_logits", x, y)
    sizes = None if joined.ndims is None else [d for i, d in enumerate(joined.sizes) if i != a % len(joined)]
    lower = lambda ctx, p, v: -(p * v.log_softmax(a)).sum(a)  # noqa: E731
    return make("SoftmaxCrossEntropyWithLogits", [y, x], lower, name, x.dtype, TensorShape(sizes))


def softmax_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None, axis: Any = None) -> Tensor:
    """``-Σ labels log softmax(logits)``. No gradient flows to the labels.

    Without names the arguments are ``(logits, labels)``, as before TensorFlow 1.0.
    """
    from .arrays import stop_gradient

    if _sentinel is not None:
        if logits is not None or labels is None:
            raise invalid("softmax_cross_entropy_with_logits: pass labels= and logits= by name")
        logits = _sentinel
    if labels is None:
        raise invalid("softmax_cross_entropy_with_logits: pass labels= and logits= by name")
    return softmax_cross_entropy_with_logits_v2(None, stop_gradient(labels), logits, axis if axis is not None else dim, name)


def _merged(what: str, a: Tensor, b: Tensor) -> TensorShape:
    try:
        return a.shape.merge_with(b.shape)
    except ValueError:
        raise wrong_shape(f"{what}: logits of shape {a.shape} and labels of shape {b.shape} differ") from None


def sparse_softmax_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Cross entropy with class numbers."""
    if _sentinel is not None or labels is None or logits is None:
        raise invalid("sparse_softmax_cross_entropy_with_logits: pass labels= and logits= by name")
    y, x = convert_to_tensor(labels), convert_to_tensor(logits)
    if not y.dtype.is_integer:
        raise wrong_type(f"sparse_softmax_cross_entropy_with_logits: labels are {y.dtype.name}, not integers")
    if y.shape.ndims is not None and x.shape.ndims is not None and len(y.shape) != len(x.shape) - 1:
        raise wrong_shape(f"labels of shape {y.shape} for logits of shape {x.shape}: one dimension less is wanted")
    rows = x.shape[:-1] if x.shape.ndims is not None else TensorShape(None)

    def lower(ctx: Any, t: Any, v: Any) -> Any:
        return -v.log_softmax(-1).gather(v.ndim - 1, t.to(INT64).unsqueeze(-1)).squeeze(v.ndim - 1)

    return make("SparseSoftmaxCrossEntropyWithLogits", [y, x], lower, name, x.dtype, y.shape.merge_with(rows))


def sigmoid_cross_entropy_with_logits(_sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Cross entropy of independent probabilities ``sigmoid(logits)``."""
    if _sentinel is not None or labels is None or logits is None:
        raise invalid("sigmoid_cross_entropy_with_logits: pass labels= and logits= by name")
    y, x = same_type("sigmoid_cross_entropy_with_logits", labels, logits)
    lower = lambda ctx, p, v: v.relu() - v * p + (-v.abs()).exp().log1p()  # noqa: E731
    return make("LogisticLoss", [y, x], lower, name, x.dtype, _merged("sigmoid_cross_entropy_with_logits", x, y))


def weighted_cross_entropy_with_logits(targets: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, labels: Any = None) -> Tensor:
    """``sigmoid_cross_entropy_with_logits`` with a weight for positive labels."""
    y, x = same_type("weighted_cross_entropy_with_logits", targets if targets is not None else labels, logits)
    w = convert_to_tensor(pos_weight, x.dtype)

    def lower(ctx: Any, p: Any, v: Any, weight: Any) -> Any:
        return (1 - p) * v + (1 + (weight - 1) * p) * ((-v.abs()).exp().log1p() + (-v).relu())

    return make("WeightedLogisticLoss", [y, x, w], lower, name, x.dtype, _merged("weighted_cross_entropy_with_logits", x, y))


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """``exp(c) - z c`` of targets ``z`` and inputs ``c``."""
    z, c = same_type("log_poisson_loss", targets, log_input)
    return exp(c) - z * c


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares."""
    x = convert_to_tensor(t)
    return make("L2Loss", [x], lambda ctx, v: (v * v).sum() / 2, name, x.dtype, [])


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """``x`` over its norm along axes."""
    from .maths import maximum

    t = convert_to_tensor(x)
    return t * rsqrt(maximum(reduce_sum(square(t), axis if axis is not None else dim, True), epsilon))


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The share of zeros."""
    x = convert_to_tensor(value)
    return make("ZeroFraction", [x], lambda ctx, v: (v == 0).to(FLOAT32).mean(), name, "float32", [])


# Convolutions and pools.


def _pair(x: Any, channels_first: bool, what: str) -> list[int]:
    listed = [x] * 2 if isinstance(x, int) else [int(v) for v in x]
    if len(listed) == 1:
        return listed * 2
    if len(listed) == 4:
        spatial = listed[2:] if channels_first else listed[1:3]
        if listed[0] != 1 or listed[1 if channels_first else 3] != 1:
            raise invalid(f"{what}: {listed} in the batch or channels")
        return spatial
    return listed


def _same(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding before and after, so that the output has ``ceil(size / stride)`` elements."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def padded(v: Any, window: Any, stride: Any, padding: Any, dilation: Any = (1, 1), value: float = 0.0) -> Any:
    """NCHW images with the padding that ``"SAME"`` or ``"VALID"`` means, or explicit pairs."""
    if isinstance(padding, (list, tuple)):
        pairs = [tuple(p) for p in padding][-2:] if len(padding) == 2 else [tuple(p) for p in padding]
        pairs = [p for p in pairs if p != (0, 0)] and pairs[-2:]
    elif padding.upper() == "VALID":
        return v
    elif padding.upper() == "SAME":
        pairs = [_same(v.shape[2 + i], window[i], stride[i], dilation[i]) for i in range(len(window))]
    else:
        raise invalid(f"padding is 'SAME' or 'VALID', not {padding!r}")
    flat = [n for pair in reversed(pairs or []) for n in pair]
    return v.pad(flat, "constant", value) if any(flat) else v


def _images(data_format: Any) -> bool:
    if data_format not in (None, "NHWC", "NCHW", "channels_last", "channels_first"):
        raise invalid(f"data_format is 'NHWC' or 'NCHW', not {data_format!r}")
    return data_format in ("NCHW", "channels_first")


def _nchw(f: Callable[[Any], Any], first: bool) -> Callable[[Any], Any]:
    """A function of NCHW images for either layout."""
    return f if first else lambda v: f(v.permute([0, 3, 1, 2])).permute([0, 2, 3, 1])


def conv2d(input: Any, filter: Any = None, strides: Any = None, padding: Any = None, use_cudnn_on_gpu: bool = True, data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1), name: str | None = None, filters: Any = None) -> Tensor:
    """Convolution with filters of shape ``[height, width, in, out]``."""
    first = _images(data_format)
    x, w = same_type("conv2d", input, filter if filter is not None else filters)
    s, d = _pair(strides, first, "conv2d strides"), _pair(dilations, first, "conv2d dilations")
    _check_channels(x, w, first)

    def lower(ctx: Any, v: Any, k: Any) -> Any:
        window = k.shape[:2]
        weight = k.permute([3, 2, 0, 1])
        groups = v.shape[1 if first else 3] // k.shape[2] if k.shape[2] else 1
        return _nchw(lambda v: padded(v, window, s, padding, d).conv2d(weight, None, s, [0, 0], d, groups), first)(v)

    return make("Conv2D", [x, w], lower, name)


def _check_channels(x: Tensor, w: Tensor, first: bool) -> None:
    if x.shape.ndims is None or w.shape.ndims is None:
        return
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise wrong_shape(f"conv2d: images and filters have four dimensions, not {x.shape} and {w.shape}")
    have, want = x.shape.sizes[1 if first else 3], w.shape.sizes[2]
    if have is None:
        x.set_shape([None, want, None, None] if first else [None, None, None, want])
    elif want is not None and have % want:
        raise wrong_shape(f"conv2d: images of shape {x.shape} have {have} channels, the filters {w.shape} want {want}")


def conv1d(value: Any = None, filters: Any = None, stride: Any = 1, padding: Any = None, use_cudnn_on_gpu: Any = None, data_format: Any = None, name: str | None = None, input: Any = None, dilations: Any = 1) -> Tensor:
    """Convolution of sequences with filters of shape ``[width, in, out]``."""
    first = data_format in ("NCW", "NCHW")
    x, w = same_type("conv1d", value if value is not None else input, filters)
    s = stride if isinstance(stride, int) else list(stride)[-1 if first else len(list(stride)) // 2]
    d = dilations if isinstance(dilations, int) else list(dilations)[-1]

    def lower(ctx: Any, v: Any, k: Any) -> Any:
        v = v if first else v.permute([0, 2, 1])
        v = padded(v, [k.shape[0]], [s], padding, [d])
        y = v.conv1d(k.permute([2, 1, 0]), None, [s], [0], [d])
        return y if first else y.permute([0, 2, 1])

    return make("Conv1D", [x, w], lower, name)


def conv3d(input: Any, filter: Any = None, strides: Any = None, padding: Any = None, data_format: str = "NDHWC", dilations: Any = (1, 1, 1, 1, 1), name: str | None = None) -> Tensor:
    """Convolution of volumes with filters of shape ``[depth, height, width, in, out]``."""
    x, w = same_type("conv3d", input, filter)
    if data_format != "NDHWC":
        raise unimplemented("conv3d: NCDHW; transpose the volumes")
    s, d = list(strides)[1:4], list(dilations)[1:4]

    def lower(ctx: Any, v: Any, k: Any) -> Any:
        v = padded(v.permute([0, 4, 1, 2, 3]), k.shape[:3], s, padding, d)
        return v.conv3d(k.permute([4, 3, 0, 1, 2]), None, s, [0] * 3, d).permute([0, 2, 3, 4, 1])

    return make("Conv3D", [x, w], lower, name)


def depthwise_conv2d(input: Any, filter: Any, strides: Any, padding: Any, rate: Any = None, name: str | None = None, data_format: Any = None) -> Tensor:
    """Each channel convolved with its own filters, of shape ``[height, width, in, multiplier]``."""
    first = _images(data_format)
    x, w = same_type("depthwise_conv2d", input, filter)
    s, d = _pair(strides, first, "depthwise_conv2d strides"), _pair(rate or 1, first, "rate")

    def lower(ctx: Any, v: Any, k: Any) -> Any:
        h, wd, c, m = k.shape
        weight = k.permute([2, 3, 0, 1]).reshape([c * m, 1, h, wd])
        return _nchw(lambda v: padded(v, (h, wd), s, padding, d).conv2d(weight, None, s, [0, 0], d, c), first)(v)

    return make("DepthwiseConv2d", [x, w], lower, name)


depthwise_conv2d_native = depthwise_conv2d


def separable_conv2d(input: Any, depthwise_filter: Any, pointwise_filter: Any, strides: Any, padding: Any, rate: Any = None, name: str | None = None, data_format: Any = None) -> Tensor:
    """A depthwise convolution, then one of 1×1."""
    deep = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, data_format=data_format)
    return conv2d(deep, pointwise_filter, [1, 1, 1, 1], "VALID", data_format=data_format or "NHWC", name=name)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Tensor:
    """A dilated convolution."""
    return conv2d(value, filters, [1, 1, 1, 1], padding, dilations=[1, rate, rate, 1], name=name)


def convolution(input: Any, filter: Any, padding: Any, strides: Any = None, dilation_rate: Any = None, name: str | None = None, data_format: Any = None) -> Tensor:
    """A convolution of sequences or images."""
    x = convert_to_tensor(input)
    if x.shape.ndims == 3:
        return conv1d(x, filter, (strides or [1])[0], padding, name=name, dilations=(dilation_rate or [1])[0])
    return conv2d(x, filter, strides or 1, padding, data_format=data_format or "NHWC", dilations=dilation_rate or 1, name=name)


def conv2d_transpose(value: Any = None, filter: Any = None, output_shape: Any = None, strides: Any = None, padding: Any = "SAME", data_format: str = "NHWC", name: str | None = None, input: Any = None, filters: Any = None) -> Tensor:
    """The gradient of ``conv2d`` with respect to its images; filters are ``[height, width, out, in]``."""
    first = _images(data_format)
    x, w = same_type("conv2d_transpose", value if value is not None else input, filter if filter is not None else filters)
    target, s = ints(output_shape), _pair(strides, first, "conv2d_transpose strides")

    def lower(ctx: Any, v: Any, k: Any, _: Any) -> Any:
        sizes = _sizes(ctx, target)
        spatial = sizes[2:] if first else sizes[1:3]

        def run(v: Any) -> Any:
            y = v.conv_transpose2d(k.permute([3, 2, 0, 1]), None, s)
            for i in range(2):
                before = 0 if padding.upper() == "VALID" else _same(spatial[i], k.shape[i], s[i])[0]
                missing = before + spatial[i] - y.shape[2 + i]
                if missing > 0:
                    y = y.pad([0, missing, 0, 0] if i else [0, 0, 0, missing])
                y = y.narrow(2 + i, before, spatial[i])
            return y

        return _nchw(run, first)(v)

    return make("Conv2DTranspose", [x, w, target], lower, name, x.dtype, shape_value(target))


def _pool(kind: str, f: Callable[..., Any]) -> Callable[..., Tensor]:
    def call(value: Any = None, ksize: Any = None, strides: Any = None, padding: Any = None, data_format: str = "NHWC", name: str | None = None, input: Any = None) -> Tensor:
        x, first = convert_to_tensor(value if value is not None else input), _images(data_format)
        k, s = _pair(ksize, first, kind), _pair(strides, first, kind)
        return make(kind, [x], lambda ctx, v: _nchw(lambda v: f(v, k, s, padding), first)(v), name)

    call.__doc__ = f"TensorFlow's ``{kind}`` of images."
    return call


def _max(v: Any, k: Any, s: Any, padding: Any) -> Any:
    return padded(v, k, s, padding, value=float("-inf")).max_pool2d(k, s)


def _avg(v: Any, k: Any, s: Any, padding: Any) -> Any:
    wide = padded(v, k, s, padding)
    y = wide.avg_pool2d(k, s)
    if wide is v:
        return y
    counted = padded(_native.ones([1, 1, *v.shape[2:]], dtype=v.dtype), k, s, padding)
    return y / counted.avg_pool2d(k, s)


max_pool, avg_pool = _pool("MaxPool", _max), _pool("AvgPool", _avg)


def bias_add(value: Any, bias: Any, data_format: Any = None, name: str | None = None) -> Tensor:
    """A bias for each channel."""
    x, b = same_type("bias_add", value, bias)
    first = data_format is not None and data_format.upper().startswith("NC")
    if b.shape.ndims is not None and len(b.shape) != 1:
        raise wrong_shape(f"bias_add: the bias has one dimension, not {b.shape}")
    if x.shape.ndims is not None:
        at = 1 if first else len(x.shape) - 1
        TensorShape([x.shape.sizes[at]]).merge_with(b.shape)
    lower = lambda ctx, v, c: v + (c.reshape([-1] + [1] * (v.ndim - 2)) if first else c)  # noqa: E731
    return make("BiasAdd", [x, b], lower, name, x.dtype, x.shape)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """``matmul(x, weights) + biases``."""
    return bias_add(matmul(x, weights), biases, name=name or "xw_plus_b")


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """``relu(matmul(x, weights) + biases)``."""
    return relu(xw_plus_b(x, weights, biases), name)


def dropout(x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: Any = None, name: str | None = None, rate: Any = None) -> Tensor:
    """Elements set to zero with probability ``1 - keep_prob``, the others scaled by ``1 / keep_prob``."""
    t = convert_to_tensor(x)
    if keep_prob is None and rate is None:
        raise invalid("dropout: give keep_prob or rate")
    if rate is not None:
        keep_prob = 1 - rate
    if isinstance(keep_prob, (int, float)):
        if not 0 < keep_prob <= 1:
            raise invalid(f"dropout: keep_prob is in (0, 1], not {keep_prob}")
        if keep_prob == 1:
            return t
    p = convert_to_tensor(keep_prob, t.dtype)
    target = shape(t) if noise_shape is None else ints(noise_shape)

    def f(ctx: Any, key: Any, v: Any, p: Any, _: Any) -> Any:
        u = _T.random_uniform(key, _sizes(ctx, target), 0.0, 1.0).to(v.dtype)
        return tw.where(u < p, v / p, v * 0)

    return drawn("Dropout", [t, p, target], f, seed, t.dtype, t.shape, name or "dropout")


# Normalization.

Moments = collections.namedtuple("Moments", ["mean", "variance"])


def moments(x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: Any = None, keepdims: Any = None) -> Any:
    """Mean and variance along axes."""
    from .arrays import squeeze
    from .maths import squared_difference

    t = convert_to_tensor(x)
    mean = reduce_mean(t, axes, True)
    variance = reduce_mean(squared_difference(t, mean), axes, True)
    if not (keep_dims or keepdims):
        listed = axes if isinstance(axes, int) else list(axes)
        mean, variance = squeeze(mean, listed), squeeze(variance, listed)
    return Moments(mean, variance)


def batch_normalization(x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``."""
    factor = rsqrt(convert_to_tensor(variance) + variance_epsilon)
    factor = factor if scale is None else factor * scale
    rest = -mean * factor if offset is None else offset - mean * factor
    return add(x * factor, rest, name or "batchnorm")


def fused_batch_norm(x: Any, scale: Any, offset: Any, mean: Any = None, variance: Any = None, epsilon: float = 0.001, data_format: str = "NHWC", is_training: bool = True, name: str | None = None) -> Any:
    """``batch_normalization`` of images by their own moments or given ones: output, mean, variance."""
    x, first = convert_to_tensor(x), _images(data_format)
    axes, form = ([0, 2, 3], [1, -1, 1, 1]) if first else ([0, 1, 2], [1, 1, 1, -1])
    if is_training:
        mean, variance = moments(x, axes)
    parts = [reshape(p, form) for p in (mean, variance, offset, scale)]
    return batch_normalization(x, *parts, epsilon, name), mean, variance


def local_response_normalization(input: Any, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5, name: str | None = None) -> Tensor:
    """Divided by a power of the sum of squares over neighboring channels."""
    x, r = convert_to_tensor(input), depth_radius

    def lower(ctx: Any, v: Any) -> Any:
        squares = (v * v).pad([r, r])
        c = v.shape[-1]
        total = squares.narrow(v.ndim - 1, 0, c)
        for i in range(1, 2 * r + 1):
            total = total + squares.narrow(v.ndim - 1, i, c)
        return v / (total * alpha + bias) ** beta

    return make("LRN", [x], lower, name, x.dtype, x.shape)


lrn = local_response_normalization


# Lookups.


def embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None, validate_indices: bool = True, max_norm: Any = None) -> Tensor:
    """Rows of a table."""
    from .arrays import gather
    from .gradients import clip_by_norm

    if isinstance(params, (list, tuple)):
        if len(params) != 1:
            raise unimplemented("embedding_lookup with a table in several parts: concatenate them")
        params = params[0]
    rows = gather(params, ids, name=name or "embedding_lookup")
    return rows if max_norm is None else clip_by_norm(rows, max_norm, [-1])


TopKV2 = collections.namedtuple("TopKV2", ["values", "indices"])


def top_k(input: Any, k: int = 1, sorted: bool = True, name: str | None = None) -> Any:
    """The ``k`` greatest elements of each row, and their indices."""
    x = convert_to_tensor(input)
    sizes = None if x.shape.ndims is None else [*x.shape.sizes[:-1], k]

    def lower(ctx: Any, v: Any) -> list[Any]:
        values, places = v.topk(k, -1)
        return [values, places.to(INT32)]

    return TopKV2(*make("TopKV2", [x], lower, name, outputs=[(x.dtype, sizes), (int32, sizes)]))


def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Tensor:
    """Whether the target is among the ``k`` greatest predictions of its row."""
    x, t = convert_to_tensor(predictions), convert_to_tensor(targets)

    def lower(ctx: Any, v: Any, y: Any) -> Any:
        own = v.gather(1, y.to(INT64).unsqueeze(1))
        return (v > own).to(INT64).sum(1) < k

    return make("InTopK", [x, t], lower, name, "bool", t.shape)


def _absent(name: str, hint: str) -> Any:
    def call(*_: Any, **__: Any) -> Any:
        raise unimplemented(f"tf.nn.{name}: {hint}")

    return call


ctc_loss = _absent("ctc_loss", "use talweg.nn.functional.ctc_loss in eager code")
embedding_lookup_sparse = _absent("embedding_lookup_sparse", "there are no sparse tensors: use embedding_lookup and a mask")
