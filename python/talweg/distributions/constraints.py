"""Where values and parameters of distributions may lie: ``constraint.check(value)`` is a bool for each event."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Callable

from .. import concat as _concat
from .. import stack as _stack
from .._native import Tensor, arange


class Constraint:
    """A region. ``is_discrete`` holds for integers; ``event_dim`` dimensions make one event."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_").lower()


class _Simple(Constraint):
    """A region by a function; numbers of its bounds are part of its name."""

    def __init__(self, name: str, test: Callable[[Tensor], Tensor], event_dim: int = 0, is_discrete: bool = False):
        self._name, self._test, self.event_dim, self.is_discrete = name, test, event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies inside."""
        return self._test(value)

    def __repr__(self) -> str:
        return self._name


class _Dependent(Constraint):
    """A region that other parameters decide."""

    def __init__(self, is_discrete: bool = False, event_dim: int = 0):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        """Cannot be known."""
        raise ValueError("a dependent constraint cannot be checked alone")


class dependent_property(property):
    """A property that returns a constraint of an instance."""

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0):
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """True for a region that other parameters decide."""
    return isinstance(constraint, (_Dependent, dependent_property))


class interval(Constraint):
    """``lower_bound <= x <= upper_bound``."""

    def __init__(self, lower_bound: Any, upper_bound: Any):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside."""
        return (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class half_open_interval(interval):
    """``lower_bound <= x < upper_bound``."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside."""
        return (value >= self.lower_bound) & (value < self.upper_bound)


class integer_interval(interval):
    """Integers between two bounds."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside."""
        return _is_whole(value) & (value >= self.lower_bound) & (value <= self.upper_bound)


class greater_than(Constraint):
    """``x > lower_bound``."""

    def __init__(self, lower_bound: Any):
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside."""
        return value > self.lower_bound

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lower_bound={self.lower_bound})"


class greater_than_eq(greater_than):
    """``x >= lower_bound``."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside."""
        return value >= self.lower_bound


class less_than(Constraint):
    """``x < upper_bound``."""

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside."""
        return value < self.upper_bound


class independent(Constraint):
    """Events of further dimensions: all of them must lie inside."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int):
        self.base_constraint, self.count = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies inside."""
        found = self.base_constraint.check(value)
        if not self.count:
            return found
        return found.reshape([*found.shape[: len(found.shape) - self.count], -1]).all(-1)


class multinomial(Constraint):
    """Counts that sum to at most ``upper_bound``."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies inside."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class cat(Constraint):
    """Regions of consecutive pieces along a dimension."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.event_dim = max(c.event_dim for c in self.cseq)
        self.is_discrete = any(c.is_discrete for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Whether each piece lies inside."""
        out, start = [], 0
        for c, n in zip(self.cseq, self.lengths):
            out.append(c.check(value.narrow(self.dim % value.ndim, start, n)))
            start += n
        return _concat(out, self.dim)


class stack(Constraint):
    """Regions of the slices along a dimension."""

    def __init__(self, cseq: Any, dim: int = 0):
        self.cseq, self.dim = list(cseq), dim
        self.event_dim = max(c.event_dim for c in self.cseq) + (1 if dim < 0 else 0)
        self.is_discrete = any(c.is_discrete for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        """Whether each slice lies inside."""
        a = self.dim % value.ndim
        parts = [c.check(value.narrow(a, i, 1).squeeze(a)) for i, c in enumerate(self.cseq)]
        return _stack(parts, self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """The region of a mixture's components, without the dimension of the mixture."""

    def __init__(self, base_constraint: Any):
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Whether each event lies inside."""
        n = self.event_dim
        wide = value.unsqueeze(-1 - n)
        found = self.base_constraint.check(wide)
        return found.all(-1)


def _is_whole(x: Tensor) -> Tensor:
    return x % 1 == 0


def _triangle(x: Tensor) -> Tensor:
    """True where the matrix is on or below the diagonal."""
    return arange(x.shape[-2]).unsqueeze(1) >= arange(x.shape[-1])


def _all2(x: Tensor) -> Tensor:
    return x.reshape([*x.shape[: len(x.shape) - 2], -1]).all(-1)


def _is_lower(x: Tensor) -> Tensor:
    return _all2((x == 0) | _triangle(x))


def _is_lower_cholesky(x: Tensor) -> Tensor:
    return _is_lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1)


def _is_corr_cholesky(x: Tensor) -> Tensor:
    unit = ((x * x).sum(-1) - 1).abs() < 1e-5 * x.shape[-1] * 10
    return _is_lower_cholesky(x) & unit.all(-1)


def _is_symmetric(x: Tensor) -> Tensor:
    return _all2((x - x.mT).abs() < 1e-6 + 1e-5 * x.abs())


def _eigenvalues(x: Tensor) -> Tensor:
    return x.eigvalsh()


dependent = _Dependent()
boolean = _Simple("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
one_hot = _Simple("OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True)
nonnegative_integer = _Simple("IntegerGreaterThan(lower_bound=0)", lambda x: _is_whole(x) & (x >= 0), is_discrete=True)
positive_integer = _Simple("IntegerGreaterThan(lower_bound=1)", lambda x: _is_whole(x) & (x >= 1), is_discrete=True)
real = _Simple("Real()", lambda x: x == x)
real_vector = independent(real, 1)
positive = _Simple("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
nonnegative = _Simple("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
unit_interval = interval(0.0, 1.0)
simplex = _Simple("Simplex()", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6 * max(1, x.shape[-1])), 1)
lower_triangular = _Simple("LowerTriangular()", _is_lower, 2)
lower_cholesky = _Simple("LowerCholesky()", _is_lower_cholesky, 2)
corr_cholesky = _Simple("CorrCholesky()", _is_corr_cholesky, 2)
square = _Simple("Square()", lambda x: x[..., 0, 0] == x[..., 0, 0] if x.shape[-1] == x.shape[-2] else x[..., 0, 0] != x[..., 0, 0], 2)
symmetric = _Simple("Symmetric()", _is_symmetric, 2)
positive_semidefinite = _Simple("PositiveSemidefinite()", lambda x: _is_symmetric(x) & (_eigenvalues(x) >= 0).all(-1), 2)
positive_definite = _Simple("PositiveDefinite()", lambda x: _is_symmetric(x) & (_eigenvalues(x) > 0).all(-1), 2)
