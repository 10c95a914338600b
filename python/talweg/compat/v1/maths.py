"""``tf.math`` and the arithmetic of the top level. Types are never promoted: ``int + float`` raises."""

# mypy: ignore-errors
from __future__ import annotations

import builtins
from typing import Any, Callable

import talweg as tw

from ... import _native
from .dtypes import INT64, TYPES, as_dtype, float32, float64, int32, int64
from .errors import wrong_shape, wrong_type
from .graph import Tensor, convert_to_tensor, make
from .infer import constant_value
from .shapes import TensorShape, broadcast, merge_sizes

_abs, _sum, _range, _max, _min, _round, _pow = abs, sum, range, max, min, round, pow


def unary(kind: str, f: Callable[[Any], Any], dtype: Any = None, name: str = "") -> Callable[..., Tensor]:
    """An elementwise function of one tensor."""

    def call(x: Any, name: str | None = None) -> Tensor:
        x = convert_to_tensor(x)
        want = as_dtype(dtype) if dtype is not None else x.dtype
        return make(kind, [x], lambda ctx, v: f(v).to(want.native), name, want, x.shape)

    call.__name__ = call.__qualname__ = name or kind.lower()
    call.__doc__ = f"TensorFlow's ``{call.__name__}``, elementwise."
    return call


def floating(kind: str, f: Callable[[Any], Any], name: str = "") -> Callable[..., Tensor]:
    """An elementwise function of floats; integers are refused, as in TensorFlow."""
    inner = unary(kind, f, name=name)

    def call(x: Any, name: str | None = None) -> Tensor:
        x = convert_to_tensor(x)
        if not (x.dtype.is_floating or x.dtype.is_complex):
            raise wrong_type(f"{inner.__name__} takes floats, not {x.dtype.name}: use tf.cast(x, tf.float32)")
        return inner(x, name)

    call.__name__ = call.__qualname__ = inner.__name__
    call.__doc__ = inner.__doc__
    return call


