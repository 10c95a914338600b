"""What is raised. Each class is an :class:`Error` and the exception of Python's that people catch."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

class Error(RuntimeError):
    """Any error of Talweg: what was expected, what came, and the line of the program. A ``RuntimeError``, as most of
    PyTorch's are."""

class DeviceError(Error, RuntimeError):
    """A device that is missing or failed."""

class GradientError(Error, RuntimeError):
    """A gradient that does not exist."""

class InternalError(Error, RuntimeError):
    """A mistake of ours, not of the program."""

class ArgumentError(Error, ValueError):
    """An argument out of its range or not among the allowed words."""

class DTypeError(Error, TypeError):
    """Element types that do not fit, or objects of a wrong type."""

class FeedError(Error, ValueError):
    """A placeholder without a value, or a feed that does not fit."""

class FileError(Error, OSError):
    """A file that cannot be read or written."""

class FormatError(Error, ValueError):
    """Text or bytes that are not what they should be."""

class NumericsError(Error, ArithmeticError):
    """NaN or infinity where that was forbidden."""

class OutOfMemoryError(Error, MemoryError):
    """More memory than there is."""

class ShapeError(Error, ValueError):
    """Sizes or ranks that do not fit."""

class DeadlineError(Error, TimeoutError):
    """Another process of the job did not answer in time (``TALWEG_TIMEOUT``)."""

class NameMissingError(Error, KeyError):
    """A name that is missing or unknown."""

class OutOfRangeError(Error, IndexError):
    """An index or axis beyond the end."""

class PeerLostError(Error, ConnectionError):
    """Another process of the job is gone, or what only it knew."""

class RefusedError(Error, ConnectionError):
    """Another process said something that a correct one would not, or ranks disagree about what they do."""

class TraceError(FeedError, RuntimeError):
    """A value that is unknown while a function is traced, or a tensor of a trace that has ended."""

class CallError(ArgumentError, TypeError):
    """A call with an unknown keyword, or with too many or too few arguments."""

class AbsentNameError(NameMissingError, AttributeError):
    """A name of PyTorch's that a module does not have, with what to write instead."""

