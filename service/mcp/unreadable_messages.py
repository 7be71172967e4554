"""Messages on standard input: a line that is none is answered, which the SDK doesn't do, and its sender would wait."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from recall_loop.service.mcp.pending_requests import PendingRequests, Stream, WrappedStream


class AnsweringStream(WrappedStream):
    """The messages of a stream; what can't be read is answered with an error, and left out.

    Args:
        read: the stream.
        write: where answers go.
        pending: the requests for whose answers its end waits.
    """

    def __init__(self, read: Stream, write: Stream, pending: PendingRequests) -> None:
        super().__init__(read)
        self._write, self._pending = write, pending

    @property
    def last_context(self) -> Any:
        """What the SDK keeps beside a message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await self._readable(self._stream.receive)

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message, if there is one."""
        return await self._readable(self._stream.__anext__)

    async def _readable(self, following: Callable[[], Awaitable[Any]]) -> SessionMessage | Exception:
        try:
            while isinstance(found := await following(), ValidationError):
                answer = _answer(found)
                if answer is not None:
                    await self._write.send(SessionMessage(answer))
        except StopAsyncIteration:
            await self._pending.wait()
            raise
        message: SessionMessage | Exception = found
        if isinstance(message, SessionMessage):
            self._pending.note_read(message.message)
        return message

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self


def _answer(error: ValidationError) -> JSONRPCError | None:
    """Return the answer to what can't be read; None to an empty line, a notification or an answer, which get none."""
    found = error.errors(include_url=False)
    first = found[0]
    no_json = first["type"] == "json_invalid"
    if no_json and not str(first["input"]).strip():
        return None
    given = [_parsed(first["input"])] if no_json else [one["input"] for one in found]
    stated = next((each for each in given if isinstance(each, dict)), {})
    if stated and ("method" not in stated or "id" not in stated):
        return None
    said = first["msg"] if no_json else "it is no request, notification or response of JSON-RPC 2.0"
    if no_json and stated:  # Python reads what JSON as text can't hold
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
