"""The base of all distributions."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from .. import _native
from .._native import Tensor
from .._size import Size
from .._state import no_grad
from ..errors import ArgumentError, Error
from . import constraints

DEFAULT_VALIDATE = [__debug__]
FLOAT32, FLOAT64, INT64 = (_native.dtype(name) for name in ("float32", "float64", "int64"))


def error(what: str) -> ArgumentError:
    """The exception for a wrong argument, with the line of the program."""
    return ArgumentError(_native.located(what))


class UnsupportedError(Error, NotImplementedError):
    """What a distribution does not have."""


def unsupported(what: str) -> UnsupportedError:
    """The exception for what a distribution does not have, with the line of the program."""
    return UnsupportedError(_native.located(what))


def sizes(x: Any) -> Size:
    """A shape."""
    return Size([int(x)]) if isinstance(x, int) else Size([int(d) for d in x])


def as_tensor(x: Any, like: Tensor | None = None) -> Tensor:
    """A tensor of floats."""
    if isinstance(x, Tensor):
        return x
    return _native.tensor(x, dtype=None if like is None else like.dtype) if like is not None else _native.tensor(x).to(FLOAT32) if isinstance(x, int) else _native.tensor(x)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Parameters as tensors of one shape; numbers take the type of the tensors beside them."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    made = [as_tensor(v, like) for v in values]
    shape = broadcast_shapes(*[tuple(t.shape) for t in made])
    return tuple(t if tuple(t.shape) == shape else t.broadcast_to(list(shape)) for t in made)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all broadcast to."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, d in enumerate(s):
            at = rank - len(s) + i
            if d != 1 and out[at] not in (1, d):
                raise error(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
            out[at] = d if d != 1 else out[at]
    return tuple(out)


def uniform(shape: Any, like: Tensor) -> Tensor:
    """Numbers in (0, 1) of a tensor's type: neither end is drawn."""
    u = _native.rand(list(shape), dtype=like.dtype)
    tiny = 2.0**-54 if str(like.dtype).endswith("float64") else 2.0**-25
    return u.clamp(tiny, 1 - 2 * tiny)


def normal(shape: Any, like: Tensor) -> Tensor:
    """Standard normal numbers of a tensor's type."""
    return _native.randn(list(shape), dtype=like.dtype)


def tail_sum(x: Tensor, count: int) -> Tensor:
    """The sum over the last dimensions."""
    return x.sum(list(range(len(x.shape) - count, len(x.shape)))) if count else x


class Distribution:
    """A batch of distributions over events.

    ``_params`` names the parameters with the number of their own dimensions; ``expand`` and ``repr`` use it.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict[str, Any] = {}
    support: Any = constraints.real
    _params: dict[str, int] = {}

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether constructors and ``log_prob`` check values unless ``validate_args`` says otherwise."""
        DEFAULT_VALIDATE[0] = bool(value)

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = sizes(batch_shape), sizes(event_shape)
        self._validate_args = DEFAULT_VALIDATE[0] if validate_args is None else validate_args
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self) -> None:
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if value is None or constraints.is_dependent(constraint) or not isinstance(value, Tensor) or value.is_symbolic:
                continue
            if not _holds(constraint, value):
                e = f"{type(self).__name__}: parameter {name} of shape {tuple(value.shape)} must satisfy {constraint!r}"
                raise error(f"{e}, but found {value.tolist()!r:.80}")

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, repeated to a larger batch."""
        shape = sizes(batch_shape)
        made = object.__new__(type(self)) if _instance is None else _instance
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in self._derived()})
        for name, own in self._params.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                rest = tuple(value.shape)[len(value.shape) - own :] if own else ()
                made.__dict__[name] = value.broadcast_to([*shape, *rest])
        made._batch_shape = shape
        return made

    def _derived(self) -> tuple[str, ...]:
        """Attributes that are computed from parameters."""
        return ()

    def _extended_shape(self, sample_shape: Any = ()) -> tuple[int, ...]:
        return sizes(sample_shape) + self._batch_shape + self._event_shape

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Events, for each of ``sample_shape`` and of the batch. No gradient flows."""
        with no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Events as differentiable functions of the parameters."""
        raise unsupported(f"{type(self).__name__} has no rsample: use sample and log_prob")

    def sample_n(self, n: int) -> Tensor:
        """``n`` events."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density or mass."""
        raise unsupported(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Any) -> Tensor:
        """The cumulative distribution function."""
        raise unsupported(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Any) -> Tensor:
        """The inverse of the cumulative distribution function."""
        raise unsupported(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All events of a discrete distribution."""
        raise unsupported(f"{type(self).__name__} has no enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        raise unsupported(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """``exp(entropy)``."""
        return self.entropy().exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise unsupported(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most likely event."""
        raise unsupported(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise unsupported(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def _value(self, value: Any) -> Tensor:
        """A value as a tensor, checked against shape and support."""
        value = value if isinstance(value, Tensor) else _native.tensor(value)
        if not self._validate_args:
            return value
        n = len(self._event_shape)
        own = tuple(value.shape)[len(value.shape) - n :] if n else ()
        if len(value.shape) < n or own != self._event_shape:
            raise error(f"{type(self).__name__}: a value of shape {tuple(value.shape)} has no events of shape {self._event_shape}")
        broadcast_shapes(tuple(value.shape), self._batch_shape + self._event_shape)
        if not value.is_symbolic:
            try:
                support = self.support
            except NotImplementedError:
                return value
            if not constraints.is_dependent(support) and not _holds(support, value):
                raise error(f"{type(self).__name__}: the value must lie in the support {support!r}, but found {value.tolist()!r:.80}")
        return value

    def __repr__(self) -> str:
        shown = []
        for name in self._params:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                shown.append(f"{name}: {value if math.prod(value.shape) == 1 else value.shape}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _holds(constraint: Any, value: Tensor) -> bool:
    found = constraint.check(value)
    return found if isinstance(found, bool) else bool(found.all().item())


class ExponentialFamily(Distribution):
    """Distributions of the form ``h(x) exp(<η, t(x)> - F(η))``."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise unsupported(f"{type(self).__name__} has no natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise unsupported(f"{type(self).__name__} has no log-normalizer")
