"""The messages of a parent graph: read as a thread, and given the context block (GRAPH-2).

A parent's key with a reducer gets the block alone, so that nothing that others do to its messages meanwhile is undone.
One without a reducer is overwritten, and gets what it holds with the block behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langgraph.types import Overwrite

from recall_loop.memory.parsing.chat_messages import is_recall_block
from recall_loop.memory.parsing.message_fields import check_known_fields
from recall_loop.nodes.runtime.inputs import asking, chat_messages
from recall_loop.state.errors import InvalidInputError

MESSAGES = "messages"
WANTED_MESSAGES = "messages as LangChain takes them, or a question as text"
# LangChain's errors for values that aren't messages.
_NO_MESSAGES = (NotImplementedError, AttributeError, TypeError, ValueError, KeyError)


def has_reducer(channel: Any) -> bool:
    """Return whether a channel combines new values with existing ones."""
    return callable(getattr(channel, "operator", None))


def readable_thread(thread: list[Any]) -> list[Any]:
    """Return a parent's thread with its question; anything that isn't a thread is unchanged."""
    try:
        return asking(convert_to_messages(thread))
    except _NO_MESSAGES:
        return thread


def with_ids(given: Any) -> list[BaseMessage]:
    """Return messages with ids made of place and words for those that have none: the same for every recall of a turn.

    Elsewhere LangGraph gives them ids, and the parent gets them back; here it doesn't.
    """
    messages = convert_to_messages(given if isinstance(given, list) else [given])
    return [
        each if each.id else each.model_copy(update={"id": _derived_id(place, each)})
        for place, each in enumerate(messages)
    ]


def _derived_id(place: int, message: BaseMessage) -> str:
    said = f"{place}\n{message.type}\n{message.content}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(said).hexdigest()[:32]


def new_blocks(messages: Iterable[AnyMessage], known: Any) -> list[AnyMessage]:
    """Return the context blocks that are not among the `known` messages as they are."""
    before = [_mark(each) for each in known] if isinstance(known, list) else []
    return [each for each in messages if is_recall_block(each) and _mark(each) not in before]


def with_blocks(known: Any, blocks: Sequence[AnyMessage]) -> list[Any]:
    """Return the `known` messages with blocks behind them; one with the id of a block is replaced by it."""
    ids = {each.id for each in blocks}
    return [*(each for each in (known if isinstance(known, list) else []) if _mark(each)[0] not in ids), *blocks]


def _mark(message: Any) -> tuple[Any, Any]:
    if isinstance(message, Mapping):
        return message.get("id"), message.get("content")
    return getattr(message, "id", None), getattr(message, "content", None)


def _overwrites(value: Any) -> bool:
    """Return whether a value replaces the thread's, as an object of LangGraph's or as JSON."""
    if isinstance(value, Mapping):
        return "__overwrite__" in (*value, value.get("type"))
    return isinstance(value, Overwrite)


def checked_messages(theirs: str, value: Any, *, fields_too: bool = False) -> Any:
    """Return the messages of the key `theirs` as they are; raise `InvalidInputError` where it holds something else."""
    if _overwrites(value):
        return value
    given = value if isinstance(value, list) else [value]
    for place, one in enumerate(given if fields_too else ()):
        check_known_fields(one, f"{theirs}.{place}")
    try:
        messages = convert_to_messages(given)
    except _NO_MESSAGES as error:
        raise InvalidInputError(theirs, value, WANTED_MESSAGES) from error
    if theirs != MESSAGES:  # the graph itself would report it under its own name
        chat_messages(messages, theirs)
    return value
