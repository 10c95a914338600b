"""ATen operators in Talweg's ops: a row an operator, by the operator's name without its overload.

A row takes the operator's arguments, with tensors of ours in place of PyTorch's, and returns its results. What a row
cannot do as PyTorch does raises `Unsupported`; the operator then runs in PyTorch. The decompositions of PyTorch reduce
what is not here to what is.
"""

# mypy: ignore-errors
import math

import talweg as tw
from .. import _native, _ops
from .._rows import Unsupported, apply, need, one
from ..nn import functional as F

# Operators that are functions of the package with the same name, arguments and results.
SAME = """
    abs acos acosh asin asinh atan atanh atan2 ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor lgamma log log10
    log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc relu frac sgn
    isinf isnan isfinite logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
    bitwise_left_shift bitwise_right_shift eq ne lt le gt ge
    add sub mul div fmod remainder maximum minimum fmax fmin copysign hypot rsub addcmul addcdiv lerp logaddexp xlogy
    floor_divide where clamp clamp_min clamp_max nan_to_num masked_fill
    sum mean prod amax amin any all argmax argmin var var_mean std cumsum cumprod logsumexp max min sort topk
    mm bmm mv dot addmm baddbmm addmv addbmm matmul
    permute flip roll tril triu diagonal cat stack unsqueeze split_with_sizes
    gather scatter_add scatter_reduce index_select index_add index_copy masked_scatter histc bucketize searchsorted
""".split()

ROWS = {name: getattr(tw, name) for name in SAME}


def row(*names):
    """Makes a function the row of these operators."""

    def register(f):
        for name in names or (f.__name__.strip("_"),):
            ROWS[name] = f
        return f

    return register


def pulled(f, x, g):
    """The gradient of a function at x, for that of its result."""
    with tw.enable_grad():
        return tw.vjp(f, x)[1](g)[0]


# ---- the same value

for _name in "alias clone detach lift_fresh lift_fresh_copy contiguous _conj_physical expand_copy".split():
    ROWS[_name] = lambda x, *_, **__: x
ROWS.pop("expand_copy")


@row("_to_copy", "to")
def to_copy(x, dtype=None):
    return x if dtype is None else x.to(dtype)


@row()
def copy(x, src, non_blocking=False):
    return src.to(x.dtype).expand(*x.shape)


@row("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size")
def asserted(*_, **__):
    return None


# ---- numbers


@row("_grouped_mm")
def grouped_mm(a, b, offs=None, bias=None, out_dtype=None):
    return F.grouped_mm(a, b, offs=offs, bias=bias, out_dtype=out_dtype)


@row("pow")
def power(x, exponent):
    return tw.pow(x, exponent) if isinstance(x, tw.Tensor) else x**exponent


@row()
def elu(x, alpha=1, scale=1, input_scale=1):
    return tw.where(x > 0, x * scale, tw.expm1(x * input_scale) * (alpha * scale))


@row()
def leaky_relu(x, negative_slope=0.01):
    return F.leaky_relu(x, negative_slope)


@row()
def hardtanh(x, min_val=-1, max_val=1):
    return F.hardtanh(x, min_val, max_val)


@row()
def gelu(x, approximate="none"):
    return F.gelu(x, approximate)


@row()
def gelu_backward(g, x, approximate="none"):
    return g * one("gelu_tanh_grad" if approximate == "tanh" else "gelu_grad", [x])


@row()
def isin(elements, test_elements, assume_unique=False, invert=False):
    return tw.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)


# ---- shapes


@row("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy")
def view(x, size, stride=None):
    need(isinstance(size, (list, tuple)), "a view of another element type")
    return x.reshape(tuple(size))


@row()
def expand(x, size, implicit=False):
    return x.expand(*size)


@row()
def squeeze(x, dim=None):
    return x.squeeze(tuple(dim) if isinstance(dim, (list, tuple)) else dim)


@row()
def repeat(x, repeats):
    return x.repeat(*repeats)


@row()
def select(x, dim, index):
    return x.select(dim, index)


def _bounds(x, dim, start, end):
    n = x.shape[dim]
    start = 0 if start is None else start
    end = n if end is None else end
    start, end = (max(i + n, 0) if i < 0 else min(i, n) for i in (start, end))
    return start, max(start, end)


@row("slice", "slice_copy")
def slice_(x, dim=0, start=None, end=None, step=1):
    dim %= x.ndim
    start, end = _bounds(x, dim, start, end)
    return x[(slice(None),) * dim + (slice(start, end, step),)]


