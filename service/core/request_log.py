"""The opt-in log of retrieval requests, which `recall-loop replay` can answer again.

It contains users' texts, and is the only place where the service logs them.
"""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult


class _LogEntry(BaseModel):
    at: datetime
    stop: str
    confidence: str
    facts: list[str]
    request: RetrieveRequest


class RequestLog:
    """Appends one JSON line per request: its words, and of the answer the stop reason and the facts' ids.

    Lines are appended with one write each, so that several workers may share the file. Only its owner may read it.
    If it was moved or removed, a new one is created under its name. Raises `OSError` where it can't be written.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _follow_name(self) -> None:
        """Open the file again if it isn't the one that has its name."""
        try:
            there: os.stat_result | None = self._path.stat()
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(there, os.fstat(self._file)):
            before, self._file = self._file, self._open()
            os.close(before)

    def append(self, request: RetrieveRequest, result: RetrieveResult) -> None:
        """Append a request; its id and reference time are those that the run used."""
        used = request.model_copy(update={"id": result.request_id, "reference_time": result.reference_time})
        line = _LogEntry(
            at=datetime.now(UTC),
            stop=result.stop.reason.value,
            confidence=result.confidence.label.value,
            facts=[fact.id for fact in result.facts],
            request=used,
        )
        data = line.model_dump_json(exclude_none=True, exclude={"request": {"debug"}}).encode() + b"\n"
        with self._lock:
            self._follow_name()
            while data:
                data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
