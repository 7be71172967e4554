"""The streams of standard input and output: every line is answered, and the end of the input waits for all answers.

A line that is no message is answered with an error, which the SDK doesn't do, and its sender would wait.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

# The protocol of the SDK's streams is private.
_Stream = Any
_MARGIN_SECONDS = 1.0  # for the answer to a call that has timed out


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


class _WrappedStream:
    """A stream of the SDK that is opened and closed with the wrapped one, which does all that isn't done here."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


class SettlingStream(_WrappedStream):
    """The stream `write`, which tells `pending` of the answers that are sent."""

    def __init__(self, write: _Stream, pending: PendingRequests) -> None:
        super().__init__(write)
        self._pending = pending

    async def send(self, message: SessionMessage) -> None:
        """Send a message."""
        await self._stream.send(message)
        self._pending.note_sent(message.message)


class AnsweringStream(_WrappedStream):
    """The messages of `read`; unreadable ones are answered to `write` and left out. Its end waits for `pending`."""

    def __init__(self, read: _Stream, write: _Stream, pending: PendingRequests) -> None:
        super().__init__(read)
        self._write, self._pending = write, pending

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            while isinstance(found := await anext(self._stream), ValidationError):
                if (answer := _answer(found)) is not None:
                    await self._write.send(SessionMessage(answer))
        except StopAsyncIteration:
            await self._pending.wait()
            raise
        message: SessionMessage | Exception = found
        if isinstance(message, SessionMessage):
            self._pending.note_read(message.message)
        return message


def _answer(error: ValidationError) -> JSONRPCError | None:
    """Return the answer to an unreadable line; None for an empty line, a notification or an answer."""
    found = error.errors(include_url=False)
    first = found[0]
    no_json = first["type"] == "json_invalid"
    if no_json and not str(first["input"]).strip():
        return None
    given = [_parsed(first["input"])] if no_json else [one["input"] for one in found]
    stated = next((each for each in given if isinstance(each, dict)), {})
    if stated and ("method" not in stated or "id" not in stated):
        return None
    said = first["msg"] if no_json else "it is not a JSON-RPC 2.0 request, notification or response"
    if no_json and stated:  # Python reads characters that JSON text can't contain
        said = "it holds half of a Unicode character (a lone surrogate such as \\ud800)"
    words = f"The message can't be read: {said}"
    return JSONRPCError(
        jsonrpc="2.0",
        id=_readable_id(stated.get("id")),
        error=ErrorData(code=PARSE_ERROR if no_json else INVALID_REQUEST, message=words),
    )


def _parsed(line: Any) -> Any:
    try:
        return json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None


def _readable_id(given: Any) -> int | str | None:
    if isinstance(given, str):
        return given if given.isprintable() else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None
