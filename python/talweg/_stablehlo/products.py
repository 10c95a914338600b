"""Rows of products: contractions, convolutions, Fourier transforms, batch norm."""

# mypy: ignore-errors
import math

import numpy as np

import talweg as tw
from .table import dtype_of, is_float, need, one, padded, row


def _cast(node, *args):
    """Operands of a product in the type of its result, unless that is narrower."""
    to = dtype_of(node.dtype)
    widest = max([to, *(a.dtype for a in args)], key=lambda d: d.itemsize)
    return [a if a.dtype == widest else a.to(widest) for a in args]


@row("dot_general")
def dot_general(node, a, b):
    n = node.attrs["dot_dimension_numbers"]
    a, b = _cast(node, a, b)
    left = _Axes(a, n["lhs_batching_dimensions"], n["lhs_contracting_dimensions"])
    right = _Axes(b, n["rhs_batching_dimensions"], n["rhs_contracting_dimensions"])
    batch = [a.shape[d] for d in left.batch]
    rows, columns = [a.shape[d] for d in left.free], [b.shape[d] for d in right.free]
    inner = math.prod(a.shape[d] for d in left.contracted)
    a = a.permute(left.batch + left.free + left.contracted).reshape((*batch, math.prod(rows), inner))
    b = b.permute(right.batch + right.contracted + right.free).reshape((*batch, inner, math.prod(columns)))
    return tw.matmul(a, b).reshape((*batch, *rows, *columns)).to(dtype_of(node.dtype))


class _Axes:
    def __init__(self, x, batch, contracted):
        self.batch, self.contracted = [int(d) for d in batch], [int(d) for d in contracted]
        self.free = [d for d in range(x.ndim) if d not in self.batch and d not in self.contracted]


def _per_axis(value, n, default):
    return [int(v) for v in value] if value is not None else [default] * n


@row("convolution")
def convolution(node, x, w):
    """Any layout: images become [N, C, *S] and kernels [O, I, *K]."""
    a, d = node.attrs, node.attrs["dimension_numbers"]
    x, w = _cast(node, x, w)
    n = x.ndim - 2
    need(n <= 3, f"a convolution of {n} spatial dimensions; there are one to three")
    x = x.permute([d["input_batch_dimension"], d["input_feature_dimension"], *d["input_spatial_dimensions"]])
    w = w.permute([d["kernel_output_feature_dimension"], d["kernel_input_feature_dimension"], *d["kernel_spatial_dimensions"]])
    stride, dilation = _per_axis(a.get("window_strides"), n, 1), _per_axis(a.get("rhs_dilation"), n, 1)
    spread = _per_axis(a.get("lhs_dilation"), n, 1)
    padding = a["padding"].reshape(n, 2).tolist() if a.get("padding") is not None else [[0, 0]] * n
    if any(a.get("window_reversal") or ()):
        w = tw.flip(w, [i + 2 for i, back in enumerate(a["window_reversal"]) if back])
    groups = a["feature_group_count"]
    if (parts := a["batch_group_count"]) > 1:
        # Parts of the batch become groups of channels.
        per = x.shape[0] // parts
        x = x.reshape((parts, per, *x.shape[1:])).transpose(0, 1).reshape((per, parts * x.shape[1], *x.shape[2:]))
        groups = parts
    y = _convolved(x, w, stride, padding, dilation, spread, groups)
    back = [0] * y.ndim
    for i, to in enumerate([d["output_batch_dimension"], d["output_feature_dimension"], *d["output_spatial_dimensions"]]):
        back[to] = i
    return y.permute(back).to(dtype_of(node.dtype))


