"""The exports of ChatGPT and Claude: `conversations.json`, as the two services write it.

ChatGPT keeps each conversation as a tree of messages; what is read is the branch that the person sees. Claude keeps a
list. Ids, times and titles are those of the export.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from recall_loop.memory.intake.formats.source_items import LeftOut, SourceItem, epoch_time
from recall_loop.memory.parsing.foreign_json import InvalidLine, as_mapping, clean_text, raw_json, to_text
from recall_loop.state.types import MAX_TEXT_CHARS, Role

_SENDERS = {"human": Role.USER, "user": Role.USER, "assistant": Role.ASSISTANT}
_HIDDEN = LeftOut("hidden, system and tool messages")
_EMPTY = LeftOut("messages without text")
_ABANDONED = LeftOut("messages of abandoned branches")
# ChatGPT's own marks in a reply, such as of a citation: a kind and what belongs to it. The page never shows them so.
_MARK = re.compile(r"([ \t]*)\ue200([^\ue200-\ue202]*)(?:\ue202([^\ue200\ue201]*))?\ue201")
_SHOWN_NAME = re.compile(r'\["[^"]*",\s*"([^"]+)"')


def read_chatgpt(document: Any) -> Iterator[SourceItem]:
    """Yield the messages of a ChatGPT export, conversation by conversation."""
    number = 0
    for conversation in _conversations(document):
        mapping = conversation.get("mapping") if isinstance(conversation, Mapping) else None
        if not isinstance(mapping, Mapping):
            number += 1
            yield _invalid(number, conversation, "mapping: got nothing; allowed: a conversation of a ChatGPT export")
            continue
        branch = _visible_branch(conversation, mapping)
        for node in [*branch, *(name for name in mapping if name not in branch)]:
            message = as_mapping(mapping[node]).get("message")
            if not isinstance(message, Mapping):  # the root of the tree
                continue
            number += 1
            outcome = _chatgpt_outcome(conversation, message) if node in branch else _ABANDONED
            yield SourceItem(number, outcome, raw_json(message))


def _visible_branch(conversation: Mapping[str, Any], mapping: Mapping[str, Any]) -> dict[str, None]:
    """Return the nodes from the root to the one that is shown last; all of them where that isn't said."""
    node = conversation.get("current_node")
    if not isinstance(node, str) or node not in mapping:
        return dict.fromkeys(mapping)
    branch: dict[str, None] = {}
    while isinstance(node, str) and node in mapping and node not in branch:
        branch[node] = None
        node = as_mapping(mapping[node]).get("parent")
    return dict.fromkeys(reversed(branch))


def _chatgpt_outcome(conversation: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any] | LeftOut:
    role = _SENDERS.get(str(as_mapping(message.get("author")).get("role")))
    hidden = as_mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
    if role is None or hidden or message.get("recipient") not in (None, "all"):
        return _HIDDEN
    content = as_mapping(message.get("content"))
    if content.get("content_type") not in ("text", "multimodal_text"):
        return _HIDDEN
    parts = content.get("parts")
    texts = [_part_text(part) for part in (parts if isinstance(parts, list) else [])]
    return _message(
        message.get("id"),
        _MARK.sub(_shown, "\n".join(filter(None, texts))).strip(),
        role,
        conversation.get("conversation_id") or conversation.get("id"),
        epoch_time(message.get("create_time")) or epoch_time(conversation.get("create_time")),
        conversation.get("title"),
    )


def _part_text(part: Any) -> str:
    """Return a part's text: as it stands, or what was said where the part is sound."""
    if isinstance(part, str):
        return part.strip()
    text = as_mapping(part).get("text")
    return text.strip() if isinstance(text, str) else ""


def _shown(mark: re.Match[str]) -> str:
    """Return the words that the page shows in a mark's place: a link's, or the name of a thing; of others none."""
    blank, kind, rest = mark[1], mark[2], mark[3] or ""
    name = _SHOWN_NAME.match(rest) if kind == "entity" else None
    words = name[1] if name else rest.partition("\ue202")[0] if kind == "url" else ""
    return blank + words if words else ""


def read_claude(document: Any) -> Iterator[SourceItem]:
    """Yield the messages of a Claude export, and the texts that were attached to them as archival entries."""
    number = 0
    for conversation in _conversations(document):
        messages = conversation.get("chat_messages") if isinstance(conversation, Mapping) else None
        if not isinstance(messages, list):
            number += 1
            yield _invalid(number, conversation, "chat_messages: got nothing; allowed: a conversation of Claude's")
            continue
        for message in messages:
            for outcome in _claude_outcomes(conversation, message):
                number += 1
                yield SourceItem(number, outcome, raw_json(message))


def _claude_outcomes(conversation: Mapping[str, Any], message: Any) -> Iterator[dict[str, Any] | LeftOut | InvalidLine]:
    role = _SENDERS.get(str(as_mapping(message).get("sender")))
    if role is None:
        reason = "sender: got nothing that is known; allowed: human or assistant"
        yield InvalidLine(reason, raw_json(message))
        return
    created_at = epoch_time(message.get("created_at")) or epoch_time(conversation.get("created_at"))
    owner = conversation.get("uuid")
    yield _message(message.get("uuid"), _claude_text(message), role, owner, created_at, conversation.get("name"))
    attachments = message.get("attachments")
    for at, attachment in enumerate(attachments if isinstance(attachments, list) else []):
        text = to_text(as_mapping(attachment).get("extracted_content"))
        if text is not None:
            yield {
                "id": f"{message['uuid']}-attachment-{at}" if message.get("uuid") else None,
                "kind": "archival",
                "text": text[:MAX_TEXT_CHARS],
                "label": to_text(attachment.get("file_name")),
                "conversation_id": owner,
                "created_at": created_at,
            }


def _claude_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message's blocks, without thoughts and tools; of older exports its only text."""
    content = message.get("content")
    blocks = [as_mapping(block) for block in (content if isinstance(content, list) else [])]
    texts = [str(block.get("text") or "").strip() for block in blocks if block.get("type") == "text"]
    return "\n".join(filter(None, texts)) or str(message.get("text") or "").strip()


def _message(
    given_id: object, text: str, role: Role, conversation: object, created_at: str | None, title: object
) -> dict[str, Any] | LeftOut:
    if not text:
        return _EMPTY
    return {
        "id": to_text(given_id),
        "kind": "message",
        "text": clean_text(text)[:MAX_TEXT_CHARS],
        "role": role.value,
        "conversation_id": to_text(conversation),
        "created_at": created_at,
        "attributes": {"title": title} if isinstance(title, str) and title.strip() else {},
    }


def _conversations(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


def _invalid(number: int, value: Any, reason: str) -> SourceItem:
    return SourceItem(number, InvalidLine(reason, raw_json(value)), raw_json(value))
