"""Scripts in processes of their own, forked from one that has imported the store and Chroma and opened nothing.

Importing them takes a second of processor time, which a test that kills a process half-way says nothing about.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing import reduction
from pathlib import Path
from types import TracebackType
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.processes.preloaded"])
_COMMAND = """
import sys
from recall_loop.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
# As Python does it: what lies beside a file can be imported.
_FILE = """
import os, runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class ForkedProcess:
    """A script that runs: `subprocess.Popen` with text pipes, as far as tests need it."""

    def __init__(self, script: str, *arguments: str, cwd: str | os.PathLike[str] | None = None) -> None:
        ends = [os.pipe(), os.pipe(), os.pipe()]
        theirs = [ends[0][0], ends[1][1], ends[2][1]]
        self.stdin = os.fdopen(ends[0][1], "w", encoding="utf-8")
        self.stdout, self.stderr = (os.fdopen(end[0], encoding="utf-8") for end in ends[1:])
        options = (script, arguments, os.fspath(cwd or os.getcwd()), [_Descriptor(number) for number in theirs])
        self._process = _CONTEXT.Process(target=_run, args=options)
        self._process.start()
        for number in theirs:
            os.close(number)

    @property
    def pid(self) -> int | None:
        """Its number."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status, the negative number of the signal that ended it, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends, and return its `returncode`."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("script", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Close its input, read what it prints and wait until it ends."""
        self.stdin.close()
        said = self.stdout.read(), self.stderr.read()
        self.wait(timeout)
        return said

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._process.join()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def run_forked(
    script: str, *arguments: str, cwd: str | os.PathLike[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, as `subprocess.run` does with text."""
    with ForkedProcess(script, *arguments, cwd=cwd) as process:
        said, complained = process.communicate()
        return subprocess.CompletedProcess(arguments, process.wait(), said, complained)


def forked_file(file: Path, *arguments: str, cwd: str | os.PathLike[str] | None = None) -> ForkedProcess:
    """Start a Python file."""
    return ForkedProcess(_FILE, str(file), *arguments, cwd=cwd)


def run_forked_file(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python file to its end, as `subprocess.run` does with text."""
    return run_forked(_FILE, str(file), *arguments)


def forked_command(*words: str, cwd: str | os.PathLike[str] | None = None) -> ForkedProcess:
    """Start `recall-loop`, in the environment in which the first of all these processes was started."""
    return ForkedProcess(_COMMAND, *words, cwd=cwd)


def run_forked_command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `recall-loop` to its end, as `subprocess.run` does with text."""
    return run_forked(_COMMAND, *words)


class _Descriptor:
    """An open file as an argument of a process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return reduction.DupFd(self.number).detach, ()


def _run(script: str, arguments: tuple[str, ...], folder: str, descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    # Those that it was forked with were made for what stood there then.
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
