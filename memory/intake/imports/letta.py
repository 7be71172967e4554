"""Letta: archival memory as its documented export writes it, and agent files (`.af`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.imports.external_memory import (
    DefaultOwner,
    ImportItem,
    SourceError,
    iter_objects,
    load_json,
    stable_id,
    to_identifier,
    to_json_checked,
    to_json_text,
)
from recall_loop.memory.parsing.content_parts import ContentParts
from recall_loop.memory.parsing.foreign_json import InvalidLine, known_role
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.state.types import ContentType

_PASSAGE = ("id", "text", "metadata", "metadata_", "tags", "created_at", "updated_at", "agent_id", "file_name")
# Vectors are computed again; the other fields describe how Letta computed them.
_DROPPED = ("embedding", "embedding_config", "is_deleted")
_LISTS = ("passages", "archival_memory", "results")


class LettaSource:
    """One export of Letta.

    Args:
        path: a list of passages (or one a line), or an agent file.
        owner: owner of items that name none.

    Raises:
        SourceError: it is neither.
    """

    def __init__(self, path: str | Path, owner: DefaultOwner) -> None:
        self.path = checked_file(path)
        self._owner = owner
        value = load_json(self.path)
        self._agent_file = isinstance(value, dict) and isinstance(value.get("agents"), list)
        self.description = "Letta agent file" if self._agent_file else "Letta archival memory"
        if isinstance(value, dict) and not self._agent_file and _passage_list(value) is None and "text" not in value:
            raise SourceError(f"{path}: neither passages nor an agent file of Letta")

    def items(self) -> Iterator[ImportItem]:
        """Yield the passages, or the agents' memory blocks and messages."""
        value = load_json(self.path)
        if self._agent_file:
            yield from _agent_file(value, self._owner)
            return
        if isinstance(value, dict):
            value = [value] if "text" in value else _passage_list(value)
        for location, item in iter_objects(self.path, value, "a list of passages"):
            if isinstance(item, InvalidLine):
                yield ImportItem(location, item.raw, reason=item.reason)
            else:
                yield _passage(location, item.get("passage", item), self._owner)


def _passage_list(value: dict[str, Any]) -> Any:
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)


def _passage(location: str, passage: Any, owner: DefaultOwner) -> ImportItem:
    raw = to_json_text(passage)
    if not isinstance(passage, dict):
        return ImportItem(location, raw, reason="something other than a passage")
    if passage.get("is_deleted"):
        return ImportItem(location, raw, left_out="deleted")
    if to_identifier(passage.get("id")) is None:
        return ImportItem(location, raw, reason="id: missing; every passage of Letta has one")
    metadata = passage.get("metadata") or passage.get("metadata_") or {}
    rest = {key: value for key, value in passage.items() if key not in (*_PASSAGE, *_DROPPED) and value is not None}
    try:
        attributes = to_json_checked({**(metadata if isinstance(metadata, dict) else {"metadata": metadata}), **rest})
    except ValueError as error:
        return ImportItem(location, raw, reason=f"metadata: {error}")
    fields: dict[str, Any] = {
        "id": to_identifier(passage["id"]),
        "kind": ContentType.ARCHIVAL,
        "text": passage.get("text"),
        "label": to_identifier(passage.get("file_name")),
        "tags": passage.get("tags") or (),
        "agent_id": to_identifier(passage.get("agent_id")),
        "created_at": passage.get("created_at"),
        "updated_at": passage.get("updated_at"),
        "attributes": attributes,
    }
    return ImportItem(location, raw, fields=owner.fill(fields))


def _agent_file(value: dict[str, Any], owner: DefaultOwner) -> Iterator[ImportItem]:
    blocks = {block["id"]: block for block in value.get("blocks") or [] if isinstance(block, dict) and "id" in block}
    used = set()
    for number, agent in enumerate(value["agents"], start=1):
        if not isinstance(agent, dict):
            yield ImportItem(f"agent {number}", to_json_text(agent), reason="something other than an agent")
            continue
        name = to_identifier(agent.get("name")) or str(number)
        for block_id in agent.get("block_ids") or []:
            if block_id in blocks:
                used.add(block_id)
                yield _block(name, blocks[block_id], owner)
        for position, message in enumerate(agent.get("messages") or [], start=1):
            yield _message(name, f"agent {name}, message {position}", message, owner)
    for block_id, block in blocks.items():
        if block_id not in used:
            yield _block(None, block, owner)


def _block(agent: str | None, block: dict[str, Any], owner: DefaultOwner) -> ImportItem:
    label = to_identifier(block.get("label")) or "block"
    location = f"agent {agent}, block {label}" if agent else f"block {label}"
    text, raw = block.get("value"), to_json_text(block)
    if isinstance(text, str) and not text.strip():
        return ImportItem(location, raw, left_out="empty blocks")
    fields: dict[str, Any] = {
        "id": stable_id("letta", agent or "shared", "block", label),
        "kind": ContentType.ARCHIVAL,
        "text": text,
        "label": label,
        "agent_name": agent,
        "attributes": {"description": block["description"]} if isinstance(block.get("description"), str) else {},
    }
    return ImportItem(location, raw, fields=owner.fill(fields))


def _message(agent: str, location: str, message: Any, owner: DefaultOwner) -> ImportItem:
    raw = to_json_text(message)
    if not isinstance(message, dict):
        return ImportItem(location, raw, reason="something other than a message")
    if message.get("role") == "system":
        return ImportItem(location, raw, left_out="system prompts")
    content = message.get("content")
    text = content if isinstance(content, str) else ContentParts.parse(content).text
    if not text.strip():
        return ImportItem(location, raw, left_out="messages without text")
    # Ids count from 0 in each agent file; time, role and text identify a message across files.
    identity = to_json_text([message.get("created_at"), message.get("role"), text])
    digest = hashlib.sha256(identity.encode("utf-8")).hexdigest()[:24]
    fields: dict[str, Any] = {
        "id": stable_id("letta", agent, "message", digest),
        "kind": ContentType.MESSAGE,
        "text": text,
        "role": known_role(message.get("role")),
        "author": to_identifier(message.get("name")),
        "agent_name": agent,
        "conversation_id": stable_id("letta", agent),
        "created_at": message.get("created_at"),
    }
    return ImportItem(location, raw, fields=owner.fill(fields))
