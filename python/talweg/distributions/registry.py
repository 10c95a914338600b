"""``biject_to`` and ``transform_to``: from unconstrained numbers to a constraint's region."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Callable

from . import constraints, transforms
from .distribution import unsupported


class ConstraintRegistry:
    """Transforms by the kind of constraint."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, Callable[..., Any]]] = []

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """A factory for a constraint, or for all of a class; a decorator without ``factory``."""
        if factory is None:
            return lambda f: self.register(constraint, f)
        self._made.insert(0, (constraint, factory))
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform to a constraint's region."""
        for known, factory in self._made:
            if known is constraint or (isinstance(known, type) and type(constraint) is known):
                return factory(constraint)
        raise unsupported(f"there is no transform to {constraint!r}")


def _interval(c: Any) -> Any:
    if isinstance(c.lower_bound, (int, float)) and (c.lower_bound, c.upper_bound) == (0, 1):
        return transforms.SigmoidTransform()
    scale = c.upper_bound - c.lower_bound
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(c.lower_bound, scale)])


def _above(c: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(c.lower_bound, 1)])


def _below(c: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(c.upper_bound, -1)])


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()
for _registry in (biject_to, transform_to):
    for _constraint, _factory in [
        (constraints.real, lambda c: transforms.identity_transform),
        (constraints.positive, lambda c: transforms.ExpTransform()),
        (constraints.nonnegative, lambda c: transforms.ExpTransform()),
        (constraints.interval, _interval),
        (constraints.half_open_interval, _interval),
        (constraints.greater_than, _above),
        (constraints.greater_than_eq, _above),
        (constraints.less_than, _below),
        (constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform()),
    ]:
        _registry.register(_constraint, _factory)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda c: transforms.PositiveDefiniteTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
biject_to.register(constraints.independent, lambda c: transforms.IndependentTransform(biject_to(c.base_constraint), c.count))
transform_to.register(constraints.independent, lambda c: transforms.IndependentTransform(transform_to(c.base_constraint), c.count))