@row()
def slice_scatter(x, src, dim=0, start=None, end=None, step=1):
    dim %= x.ndim
    start, end = _bounds(x, dim, start, end)
    if step == 1:
        whole = (slice(None),) * dim
        parts = [x[whole + (slice(0, start),)], src, x[whole + (slice(end, None),)]]
        return tw.cat([p for p in parts if p.shape[dim]], dim) if x.shape[dim] else x
    return tw.index_copy(x, dim, tw.arange(start, end, step), src)


@row()
def select_scatter(x, src, dim, index):
    dim %= x.ndim
    index %= x.shape[dim]
    return slice_scatter(x, src.unsqueeze(dim), dim, index, index + 1)


@row()
def unbind(x, dim=0):
    return tw.unbind(x, dim)


@row()
def constant_pad_nd(x, pad, value=0):
    return tw.pad(x, list(pad), "constant", value)


@row()
def unfold(x, dimension, size, step):
    return x.unfold(dimension, size, step)


@row()
def as_strided(x, size, stride, storage_offset=None, *, meta=None):
    """`meta` is PyTorch's description of the input, whose memory the strides are about."""
    order = dense_order(meta)
    need(order is not None and not int(meta.storage_offset()), "as_strided of memory with holes")
    return tw.as_strided(x.permute(*order) if len(order) else x, tuple(size), tuple(stride), storage_offset or 0)


@row()
def as_strided_scatter(x, src, size, stride, storage_offset=None, *, meta=None):
    order = dense_order(meta)
    need(order is not None and not int(meta.storage_offset()), "as_strided_scatter of memory with holes")
    back = sorted(range(len(order)), key=order.__getitem__)
    y = tw.as_strided_scatter(x.permute(*order) if order else x, src, tuple(size), tuple(stride), storage_offset or 0)
    return y.permute(*back) if order else y


def dense_order(meta):
    """The order of axes in which a tensor's elements lie one after the other; `None` if they do not."""
    sizes, strides = [int(n) for n in meta.shape], [int(s) for s in meta.stride()]
    order = sorted(range(len(sizes)), key=lambda a: (sizes[a] > 1, -strides[a]))
    step = 1
    for a in reversed(order):
        if sizes[a] > 1 and strides[a] != step:
            return None
        step *= max(sizes[a], 1)
    return order


# ---- constants


@row()
def arange(*ends, dtype=None):
    return tw.arange(*ends, dtype=dtype)


@row()
def full(size, fill_value, dtype=None):
    return tw.full(tuple(size), fill_value, dtype=dtype)


@row()
def full_like(x, fill_value, dtype=None):
    return tw.full(tuple(x.shape), fill_value, dtype=dtype or x.dtype)


@row("empty", "zeros")
def zeros(size, dtype=None):
    return tw.zeros(tuple(size), dtype=dtype)


@row("empty_strided", "empty_permuted")
def empty_strided(size, stride, dtype=None):
    return tw.zeros(tuple(size), dtype=dtype)


@row("empty_like", "zeros_like")
def zeros_like(x, dtype=None):
    return tw.zeros(tuple(x.shape), dtype=dtype or x.dtype)


@row("new_zeros", "new_empty")
def new_zeros(x, size, dtype=None):
    return tw.zeros(tuple(size), dtype=dtype or x.dtype)


@row()
def ones(size, dtype=None):
    return tw.ones(tuple(size), dtype=dtype)


@row()
def ones_like(x, dtype=None):
    return tw.ones(tuple(x.shape), dtype=dtype or x.dtype)


@row()
def scalar_tensor(s, dtype=None):
    return tw.full((), s, dtype=dtype)


@row()
def eye(n, m=None, dtype=None):
    return tw.eye(n, m, dtype=dtype)


@row("fill")
def fill(x, value):
    return value.to(x.dtype).expand(*x.shape) if isinstance(value, tw.Tensor) else full_like(x, value)


# ---- random numbers: `key` is drawn from PyTorch's generator at each call


@row()
def native_dropout(x, p, train=None, *, key):
    if not p or train is False:
        return x, tw.ones(tuple(x.shape), dtype="bool")
    if p == 1:
        return x * 0, tw.zeros(tuple(x.shape), dtype="bool")
    kept = uniform(x.shape, key) >= p
    return tw.where(kept, x * (1 / (1 - p)), 0.0), kept


