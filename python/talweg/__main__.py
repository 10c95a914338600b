"""The ``talweg`` command: ``talweg launch --workers 2 train.py``, or ``python -m talweg launch ...``."""

import signal
import sys
from collections.abc import Sequence

from . import _native


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments, by default those of the process; the exit status.

    Ctrl-C and SIGTERM end the process as they end the Rust binary: ``launch`` and ``quickstart`` stop their run first
    and return 130 or 143.

    >>> from talweg.__main__ import main
    >>> main(["ops", "no_such_op"])
    1
    """
    if args is None:
        args = sys.argv[1:]
        # Python's handler would wait for Python code to run again.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if hasattr(signal, "SIGPIPE") and args[:1] not in (["launch"], ["guard"], ["store-server"], ["serve"]):
            # The reader of the output may stop, as `head` does.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if args[:1] == ["compress"]:
        from .compression.command import main as compress

        return compress(list(args[1:]))
    return _native.main(sys.executable, [sys.executable, "-m", "talweg"], list(args))


if __name__ == "__main__":
    sys.exit(main())
