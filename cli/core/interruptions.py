"""Ctrl-C: the first ends a command in order, a second changes nothing about that, the third ends it at once.

Python raises an exception at each, also where what has begun is being ended, and in its own last steps: those would
leave tracebacks, and an exit by the signal.

SIGTERM ends a service in order from its start on: the first process of a container would not even notice it, and
elsewhere it would die of it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
"""The exit code."""
_MAX_INTERRUPTIONS = 3
_PATIENCE = b"recall-loop: ending what has begun; Ctrl-C once more ends it at once\n"
_INTERRUPTED = b"recall-loop: interrupted\n"
_TERMINATED = b"recall-loop: ended by SIGTERM\n"
_terminations: list[int] = []


class Interruptions:
    """What Ctrl-C does while a command runs, and once it was interrupted until the process ends.

    Where it isn't `taken`, it is left to Python and to the command: a service, which ends in order by SIGTERM.
    """

    def __init__(self, *, taken: bool = True) -> None:
        self._taken, self._count = taken, 0
        self._installed = self._reported = self._terminable = False

    def __enter__(self) -> Interruptions:
        """Replace Python's handler, unless another one is installed or the signal is ignored."""
        main = threading.current_thread() is threading.main_thread()
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._installed = self._taken and usual and main
        if self._installed:
            signal.signal(signal.SIGINT, self._take)
        self._terminable = not self._taken and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._terminable:
            signal.signal(signal.SIGTERM, _terminate)
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back to Python, if nobody has pressed it."""
        if self._installed and not self._count:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._terminable:
            _terminations.clear()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def tell(self) -> int:
        """Write that the command was interrupted, and return its exit code."""
        self._reported = True
        sys.stderr.write(_INTERRUPTED.decode())
        if self._installed:
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python's shutdown can't be interrupted
        return INTERRUPTED

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            raise KeyboardInterrupt
        if self._count >= _MAX_INTERRUPTIONS:
            if not self._reported:
                _write(_INTERRUPTED)
            os._exit(INTERRUPTED)
        if not self._reported:
            _write(_PATIENCE)


def comes_of_interruption(error: BaseException | None) -> bool:
    """Return whether an error occurred while an interruption was propagating."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def end_if_terminated() -> None:
    """Raise `SystemExit` where SIGTERM has come: a library that was being imported may have swallowed the first one."""
    if _terminations:
        raise SystemExit(0)


def _terminate(number: int, frame: FrameType | None) -> None:
    _terminations.append(number)
    _write(_TERMINATED)
    raise SystemExit(0)


def _write(words: bytes) -> None:
    """Write to standard error around Python's buffers, which the signal may have interrupted."""
    with suppress(OSError):
        os.write(2, words)
