"""Invertible functions with the logarithm of their Jacobian's determinant."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native, concat, stack
from .._native import Tensor
from . import constraints
from .distribution import error, tail_sum


class Transform:
    """``y = t(x)``, ``x = t.inv(y)`` and ``t.log_abs_det_jacobian(x, y)``.

    ``cache_size`` is accepted: values are not kept.
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0):
        self._cache_size = cache_size

    @property
    def event_dim(self) -> int:
        """The dimensions of an event."""
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)

    @property
    def sign(self) -> Any:
        """1 for an increasing function of numbers, -1 for a decreasing one."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Itself."""
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """The value."""
        return self._call(x)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |dy/dx|``."""
        raise NotImplementedError(f"{type(self).__name__} has no Jacobian")

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of an argument."""
        return tuple(shape)

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform):
        super().__init__()
        self._t = transform
        self.bijective = transform.bijective

    domain = property(lambda self: self._t.codomain)
    codomain = property(lambda self: self._t.domain)
    sign = property(lambda self: self._t.sign)
    inv = property(lambda self: self._t)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Inverse) and self._t == other._t

    __hash__ = Transform.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self._t._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._t._call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |dy/dx|``."""
        return -self._t.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        return self._t.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of an argument."""
        return self._t.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._t!r})"


class _Increasing(Transform):
    bijective, sign = True, 1

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other)

    __hash__ = Transform.__hash__


class ExpTransform(_Increasing):
    """``exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``x``."""
        return x


class SigmoidTransform(_Increasing):
    """``1 / (1 + exp(-x))``."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        from .special import clamp_probs

        return clamp_probs(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        from .special import clamp_probs

        y = clamp_probs(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log(y (1 - y))``."""
        return -_softplus(-x) - _softplus(x)


def _softplus(x: Tensor) -> Tensor:
    return x.relu() + (-x.abs()).exp().log1p()


class TanhTransform(_Increasing):
    """``tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log(1 - y²)`` without cancellation."""
        return 2 * (math.log(2) - x - _softplus(-2 * x))


class SoftplusTransform(_Increasing):
    """``log(1 + exp(x))``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return _softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log sigmoid(x)``."""
        return -_softplus(-x)


class PowerTransform(Transform):
    """``x ** exponent`` of positive numbers."""

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else _native.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |exponent y / x|``."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        from .distribution import broadcast_shapes

        return broadcast_shapes(tuple(shape), tuple(self.exponent.shape))

    inverse_shape = forward_shape


class AbsTransform(Transform):
    """``|x|``, which has no inverse."""

    codomain = constraints.nonnegative

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """``loc + scale * x``."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    domain = codomain = property(lambda self: constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real)
    event_dim = property(lambda self: self._event_dim)

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |scale|``."""
        scale = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        return tail_sum(x * 0 + scale, self._event_dim)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        from .distribution import broadcast_shapes

        parts = [tuple(v.shape) for v in (self.loc, self.scale) if isinstance(v, Tensor)]
        return broadcast_shapes(tuple(shape), *parts)

    inverse_shape = forward_shape


