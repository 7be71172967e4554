"""The requests of a batch, one by one, each valid or with its error line (OPS-2).

Memory doesn't grow with the text of the requests already read: ids are digests in a temporary SQLite file, completed
lines take eight bytes each.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from recall_loop.graph.run import retrieve
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.parsing.foreign_json import InvalidLine, RawLine, parse_object, raw_lines
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, RecallError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings

DUPLICATE_ID = "duplicate_id"
_DIGEST_BYTES = 8

ResultLine = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch: its fields, or the error that it gets unrun. `line` counts from 1.

    `digest` identifies its line of the file, 16 hexadecimal digits; None without a file.
    """

    line: int
    request_id: str | None
    digest: str | None = None
    fields: Mapping[str, Any] | None = None
    error: ResultLine | None = None

    def result_line(self, **outcome: ResultLine) -> ResultLine:
        """Return the request's line of the output, with `result` or `error`."""
        mark = {} if self.digest is None else {"digest": self.digest}
        return {"id": self.request_id, "line": self.line, **mark, **outcome}


def line_digest(data: bytes) -> str:
    """Return a digest that distinguishes lines of a requests file."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


class CompletedLines:
    """The lines of a requests file that have their result, each with its digest."""

    def __init__(self) -> None:
        self._digests = array("Q")
        self.count = 0

    def add(self, line: int, digest: str) -> None:
        """Note that a line is done."""
        if line >= len(self._digests):
            self._digests.extend([0] * (line + 1 - len(self._digests)))
        self.count += not self._digests[line]
        self._digests[line] = self._number(digest)

    def __contains__(self, line: int) -> bool:
        return line < len(self._digests) and self._digests[line] != 0

    def check(self, path: Path) -> None:
        """Raise `InvalidInputError` where a finished line isn't unchanged in the requests file."""
        if not self.count:
            return
        met = 0
        for raw in raw_lines(path):
            if raw.number in self:
                met += 1
                if self._digests[raw.number] != self._number(line_digest(raw.data)):
                    raise _changed_file_error(path, f"line {raw.number} differs")
        if met < self.count:
            raise _changed_file_error(path, f"{self.count - met:,} lines with a result are missing")

    @staticmethod
    def _number(digest: str) -> int:
        return int(digest, 16) or 1  # 0 means that a line isn't done


def _changed_file_error(path: Path, why: str) -> InvalidInputError:
    allowed = "the requests that the output was started with, unchanged (lines may be appended)"
    return InvalidInputError("requests", f"{path}: {why}", allowed)


class _IdRegistry:
    """The ids met so far, each with the line that first gave it."""

    def __init__(self) -> None:
        # "" = SQLite's own temporary file, deleted when it is closed; whatever exceeds its small cache is on disk.
        self._ids = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._ids.execute("PRAGMA journal_mode = OFF")
        self._ids.execute("PRAGMA synchronous = OFF")
        self._ids.execute("CREATE TABLE ids (id BLOB PRIMARY KEY, line INTEGER NOT NULL) WITHOUT ROWID")
        self._ids.execute("BEGIN")

    def first_line(self, request_id: str, line: int) -> int:
        """Return the first line with this id; `line` itself if it is the first."""
        key = hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if self._ids.execute("INSERT OR IGNORE INTO ids VALUES (?, ?)", (key, line)).rowcount:
            return line
        return int(self._ids.execute("SELECT line FROM ids WHERE id = ?", (key,)).fetchone()[0])

    def close(self) -> None:
        self._ids.close()


def requests_from_file(path: Path, done: CompletedLines) -> Iterator[BatchRequest | None]:
    """Yield the requests of a file; None for each that is done already."""
    with closing(_IdRegistry()) as ids:
        for raw in raw_lines(path):
            request = _from_line(raw, ids)
            yield None if raw.number in done else request


def requests_from_objects(given: Iterable[Mapping[str, Any] | RetrieveRequest]) -> Iterator[BatchRequest]:
    """Yield requests that are handed in as objects."""
    with closing(_IdRegistry()) as ids:
        for line, item in enumerate(given, start=1):
            fields: object = item.model_dump(mode="json", exclude_unset=True) if isinstance(item, BaseModel) else item
            if isinstance(fields, Mapping):
                yield _checked(dict(fields), line, None, ids)
            else:
                yield _invalid_request(
                    line, None, "invalid_input", f"request: got {type(item).__name__}; allowed: a mapping"
                )


def count_requests(path: Path) -> int:
    """Return how many lines of a requests file ask for a result line."""
    return sum(1 for _ in raw_lines(path))


def _from_line(raw: RawLine, ids: _IdRegistry) -> BatchRequest:
    digest, fields = line_digest(raw.data), parse_object(raw)
    if isinstance(fields, InvalidLine):
        return _invalid_request(raw.number, digest, "invalid_json", fields.reason)
    return _checked(fields, raw.number, digest, ids)


def _checked(fields: Mapping[str, Any], line: int, digest: str | None, ids: _IdRegistry) -> BatchRequest:
    request_id = fields.get("id")
    if not isinstance(request_id, str) or not request_id.strip():
        return _invalid_request(line, digest, "invalid_input", f"id: got {request_id!r}; allowed: a unique text", "id")
    earlier = ids.first_line(request_id, line)
    if earlier != line:
        message = f"id {request_id!r} is also on line {earlier}"
        return BatchRequest(line, request_id, digest, error={"type": DUPLICATE_ID, "message": message, "field": "id"})
    return BatchRequest(line, request_id, digest, fields)


def _invalid_request(line: int, digest: str | None, kind: str, message: str, field: str | None = None) -> BatchRequest:
    error = {"type": kind, "message": message} | ({"field": field} if field else {})
    return BatchRequest(line, None, digest, error=error)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `retrieve` takes beside a request and a store, the same for every request of a batch."""

    settings: Settings
    context: Context = field(default_factory=Context)
    llm: ChatModel | str | None = None

    @property
    def has_model(self) -> bool:
        """Whether requests wait for a chat model."""
        return bool(self.llm or self.context.llm_model or self.settings.llm_model)


_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_log = logging.getLogger(__name__)


def run_request(request: BatchRequest, store: MemoryStore, options: RunOptions) -> ResultLine:
    """Run one request and return its line; nothing that goes wrong with it ends the batch."""
    try:
        result = retrieve(
            request.fields or {}, store=store, settings=options.settings, context=options.context, llm=options.llm
        )
    except RecallError as error:
        return request.result_line(error=describe_error(error))
    except Exception as error:  # noqa: BLE001  # the log has the traceback; the other requests continue
        _log.exception("request %r failed", request.request_id)
        return request.result_line(error={"type": "internal", "message": f"{type(error).__name__}: {error}"})
    return request.result_line(result=result.model_dump(mode="json"))


def describe_error(error: RecallError) -> ResultLine:
    """Return an exception as `{"type", "field", "message"}`; `field` only where one is to blame."""
    name = type(error).__name__.removesuffix("Error")
    described: ResultLine = {"type": _WORD_START.sub("_", name).lower(), "message": error.told}
    if isinstance(error, InvalidInputError):
        described["field"] = error.field
    return described
