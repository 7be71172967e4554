"""Messages between workers and the process that writes for them: one JSON request, one JSON answer.

They meet at a Unix socket in a folder that only their own user may enter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from recall_loop.state import errors
from recall_loop.state.errors import (
    InvalidInputError,
    RecallError,
    RejectedRecordsError,
    Rejection,
    StoreUnavailableError,
)
from recall_loop.state.records.records import Record

MAX_MESSAGE_BYTES = 1024 * 1024 * 1024
_ERRORS: dict[str, type[RecallError]] = {
    kind.__name__: kind
    for kind in (
        errors.EmbedderError,
        errors.EmbedderMismatchError,
        errors.RecordNotFoundError,
        errors.StoreError,
        errors.StoreLockedError,
        errors.StoreReadOnlyError,
        StoreUnavailableError,
    )
}


class WriterUnavailableError(StoreUnavailableError):
    """The writer process isn't running, or ended before it answered."""


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes; text with lone surrogates comes through, for the store to reject."""
    return json.dumps(message, default=_plain).encode("ascii")


def decode_message(data: bytes) -> dict[str, Any]:
    """Return the message of `encode_message`."""
    found: dict[str, Any] = json.loads(data)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Record):  # the store derives missing fields
        return {**value.model_dump(mode="json", exclude_unset=True), "kind": value.kind}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else to_jsonable_python(value)


def encode_error(error: RecallError) -> dict[str, Any]:
    """Return an exception as a message."""
    if isinstance(error, RejectedRecordsError):
        return {"error": "RejectedRecordsError", "rejections": [asdict(one) for one in error.rejections]}
    if isinstance(error, InvalidInputError):
        return {"error": "InvalidInputError", "field": error.field, "value": error.value, "allowed": error.allowed}
    return {"error": type(error).__name__, "words": str(error), "told": error.told}


def raise_error(message: Mapping[str, Any]) -> None:
    """Raise the exception that a message stands for, if it is one.

    Raises:
        RecallError: the one that the other process met.
    """
    if "error" not in message:
        return
    if message["error"] == "RejectedRecordsError":
        raise RejectedRecordsError([Rejection(**one) for one in message["rejections"]])
    if message["error"] == "InvalidInputError":
        raised = InvalidInputError(message["field"], None, message["allowed"])
        raised.value = message["value"]  # it has already been shortened there
        raised.args = (f"{raised.field}: got {raised.value}; allowed: {raised.allowed}",)
        raise raised
    raise _ERRORS.get(message["error"], StoreUnavailableError)(
        message.get("words", "the write failed"), told=message.get("told")
    )