def _convolved(x, w, stride, padding, dilation, spread, groups):
    integer = x.dtype if not is_float(x.dtype) else None
    if integer is not None:
        need(not integer.name.startswith("complex"), "a convolution of complex numbers")
        # Exact below 2^53.
        x, w = x.to(tw.float64), w.to(tw.float64)
    lo, hi = [p[0] for p in padding], [p[1] for p in padding]
    if any(s > 1 for s in spread):
        if (y := _transposed(x, w, stride, lo, hi, dilation, spread, groups)) is not None:
            return y
        x = padded(x, np.float32(0).reshape(()), [0] * x.ndim, [0] * x.ndim, [0, 0, *(s - 1 for s in spread)])
    if not stride:
        x, w, stride, lo, hi, dilation = x.unsqueeze(-1), w.unsqueeze(-1), [1], [0], [0], [1]
        return _convolved(x, w, stride, [[0, 0]], dilation, [], groups).squeeze(-1)
    room = [n + a + b - (k - 1) * d - 1 for n, a, b, k, d in zip(x.shape[2:], lo, hi, w.shape[2:], dilation)]
    sizes = [n // s + 1 if n >= 0 else 0 for n, s in zip(room, stride)]
    if 0 in (*x.shape, *w.shape, *sizes):
        return tw.zeros((x.shape[0], w.shape[0], *sizes), dtype=integer or x.dtype)
    y = one("conv", [x, w], stride=stride, padding_lo=lo, padding_hi=hi, dilation=dilation, groups=groups)
    return y if integer is None else y.to(integer)


def _transposed(x, w, stride, lo, hi, dilation, spread, groups):
    """A convolution of an image that is spread out, as the gradient of another one: `None` where it is none."""
    if any(s != 1 for s in stride) or groups != 1 or not is_float(x.dtype):
        return None
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilation)]
    before, after = [r - a for r, a in zip(reach, lo)], [r - b for r, b in zip(reach, hi)]
    if any(p < 0 for p in (*before, *after)):
        return None
    # The image of which x would be the result.
    sizes = [(n - 1) * s + r + 1 - a - b for n, s, r, a, b in zip(x.shape[2:], spread, reach, before, after)]
    if any(n < 1 for n in sizes):
        return None
    kernel = tw.flip(w.transpose(0, 1), list(range(2, w.ndim)))
    by = dict(stride=spread, padding_lo=before, padding_hi=after, dilation=dilation, groups=1)
    return one("conv_input_grad", [x, kernel], **by, shape=[x.shape[0], w.shape[0], *sizes])


@row("fft")
def fft(node, x):
    sizes = [int(n) for n in node.attrs["fft_length"]]
    dims = list(range(x.ndim - len(sizes), x.ndim))
    f = {"FFT": tw.fft.fftn, "IFFT": tw.fft.ifftn, "RFFT": tw.fft.rfftn, "IRFFT": tw.fft.irfftn}[node.attrs["fft_type"]]
    return f(x, s=sizes, dim=dims)


def _channels(x, axis, v):
    return v.reshape(tuple(n if i == axis else 1 for i, n in enumerate(x.shape)))


def _statistics(x, axis):
    axes = [i for i in range(x.ndim) if i != axis]
    return axes, tw.mean(x, axes), tw.var(x, axes, correction=0)


@row()
def batch_norm_inference(node, x, scale, offset, mean, var):
    axis = node.attrs["feature_index"]
    scale = scale * tw.rsqrt(var + node.attrs["epsilon"])
    return (x - _channels(x, axis, mean)) * _channels(x, axis, scale) + _channels(x, axis, offset)


@row()
def batch_norm_training(node, x, scale, offset):
    _, mean, var = _statistics(x, node.attrs["feature_index"])
    return batch_norm_inference(node, x, scale, offset, mean, var), mean, var


@row()
def batch_norm_grad(node, x, scale, mean, var, g):
    axis = node.attrs["feature_index"]
    axes = [i for i in range(x.ndim) if i != axis]
    count = math.prod(x.shape[i] for i in axes)
    inverse = tw.rsqrt(var + node.attrs["epsilon"])
    centered = x - _channels(x, axis, mean)
    g_offset, both = tw.sum(g, axes), tw.sum(g * centered, axes)
    rest = g - _channels(x, axis, g_offset / count) - centered * _channels(x, axis, both * inverse * inverse / count)
    return rest * _channels(x, axis, scale * inverse), both * inverse, g_offset