def uniform(shape, key, dtype=None):
    return one("random_uniform", [key], shape=[int(n) for n in shape], lo=0.0, hi=1.0, dtype=dtype or tw.float32)


@row()
def rand(size, dtype=None, *, key):
    return uniform(size, key, dtype)


@row()
def rand_like(x, dtype=None, *, key):
    return uniform(x.shape, key, dtype or x.dtype)


@row()
def randn(size, dtype=None, *, key):
    return one("random_normal", [key], shape=[int(n) for n in size], dtype=dtype or tw.float32)


@row()
def randn_like(x, dtype=None, *, key):
    return randn(x.shape, dtype or x.dtype, key=key)


@row()
def bernoulli(x, p=None, *, key):
    return (uniform(x.shape, key) < (x.to(tw.float32) if p is None else p)).to(x.dtype)


RANDOM = {"native_dropout", "rand", "rand_like", "randn", "randn_like", "bernoulli"}


# ---- indices


def _indexed(indices):
    need(not any(i is not None and i.dtype in (tw.bool, tw.uint8) for i in indices), "a boolean index")
    return tuple(slice(None) if i is None else i for i in indices)


@row("index", "_unsafe_index")
def index(x, indices):
    places = _indexed(indices)
    if sum(i is not None for i in indices) == 1:
        dim = next(d for d, i in enumerate(indices) if i is not None)
        return _ops.take(x, indices[dim], dim)
    return x[places]


@row("index_put", "_unsafe_index_put")
def index_put(x, indices, values, accumulate=False):
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == tw.bool:
        need(values.ndim == 0 and not accumulate, "a boolean index")
        mask = indices[0].reshape(tuple(indices[0].shape) + (1,) * (x.ndim - indices[0].ndim))
        return tw.where(mask, values.to(x.dtype), x)
    _indexed(indices)
    if len(indices) == 1:
        # Whole rows.
        at, rest = indices[0], tuple(x.shape[1:])
        rows = values.expand(*at.shape, *rest).reshape((-1, *rest))
        return (tw.index_add if accumulate else tw.index_copy)(x, 0, at.reshape(-1), rows.to(x.dtype))
    return tw.index_put(x, list(indices), values, accumulate)


@row()
def scatter(x, dim, index, src=None, value=None, reduce=None):
    if isinstance(src, tw.Tensor):
        return tw.scatter(x, dim, index, src, reduce=reduce)
    return tw.scatter(x, dim, index, value=src if value is None else value, reduce=reduce)


@row()
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return _ops.embedding(weight, indices)


@row()
def embedding_dense_backward(g, indices, num_weights, padding_idx, scale_grad_by_freq):
    need(not scale_grad_by_freq, "embedding with scale_grad_by_freq")
    if padding_idx >= 0:
        g = tw.where((indices == padding_idx).unsqueeze(-1), 0.0, g)
    table = tw.zeros((num_weights, g.shape[-1]), dtype=g.dtype)
    return tw.index_add(table, 0, indices.reshape(-1), g.reshape((-1, g.shape[-1])))


# ---- reductions


@row("_softmax")
def softmax(x, dim, half_to_float):
    return tw.softmax(x.to(tw.float32) if half_to_float else x, dim)


@row("_log_softmax")
def log_softmax(x, dim, half_to_float):
    return tw.log_softmax(x.to(tw.float32) if half_to_float else x, dim)


@row("_softmax_backward_data")
def softmax_backward(g, y, dim, input_dtype):
    return one("softmax_grad", [y, g], axis=dim % max(y.ndim, 1)).to(input_dtype)


@row("_log_softmax_backward_data")
def log_softmax_backward(g, y, dim, input_dtype):
    return one("log_softmax_grad", [y, g], axis=dim % max(y.ndim, 1)).to(input_dtype)


@row("_cdist_forward")
def cdist(x1, x2, p, compute_mode):
    return tw.cdist(x1, x2, p)


# ---- convolutions and pools


def _per_axis(value, n):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * n if len(value) == 1 else value


@row()
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = weight.ndim - 2
    stride, padding, dilation = (_per_axis(v, n) for v in (stride, padding, dilation))
    if transposed:
        f = getattr(F, f"conv_transpose{n}d")
        return f(x, weight, bias, stride, padding, _per_axis(output_padding, n), groups, dilation)
    return getattr(F, f"conv{n}d")(x, weight, bias, stride, padding, dilation, groups)


