"""A workspace's export of Slack: a folder or ZIP with `users.json` and a file of messages for each channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from recall_loop.memory.intake.formats.foreign_files import opened_export, zip_members
from recall_loop.memory.intake.formats.source_items import (
    WITHOUT_TEXT,
    LeftOut,
    SourceItem,
    as_list,
    epoch_time,
    file_title,
    listed,
)
from recall_loop.memory.parsing.foreign_json import InvalidLine, as_mapping, clean_text, raw_json, to_text

DAY_FILE = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_INDEXES = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json")
_MARK = re.compile(r"<([@#!]?)([^|>]+)(?:\|([^>]*))?>")
_ORDINARY = (None, "bot_message", "file_share", "me_message", "thread_broadcast", "file_comment")
_NOTICE = LeftOut("notices of Slack (joins, topics and the like)")
_DEEPEST = 12  # a list in a quotation in a block is six levels down
# Elements that name something: the sigil of Slack's markup, and the field that holds the id.
_NAMED = {"user": ("@", "user_id"), "channel": ("#", "channel_id"), "broadcast": ("!", "range")}
_IN_ONE_LINE = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")


@dataclass(slots=True)
class _Workspace:
    """Names of an export's people and channels by id, and ids of its channels by name."""

    people: dict[str, str] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)
    channel_ids: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, items: Any) -> None:
        """Take what `users.json`, `channels.json` or the like says."""
        for item in listed(items):
            if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
                continue
            if name == "users.json":
                profile = as_mapping(item.get("profile"))
                known = (profile.get("real_name"), item.get("real_name"), item.get("name"), item["id"])
                self.people[item["id"]] = next((text for one in known if (text := to_text(one))), item["id"])
            else:
                channel = str(item.get("name") or item["id"])
                self.channels[item["id"]], self.channel_ids[channel] = channel, item["id"]


def is_slack(names: list[str]) -> bool:
    """Return whether a folder or ZIP with these names is an export of Slack."""
    paths = [PurePosixPath(name) for name in names]
    days = any(len(path.parts) > 1 and DAY_FILE.fullmatch(path.name) for path in paths)
    return days and any(path.name in ("users.json", "channels.json") for path in paths)


def is_slack_folder(path: Path) -> bool:
    """Return whether a folder is an export of Slack, and none that has one somewhere in it."""
    if not any((path / name).is_file() for name in _INDEXES):
        return False
    return is_slack([file.relative_to(path).as_posix() for file in path.rglob("*.json")])


def read_slack(path: Path, document: Any = None) -> Iterator[SourceItem]:
    """Yield the messages of an export, or of one day's file, channel by channel and day by day.

    A channel is a conversation, a day or a thread a session of it. Marks are written out: names of people and channels,
    links with their words. One day's file that lies in its export gives the same messages as the whole export. A file
    that isn't JSON raises `UnreadableFileError`.
    """
    workspace = _Workspace()
    if document is not None:
        channel = path.resolve().parent
        _add_sibling_indexes(channel, workspace)
        yield from _messages(document, clean_text(channel.name) or file_title(path), workspace, count(1))
        return
    names, numbers = _json_files(path), count(1)
    with opened_export(path) as read:
        for name in names:
            if PurePosixPath(name).name in _INDEXES:
                workspace.add(PurePosixPath(name).name, read(name))
        for name in names:
            place = PurePosixPath(name)
            if DAY_FILE.fullmatch(place.name) and len(place.parts) > 1:
                yield from _messages(read(name), place.parts[-2], workspace, numbers)


def _add_sibling_indexes(channel: Path, workspace: _Workspace) -> None:
    """Take the names of people and channels from the export that a channel's folder lies in: ids are made of them."""
    with opened_export(channel.parent) as read:
        for name in _INDEXES:
            if (channel.parent / name).is_file():
                workspace.add(name, read(name))


def _json_files(path: Path) -> list[str]:
    """Return the names of an export's files, in their order."""
    if path.is_dir():
        return sorted(file.relative_to(path).as_posix() for file in path.rglob("*.json"))
    return sorted(name for name in zip_members(path) if name.endswith(".json") and not name.startswith("__MACOSX"))


