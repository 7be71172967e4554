"""Requests that were read and not answered yet: the end of the input waits for their answers."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

# The protocol of its streams is private to the SDK.
Stream = Any
_MARGIN_SECONDS = 1.0  # for the answer to a call that has used up its time


class PendingRequests:
    """The ids of requests without an answer; each call has `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds + _MARGIN_SECONDS
        self._ids: set[str | int] = set()
        self._none = asyncio.Event()
        self._none.set()

    def note_read(self, message: object) -> None:
        """Note a request; one that is cancelled gets no answer."""
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
            self._none.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))

    def note_sent(self, message: object) -> None:
        """Note an answer."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._settle(message.id)

    def _settle(self, request_id: Any) -> None:
        self._ids = {one for one in self._ids if one != request_id}
        if not self._ids:
            self._none.set()

    async def wait(self) -> None:
        """Wait until every request is answered, no longer than a call may take."""
        try:
            await asyncio.wait_for(self._none.wait(), self._seconds)
        except TimeoutError:
            return


class WrappedStream:
    """A stream of the SDK that is opened and closed as the one it stands for."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        """Enter the stream."""
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Leave the stream."""
        handled: bool | None = await self._stream.__aexit__(kind, error, trace)
        return handled


class SettlingStream(WrappedStream):
    """A stream to write to, which notes the answers that are sent.

    Args:
        write: the stream.
        pending: the requests that wait for them.
    """

    def __init__(self, write: Stream, pending: PendingRequests) -> None:
        super().__init__(write)
        self._pending = pending

    async def send(self, message: SessionMessage) -> None:
        """Send a message."""
        await self._stream.send(message)
        self._pending.note_sent(message.message)
