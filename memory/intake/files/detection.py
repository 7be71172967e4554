"""Detection of a file's format: by its contents, and if they are ambiguous by its name."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.exports.chat_exports import is_of_claude
from recall_loop.memory.intake.exports.mail import is_mail
from recall_loop.memory.intake.exports.slack_export import is_slack, is_slack_folder
from recall_loop.memory.intake.exports.telegram import is_telegram
from recall_loop.memory.intake.exports.whatsapp import chat_member, is_whatsapp
from recall_loop.memory.intake.formats.foreign_files import (
    HEAD_BYTES,
    check_signature,
    check_text,
    conversation_parts,
    folder_parts,
    read_conversations,
    zip_members,
)
from recall_loop.memory.intake.formats.message_lists import is_langchain, is_openai, messages_of, says_itself
from recall_loop.memory.intake.formats.source_items import UnreadableFileError, as_list
from recall_loop.memory.parsing.foreign_json import InvalidLine, parse_object, raw_lines
from recall_loop.state.errors import InvalidInputError

FORMATS = {
    "records": "records, one a line",
    "openai": "messages of a chat API",
    "langchain": "messages of LangChain",
    "chatgpt": "an export of ChatGPT",
    "claude": "an export of Claude",
    "slack": "an export of Slack",
    "whatsapp": "a chat of WhatsApp",
    "telegram": "an export of Telegram",
    "mail": "mail",
    "csv": "a table in CSV",
    "markdown": "Markdown, a note for each heading",
    "text": "plain text",
    "locomo": "conversations in LoCoMo's layout",
}
AUTO = "auto"
LINE_FORMATS = ("records", "locomo")
_BY_NAME = {".csv": "csv", ".tsv": "csv", ".md": "markdown", ".markdown": "markdown", ".txt": "text", ".text": "text"}
# Formats whose lines or parts are decoded one by one: mail states its own encoding.
_OF_PARTS = (*LINE_FORMATS, "mail")
_LINES = (".jsonl", ".ndjson")
_OF_ONE_KIND = (".json", *_LINES, *(suffix for suffix, name in _BY_NAME.items() if name != "text"))
_EXAMINED = 20
_OF_TEXT = ("whatsapp", "csv", "markdown", "text")
_OF_CONVERSATIONS = (AUTO, "chatgpt", "claude")
# Fields that records have, and few messages: with one of them what may be either is a record.
_OF_RECORDS = frozenset(("kind", "text", "conversation_id", "source_ids", "user_id", "agent_id"))
# Messages have these, too, beside a name.
_OF_BOTH = frozenset(("created_at", "author"))
_INSTEAD = "say with --format what it is"


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """What a file is taken for, one of `FORMATS` or nothing if blank; `document` is its JSON value if read whole."""

    name: str
    document: Any = None
    empty: bool = False

    @property
    def words(self) -> str:
        """What it is, such as "an export of ChatGPT"."""
        return "an empty file" if self.empty else FORMATS[self.name]


def detect_format(path: Path, wanted: str = AUTO) -> DetectedFormat:
    """Return what a file is taken for; a pipe is taken for records.

    A whole file of another kind raises `UnreadableFileError`, which names the kind and the remedy.
    """
    if wanted != AUTO and wanted not in FORMATS:
        raise InvalidInputError("format", wanted, ", ".join((AUTO, *FORMATS)))
    if path.is_dir():
        return _folder(path, wanted)
    if not path.is_file():
        return DetectedFormat("records" if wanted == AUTO else wanted)
    head = _head(path)
    if not head.removeprefix(BOM_UTF8).strip() and next(raw_lines(path), None) is None:
        return DetectedFormat("records", [], empty=True)
    check_signature(path, head)
    return _of_file(path, head, wanted)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _of_file(path: Path, head: bytes, wanted: str) -> DetectedFormat:
    if head.startswith(b"PK\x03\x04"):
        return _archive(path, wanted)
    if wanted == AUTO and path.suffix.lower() not in _OF_ONE_KIND and is_mail(head):
        wanted = "mail"
    if wanted in _OF_PARTS:
        return DetectedFormat(wanted)
    if wanted == AUTO and _BY_NAME.get(path.suffix.lower()) == "csv":
        wanted = "csv"
    if wanted != "csv" and path.suffix.lower() not in _LINES:
        check_text(path, head)
    if wanted != AUTO:
        return DetectedFormat(wanted, load_document(path) if wanted not in _OF_TEXT else None)
    return _by_content(path, head)


def load_document(path: Path) -> Any:
    """Return the JSON value of a file, or of its lines where each holds one; a line that holds none is an InvalidLine.

    Raises `UnreadableFileError` where it is neither.
    """
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        lines = [parse_object(line) for line in raw_lines(path)]
        if len(lines) < 2 or all(isinstance(line, InvalidLine) for line in lines[:_EXAMINED]):
            raise UnreadableFileError(path, f"not JSON ({error})", _INSTEAD) from error
        return lines


def _folder(path: Path, wanted: str) -> DetectedFormat:
    named = folder_parts(path)
    if wanted in (AUTO, "slack") and is_slack_folder(path):
        return DetectedFormat("slack")
    if wanted in (AUTO, "whatsapp") and is_whatsapp(path):
        return DetectedFormat("whatsapp")
    parts = named if wanted in _OF_CONVERSATIONS else []
    if not parts:
        what = "a link to a folder" if path.is_symlink() else "a folder"
        raise UnreadableFileError(path, what, "name its files, or only this folder, to `recall-loop ingest`")
    return _of_conversations(path, parts, wanted)


def _archive(path: Path, wanted: str) -> DetectedFormat:
    names = zip_members(path)
    if is_slack(names):
        return DetectedFormat("slack")
    if wanted in (AUTO, "whatsapp") and chat_member(names) and is_whatsapp(path):
        return DetectedFormat("whatsapp")
    parts = conversation_parts(names)
    if not parts:
        raise UnreadableFileError(path, "a ZIP archive", "unpack it and name the files to read")
    return _of_conversations(path, parts, wanted)


def _of_conversations(path: Path, parts: list[str], wanted: str) -> DetectedFormat:
    document = read_conversations(path, parts)
    return DetectedFormat(_of_document(path, document) if wanted == AUTO else wanted, document)


def _by_content(path: Path, head: bytes) -> DetectedFormat:
    suffix = path.suffix.lower()
    if suffix in _LINES:
        return _of_lines(path)
    start = head.removeprefix(BOM_UTF8).lstrip()[:1]
    if suffix == ".json" or (start in (b"{", b"[") and suffix not in _BY_NAME):
        return _json_or_text(path, suffix)
    if _BY_NAME.get(suffix, "text") == "text" and is_whatsapp(path):
        return DetectedFormat("whatsapp")
    if suffix in _BY_NAME:
        return DetectedFormat(_BY_NAME[suffix])
    return DetectedFormat("text")


def _json_or_text(path: Path, suffix: str) -> DetectedFormat:
    first = next(raw_lines(path), None)
    if first and not isinstance(parse_object(first), InvalidLine) and len(first.data) + 2 < path.stat().st_size:
        return _of_lines(path)
    try:
        document = load_document(path)
    except UnreadableFileError:
        if suffix == ".json":
            raise
        return DetectedFormat("text")
    return DetectedFormat(_of_document(path, document), document)


def _of_lines(path: Path) -> DetectedFormat:
    """Return what lines are taken for: what the first of them is that has a known shape."""
    looked_at = [parse_object(line) for line in islice(raw_lines(path), _EXAMINED)]
    objects = [line for line in looked_at if isinstance(line, dict)]
    if not objects:
        check_text(path, _head(path))
        reason = next(line.reason for line in looked_at if isinstance(line, InvalidLine))
        raise UnreadableFileError(path, f"not JSON Lines: its first line is {reason}", _INSTEAD)
    name = next(filter(None, map(_shape, objects)), None)
    if name is None:
        raise _unknown_shape(path, objects[0])
    return DetectedFormat(name, None if name in LINE_FORMATS else load_document(path))


def _of_document(path: Path, document: Any) -> str:
    """Return what a JSON value is taken for."""
    items = as_list(document)
    objects = [item for item in items if isinstance(item, Mapping)]
    if items and not objects and not isinstance(items[0], str):
        raise UnreadableFileError(path, f"a JSON document without objects (but {type(items[0]).__name__})", _INSTEAD)
    name = next(filter(None, map(_shape, objects[:_EXAMINED])), None) if objects else "records"
    if name is None:
        raise _unknown_shape(path, objects[0])
    return name


def _shape(item: Mapping[str, Any]) -> str | None:
    """Return the format that an object belongs to, by its fields."""
    messages = messages_of(item)
    first = [item] if messages is None else messages[:1]
    shapes = {
        "chatgpt": isinstance(item.get("mapping"), Mapping),
        "claude": is_of_claude(item),
        "telegram": is_telegram(item),
        "locomo": isinstance(item.get("conversation"), Mapping),
        "slack": "ts" in item and ("user" in item or "bot_id" in item or item.get("type") == "message"),
        "langchain": any(map(is_langchain, first)) and not (_OF_RECORDS | _OF_BOTH) & item.keys(),
        "openai": messages is not None or (is_openai(item) and not _may_be_record(item)),
        "records": "text" in item or "content" in item,
    }
    return next((name for name, fits in shapes.items() if fits), None)


def _may_be_record(item: Mapping[str, Any]) -> bool:
    """Tell whether a message may as well be a record, which has text and neither parts nor a name."""
    if not says_itself(item) or isinstance(item.get("author"), Mapping):
        return False
    return bool((_OF_RECORDS if "name" in item else _OF_RECORDS | _OF_BOTH) & item.keys())


def _unknown_shape(path: Path, item: Mapping[str, Any]) -> UnreadableFileError:
    if "memory" in item or isinstance(item.get("results"), list):
        return UnreadableFileError(path, "likely an export of mem0", "import it with `recall-loop import mem0`")
    shown = ", ".join(list(map(str, item))[:10]) or "none"
    return UnreadableFileError(path, f"JSON in an unknown format (its first object has the fields {shown})", _INSTEAD)