def _messages(items: Any, channel: str, workspace: _Workspace, numbers: Iterator[int]) -> Iterator[SourceItem]:
    for item in as_list(items):
        raw = raw_json(item)
        yield SourceItem(next(numbers), _outcome(item, channel, workspace, raw), raw)


def _outcome(item: Any, channel: str, workspace: _Workspace, raw: str) -> dict[str, Any] | LeftOut | InvalidLine:
    created_at = epoch_time(item.get("ts")) if isinstance(item, Mapping) else None
    if created_at is None:
        return InvalidLine("ts: got nothing; allowed: a message of Slack with its time", raw)
    if item.get("type", "message") != "message" or item.get("subtype") not in _ORDINARY:
        return _NOTICE
    text = _plain(to_text(item.get("text")) or _parts_text(item), workspace).strip()
    if not text:
        return WITHOUT_TEXT
    return {
        "id": f"slack-{workspace.channel_ids.get(channel, channel)}-{item['ts']}",
        "kind": "message",
        "text": text,
        "author": _author(item, workspace),
        "conversation_id": channel,
        "session": str(item.get("thread_ts") or created_at[:10]),
        "created_at": created_at,
    }


def _author(item: Mapping[str, Any], workspace: _Workspace) -> str | None:
    profile = as_mapping(item.get("user_profile"))
    known = (
        workspace.people.get(str(item.get("user"))),
        profile.get("real_name"),
        profile.get("name"),
        item.get("username"),
        item.get("user"),
        item.get("bot_id"),
    )
    return next((text for one in known if (text := to_text(one))), None)


def _plain(text: str, workspace: _Workspace) -> str:
    """Return a message's text without Slack's marks."""

    def words(found: re.Match[str]) -> str:
        sign, target, label = found[1], found[2], found[3]
        if sign == "@":
            return f"@{label or workspace.people.get(target, target)}"
        if sign == "#":
            return f"#{label or workspace.channels.get(target, target)}"
        if sign == "!":
            return f"@{label or target.partition('^')[0]}"
        return f"{label} ({target})" if label and label != target else target

    return unescape(_MARK.sub(words, text))


def _parts_text(message: Mapping[str, Any]) -> str:
    """Return what a message's blocks say, or else its attachments, with Slack's marks; "" where neither does."""
    attachments = (_attachment_text(as_mapping(one)) for one in listed(message.get("attachments")))
    return _joined(_block_text(one) for one in listed(message.get("blocks"))) or _joined(attachments)


def _block_text(block: Any, depth: int = 0) -> str:
    """Return the text of a block or of an element in it; "" for pictures, buttons and elements nested too deeply."""
    block = as_mapping(block)
    if depth > _DEEPEST:
        return ""
    name = _NAMED.get(str(block.get("type")))
    if name is not None:
        return f"<{name[0]}{block[name[1]]}>" if block.get(name[1]) else ""
    if block.get("type") == "emoji":
        return f":{block.get('name')}:"
    if block.get("type") == "link":
        return f"<{block.get('url')}|{block['text']}>" if block.get("text") else f"<{block.get('url')}>"
    text = block.get("text")
    if isinstance(text, str):
        return text if block.get("type") == "mrkdwn" else escape(text, quote=False)
    parts = [
        _block_text(one, depth + 1) for one in (text, *listed(block.get("fields")), *listed(block.get("elements")))
    ]
    return "".join(parts) if block.get("type") in _IN_ONE_LINE else _joined(parts)


def _attachment_text(attachment: Mapping[str, Any]) -> str:
    fields = [as_mapping(one) for one in listed(attachment.get("fields"))]
    texts = [attachment.get(name) for name in ("pretext", "title", "text")]
    texts += [": ".join(str(one[name]) for name in ("title", "value") if one.get(name)) for one in fields]
    texts += [_block_text(one) for one in listed(attachment.get("blocks"))]
    return _joined(texts) or _joined([attachment.get("fallback")])


def _joined(texts: Iterable[Any]) -> str:
    return "\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
