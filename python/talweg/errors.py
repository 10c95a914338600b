"""What is raised. Each class is an :class:`Error` and the exception of Python's that people catch."""


class Error(RuntimeError):
    """Any error of Talweg: what was expected, what came, and the line of the program. A ``RuntimeError``, as most of
    PyTorch's are."""


class ShapeError(Error, ValueError):
    """Sizes or ranks that do not fit."""


class DTypeError(Error, TypeError):
    """Element types that do not fit, or objects of a wrong type."""


class ArgumentError(Error, ValueError):
    """An argument out of its range or not among the allowed words."""


class CallError(ArgumentError, TypeError):
    """A call with an unknown keyword, or with too many or too few arguments."""


class OutOfRangeError(Error, IndexError):
    """An index or axis beyond the end."""


class NameMissingError(Error, KeyError):
    """A name that is missing or unknown."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class AbsentNameError(NameMissingError, AttributeError):
    """A name of PyTorch's that a module does not have, with what to write instead."""


class FeedError(Error, ValueError):
    """A placeholder without a value, or a feed that does not fit."""


class TraceError(FeedError, RuntimeError):
    """A value that is unknown while a function is traced, or a tensor of a trace that has ended."""


class GradientError(Error, RuntimeError):
    """A gradient that does not exist."""


class FormatError(Error, ValueError):
    """Text or bytes that are not what they should be."""


class FileError(Error, OSError):
    """A file that cannot be read or written."""


class FileMissingError(FileError, FileNotFoundError):
    """A file that is not there."""


class PeerLostError(Error, ConnectionError):
    """Another process of the job is gone, or what only it knew."""


class DeadlineError(Error, TimeoutError):
    """Another process of the job did not answer in time (``TALWEG_TIMEOUT``)."""


class RefusedError(Error, ConnectionError):
    """Another process said something that a correct one would not, or ranks disagree about what they do."""


class DeviceError(Error, RuntimeError):
    """A device that is missing or failed."""


class NumericsError(Error, ArithmeticError):
    """NaN or infinity where that was forbidden."""


class OutOfMemoryError(Error, MemoryError):
    """More memory than there is."""


class InternalError(Error, RuntimeError):
    """A mistake of ours, not of the program."""