def same_type(kind: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two operands of one type: a Python value takes the type of the tensor beside it."""
    is_tensor = [isinstance(v, Tensor) or hasattr(v, "_as_tensor") for v in (a, b)]
    if is_tensor[1] and not is_tensor[0]:
        b = convert_to_tensor(b)
        a = convert_to_tensor(a, b.dtype, f"{kind}/x")
    else:
        a = convert_to_tensor(a)
        b = convert_to_tensor(b) if is_tensor[1] else convert_to_tensor(b, a.dtype, f"{kind}/y")
    if a.dtype != b.dtype:
        e = f"{kind}: {a.name} is {a.dtype.name} and {b.name} is {b.dtype.name}; both must have one type: use tf.cast"
        raise wrong_type(e)
    return a, b


def _joined(kind: str, a: Tensor, b: Tensor) -> TensorShape:
    try:
        return broadcast(a.shape, b.shape)
    except ValueError:
        e = f"{kind}: shapes {a.shape} of {a.name} and {b.shape} of {b.name} do not broadcast"
        raise wrong_shape(e) from None


def binary(kind: str, f: Callable[[Any, Any], Any], dtype: Any = None, name: str = "") -> Callable[..., Tensor]:
    """An elementwise function of two tensors of one type."""

    def call(x: Any, y: Any, name: str | None = None) -> Tensor:
        x, y = same_type(kind, x, y)
        want = as_dtype(dtype) if dtype is not None else x.dtype
        shape = _joined(kind, x, y)
        return make(kind, [x, y], lambda ctx, a, b: f(a, b).to(want.native), name, want, shape)

    call.__name__ = call.__qualname__ = name or kind.lower()
    call.__doc__ = f"TensorFlow's ``{call.__name__}``, elementwise with broadcasting."
    return call


_T = _native.Tensor
add = binary("Add", lambda a, b: a + b)
subtract = binary("Sub", lambda a, b: a - b, name="subtract")
multiply = binary("Mul", lambda a, b: a * b, name="multiply")
floordiv = binary("FloorDiv", lambda a, b: a // b)
floormod = mod = binary("FloorMod", lambda a, b: a % b)
realdiv = binary("RealDiv", lambda a, b: a / b)
maximum = binary("Maximum", lambda a, b: _T.maximum(a, b))
minimum = binary("Minimum", lambda a, b: _T.minimum(a, b))
pow = binary("Pow", lambda a, b: a**b)
squared_difference = binary("SquaredDifference", lambda a, b: (a - b) * (a - b), name="squared_difference")
atan2 = binary("Atan2", lambda a, b: _T.atan2(a, b))
equal = binary("Equal", lambda a, b: a == b, "bool")
not_equal = binary("NotEqual", lambda a, b: a != b, "bool", "not_equal")
less = binary("Less", lambda a, b: a < b, "bool")
less_equal = binary("LessEqual", lambda a, b: a <= b, "bool", "less_equal")
greater = binary("Greater", lambda a, b: a > b, "bool")
greater_equal = binary("GreaterEqual", lambda a, b: a >= b, "bool", "greater_equal")
logical_and = binary("LogicalAnd", lambda a, b: a & b, "bool", "logical_and")
logical_or = binary("LogicalOr", lambda a, b: a | b, "bool", "logical_or")
logical_xor = binary("LogicalXor", lambda a, b: a ^ b, "bool", "logical_xor")
truncatediv = binary("TruncateDiv", lambda a, b: (a - _T.fmod(a, b)) // b)
xdivy = binary("Xdivy", lambda a, b: tw.where(a == 0, a * 0, a / tw.where(a == 0, b * 0 + 1, b)))
sub, mul = subtract, multiply

negative = unary("Neg", lambda x: -x, name="negative")
abs = unary("Abs", lambda x: x.abs())
sign = unary("Sign", lambda x: x.sign())
square = unary("Square", lambda x: x * x)
sqrt = floating("Sqrt", lambda x: x.sqrt())
rsqrt = floating("Rsqrt", lambda x: x.rsqrt())
exp = floating("Exp", lambda x: x.exp())
expm1 = floating("Expm1", lambda x: x.expm1())
log = floating("Log", lambda x: x.log())
log1p = floating("Log1p", lambda x: x.log1p())
sin = floating("Sin", lambda x: x.sin())
cos = floating("Cos", lambda x: x.cos())
tan = floating("Tan", lambda x: x.tan())
asin = floating("Asin", lambda x: x.asin())
acos = floating("Acos", lambda x: x.acos())
atan = floating("Atan", lambda x: x.atan())
sinh = floating("Sinh", lambda x: x.sinh())
cosh = floating("Cosh", lambda x: x.cosh())
tanh = floating("Tanh", lambda x: x.tanh())
asinh = floating("Asinh", lambda x: x.asinh())
acosh = floating("Acosh", lambda x: x.acosh())
atanh = floating("Atanh", lambda x: x.atanh())
sigmoid = floating("Sigmoid", lambda x: x.sigmoid())
log_sigmoid = floating("LogSigmoid", lambda x: x.log_sigmoid(), "log_sigmoid")
erf = floating("Erf", lambda x: x.erf())
erfc = floating("Erfc", lambda x: x.erfc())
lgamma = floating("Lgamma", lambda x: x.lgamma())
digamma = floating("Digamma", lambda x: x.digamma())
reciprocal = floating("Reciprocal", lambda x: 1 / x)
inv = reciprocal
floor = unary("Floor", lambda x: x.floor())
ceil = unary("Ceil", lambda x: x.ceil())
round = unary("Round", lambda x: x.round())
rint = floating("Rint", lambda x: x.round())
softsign = floating("Softsign", lambda x: x / (1 + x.abs()))
softplus = floating("Softplus", lambda x: x.softplus())
logical_not = unary("LogicalNot", lambda x: ~x, name="logical_not")
is_nan = unary("IsNan", lambda x: x != x, "bool", "is_nan")
is_inf = unary("IsInf", lambda x: x.abs() == float("inf"), "bool", "is_inf")
is_finite = unary("IsFinite", lambda x: (x - x) == 0, "bool", "is_finite")
conj = unary("Conj", lambda x: x.conj())


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Division of Python 3: integers become floats."""
    x, y = same_type("truediv", x, y)
    if x.dtype.is_integer:
        wide = float32 if x.dtype.size < 4 else float64
        x, y = cast(x, wide), cast(y, wide)
    return realdiv(x, y, name or "truediv")


divide = truediv


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Division of Python 2: of integers the floor."""
    x, y = same_type("div", x, y)
    return (realdiv if x.dtype.is_floating else floordiv)(x, y, name or "div")


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x / y``, and 0 where ``y`` is 0."""

    def lower(ctx: Any, a: Any, b: Any) -> Any:
        is_zero = b == 0
        return tw.where(is_zero, (a * b) * 0, a / tw.where(is_zero, b * 0 + 1, b))

    x, y = same_type("div_no_nan", x, y)
    return make("DivNoNan", [x, y], lower, name, x.dtype, _joined("div_no_nan", x, y))


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Another element type; floats are cut off towards zero for integers."""
    x, want = convert_to_tensor(x), as_dtype(dtype)
    if want == x.dtype:
        return x

    def lower(ctx: Any, v: Any) -> Any:
        return (v != 0) if want.is_bool else v.to(want.native)

    return make("Cast", [x], lower, name, want, x.shape)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """``cast`` after clipping to the range of the type."""
    value, want = convert_to_tensor(value), as_dtype(dtype)
    return cast(minimum(maximum(value, max_of(want, value)), min_of(want, value)), want, name)


def max_of(want: Any, x: Tensor) -> Tensor:
    """The least value of a type, as a tensor like ``x``."""
    return convert_to_tensor(_max(want.min, x.dtype.min), x.dtype)


def min_of(want: Any, x: Tensor) -> Tensor:
    """The greatest value of a type, as a tensor like ``x``."""
    return convert_to_tensor(_min(want.max, x.dtype.max), x.dtype)


def _to(name: str) -> Callable[..., Tensor]:
    def call(x: Any, name_: str | None = None, **settings: Any) -> Tensor:
        return cast(x, TYPES[name], settings.get("name", name_))

    call.__doc__ = f"``tf.cast(x, tf.{name})``."
    return call


to_float, to_double, to_int32, to_int64 = _to("float32"), _to("float64"), _to("int32"), _to("int64")


# Reductions.


def _axes(x: Tensor, axis: Any) -> list[int] | None:
    if axis is None:
        return None
    if isinstance(axis, Tensor):
        known = constant_value(axis)
        if known is None or any(v is None for v in known.flat):
            raise wrong_shape("the axis of a reduction must be known when the graph is built")
        axis = known.tolist()
    axes = [int(a) for a in (axis if isinstance(axis, (list, tuple)) or hasattr(axis, "__len__") else [axis])]
    rank = x.shape.ndims
    if rank is None:
        return axes
    for a in axes:
        if not -rank <= a < rank:
            raise wrong_shape(f"axis {a} of a tensor of shape {x.shape}")
    return [a % rank for a in axes]


def _reduced(x: Tensor, axes: list[int] | None, keepdims: bool) -> TensorShape:
    if x.shape.ndims is None:
        return TensorShape([]) if axes is None and not keepdims else TensorShape(None)
    gone = set(_range(len(x.shape)) if axes is None else axes)
    sizes = [1 if i in gone else d for i, d in enumerate(x.shape.as_list()) if keepdims or i not in gone]
    return TensorShape(sizes)


def _reduction(kind: str, f: Callable[..., Any], name: str, dtype: Any = None) -> Callable[..., Tensor]:
    def call(
        input_tensor: Any,
        axis: Any = None,
        keepdims: Any = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: Any = None,
    ) -> Tensor:
        x = convert_to_tensor(input_tensor)
        axes = _axes(x, axis if axis is not None else reduction_indices)
        keep = builtins.bool(keepdims or keep_dims)
        want = x.dtype if dtype is None else as_dtype(dtype)

        def lower(ctx: Any, v: Any) -> Any:
            over = list(_range(v.ndim)) if axes is None else axes
            return f(v, over, keep).to(want.native) if over else v

        t = make(kind, [x], lower, name, want, _reduced(x, axes, keep))
        t.op.attributes["axis"] = axes
        return t

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"TensorFlow's ``{name}``; all axes if ``axis`` is None."
    return call


def _mean(v: Any, axes: list[int], keep: bool) -> Any:
    if "int" not in str(v.dtype):
        return v.mean(axes, keep)
    count = 1
    for a in axes:
        count *= v.shape[a]
    return v.sum(axes, keep) // count


def _each(f: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction along one axis, for several."""

    def over(v: Any, axes: list[int], keep: bool) -> Any:
        for a in sorted((a % v.ndim for a in axes), reverse=True):
            v = f(v, a, keep)
        return v

    return over


reduce_sum = _reduction("Sum", lambda v, a, k: v.sum(a, k), "reduce_sum")
reduce_mean = _reduction("Mean", _mean, "reduce_mean")
reduce_max = _reduction("Max", lambda v, a, k: v.amax(a, k), "reduce_max")
reduce_min = _reduction("Min", lambda v, a, k: v.amin(a, k), "reduce_min")
reduce_prod = _reduction("Prod", _each(lambda v, a, k: v.prod(a, k)), "reduce_prod")
reduce_all = _reduction("All", _each(lambda v, a, k: v.all(a, k)), "reduce_all")
reduce_any = _reduction("Any", _each(lambda v, a, k: v.any(a, k)), "reduce_any")
reduce_logsumexp = _reduction("LogSumExp", lambda v, a, k: v.logsumexp(a, k), "reduce_logsumexp")
_reduce_variance = lambda v, a, k: ((v - v.mean(a, True)) ** 2).mean(a, k)  # noqa: E731
reduce_variance = _reduction("Variance", _reduce_variance, "reduce_variance")
reduce_std = _reduction("Std", lambda v, a, k: _reduce_variance(v, a, k).sqrt(), "reduce_std")
reduce_euclidean_norm = _reduction("Norm", lambda v, a, k: (v * v).sum(a, k).sqrt(), "reduce_euclidean_norm")
count_nonzero_of = _reduction("CountNonzero", lambda v, a, k: (v != 0).to(INT64).sum(a, k), "count_nonzero", "int64")


def count_nonzero(input_tensor: Any, axis: Any = None, keepdims: Any = None, dtype: Any = int64, **settings: Any) -> Tensor:
    """The number of elements that are not zero."""
    return cast(count_nonzero_of(input_tensor, axis, keepdims, **settings), dtype)


def _arg(kind: str, f: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    def call(
        input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = int64
    ) -> Tensor:
        x = convert_to_tensor(input)
        axis = axis if axis is not None else dimension
        axes = _axes(x, 0 if axis is None else axis)
        want = as_dtype(output_type)
        return make(kind, [x], lambda ctx, v: f(v, axes[0]).to(want.native), name, want, _reduced(x, axes, False))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"TensorFlow's ``{name}`` along ``axis``, 0 if none is given."
    return call


argmax = arg_max = _arg("ArgMax", lambda v, a: v.argmax(a), "argmax")
argmin = arg_min = _arg("ArgMin", lambda v, a: v.argmin(a), "argmin")


def _running(kind: str, f: Callable[..., Any], start: float) -> Callable[..., Tensor]:
    def call(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
        x = convert_to_tensor(x)

        def lower(ctx: Any, v: Any) -> Any:
            a = axis % v.ndim
            v = v.flip([a]) if reverse else v
            made = f(v, a).to(v.dtype)
            if exclusive:
                first = made.narrow(a, 0, 1) * 0 + start
                made = tw.concat([first.to(v.dtype), made.narrow(a, 0, v.shape[a] - 1)], a)
            return made.flip([a]) if reverse else made

        return make(kind, [x], lower, name, x.dtype, x.shape)

    call.__name__ = kind.lower()
    call.__doc__ = f"Running {'sums' if kind == 'Cumsum' else 'products'} along an axis."
    return call


cumsum = _running("Cumsum", lambda v, a: v.cumsum(a), 0)
cumprod = _running("Cumprod", lambda v, a: v.cumprod(a), 1)


# Products.


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of matrices, or of batches of them of equal leading sizes."""
    a, b = same_type("MatMul", a, b)
    turn_a, turn_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    for t in (a, b):
        if t.shape.ndims is not None and t.shape.ndims < 2:
            raise wrong_shape(f"matmul: {t.name} of shape {t.shape} is no matrix: use tf.expand_dims")

    def lower(ctx: Any, x: Any, y: Any) -> Any:
        x = x.mT if turn_a else x
        y = y.mT if turn_b else y
        return (x.conj() if adjoint_a else x) @ (y.conj() if adjoint_b else y)

    return make("MatMul", [a, b], lower, name, a.dtype, _product_shape(a, b, turn_a, turn_b))


def _product_shape(a: Tensor, b: Tensor, turn_a: bool, turn_b: bool) -> TensorShape:
    if a.shape.ndims is None or b.shape.ndims is None:
        return TensorShape(None)
    x, y = a.shape.as_list(), b.shape.as_list()
    n, k = (x[-1], x[-2]) if turn_a else (x[-2], x[-1])
    j, m = (y[-1], y[-2]) if turn_b else (y[-2], y[-1])
    try:
        merge_sizes(k, j)
    except ValueError:
        e = f"matmul: inner sizes differ: {a.shape} of {a.name} × {b.shape} of {b.name}"
        raise wrong_shape(e) from None
    return TensorShape([*broadcast(TensorShape(x[:-2]), TensorShape(y[:-2])).as_list(), n, m])


batch_matmul = matmul


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over axes of both."""
    a, b = same_type("tensordot", a, b)
    return make("Tensordot", [a, b], lambda ctx, x, y: _contracted(x, y, *_pairs(axes, x.ndim)), name)


def _pairs(axes: Any, rank: int) -> Any:
    if isinstance(axes, int):
        return [list(_range(rank - axes, rank)), list(_range(axes))]
    return [[a] if isinstance(a, int) else list(a) for a in axes]


def _contracted(x: Any, y: Any, over_x: list[int], over_y: list[int]) -> Any:
    """The product of matrices whose inner dimension is all contracted axes."""
    over_x, over_y = [a % x.ndim for a in over_x], [a % y.ndim for a in over_y]
    free_x, free_y = ([a for a in _range(v.ndim) if a not in over] for v, over in ((x, over_x), (y, over_y)))
    inner = 1
    for a in over_x:
        inner *= x.shape[a]
    left = x.permute([*free_x, *over_x]).reshape([-1, inner])
    right = y.permute([*over_y, *free_y]).reshape([inner, -1])
    return (left @ right).reshape([*[x.shape[a] for a in free_x], *[y.shape[a] for a in free_y]])


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """Einstein's summation."""
    ts = [convert_to_tensor(x) for x in inputs]
    return make("Einsum", ts, lambda ctx, *vs: tw.einsum(equation, list(vs)), name)


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors of one shape."""
    ts = [convert_to_tensor(x) for x in inputs]
    if not ts:
        raise wrong_shape("add_n: the list is empty")
    shape = ts[0].shape
    for t in ts[1:]:
        shape = shape.merge_with(t.shape)
        same_type("add_n", ts[0], t)
    return make("AddN", ts, lambda ctx, *vs: _sum(vs[1:], vs[0]), name, ts[0].dtype, shape)


accumulate_n = add_n


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Tensor:
    """``t``, at least and at most the bounds."""
    t = convert_to_tensor(t)
    return minimum(maximum(t, clip_value_min), clip_value_max, name or "clip_by_value")


def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: str | None = None, keep_dims: Any = None) -> Tensor:
    """The norm of vectors: euclidean, 1, 2, infinity or another order."""
    x, keep = convert_to_tensor(tensor), keepdims or keep_dims
    if ord in ("euclidean", "fro", 2):
        return reduce_euclidean_norm(x, axis, keep, name)
    if ord == 1:
        return reduce_sum(abs(x), axis, keep, name)
    if ord == float("inf"):
        return reduce_max(abs(x), axis, keep, name)
    return pow(reduce_sum(pow(abs(x), float(ord)), axis, keep), 1.0 / ord, name)


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the diagonal."""
    return make("Trace", [convert_to_tensor(x)], lambda ctx, v: v.diagonal(0, -2, -1).sum(-1), name)


def bincount(arr: Any, weights: Any = None, minlength: int = 0, maxlength: Any = None, dtype: Any = int32) -> Tensor:
    """How often each number occurs; ``minlength`` must say how many there are."""
    arr = convert_to_tensor(arr)
    if not minlength:
        raise wrong_shape("bincount: give minlength, the number of bins")

    def lower(ctx: Any, v: Any, *w: Any) -> Any:
        ones = w[0].reshape(-1) if w else _native.ones(v.numel(), dtype=as_dtype(dtype).native)
        zeros = _native.zeros(minlength, dtype=ones.dtype)
        return zeros.index_add(0, v.reshape(-1).to(INT64), ones)

    ts = [arr] + ([] if weights is None else [convert_to_tensor(weights)])
    return make("Bincount", ts, lower, None, dtype if weights is None else ts[1].dtype, [minlength])


# Operators.


def _operators() -> None:
    def both(word: str, f: Callable[..., Tensor]) -> None:
        setattr(Tensor, f"__{word}__", lambda self, other: f(self, other, name=word))
        setattr(Tensor, f"__r{word}__", lambda self, other: f(other, self, name=word))

    def logic(f: Callable[..., Tensor], bits: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda a, b, name: (f if convert_to_tensor(a).dtype.is_bool else bits)(a, b, name)

    names = dict(add=add, sub=subtract, mul=multiply, truediv=truediv, floordiv=floordiv, mod=floormod, pow=pow, matmul=matmul)
    for word, f in names.items():
        both(word, f)
    both("and", logic(logical_and, binary("BitwiseAnd", lambda a, b: a & b)))
    both("or", logic(logical_or, binary("BitwiseOr", lambda a, b: a | b)))
    both("xor", logic(logical_xor, binary("BitwiseXor", lambda a, b: a ^ b)))
    for word, f in dict(lt=less, le=less_equal, gt=greater, ge=greater_equal).items():
        setattr(Tensor, f"__{word}__", lambda self, other, f=f: f(self, other))
    for word, f in dict(neg=negative, abs=abs, invert=logical_not).items():
        setattr(Tensor, f"__{word}__", lambda self, f=f: f(self))


_operators()


__all__ = [n for n, v in list(globals().items()) if not n.startswith("_") and getattr(v, "__module__", "") == __name__]
