"""The exports of ChatGPT and Claude: `conversations.json`, as the two services write it.

ChatGPT keeps each conversation as a tree of messages; what is read is the branch that the person sees. Claude keeps a
list. Ids, times and titles are those of the export.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from recall_loop.memory.intake.formats.source_items import (
    WITHOUT_TEXT,
    LeftOut,
    SourceItem,
    as_list,
    epoch_time,
    listed,
)
from recall_loop.memory.parsing.foreign_json import InvalidLine, as_mapping, clean_text, raw_json, to_text
from recall_loop.state.errors import display_value
from recall_loop.state.types import MAX_TEXT_CHARS, Role

_SENDERS = {"human": Role.USER, "user": Role.USER, "assistant": Role.ASSISTANT}
_HIDDEN = LeftOut("hidden, system and tool messages")
_MEMORY = "conversations_memory"
_ABANDONED = LeftOut("messages of abandoned branches")
# ChatGPT's own markers in a reply, such as a citation: a kind and its arguments. The page never shows them.
_MARK = re.compile(r"([ \t]*)\ue200([^\ue200-\ue202]*)(?:\ue202([^\ue200\ue201]*))?\ue201")
_SHOWN_NAME = re.compile(r'\["[^"]*",\s*"([^"]+)"')


def read_chatgpt(document: Any) -> Iterator[SourceItem]:
    """Yield the messages of a ChatGPT export, conversation by conversation.

    A chat that was branched off has the messages before the branch under the ids that they have in the first one:
    there its conversation comes before the message's id.
    """
    number, first = count(1), _first_conversations(document)
    for conversation in as_list(document):
        mapping = conversation.get("mapping") if isinstance(conversation, Mapping) else None
        if not isinstance(mapping, Mapping):
            yield _invalid(next(number), conversation, "mapping", "a conversation of a ChatGPT export")
            continue
        branch = _visible_branch(conversation, mapping)
        for node in [*branch, *(name for name in mapping if name not in branch)]:
            message = as_mapping(mapping[node]).get("message")
            if not isinstance(message, Mapping):  # the root of the tree
                continue
            raw = raw_json(message)
            if node not in branch:
                yield SourceItem(next(number), _ABANDONED, raw)
                continue
            moment, warning = _moment(message.get("create_time"), conversation.get("create_time"), "create_time")
            yield SourceItem(next(number), _chatgpt_outcome(conversation, message, first, moment), raw, warning)


def _first_conversations(document: Any) -> dict[str, str]:
    """Return the ids of messages that several conversations show, each with the conversation that was begun first."""
    shown: dict[str, tuple[str, str]] = {}  # the list is ordered by the last use, which changes
    shared: set[str] = set()
    for conversation in filter(lambda one: isinstance(one, Mapping), as_list(document)):
        mapping = as_mapping(conversation.get("mapping"))
        name = _chatgpt_conversation(conversation)
        mine = (epoch_time(conversation.get("create_time")) or "9999", name or "")
        for node in _visible_branch(conversation, mapping) if name else ():
            message_id = to_text(as_mapping(as_mapping(mapping[node]).get("message")).get("id"))
            if message_id is not None:
                other = shown.setdefault(message_id, mine)
                if other[1] != name:
                    shared.add(message_id)
                    shown[message_id] = min(other, mine)
    return {one: shown[one][1] for one in shared}


def _chatgpt_conversation(conversation: Mapping[str, Any]) -> str | None:
    return to_text(conversation.get("conversation_id") or conversation.get("id"))


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


def _chatgpt_outcome(
    conversation: Mapping[str, Any], message: Mapping[str, Any], first: Mapping[str, str], created_at: str | None
) -> dict[str, Any] | LeftOut:
    role = _SENDERS.get(str(as_mapping(message.get("author")).get("role")))
    hidden = as_mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
    if role is None or hidden or message.get("recipient") not in (None, "all"):
        return _HIDDEN
    content = as_mapping(message.get("content"))
    if content.get("content_type") not in ("text", "multimodal_text"):
        return _HIDDEN
    texts = [_part_text(part) for part in listed(content.get("parts"))]
    text = _MARK.sub(_shown, "\n".join(filter(None, texts))).strip()
    message_id, name = to_text(message.get("id")), _chatgpt_conversation(conversation)
    if message_id is not None and name and first.get(message_id, name) != name:
        message_id = f"{name}/{message_id}"
    return _message(message_id, text, role, name, created_at, conversation.get("title"))


def _part_text(part: Any) -> str:
    """Return a part's text, or the transcript of an audio part."""
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


