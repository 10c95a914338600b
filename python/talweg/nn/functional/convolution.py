"""Linear maps, convolutions, pooling, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from .common import in_place, probability, sizes, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TypeAlias, TypeVar

    from ... import DTypeLike

    _F = TypeVar("_F", bound=Callable[..., Any])
    _Sizes: TypeAlias = int | Sequence[int]

    # Signatures of the functions that exist for one, two and three dimensions.
    class _Conv(Protocol):
        def __call__(
            self, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Sizes = 1,
            padding: _Sizes | str = 0, dilation: _Sizes = 1, groups: int = 1,
        ) -> Tensor: ...  # fmt: skip

    class _ConvTranspose(Protocol):
        def __call__(
            self, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Sizes = 1, padding: _Sizes = 0,
            output_padding: _Sizes = 0, groups: int = 1, dilation: _Sizes = 1,
        ) -> Tensor: ...  # fmt: skip

    class _MaxPool(Protocol):
        def __call__(
            self, input: Tensor, kernel_size: _Sizes, stride: _Sizes | None = None, padding: _Sizes = 0,
            dilation: _Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
        ) -> Any: ...  # fmt: skip

    class _AvgPool(Protocol):
        def __call__(
            self, input: Tensor, kernel_size: _Sizes, stride: _Sizes | None = None, padding: _Sizes = 0,
            ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
        ) -> Tensor: ...  # fmt: skip

    class _LpPool(Protocol):
        def __call__(
            self, input: Tensor, norm_type: float, kernel_size: _Sizes, stride: _Sizes | None = None, ceil_mode: bool = False,
        ) -> Tensor: ...  # fmt: skip

    class _MaxUnpool(Protocol):
        def __call__(
            self, input: Tensor, indices: Tensor, kernel_size: _Sizes, stride: _Sizes | None = None, padding: _Sizes = 0,
            output_size: Sequence[int] | None = None,
        ) -> Tensor: ...  # fmt: skip

    class _AdaptiveAvg(Protocol):
        def __call__(self, input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor: ...

    class _AdaptiveMax(Protocol):
        def __call__(
            self, input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False,
        ) -> Any: ...  # fmt: skip

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "alpha_dropout", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "fold", "grouped_mm", "linear", "lp_pool1d", "lp_pool2d",
    "lp_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "unfold",
]  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x Wᵀ + b on the last dimension.

    >>> tw.nn.functional.linear(tw.ones(3, 4), tw.ones(2, 4), tw.ones(2)).tolist()[0]
    [5.0, 5.0]
    """
    return tensor(input).linear(weight, bias)


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """A GEMM for each group, as experts of a mixture need it. Group ``g`` of the rows ``[M, K]``, of the columns
    ``[K, N]`` or, where both matrices have two dimensions, of the inner elements ends before ``offs[g]``; the other matrix
    is ``[G, ..., ...]``. Two stacks are multiplied without ``offs``.

    >>> tokens, experts = tw.ones(3, 1), tw.tensor([[[1.0]], [[10.0]]])
    >>> tw.nn.functional.grouped_mm(tokens, experts, offs=tw.tensor([1, 3])).tolist()
    [[1.0], [10.0], [10.0]]
    """
    a, b = tensor(mat_a), tensor(mat_b)
    if (offs is None) != (a.ndim == b.ndim == 3):
        raise value_error(
            "grouped_mm: offs are needed where a matrix has two dimensions, and only there: "
            f"the matrices have {a.ndim} and {b.ndim}, offs is {'None' if offs is None else 'given'}"
        )
    if out_dtype is not None and _native.dtype(out_dtype).itemsize > a.dtype.itemsize:
        # Sums are rounded once, to the type of the result.
        a, b = a.to(out_dtype), b.to(out_dtype)
    y = a @ b if offs is None else a.grouped_mm(b, offs)
    y = y if out_dtype is None else y.to(out_dtype)
    return y if bias is None else y + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x₁ᵀ W x₂ + b."""
    return tensor(input1).bilinear(input2, weight, bias)


def _public(f: _F, name: str, doc: str) -> _F:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _conv(n: int) -> _Conv:
    call = getattr(Tensor, f"conv{n}d")

    def f(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return call(tensor(input), weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)

    return _public(f, f"conv{n}d", f"Convolution of {n} dimensions with weights ``[out, in / groups, *kernel]``.")


def _conv_transpose(n: int) -> _ConvTranspose:
    call = getattr(Tensor, f"conv_transpose{n}d")

    def f(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        settings = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, output_padding=output_padding)
        return call(tensor(input), weight, bias, **settings)

    return _public(f, f"conv_transpose{n}d", f"Transposed convolution of {n} dimensions.")


conv1d, conv2d, conv3d = map(_conv, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_conv_transpose, (1, 2, 3))


def _indexed(pair):
    """Values and where they are; no gradient flows through the latter."""
    return pair[0], pair[1].detach()


def _max_pool(n: int) -> _MaxPool:
    plain, with_index = getattr(Tensor, f"max_pool{n}d"), getattr(Tensor, f"max_pool{n}d_index")

    def f(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        settings = dict(stride=stride or None, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
        if not return_indices:
            return plain(tensor(input), kernel_size, **settings)
        return _indexed(with_index(tensor(input), kernel_size, **settings))

    return _public(f, f"max_pool{n}d", "The largest element of each window; with ``return_indices`` also its index.")


def _avg_pool(n: int) -> _AvgPool:
    call = getattr(Tensor, f"avg_pool{n}d")

    def f(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        settings = dict(stride=stride or None, padding=padding, ceil_mode=ceil_mode, count_include_pad=count_include_pad)
        return call(tensor(input), kernel_size, divisor_override=divisor_override, **settings)

    def f1(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        return f(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    return _public(f1 if n == 1 else f, f"avg_pool{n}d", "The mean of each window.")  # type: ignore[return-value]


def _adaptive_sizes(x, n, output_size):
    return tuple(x.shape[x.ndim - n + i] if s is None else s for i, s in enumerate(sizes(output_size, n)))


def _adaptive_avg(n: int) -> _AdaptiveAvg:
    call = getattr(Tensor, f"adaptive_avg_pool{n}d")

    def f(input, output_size):
        x = tensor(input)
        return call(x, _adaptive_sizes(x, n, output_size))

    return _public(f, f"adaptive_avg_pool{n}d", "Means of as many windows as asked for; ``None``: as many as elements.")


def _adaptive_max(n: int) -> _AdaptiveMax:
    plain, with_index = getattr(Tensor, f"adaptive_max_pool{n}d"), getattr(Tensor, f"adaptive_max_pool{n}d_index")

    def f(input, output_size, return_indices=False):
        x = tensor(input)
        wanted = _adaptive_sizes(x, n, output_size)
        return _indexed(with_index(x, wanted)) if return_indices else plain(x, wanted)

    return _public(f, f"adaptive_max_pool{n}d", "The largest elements of as many windows as asked for.")


def _with_indices(pool: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    def f(*args, **kwargs):
        return pool(*args, **{**kwargs, "return_indices": True})

    return _public(f, f"{pool.__name__}_with_indices", f"``{pool.__name__}`` with ``return_indices=True``.")


max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(_with_indices, (max_pool1d, max_pool2d, max_pool3d))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg_pool, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))


def _lp_pool(n: int) -> _LpPool:
    pool = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}[n]

    def f(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        x, p = tensor(input), float(norm_type)
        count = 1
        for k in sizes(kernel_size, n):
            count *= k
        mean = pool(x**p, kernel_size, stride, 0, ceil_mode)
        return (mean.sign() * mean.abs().relu() * count) ** (1.0 / p)

    return _public(f, f"lp_pool{n}d", "The p-th root of the sum of p-th powers of each window.")


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pool, (1, 2, 3))


def _max_unpool(n: int) -> _MaxUnpool:
    def f(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        x = tensor(input)
        kernel = sizes(kernel_size, n)
        step, pad = kernel if stride is None else sizes(stride, n), sizes(padding, n)
        small = x.shape[x.ndim - n :]
        out = tuple((s - 1) * t - 2 * p + k for s, t, p, k in zip(small, step, pad, kernel))
        if output_size is not None:
            out = tuple(output_size)[-n:]
        lead = x.shape[: x.ndim - n]
        count = 1
        for s in out:
            count *= s
        flat = _native.zeros(*lead, count, dtype=x.dtype)
        filled = flat.scatter(-1, indices.reshape(*lead, -1).astype("int64"), x.reshape(*lead, -1))
        return filled.reshape(*lead, *out)

    return _public(f, f"max_unpool{n}d", "Elements back at the indices that ``max_pool`` returned, zeros elsewhere.")


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))


def unfold(
    input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1,
) -> Tensor:  # fmt: skip
    """Windows of images ``[N, C, H, W]`` as columns ``[N, C kernel, windows]``.

    >>> tw.nn.functional.unfold(tw.ones(1, 2, 4, 4), kernel_size=2, stride=2).shape
    talweg.Size([1, 8, 4])
    """
    x = tensor(input)
    if x.ndim == 3:
        return unfold(x.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    return x.im2col(sizes(kernel_size, 2), stride=sizes(stride, 2), padding=sizes(padding, 2), dilation=sizes(dilation, 2))


def fold(
    input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1,
) -> Tensor:  # fmt: skip
    """Columns added up to images: the transpose of ``unfold``."""
    x = tensor(input)
    if x.ndim == 2:
        return fold(x.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    places = dict(stride=sizes(stride, 2), padding=sizes(padding, 2), dilation=sizes(dilation, 2))
    return x.col2im(sizes(output_size, 2), sizes(kernel_size, 2), **places)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to zero with probability ``p``, the others scaled up.

    >>> tw.nn.functional.dropout(tw.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    probability("dropout", p)
    x = tensor(input)
    return in_place(input, x.dropout(p, _native.batch_key(x)), inplace) if training and p > 0.0 else x


def _dropout(n: int) -> Callable[..., Tensor]:
    def f(input, p=0.5, training=True, inplace=False):
        name, x = f"dropout{n}d", tensor(input)
        probability(name, p)
        # Without a batch the channels come first; PyTorch reads [N, C, L] in dropout2d as a batch.
        batch = 2 if x.ndim == n + 2 or n == 2 else 1
        if x.ndim not in (n + 1, n + 2):
            raise value_error(f"{name}: expected {n + 1} or {n + 2} dimensions, not {x.ndim}")
        if not training or p == 0.0:
            return x
        if p == 1.0:
            return in_place(input, x * 0, inplace)
        shape = x.shape[:batch] + (1,) * (x.ndim - batch)
        kept = Tensor.random_bernoulli(_native.batch_key(x), _native.full(shape, 1.0 - p))
        return in_place(input, Tensor.where(kept, x / (1.0 - p), 0.0), inplace)

    return _public(f, f"dropout{n}d", "Whole channels set to zero with probability ``p``, the others scaled up.")


dropout1d, dropout2d, dropout3d = map(_dropout, (1, 2, 3))


def _alpha(name, x, p, shape):
    probability(name, p)
    if p == 1.0:
        return x * 0
    low = -1.7580993408473766
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    kept = Tensor.random_bernoulli(_native.batch_key(x), _native.full(shape, 1.0 - p))
    return Tensor.where(kept, x, low) * a - a * low * p


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of what ``selu`` returns."""
    x = tensor(input)
    probability("alpha_dropout", p)
    return in_place(input, _alpha("alpha_dropout", x, p, x.shape), inplace) if training and p > 0.0 else x


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels."""
    x = tensor(input)
    probability("feature_alpha_dropout", p)
    shape = x.shape[:2] + (1,) * (x.ndim - 2)
    return in_place(input, _alpha("feature_alpha_dropout", x, p, shape), inplace) if training and p > 0.0 else x


check(globals(), __all__)
