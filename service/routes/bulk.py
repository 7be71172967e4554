"""Bulk uploads: lines written while they arrive, each answered at once."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from operator import attrgetter

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recall_loop.memory.parsing.foreign_json import InvalidLine, RawLine, parse_object
from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.callers import Caller
from recall_loop.service.core.deadline import RequestTimeoutError, current_executor, is_cancelled, run_blocking
from recall_loop.service.core.line_batches import LineBatcher
from recall_loop.service.core.problems import logged_problem, problem_from_error
from recall_loop.service.middleware.dependencies import NDJSON_MEDIA_TYPES
from recall_loop.service.models.record_models import BulkLine, BulkStatus, BulkSummary
from recall_loop.state.errors import EmbedderError, StoreError

_CHUNK_BYTES = 64 * 1024
_MAX_ID_CHARACTERS = 512
_IN_MEMORY = 1024 * 1024
# A sender that pauses this long may be waiting for answers.
_PAUSE_SECONDS = 0.05


class _UploadStoppedError(Exception):
    """Nothing more is written; says why."""


class AnswerBuffer:
    """Answer lines that the client hasn't read yet: up to 1 MiB in memory, more in a file without a name."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # closed by `close`
        self._lock = threading.Lock()
        self._at = 0
        self._ended = False
        self._news = asyncio.Event()

    def add(self, lines: Sequence[BaseModel]) -> None:
        """Append lines; for any thread. Call `wake` on the event loop afterwards."""
        body = b"".join(line.model_dump_json(exclude_none=True).encode() + b"\n" for line in lines)
        with self._lock:
            self._file.seek(0, 2)
            self._file.write(body)

    def notify(self, *, ended: bool = False) -> None:
        """Notify the reader of new lines, or of the end."""
        self._ended = self._ended or ended
        self._news.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield added lines as they arrive, until the end."""
        while True:
            ended = self._ended
            while part := self._next():
                yield part
            if ended:
                return
            await self._news.wait()
            self._news.clear()

    def _next(self) -> bytes:
        # At most 64 KiB, written a moment ago: not worth a thread.
        with self._lock:
            self._file.seek(self._at)
            part = self._file.read(_CHUNK_BYTES)
        self._at += len(part)
        return part

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._file.close()


class BulkUpload:
    """One upload: reads lines, writes them batch by batch, and answers each."""

    def __init__(self, store: MemoryStore, caller: Caller, pieces: AsyncIterator[bytes], request_id: str) -> None:
        self._store = store
        self._caller = caller
        self._request_id = request_id
        self._pieces = pieces
        self._counts: Counter[str] = Counter()
        self._coming: asyncio.Task[bytes | None] | None = None
        self.results = AnswerBuffer()

    async def run(self) -> None:
        """Read to the end. Errors of the store stop the writing, and end as words in the last line.

        Without a last line the upload was cut off: the sender is gone, or the service failed.
        """
        try:
            reason = await self._read()
            self.results.add([BulkSummary(done=reason is None, error=reason, **self._counts)])
        except ClientDisconnect:
            pass
        finally:
            if self._coming is not None:
                self._coming.cancel()
            self.results.notify(ended=True)

    async def _read(self) -> str | None:
        """Write every line; return why that wasn't possible, if it wasn't."""
        try:
            await self._write_all()
        except _UploadStoppedError as stopped:
            await self._drain()
            return str(stopped)
        except (RequestTimeoutError, HTTPException) as error:  # too slow, or too long
            return problem_from_error(error).detail
        return None

    async def _write_all(self) -> None:
        batches = LineBatcher()
        while True:
            seconds = current_executor().remaining
            if batches.has_lines:  # received lines are processed without waiting for more
                seconds = min(seconds, _PAUSE_SECONDS)
            try:
                piece = await self._piece(seconds)
            except TimeoutError as error:
                if not batches.has_lines:
                    raise RequestTimeoutError("the sender is too slow") from error
                await self._write(batches.take())
                continue
            if piece is None:
                break
            for batch in batches.feed(piece):
                await self._write(batch)
        await self._write(batches.finish())

    async def _piece(self, seconds: float) -> bytes | None:
        """Return the next piece; None at the end. After a TimeoutError the next call waits on for the same piece."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._pieces, None))
        piece = await asyncio.wait_for(asyncio.shield(self._coming), seconds)
        self._coming = None
        return piece

    async def _drain(self) -> None:
        """Drain the rest of the body: a sender that is cut off may never read its answers."""
        try:
            while await self._piece(current_executor().remaining) is not None:
                pass
        except (TimeoutError, HTTPException):
            return

    async def _write(self, batch: list[RawLine]) -> None:
        if not batch:
            return
        try:
            counts = await run_blocking(self._write_batch, batch)
        except (StoreError, EmbedderError, RequestTimeoutError) as error:
            reason = logged_problem(error, self._request_id).detail
            failed = [BulkLine(line=line.number, status="failed", error=reason) for line in batch]
            self.results.add(failed)
            self._counts["failed"] += len(failed)
            raise _UploadStoppedError(reason) from error
        finally:
            self.results.notify()
        self._counts.update(counts)

    def _write_batch(self, batch: list[RawLine]) -> Counter[BulkStatus]:
        parsed = [(line, parse_object(line)) for line in batch]
        bad = [(line, found) for line, found in parsed if isinstance(found, InvalidLine)]
        good = [(line, found) for line, found in parsed if not isinstance(found, InvalidLine)]
        answers: list[BulkLine] = [
            BulkLine(line=line.number, status="rejected", error=found.reason) for line, found in bad
        ]
        caller, records = self._caller, [found for _, found in good]
        rows = self._store.upsert(records, tenant=caller.tenant, actor=caller.key_id, on_reject="report")
        for (line, _), row in zip(good, rows, strict=True):
            error = row.error and row.error.removeprefix(f"records.{row.index}.")
            answers.append(
                BulkLine(line=line.number, id=row.id and row.id[:_MAX_ID_CHARACTERS], status=row.status, error=error)
            )
        if not is_cancelled():  # otherwise the lines have been answered as failed
            self.results.add(sorted(answers, key=attrgetter("line")))
        return Counter(answer.status for answer in answers)


class BulkResponse(Response):
    """The answers to an upload, sent while it goes on."""

    media_type = NDJSON_MEDIA_TYPES[0]

    def __init__(self, upload: BulkUpload) -> None:
        self.status_code = 200
        self.background = None
        self._upload = upload
        self.init_headers({"x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send; the upload reads the body, so nothing else may call `receive`."""
        reading = asyncio.create_task(self._upload.run())
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for part in self._upload.results.chunks():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await reading
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            reading.cancel()
            self._upload.results.close()