def is_of_claude(item: Mapping[str, Any]) -> bool:
    """Return whether an object is a conversation of Claude's, a project, or Claude's memories."""
    project = "uuid" in item and isinstance(item.get("docs"), list)
    return project or isinstance(item.get("chat_messages"), list) or isinstance(item.get(_MEMORY), str)


def read_claude(document: Any) -> Iterator[SourceItem]:
    """Yield the messages of a Claude export, and attachments of messages and projects as archival entries."""
    number = count(1)
    for conversation in as_list(document):
        messages = conversation.get("chat_messages") if isinstance(conversation, Mapping) else None
        if not isinstance(messages, list) and is_of_claude(as_mapping(conversation)):
            for fields in _claude_documents(conversation):
                yield SourceItem(next(number), fields if fields["text"] else WITHOUT_TEXT, raw_json(fields))
            continue
        if not isinstance(messages, list):
            yield _invalid(next(number), conversation, "chat_messages", "a conversation of Claude's")
            continue
        for message in messages:
            given = as_mapping(message).get("created_at")
            moment, warning = _moment(given, conversation.get("created_at"), "created_at")
            for outcome in _claude_outcomes(conversation, message, moment):
                yield SourceItem(next(number), outcome, raw_json(message), warning)


def _claude_documents(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the texts of a project, or what Claude remembers of its conversations."""
    documents = [as_mapping(one) for one in listed(item.get("docs"))]
    if isinstance(item.get(_MEMORY), str):
        documents = [{"uuid": f"{item.get('account_uuid')}-memory", "filename": "Memory", "content": item[_MEMORY]}]
    for one in documents:
        yield {
            "id": to_text(one.get("uuid")),
            "kind": "archival",
            "text": clean_text(str(one.get("content") or "")).strip()[:MAX_TEXT_CHARS],
            "label": " > ".join(filter(None, (to_text(item.get("name")), to_text(one.get("filename"))))) or None,
            "created_at": epoch_time(one.get("created_at")),
        }


def _claude_outcomes(
    conversation: Mapping[str, Any], message: Any, created_at: str | None
) -> Iterator[dict[str, Any] | LeftOut | InvalidLine]:
    role = _SENDERS.get(str(as_mapping(message).get("sender")))
    if role is None:
        yield InvalidLine("sender: got nothing known; allowed: human or assistant", raw_json(message))
        return
    owner = conversation.get("uuid")
    yield _message(message.get("uuid"), _claude_text(message), role, owner, created_at, conversation.get("name"))
    for at, attachment in enumerate(listed(message.get("attachments"))):
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
    blocks = [as_mapping(block) for block in listed(message.get("content"))]
    texts = [str(block.get("text") or "").strip() for block in blocks if block.get("type") == "text"]
    return "\n".join(filter(None, texts)) or str(message.get("text") or "").strip()


def _moment(stated: object, of_conversation: object, name: str) -> tuple[str | None, str | None]:
    """Return a message's own time (RFC 3339), else its conversation's, and a warning if its own is invalid."""
    moment, other = epoch_time(stated), epoch_time(of_conversation)
    if moment or stated in (None, ""):
        return moment or other, None
    instead = "the conversation's time is used" if other else "the time is unknown"
    return other, f"{name}: got {display_value(stated)}, which is not a time; {instead}"


def _message(
    given_id: object, text: str, role: Role, conversation: object, created_at: str | None, title: object
) -> dict[str, Any] | LeftOut:
    if not text:
        return WITHOUT_TEXT
    return {
        "id": to_text(given_id),
        "kind": "message",
        "text": clean_text(text)[:MAX_TEXT_CHARS],
        "role": role.value,
        "conversation_id": to_text(conversation),
        "created_at": created_at,
        "attributes": {"title": title} if isinstance(title, str) and title.strip() else {},
    }


def _invalid(number: int, value: Any, name: str, allowed: str) -> SourceItem:
    raw = raw_json(value)
    return SourceItem(number, InvalidLine(f"{name}: got nothing; allowed: {allowed}", raw), raw)
