"""Functions that say what is wrong with their arguments: in our exceptions, with the line of the program."""

# mypy: ignore-errors
import functools
import inspect
import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native
from ._calls import call_error
from ._native import Tensor
from .errors import ArgumentError, DTypeError, Error, FileError, FileMissingError, InternalError, NameMissingError, OutOfRangeError

_F = TypeVar("_F", bound=Callable[..., Any])
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


def file_error(what: str, e: OSError) -> FileError:
    """The exception for a file that cannot be read or written, with the line of the program."""
    ours = (FileMissingError if isinstance(e, FileNotFoundError) else FileError)(_native.located(what))
    ours.errno = e.errno
    return ours


def warn(what):
    """A warning at the line of the program."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(what, UserWarning, stacklevel=level)


def _shown(kind, error, trace):
    """Prints an exception that ends the program: ours with a traceback that ends at the program's line."""
    if isinstance(error, Error) and not isinstance(error, InternalError):
        frames = []
        while trace is not None:
            frames.append(trace)
            trace = trace.tb_next
        own = [i for i, t in enumerate(frames) if not t.tb_frame.f_code.co_filename.startswith(_PACKAGE)]
        for t in reversed(frames[: own[-1] + 1] if own else frames):
            trace = types.TracebackType(trace, t.tb_frame, t.tb_lasti, t.tb_lineno)
        error = error.with_traceback(trace)
    _shown_before(kind, error, trace)


_shown_before, sys.excepthook = sys.excepthook, _shown

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
    name = _name(f, args)
    if isinstance(e, TypeError):
        wrong_call = call_error(f, name, e)
        if wrong_call is not None:
            return wrong_call
    what = f"{name}: {e}"
    if isinstance(e, IndexError):
        ours = OutOfRangeError(_native.located(what))
    elif isinstance(e, KeyError):
        ours = key_error(what)
    else:
        ours = value_error(what) if isinstance(e, (ValueError, OverflowError)) else type_error(what)
    return ours


def _name(f, args):
    """The name of a function; of a constructor, that of its class."""
    if f.__name__ != "__init__":
        return f.__name__
    owner = f.__qualname__.split(".")[-2] if "." in f.__qualname__ else ""
    return type(args[0]).__name__ if not owner or owner.startswith("_") else owner


def checked(f: _F) -> _F:
    """The function; what Python itself says of arguments of wrong types is raised as ours, with the program's line."""

    @functools.wraps(f)
    def call(*args, **settings):
        try:
            return f(*args, **settings)
        except _PLAIN as e:
            ours = _translated(f, args, e)
            if ours is e:
                raise
            raise ours from None

    return call


# Other spellings of parameters, which every function takes.
_SPELLINGS = [("axis", "dim"), ("axis", "dims"), ("axes", "dims"), ("keepdims", "keepdim")]


def _stored(name, out, y):
    """Writes results to the tensors of ``out=``."""
    if isinstance(y, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(y):
            raise type_error(f"{name}: out= must be a tuple of {len(y)} tensors")
        return type(y)(*(_stored(name, o, part) for o, part in zip(out, y)))
    if not isinstance(out, Tensor):
        raise type_error(f"{name}: out= must be a tensor, not {type(out).__name__}")
    if out.shape != y.shape:
        shapes = f"has shape {tuple(out.shape)}, the result {tuple(y.shape)}"
        raise value_error(f"{name}: out= {shapes}; a tensor keeps its shape, so make it of that shape")
    if _kind(y.dtype) > _kind(out.dtype):
        raise type_error(f"{name}: out= is {out.dtype}, which does not hold {y.dtype}")
    return out.copy_(y)


def _kind(dtype):
    name = dtype.name
    return ("bool" != name) + ("float" in name or "complex" in name) + ("complex" in name)


def _spellings(f):
    """Other spellings of the parameters of a function, and whether it takes ``out=`` itself."""
    try:
        names = inspect.signature(f).parameters
    except ValueError:
        names = ()
    return {a: b for a, b in _SPELLINGS if b in names and a not in names}, "out" in names


def _called(f, convert):
    """The function with the spellings above, with ``out=``, and with our exceptions."""
    known = []

    @functools.wraps(f)
    def call(*args, **settings):
        try:
            out = None
            if settings:
                if not known:
                    known.extend(_spellings(f))
                spellings, has_out = known
                if "out" in settings and not has_out:
                    out = settings.pop("out")
                for a, b in spellings.items():
                    if a in settings:
                        if b in settings:
                            raise type_error(f"{f.__name__}: {a} and {b} are the same argument: give one of them")
                        settings[b] = settings.pop(a)
                if convert and not args and "input" in settings:
                    args = (settings.pop("input"),)
            if convert and args and not isinstance(args[0], Tensor):
                args = (_native.tensor(args[0]), *args[1:])
            y = f(*args, **settings)
            return y if out is None else _stored(f.__name__, out, y)
        except _PLAIN as e:
            ours = _translated(f, args, e)
            if ours is e:
                raise
            raise ours from None

    return call


def spelled(f):
    """A checked function that takes other spellings of its parameters, and ``out=``."""
    return _called(f, False)


def tensor_first(f):
    """The same, with numbers, lists and arrays of other libraries as its first argument as well."""
    return _called(f, True)


def of_tensor(f):
    """A checked function, with numbers, lists and arrays of other libraries as its first argument as well."""

    @functools.wraps(f)
    def call(*args, **settings):
        try:
            if args and not isinstance(args[0], Tensor):
                args = (_native.tensor(args[0]), *args[1:])
            return f(*args, **settings)
        except _PLAIN as e:
            ours = _translated(f, args, e)
            if ours is e:
                raise
            raise ours from None

    return call


def written(name):
    """A method of tensors as a function of the package."""
    f = getattr(Tensor, name)
    if isinstance(Tensor.__dict__.get(name), staticmethod):
        return f
    call = tensor_first(f)
    call.__module__ = "talweg"  # methods have none
    return call


function = written


def wrapped(f):
    """A function, checked; one of ``x`` takes what can become a tensor. Classes stay as they are."""
    if isinstance(f, type):
        return f
    first = next(iter(inspect.signature(f).parameters), None)
    return of_tensor(f) if first == "x" else checked(f)


def sweep(space):
    """Makes all functions of a module that are native or plain, and all constructors, checked ones."""
    public = [n for n in vars(space) if not n.startswith("_")]
    for name in public:
        x = getattr(space, name)
        if isinstance(x, type):
            if issubclass(x, BaseException) or not x.__module__.startswith("talweg"):
                continue
            check(vars(space), [name])
        elif inspect.isbuiltin(x) or (inspect.isfunction(x) and x.__module__.startswith("talweg")):
            if not hasattr(x, "__wrapped__"):
                call = checked(x)
                call.__module__ = x.__module__ if inspect.isfunction(x) else "talweg"
                setattr(space, name, call)


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
