"""HTTP/1.1 under the application: uvicorn's protocol, with a deadline and a bound for heads of requests (GUARD-4)."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from recall_loop.service.core.problems import ProblemError, problem_response

_MAX_HEAD_BYTES = 64 * 1024  # the limit of h11; httptools has none
_SEPARATORS = len(b": \r\n")


class GuardedProtocol(HttpToolsProtocol):
    """A connection that is closed if it neither sends the head of a request nor disconnects.

    A head has `head_seconds` from the connection's start, or from its own first byte on a connection that is kept
    alive; so has what a client still sends of a body after its answer. A client that has begun a head gets 408 as a
    problem document, one whose head exceeds 64 KiB gets 431, and one that has sent nothing gets no answer.
    """

    def __init__(self, *args: Any, head_seconds: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head, self._idle = False, True
        self._begun = self._head_bytes = self._unfinished_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._stop_timer()

    def data_received(self, data: bytes) -> None:
        """Take bytes, as long as they are no endless head."""
        idle, self._begun = self._idle, 0
        super().data_received(data)
        if self._in_head:
            shared = self._begun > 1 or (self._begun == 1 and not idle)  # at the end of another request
            self._unfinished_bytes += 0 if shared else len(data)
            if self._unfinished_bytes > _MAX_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(_too_long())
                return
        self._watch_head()

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        self._in_head, self._idle = True, False
        self._begun += 1
        self._head_bytes = self._unfinished_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(len(name) + len(value) + _SEPARATORS)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that it has ended."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request has ended."""
        self._idle = True
        super().on_message_complete()

    def _count(self, length: int) -> None:
        """Count a part of a head; the parser gives the rest of it up where this raises."""
        self._head_bytes += length if self._in_head else 0
        if self._head_bytes > _MAX_HEAD_BYTES:
            raise ValueError("the head is too long")

    def send_400_response(self, msg: str) -> None:
        """Reject data that isn't HTTP."""
        self._refuse(_too_long() if self._head_bytes > _MAX_HEAD_BYTES else ProblemError(400, msg))

    def _watch_head(self) -> None:
        """Run the timer while no request is answered and uvicorn's own, of connections that are kept, doesn't run."""
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if answering or self.timeout_keep_alive_task is not None or self.transport.is_closing():
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_seconds, self._close_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_late(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._refuse(ProblemError(408, "The request's head didn't arrive in time.", retry_after=1))
        else:
            self.transport.close()

    def _refuse(self, problem: ProblemError) -> None:
        """Send a problem document without the application, and close."""
        response = problem_response(problem)
        lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()


def _too_long() -> ProblemError:
    return ProblemError(431, "The request's head is longer than the service allows.")
