"""``tf.errors``: TensorFlow's names over Talweg's classes of exceptions."""

# mypy: ignore-errors
from ... import errors as _errors
from ..._native import located


class OpError(_errors.Error):
    """Any error of a graph that runs."""


class InvalidArgumentError(OpError, _errors.ArgumentError):
    """A value that an op does not accept."""


class FailedPreconditionError(OpError, _errors.FeedError):
    """The session is not in the state that an op wants: a variable without a value."""


class NotFoundError(OpError, _errors.NameMissingError):
    """A name or file that does not exist."""


class OutOfRangeError(OpError, _errors.OutOfRangeError):
    """The end of the input."""


class UnimplementedError(OpError, NotImplementedError):
    """What Talweg does not have."""


class ShapeError(_errors.ShapeError):
    """Static shapes that contradict each other."""


def invalid(what: str) -> InvalidArgumentError:
    """The exception for a value, with the line of the program."""
    return InvalidArgumentError(located(what))


def wrong_type(what: str) -> _errors.DTypeError:
    """The exception for an element type or kind of object, with the line of the program."""
    return _errors.DTypeError(located(what))


def wrong_shape(what: str) -> ShapeError:
    """The exception for contradicting shapes, with the line of the program."""
    return ShapeError(located(what))


def unimplemented(what: str) -> UnimplementedError:
    """The exception for an absent feature, with the line of the program."""
    return UnimplementedError(located(what))


class UnimplementedAttribute(UnimplementedError, AttributeError):
    """A name of TensorFlow that Talweg does not have."""
