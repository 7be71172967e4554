"""Letta: archival memory as its documented export writes it, and agent files (`.af`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.files.lines import BadLine
from recall_loop.memory.intake.imports.external_json import as_text, objects, whole
from recall_loop.memory.intake.imports.external_memory import (
    Item,
    Owner,
    SourceError,
    name_of,
    plain,
    role_of,
    stable_id,
)
from recall_loop.state.types import ContentType

_PASSAGE = ("id", "text", "metadata", "metadata_", "tags", "created_at", "updated_at", "agent_id", "file_name")
# Vectors are made anew, and the rest says how Letta made them.
_DROPPED = ("embedding", "embedding_config", "is_deleted")
_LISTS = ("passages", "archival_memory", "results")


class Letta:
    """One export of Letta.

    Args:
        path: a list of passages (or one a line), or an agent file.
        owner: whose an item is that names nobody.

    Raises:
        SourceError: it is neither.
    """

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self._owner = owner
        value = whole(path)
        self._agent_file = isinstance(value, dict) and isinstance(value.get("agents"), list)
        self.words = "Letta agent file" if self._agent_file else "Letta archival memory"
        if isinstance(value, dict) and not self._agent_file and _listed(value) is None and "text" not in value:
            raise SourceError(f"{path}: neither passages nor an agent file of Letta")

    def items(self) -> Iterator[Item]:
        """Yield the passages, or the agents' memory blocks and messages."""
        value = whole(self.path)
        if self._agent_file:
            yield from _agent_file(value, self._owner)
            return
        if isinstance(value, dict):
            value = [value] if "text" in value else _listed(value)
        for place, found in objects(self.path, value, "a list of passages"):
            if isinstance(found, BadLine):
                yield Item(place, found.raw, reason=found.reason)
            else:
                yield _passage(place, found.get("passage", found), self._owner)


def _listed(value: dict[str, Any]) -> Any:
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)


def _passage(place: str, passage: Any, owner: Owner) -> Item:
    raw = as_text(passage)
    if not isinstance(passage, dict):
        return Item(place, raw, reason="not a passage but something else")
    if passage.get("is_deleted"):
        return Item(place, raw, left_out="deleted")
    if name_of(passage.get("id")) is None:
        return Item(place, raw, reason="id: missing; every passage of Letta has one")
    metadata = passage.get("metadata") or passage.get("metadata_") or {}
    rest = {key: value for key, value in passage.items() if key not in (*_PASSAGE, *_DROPPED) and value is not None}
    try:
        attributes = plain({**(metadata if isinstance(metadata, dict) else {"metadata": metadata}), **rest})
    except ValueError as error:
        return Item(place, raw, reason=f"metadata: {error}")
    fields: dict[str, Any] = {
        "id": name_of(passage["id"]),
        "kind": ContentType.ARCHIVAL,
        "text": passage.get("text"),
        "label": name_of(passage.get("file_name")),
        "tags": passage.get("tags") or (),
        "agent_id": name_of(passage.get("agent_id")),
        "created_at": passage.get("created_at"),
        "updated_at": passage.get("updated_at"),
        "attributes": attributes,
    }
    return Item(place, raw, fields=owner.fill(fields))


def _agent_file(value: dict[str, Any], owner: Owner) -> Iterator[Item]:
    blocks = {block["id"]: block for block in value.get("blocks") or [] if isinstance(block, dict) and "id" in block}
    used = set()
    for number, agent in enumerate(value["agents"], start=1):
        if not isinstance(agent, dict):
            yield Item(f"agent {number}", as_text(agent), reason="not an agent but something else")
            continue
        name = name_of(agent.get("name")) or str(number)
        for block_id in agent.get("block_ids") or []:
            if block_id in blocks:
                used.add(block_id)
                yield _block(name, blocks[block_id], owner)
        for place, message in enumerate(agent.get("messages") or [], start=1):
            yield _message(name, f"agent {name}, message {place}", message, owner)
    for block_id, block in blocks.items():
        if block_id not in used:
            yield _block(None, block, owner)


def _block(agent: str | None, block: dict[str, Any], owner: Owner) -> Item:
    label = name_of(block.get("label")) or "block"
    place = f"agent {agent}, block {label}" if agent else f"block {label}"
    text, raw = block.get("value"), as_text(block)
    if isinstance(text, str) and not text.strip():
        return Item(place, raw, left_out="empty blocks")
    fields: dict[str, Any] = {
        "id": stable_id("letta", agent or "shared", "block", label),
        "kind": ContentType.ARCHIVAL,
        "text": text,
        "label": label,
        "agent_name": agent,
        "attributes": {"description": block["description"]} if isinstance(block.get("description"), str) else {},
    }
    return Item(place, raw, fields=owner.fill(fields))


def _message(agent: str, place: str, message: Any, owner: Owner) -> Item:
    raw = as_text(message)
    if not isinstance(message, dict):
        return Item(place, raw, reason="not a message but something else")
    if message.get("role") == "system":
        return Item(place, raw, left_out="system prompts")
    text = _said(message)
    if not text.strip():
        return Item(place, raw, left_out="messages without words")
    # Ids in an agent file count from 0 in each file: what was said and when is what stays.
    told = as_text([message.get("created_at"), message.get("role"), text])
    digest = hashlib.sha256(told.encode("utf-8")).hexdigest()[:24]
    fields: dict[str, Any] = {
        "id": stable_id("letta", agent, "message", digest),
        "kind": ContentType.MESSAGE,
        "text": text,
        "role": role_of(message.get("role")),
        "author": name_of(message.get("name")),
        "agent_name": agent,
        "conversation_id": stable_id("letta", agent),
        "created_at": message.get("created_at"),
    }
    return Item(place, raw, fields=owner.fill(fields))


def _said(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))
