"""Scripted batches: requests in JSON Lines, one result line each, resumable (OPS-2).

A request is a `RetrieveRequest` with an `id`. Its line in the output is `{"id", "line", "result"}`, or
`{"id", "line", "error": {"type", "field", "message"}}` where it failed; `line` counts from 1 in the
requests file. Lines are written as requests complete, so their order is not that of the requests. Each is
on disk before the next: a killed run that is resumed neither repeats nor loses a request.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_loop.graph.batch_output import DUPLICATE, Key, Line, ResultsFile, id_key, line_key
from recall_loop.graph.run import retrieve
from recall_loop.memory.intake.lines import BadLine, parse_object, raw_lines
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, RecallError, parse
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings import Settings

MAX_CONCURRENCY = 64
_AHEAD = 2
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BatchSummary:
    """What became of the requests; `skipped` had their line from the run that was resumed."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Request:
    """One line of the requests file: either a request to run, or the error line that it gets."""

    key: Key
    line: int
    request_id: str | None
    fields: dict[str, Any] | None = None
    error: Line | None = None


def run_batch(
    requests_path: Path,
    output_path: Path,
    *,
    store: MemoryStore,
    settings: Settings | None = None,
    concurrency: int = 4,
    resume: bool = False,
    progress: Callable[[BatchSummary], None] | None = None,
) -> BatchSummary:
    """Run every request of a file and append one line per request to the output.

    `concurrency` (1–64) requests run at a time. `progress` is told the summary after every line.
    A request without a tenant takes the settings' tenant.

    Raises:
        InvalidInputError: the output exists and `resume` is off, or isn't an output of this function,
            or `concurrency` is out of its range.
        OSError: a file can't be read or written.
    """
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidInputError("concurrency", concurrency, f"an integer from 1 to {MAX_CONCURRENCY}")
    requests_path.open("rb").close()
    if output_path.exists() and output_path.samefile(requests_path):
        raise InvalidInputError("output", str(output_path), "another file than the requests")
    chosen = settings or Settings()
    summary = BatchSummary()
    with ResultsFile(output_path, resume=resume) as output:
        requests = _requests(requests_path, output.done, summary)
        for line in _results(requests, store, chosen, concurrency):
            output.append(line)
            summary.total += 1
            summary.succeeded += "result" in line
            summary.failed += "error" in line
            if progress:
                progress(summary)
    return summary


def count_requests(path: Path) -> int:
    """Return how many lines of a requests file ask for a result line.

    Raises:
        OSError: the file can't be read.
    """
    return sum(1 for _ in raw_lines(path))


def _results(requests: Iterator[_Request], store: MemoryStore, settings: Settings, concurrency: int) -> Iterator[Line]:
    """Yield result lines as they complete; only a few requests are ever read ahead."""
    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="recall-loop-batch") as pool:
        running: set[Future[Line]] = set()
        try:
            for request in requests:
                if request.error is not None:
                    yield _error_line(request, request.error)
                    continue
                running.add(pool.submit(_answer, request, store, settings))
                if len(running) >= concurrency * _AHEAD:
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in finished)
        finally:  # on an interrupt what hasn't begun is dropped; a resumed run does it
            pool.shutdown(wait=True, cancel_futures=True)


def _answer(request: _Request, store: MemoryStore, settings: Settings) -> Line:
    """Run one request; whatever goes wrong with it is its own line, not the end of the batch."""
    fields = {"tenant": settings.tenant} | (request.fields or {})
    try:
        result = retrieve(parse(RetrieveRequest, fields), store=store, settings=settings)
    except RecallError as error:
        return _error_line(request, describe_error(error))
    except Exception as error:  # noqa: BLE001  # the log has the trace; the other requests go on
        _log.exception("request %r failed", request.request_id)
        return _error_line(request, {"type": "internal", "message": f"{type(error).__name__}: {error}"})
    return {"id": request.request_id, "line": request.line, "result": result.model_dump(mode="json")}


def describe_error(error: RecallError) -> Line:
    """Return an exception as `{"type", "field", "message"}`; `field` only where one is to blame."""
    name = type(error).__name__.removesuffix("Error")
    described: Line = {"type": _WORD_START.sub("_", name).lower(), "message": str(error)}
    if isinstance(error, InvalidInputError):
        described["field"] = error.field
    return described


def _error_line(request: _Request, error: Line) -> Line:
    return {"id": request.request_id, "line": request.line, "error": error}


def _requests(path: Path, done: set[Key], summary: BatchSummary) -> Iterator[_Request]:
    """Yield the requests whose line isn't in the output yet."""
    seen: dict[str, int] = {}
    for raw in raw_lines(path):
        fields = parse_object(raw)
        request = _request(fields, raw.number, seen)
        if request.key in done:
            summary.total += 1
            summary.skipped += 1
        else:
            yield request


def _request(fields: Line | BadLine, line: int, seen: dict[str, int]) -> _Request:
    if isinstance(fields, BadLine):
        return _bad(line, "invalid_json", fields.reason)
    request_id = fields.get("id")
    if not isinstance(request_id, str) or not request_id.strip():
        return _bad(line, "invalid_input", f"id: got {request_id!r}; allowed: a text of its own", "id")
    earlier = seen.setdefault(request_id, line)
    if earlier != line:
        error = {
            "type": DUPLICATE,
            "message": f"id {request_id!r} stands on line {earlier} too",
            "field": "id",
        }
        return _Request(line_key(line), line, request_id, error=error)
    return _Request(id_key(request_id), line, request_id, fields)


def _bad(line: int, kind: str, message: str, field: str | None = None) -> _Request:
    error = {"type": kind, "message": message} | ({"field": field} if field else {})
    return _Request(line_key(line), line, None, error=error)
