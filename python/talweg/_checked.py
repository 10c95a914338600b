"""Functions that say what is wrong with their arguments: in our exceptions, with the line of the program."""

# mypy: ignore-errors
import functools
import inspect
import os

from . import _native
from ._native import Tensor
from .errors import ArgumentError, DTypeError, Error, NameMissingError, OutOfRangeError

_PACKAGE = os.path.dirname(__file__) + os.sep


def type_error(what: str) -> DTypeError:
    """The exception for an object of a wrong type, with the line of the program."""
    return DTypeError(_native.located(what))


def value_error(what: str) -> ArgumentError:
    """The exception for an argument that is not allowed, with the line of the program."""
    return ArgumentError(_native.located(what))


def key_error(what: str) -> NameMissingError:
    """The exception for a name that is missing or unknown, with the line of the program."""
    return NameMissingError(_native.located(what))


# What Python raises when it is given objects of wrong types.
_PLAIN = (TypeError, AttributeError, ValueError, OverflowError, LookupError)


def _is_own(error):
    """True for what was raised by a line of the package, not by a function that it was given."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def _translated(f, args, e):
    """Our exception in the place of Python's; the same one if it is ours or another function's."""
    if isinstance(e, Error) or not _is_own(e):
        return e
    name = type(args[0]).__name__ if f.__name__ == "__init__" else f.__name__
    what = f"{name}: {e}"
    if isinstance(e, IndexError):
        ours = OutOfRangeError(_native.located(what))
    elif isinstance(e, KeyError):
        ours = key_error(what)
    else:
        ours = value_error(what) if isinstance(e, (ValueError, OverflowError)) else type_error(what)
    ours.__cause__ = e
    return ours


def checked(f):
    """The function; what Python itself says of arguments of wrong types is raised as ours, with the program's line."""

    @functools.wraps(f)
    def call(*args, **settings):
        try:
            return f(*args, **settings)
        except _PLAIN as e:
            raise _translated(f, args, e)

    return call


def of_tensor(f):
    """A checked function, with numbers, lists and arrays of other libraries as its first argument as well."""

    @functools.wraps(f)
    def call(*args, **settings):
        try:
            if args and not isinstance(args[0], Tensor):
                args = (_native.tensor(args[0]), *args[1:])
            return f(*args, **settings)
        except _PLAIN as e:
            raise _translated(f, args, e)

    return call


def function(name):
    """A method of tensors as a function of the package."""
    f = getattr(Tensor, name)
    if isinstance(Tensor.__dict__.get(name), staticmethod):
        return f
    call = of_tensor(f)
    call.__module__ = "talweg"  # methods have none
    return call


def wrapped(f):
    """A function, checked; one of ``x`` takes what can become a tensor. Classes stay as they are."""
    if isinstance(f, type):
        return f
    first = next(iter(inspect.signature(f).parameters), None)
    return of_tensor(f) if first == "x" else checked(f)


def check(space, names):
    """Makes functions and constructors of a module checked ones."""
    for name in names:
        x = space[name]
        if isinstance(x, type):
            made = x.__dict__.get("__init__")
            if hasattr(made, "__code__") and not hasattr(made, "__wrapped__"):
                x.__init__ = checked(made)
        elif hasattr(x, "__code__") and not hasattr(x, "__wrapped__"):
            space[name] = wrapped(x)
