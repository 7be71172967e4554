"""The output of a batch: lines that survive a kill, and the summary at the end."""

from __future__ import annotations

import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from recall_loop.graph.batch.batch_requests import CompletedLines, ResultLine
from recall_loop.memory.store.files.store_files import acquire, errors_naming
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import StopReason

# Where a resumed run records finished lines: eight bytes for each line up to the last.
MAX_LINES = 100_000_000
# The beginning of a line as `_dump` writes it: the thousands of characters of a result need not be read.
_HEAD = re.compile(rb'\{"id": (?:null|"(?:[^"\\]|\\.)*"), "line": (\d{1,15}), "digest": "([0-9a-f]{16})", "')
_DIGEST = re.compile(r"[0-9a-f]{16}")
# A result without it was searched successfully, and need not be read either.
_UNSEARCHED = f'"{StopReason.TOOL_FAILURE.value}"'.encode()


class ResultsFile:
    """Appends result lines. Opened to resume, it knows which requests have theirs, and cuts off a torn last line.

    The file is locked while it is open, so that two runs never write the same one. `completed` are the requests that
    had their line when it was opened, `failures` why some of these weren't answered: errors by type, and `tool_failure`
    where the search failed. Raises `InvalidInputError` where the file exists and `resume` is off, it holds something
    else, or another run writes it.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self.completed = CompletedLines()
        self.failures: Counter[str] = Counter()
        self._new = not path.exists()
        self._file = self._open(resume)
        try:
            self._lock()
            if resume:
                self._read()
        except BaseException:
            self._file.close()
            raise

    def append(self, lines: Iterable[ResultLine]) -> None:
        """Write lines; they are on disk when this returns."""
        with errors_naming(self._path):
            self._file.write(b"".join(_dump(line) + b"\n" for line in lines))
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with errors_naming(self._path):  # writes the rest that a full disk didn't take
            self._file.close()

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        empty = kind is not None and self._new and os.fstat(self._file.fileno()).st_size == 0
        try:
            self.close()
        finally:
            if empty:  # the run never started; the same command can be repeated
                self._path.unlink(missing_ok=True)

    def _open(self, resume: bool) -> BinaryIO:
        try:
            return self._path.open("a+b" if resume else "xb")
        except FileExistsError as error:
            allowed = "a file that doesn't exist yet; or resume the run that wrote it"
            raise InvalidInputError("output", str(self._path), allowed) from error

    def _lock(self) -> None:
        try:
            acquire(self._file)
        except OSError as error:
            raise InvalidInputError("output", str(self._path), "a file that no other run is writing") from error

    def _read(self) -> None:
        """Read which lines are done, and cut off a partial last line, left by a kill; of a file of ours only."""
        self._file.seek(0)
        keep = 0
        for number, data in enumerate(self._file, start=1):
            whole = data.endswith(b"\n")
            key = _key(data) if whole else None
            if key is not None:
                if key[0] not in self.completed and (failure := _failure(data)):
                    self.failures[failure] += 1
                self.completed.add(*key)
                keep += len(data)
            elif whole or not _is_torn_result_line(data):
                allowed = "a file of this command's result lines"
                raise InvalidInputError("output", f"{self._path}, line {number}", allowed)
        self._file.truncate(keep)


def _is_torn_result_line(torn: bytes) -> bool:
    start = b'{"id": '
    return torn.startswith(start) or start.startswith(torn)


def _key(data: bytes) -> tuple[int, str] | None:
    """Return the number and the digest of the request that a line answers; None for any other line."""
    head = _HEAD.match(data)
    if head is not None:
        number: Any = int(head[1])
        digest: Any = head[2].decode()
    else:
        line = _parse_line(data)
        number, digest = line.get("line"), line.get("digest")
    if not isinstance(number, int) or not 0 < number <= MAX_LINES or not isinstance(digest, str):
        return None
    return (number, digest) if _DIGEST.fullmatch(digest) else None


def _failure(data: bytes) -> str | None:
    """Return why the request of a line wasn't answered: its error's type, or that it could not be searched."""
    head = _HEAD.match(data)
    if head is not None and data.startswith(b"result", head.end()) and _UNSEARCHED not in data:
        return None
    line = _parse_line(data)
    if "error" in line:
        kind = line["error"].get("type") if isinstance(line["error"], dict) else None
        return kind if isinstance(kind, str) else "unknown"
    stop = line["result"].get("stop") if isinstance(line.get("result"), dict) else None
    unsearched = isinstance(stop, dict) and stop.get("reason") == StopReason.TOOL_FAILURE
    return StopReason.TOOL_FAILURE.value if unsearched else None


def _parse_line(data: bytes) -> dict[str, Any]:
    """Parse a whole line; None if it isn't ours. Its beginning need not be as `_dump` writes it."""
    try:
        line: Any = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) and ("result" in line or "error" in line) else {}


def _dump(line: ResultLine) -> bytes:
    try:
        return json.dumps(line, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # an id may contain a lone surrogate; JSON can express it, UTF-8 can't
        return json.dumps(line).encode("ascii")


_LATENCY = (("p50", 0.50), ("p95", 0.95), ("max", 1.0))


@dataclass(slots=True)
class BatchSummary:
    """Counts of requests; those finished by the resumed run appear only in `skipped_errors`.

    `total` includes skipped ones, which had their line already. `skipped_errors` say why some of these weren't
    answered: errors by type, `tool_failure` where the search failed. `degraded` results lack some part of the system,
    and `seconds` are how long each result took.
    """

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    skipped_errors: Counter[str] = field(default_factory=Counter)
    degraded: int = 0
    stop_reasons: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    iterations: int = 0
    llm_calls: int = 0
    llm_tokens: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"), repr=False)

    @property
    def complete(self) -> bool:
        """Whether every request was searched and answered, by this run or by the one that it resumes."""
        return not (self.failed or self.stop_reasons[StopReason.TOOL_FAILURE] or self.skipped_errors)

    def skip(self) -> None:
        """Count a request that has its line already."""
        self.total += 1
        self.skipped += 1

    def add(self, line: ResultLine) -> None:
        """Count a line of the output."""
        self.total += 1
        if "error" in line:
            self.failed += 1
            self.errors[line["error"]["type"]] += 1
            return
        result = line["result"]
        figures = result["metadata"]
        self.succeeded += 1
        self.degraded += result["degraded"]
        self.stop_reasons[result["stop"]["reason"]] += 1
        self.iterations += figures["iterations"]
        self.llm_calls += figures["llm_calls"]
        self.llm_tokens += figures["llm_tokens"]
        self.seconds.append(figures["duration_ms"] / 1000)

    def latency(self) -> dict[str, float]:
        """Return seconds a request at the median, at 95 of 100, and at most; empty without a result."""
        ordered = sorted(self.seconds)
        last = len(ordered) - 1
        return {name: round(ordered[round(share * last)], 3) for name, share in _LATENCY} if ordered else {}

    def as_json(self) -> dict[str, Any]:
        """Return all figures as plain JSON; times in seconds."""
        counts = {name: getattr(self, name) for name in ("total", "succeeded", "failed", "skipped", "degraded")}
        return {
            **counts,
            "skipped_errors": dict(self.skipped_errors.most_common()),
            "stop_reasons": dict(self.stop_reasons.most_common()),
            "errors": dict(self.errors.most_common()),
            "latency_seconds": self.latency(),
            "iterations": self.iterations,
            "llm_calls": self.llm_calls,
            "llm_tokens": self.llm_tokens,
        }