@row()
def convolution_backward(g, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    n = weight.ndim - 2
    stride, padding, dilation = (_per_axis(v, n) for v in (stride, padding, dilation))
    by = dict(stride=stride, padding_lo=padding, padding_hi=padding, dilation=dilation, groups=groups)
    dx = dw = db = None
    if mask[0] and transposed:
        dx = one("conv", [g, weight], **by)
    elif mask[0]:
        dx = one("conv_input_grad", [g, weight], **by, shape=list(x.shape))
    if mask[1]:
        image, result = (g, x) if transposed else (x, g)
        dw = one("conv_weight_grad", [image, result], **by, shape=list(weight.shape))
    if mask[2]:
        db = tw.sum(g, (0, *range(2, g.ndim)))
    return dx, dw, db


def _batched(x, n):
    """With an axis of examples, and how to be rid of it."""
    return (x, lambda y: y) if x.ndim == n + 2 else (x.unsqueeze(0), lambda y: y.squeeze(0))


def _max_pool(n):
    def pool(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        return getattr(F, f"max_pool{n}d")(
            x, list(kernel_size), list(stride) or None, padding, dilation, ceil_mode=ceil_mode, return_indices=True
        )

    def backward(g, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
        x, back = _batched(x, n)
        return back(one("max_pool_grad", [_batched(indices, n)[0], _batched(g, n)[0]], shape=list(x.shape)))

    ROWS[f"max_pool{n}d_with_indices"] = pool
    ROWS[f"max_pool{n}d_with_indices_backward"] = backward


def _avg_pool(n):
    def pool(x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        f = getattr(F, f"avg_pool{n}d")
        if n == 1:
            return f(x, list(kernel_size), list(stride) or None, padding, ceil_mode, count_include_pad)
        return f(x, list(kernel_size), list(stride) or None, padding, ceil_mode, count_include_pad, divisor_override)

    def backward(g, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        x, back = _batched(x, n)
        g = _batched(g, n)[0]
        window = _per_axis(kernel_size, n)
        by = dict(window=window, stride=_per_axis(stride or window, n), padding=_per_axis(padding, n), out=list(g.shape[2:]))
        by.update(count_include_pad=count_include_pad, divisor=divisor_override or 0)
        return back(one("avg_pool_grad", [g], **by, shape=list(x.shape)))

    ROWS[f"avg_pool{n}d"] = pool
    ROWS[f"avg_pool{n}d_backward"] = backward


def _adaptive_pool(n):
    f = getattr(F, f"adaptive_avg_pool{n}d")
    ROWS[f"_adaptive_avg_pool{n}d"] = lambda x, size: f(x, tuple(size))
    ROWS[f"_adaptive_avg_pool{n}d_backward"] = lambda g, x: pulled(lambda x: f(x, tuple(g.shape[-n:])), x, g)


for _n in (1, 2, 3):
    _max_pool(_n)
    _avg_pool(_n)
    _adaptive_pool(_n)


def _resize(x, size, scales, mode, align_corners=None):
    n = x.ndim - 2
    if size is None:
        size = [int(d * s) for d, s in zip(x.shape[2:], scales)]
    for d, out, scale in zip(x.shape[2:], size, scales or [None] * n):
        need(scale is None or align_corners or d * scale == out, "interpolation by a factor that leaves a fraction")
    return F.interpolate(x, size=[int(s) for s in size], mode=mode, align_corners=align_corners)


def _pair(scales):
    """The factors of an overload: a list, or one by one."""
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        scales = scales[0]
    return None if not scales or any(s is None for s in scales) else list(scales)


for _n, _word in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    ROWS[f"upsample_nearest{_n}d"] = lambda x, size, *scales: _resize(x, size, _pair(scales), "nearest")
    ROWS[f"upsample_nearest{_n}d_backward"] = lambda g, size, shape, *scales: pulled(
        lambda x: _resize(x, size, _pair(scales), "nearest"), tw.zeros(tuple(shape), dtype=g.dtype), g
    )
    ROWS[f"upsample_{_word}{_n}d"] = lambda x, size, align, *scales, _w=_word: _resize(x, size, _pair(scales), _w, align)
    ROWS[f"upsample_{_word}{_n}d_backward"] = lambda g, size, shape, align, *scales, _w=_word: pulled(
        lambda x: _resize(x, size, _pair(scales), _w, align), tw.zeros(tuple(shape), dtype=g.dtype), g
    )
