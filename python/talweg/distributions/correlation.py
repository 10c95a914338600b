"""Distributions of correlation matrices."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native
from .._native import Tensor
from . import constraints
from .distribution import Distribution, broadcast_all, error, normal
from .gammas import Beta


class LKJCholesky(Distribution):
    """The distribution of Lewandowski, Kurowicka and Joe (2009) of Cholesky factors of correlation matrices: the density
    of a matrix is in proportion to its determinant to the power ``concentration - 1``.

    >>> d = tw.distributions.LKJCholesky(3, 2.0)
    >>> factor = d.sample()
    >>> (factor @ factor.mT).diagonal().tolist()
    [1.0, 1.0, 1.0]
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _params = {"concentration": 0}

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise error(f"LKJCholesky: dim must be at least 2, not {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(tuple(self.concentration.shape), (dim, dim), validate_args)

    def _squares(self) -> Beta:
        """Of each row, the distribution of the squared length of the part below the diagonal (section 3.2)."""
        offset = _native.tensor([0.0, *range(self.dim - 1)], dtype=self.concentration.dtype)
        rest = (self.concentration + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * offset
        return Beta((offset + 0.5).broadcast_to(list(rest.shape)), rest)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Factors, drawn row by row with the onion method."""
        lengths = self._squares().sample(sample_shape).unsqueeze(-1)
        direction = normal(self._extended_shape(sample_shape), self.concentration).tril(-1)
        norm = direction.square().sum(-1, keepdim=True).sqrt()
        below = lengths.sqrt() * direction / norm.clamp_min(1e-30)
        tiny = 2.0**-126
        return below + (1 - below.square().sum(-1)).clamp_min(tiny).sqrt().diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density (page 1999)."""
        value = self._value(value)
        n = self.dim - 1
        order = 2 * (self.concentration - 1).unsqueeze(-1) + _native.tensor([float(k) for k in range(n - 1, -1, -1)], dtype=value.dtype)
        density = (order * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = self.concentration + 0.5 * n
        return density - (0.5 * n * math.log(math.pi) + (alpha - 0.5).mvlgamma(n) - n * alpha.lgamma())
