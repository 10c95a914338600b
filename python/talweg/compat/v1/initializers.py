"""``tf.initializers``: the first values of variables."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from . import constants, randoms
from .dtypes import as_dtype, float32
from .graph import Tensor, constant


class Initializer:
    """A function of a shape, a type and ``partition_info``."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """A tensor of first values."""
        raise NotImplementedError


class Zeros(Initializer):
    """Zeros."""

    def __init__(self, dtype: Any = float32):
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Zeros of a shape."""
        return constants.zeros(shape, dtype or self.dtype)


class Ones(Zeros):
    """Ones."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Ones of a shape."""
        return constants.ones(shape, dtype or self.dtype)


class Constant(Initializer):
    """A value, or an array of the variable's shape."""

    def __init__(self, value: Any = 0, dtype: Any = float32, verify_shape: bool = False):
        self.value, self.dtype = value, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """The value in a shape."""
        return constant(self.value, dtype or self.dtype, shape)


class _Drawn(Initializer):
    draw: Any = None

    def __init__(self, a: float, b: float, seed: Any = None, dtype: Any = float32):
        self.a, self.b, self.seed, self.dtype = a, b, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random numbers in a shape."""
        return type(self).draw(shape, self.a, self.b, dtype or self.dtype, self.seed)


class RandomUniform(_Drawn):
    """Evenly distributed in ``[minval, maxval)``."""

    draw = staticmethod(randoms.random_uniform)

    def __init__(self, minval: Any = 0, maxval: Any = 1, seed: Any = None, dtype: Any = float32):
        super().__init__(minval, maxval, seed, dtype)


class RandomNormal(_Drawn):
    """Normally distributed."""

    draw = staticmethod(randoms.random_normal)

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: Any = None, dtype: Any = float32):
        super().__init__(mean, stddev, seed, dtype)


class TruncatedNormal(RandomNormal):
    """Normally distributed within two standard deviations."""

    draw = staticmethod(randoms.truncated_normal)


def _fans(shape: Any) -> tuple[float, float]:
    sizes = [int(d) for d in shape]
    if len(sizes) < 2:
        n = sizes[0] if sizes else 1
        return n, n
    field = math.prod(sizes[:-2])
    return sizes[-2] * field, sizes[-1] * field


class VarianceScaling(Initializer):
    """Random numbers whose variance is ``scale`` over the number of inputs, outputs, or their mean."""

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: Any = None, dtype: Any = float32
    ):
        self.scale, self.mode, self.distribution, self.seed, self.dtype = scale, mode, distribution, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random numbers in a shape."""
        fan_in, fan_out = _fans(shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance, kind = self.scale / max(1.0, n), dtype or self.dtype
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return randoms.random_uniform(shape, -limit, limit, kind, self.seed)
        if self.distribution == "untruncated_normal":
            return randoms.random_normal(shape, 0.0, math.sqrt(variance), kind, self.seed)
        # A normal distribution cut at two standard deviations has the deviation 0.8796.
        return randoms.truncated_normal(shape, 0.0, math.sqrt(variance) / 0.87962566103423978, kind, self.seed)


class GlorotUniform(VarianceScaling):
    """Glorot's, evenly distributed."""

    def __init__(self, seed: Any = None, dtype: Any = float32):
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Glorot's, normally distributed."""

    def __init__(self, seed: Any = None, dtype: Any = float32):
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


class UniformUnitScaling(Initializer):
    """Evenly distributed, so that the scale of the input is kept."""

    def __init__(self, factor: float = 1.0, seed: Any = None, dtype: Any = float32):
        self.factor, self.seed, self.dtype = factor, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Random numbers in a shape."""
        sizes = [int(d) for d in shape]
        limit = math.sqrt(3 / max(1, math.prod(sizes[:-1]))) * self.factor
        return randoms.random_uniform(shape, -limit, limit, dtype or self.dtype, self.seed)


class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns."""

    def __init__(self, gain: float = 1.0, seed: Any = None, dtype: Any = float32):
        self.gain, self.seed, self.dtype = gain, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """An orthogonal matrix in a shape."""
        from ...linalg import qr
        from .graph import make

        sizes = [int(d) for d in shape]
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        x = randoms.random_normal([max(rows, columns), min(rows, columns)], seed=self.seed, dtype=dtype or self.dtype)

        def lower(ctx: Any, v: Any) -> Any:
            q, r = qr(v)
            q = q * r.diagonal().sign()
            return (q if rows >= columns else q.mT).reshape(sizes) * self.gain

        return make("Orthogonal", [x], lower, None, x.dtype, sizes)


class Identity(Initializer):
    """The identity matrix."""

    def __init__(self, gain: float = 1.0, dtype: Any = float32):
        self.gain, self.dtype = gain, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """The identity in a shape."""
        return constants.eye(*[int(d) for d in shape], dtype=dtype or self.dtype) * self.gain


def lecun_normal(seed: Any = None) -> Initializer:
    """Variance 1 over the number of inputs, normally distributed."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: Any = None) -> Initializer:
    """Variance 1 over the number of inputs, evenly distributed."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed: Any = None) -> Initializer:
    """Variance 2 over the number of inputs, normally distributed."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: Any = None) -> Initializer:
    """Variance 2 over the number of inputs, evenly distributed."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


zeros = zeros_initializer = Zeros
ones = ones_initializer = Ones
constant_initializer = Constant
random_uniform = random_uniform_initializer = RandomUniform
random_normal = random_normal_initializer = RandomNormal
truncated_normal = truncated_normal_initializer = TruncatedNormal
variance_scaling = variance_scaling_initializer = VarianceScaling
glorot_uniform = glorot_uniform_initializer = GlorotUniform
glorot_normal = glorot_normal_initializer = GlorotNormal
uniform_unit_scaling = uniform_unit_scaling_initializer = UniformUnitScaling
orthogonal = orthogonal_initializer = Orthogonal
identity = Identity