class IndependentTransform(Transform):
    """A transform whose events have further dimensions."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.bijective = base_transform.bijective

    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inverse(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the further dimensions."""
        return tail_sum(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of an argument."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events in another shape."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise error(f"ReshapeTransform: {self.in_shape} and {self.out_shape} have different numbers of elements")

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape([*x.shape[: len(x.shape) - len(self.in_shape)], *self.out_shape])

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape([*y.shape[: len(y.shape) - len(self.out_shape)], *self.in_shape])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Zero."""
        return _native.zeros(list(x.shape[: len(x.shape) - len(self.in_shape)]), dtype=x.dtype)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(shape)[: len(shape) - len(self.in_shape)] + self.out_shape

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of an argument."""
        return tuple(shape)[: len(shape) - len(self.out_shape)] + self.in_shape


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(p.bijective for p in self.parts)

    @property
    def domain(self) -> Any:
        """The domain of the first."""
        return _widened(self.parts, "domain") if self.parts else constraints.real

    @property
    def codomain(self) -> Any:
        """The codomain of the last."""
        return _widened(self.parts, "codomain") if self.parts else constraints.real

    @property
    def sign(self) -> Any:
        """The product of the signs."""
        s: Any = 1
        for p in self.parts:
            s = s * p.sign
        return s

    def _call(self, x: Tensor) -> Tensor:
        for p in self.parts:
            x = p(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for p in reversed(self.parts):
            y = p._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the parts, over the event's dimensions of the whole."""
        if not self.parts:
            return x * 0
        event_dim = self.domain.event_dim
        total: Any = 0
        for p in self.parts:
            after = p(x)
            total = total + tail_sum(p.log_abs_det_jacobian(x, after), event_dim - p.domain.event_dim)
            event_dim += p.codomain.event_dim - p.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of a value."""
        for p in self.parts:
            shape = p.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of an argument."""
        for p in reversed(self.parts):
            shape = p.inverse_shape(shape)
        return tuple(shape)


def _widened(parts: list[Transform], side: str) -> Any:
    """The domain or codomain of a chain: wide enough for the events of all parts."""
    if side == "domain":
        base, event_dim = parts[0].domain, parts[-1].codomain.event_dim
        for p in reversed(parts):
            event_dim = max(event_dim + p.domain.event_dim - p.codomain.event_dim, p.domain.event_dim)
    else:
        base, event_dim = parts[-1].codomain, parts[0].domain.event_dim
        for p in parts:
            event_dim = max(event_dim + p.codomain.event_dim - p.domain.event_dim, p.codomain.event_dim)
    return constraints.independent(base, event_dim - base.event_dim) if event_dim > base.event_dim else base


identity_transform = ComposeTransform([])


class SoftmaxTransform(Transform):
    """``softmax`` along the last dimension; its inverse is ``log``."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors to points of the simplex with one more dimension, by breaking a stick."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        return x - (n - _native.arange(n)).to(x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        from .special import clamp_probs

        z = clamp_probs(self._offset(x).sigmoid())
        left = (1 - z).cumprod(-1)
        return z.pad([0, 1], "constant", 1.0) * left.pad([1, 0], "constant", 1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        n = y.shape[-1] - 1
        crop = y[..., :n]
        rest = (1 - crop.cumsum(-1)).clamp_min(1.2e-38)
        return crop.log() - rest.log() + (n - _native.arange(n)).to(y.dtype).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the breaks."""
        z = self._offset(x)
        return (-z - _softplus(-z) + y[..., : y.shape[-1] - 1].log()).sum(-1) + z.sum(-1) * 0

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """One more."""
        return (*tuple(shape)[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """One less."""
        return (*tuple(shape)[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Matrices to lower triangular ones with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        low = LowerCholeskyTransform()(x)
        return low @ low.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(y.cholesky())


class CorrCholeskyTransform(Transform):
    """Vectors to Cholesky factors of correlation matrices."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh().clamp(-1 + 1e-7, 1 - 1e-7)
        r = _below(x)
        left = (1 - r * r).cumprod(-1).clamp_min(0.0).sqrt()
        n = r.shape[-1]
        r = r + _native.eye(n, dtype=x.dtype)
        return r * left[..., : n - 1].pad([1, 0], "constant", 1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        n = y.shape[-1]
        rest = (1 - (y * y).cumsum(-1)).clamp_min(1e-30)
        r = y / rest[..., : n - 1].pad([1, 0], "constant", 1.0).sqrt()
        return _packed(r).clamp(-1 + 1e-7, 1 - 1e-7).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """From the rows' remaining lengths."""
        n = y.shape[-1]
        rest = 1 - (y * y).cumsum(-1)
        inner = _packed_offset(rest, n)
        stick = 0.5 * inner.clamp_min(1e-30).log().sum(-1) if inner.shape[-1] else rest.sum([-1, -2]) * 0
        return stick - 2 * (x + _softplus(-2 * x) - math.log(2)).sum(-1)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """A matrix."""
        d = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        return (*tuple(shape)[:-1], d, d)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The elements below the diagonal."""
        d = shape[-1]
        return (*tuple(shape)[:-2], d * (d - 1) // 2)


def _places(n: int, offset: int) -> Any:
    return _native.tensor([i * n + j for i in range(n) for j in range(i + 1 + offset)] or [0])


def _below(x: Tensor) -> Tensor:
    """A vector as the elements below a diagonal."""
    d = round((0.25 + 2 * x.shape[-1]) ** 0.5 + 0.5)
    flat = _native.zeros([*x.shape[:-1], d * d], dtype=x.dtype)
    return flat.index_copy(len(x.shape) - 1, _places(d, -1), x).reshape([*x.shape[:-1], d, d])


def _packed(m: Tensor) -> Tensor:
    """The elements below a diagonal as a vector."""
    d = m.shape[-1]
    return m.reshape([*m.shape[:-2], d * d]).index_select(len(m.shape) - 2, _places(d, -1))


def _packed_offset(m: Tensor, d: int) -> Tensor:
    """The elements two below the diagonal as a vector."""
    if d < 3:
        return m.reshape([*m.shape[:-2], d * d])[..., :0]
    return m.reshape([*m.shape[:-2], d * d]).index_select(len(m.shape) - 2, _places(d, -2))


class _Parts(Transform):
    """Transforms of pieces along a dimension."""

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(t.bijective for t in self.transforms)

    def _pieces(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([t(p) for t, p in zip(self.transforms, self._pieces(x))])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined([t._inverse(p) for t, p in zip(self.transforms, self._pieces(y))])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The pieces' own."""
        both = zip(self.transforms, self._pieces(x), self._pieces(y))
        return self._joined([t.log_abs_det_jacobian(a, b) for t, a, b in both])


class CatTransform(_Parts):
    """Transforms of consecutive pieces along a dimension."""

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def _pieces(self, x: Tensor) -> list[Tensor]:
        out, start = [], 0
        for n in self.lengths:
            out.append(x.narrow(self.dim % len(x.shape), start, n))
            start += n
        return out

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return concat(parts, self.dim)


class StackTransform(_Parts):
    """Transforms of the slices along a dimension."""

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def _pieces(self, x: Tensor) -> list[Tensor]:
        a = self.dim % len(x.shape)
        return [x.narrow(a, i, 1).squeeze(a) for i in range(x.shape[a])]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution."""

    bijective, codomain, sign = True, constraints.unit_interval, 1

    def __init__(self, distribution: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The density's logarithm."""
        return self.distribution.log_prob(x)
