"""The entries of a file in any format that ingest reads: each a record, or why it is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from recall_loop.memory.intake.exports.chat_exports import read_chatgpt, read_claude
from recall_loop.memory.intake.exports.mail import read_mail
from recall_loop.memory.intake.exports.slack_export import read_slack
from recall_loop.memory.intake.exports.telegram import read_telegram
from recall_loop.memory.intake.exports.whatsapp import read_whatsapp
from recall_loop.memory.intake.files.detection import LINE_FORMATS, DetectedFormat, detect_format
from recall_loop.memory.intake.files.documents import ABSENT_ID, FileIdTracker, record_from_document
from recall_loop.memory.intake.formats.csv_tables import read_csv
from recall_loop.memory.intake.formats.locomo import load_samples, sample_documents
from recall_loop.memory.intake.formats.message_lists import read_messages
from recall_loop.memory.intake.formats.source_items import LeftOut, SourceItem, as_list, file_title, with_zoned_times
from recall_loop.memory.intake.formats.text_notes import read_markdown, read_text
from recall_loop.memory.parsing.foreign_json import InvalidLine, parse_object, raw_lines, to_printable
from recall_loop.memory.store.encoding.derivation import derive_kind
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.state.errors import NOTHING, InvalidInputError, display_value, validate_model
from recall_loop.state.language_codes import LanguageCode
from recall_loop.state.records.records import Fact, Record, parse_record
from recall_loop.state.scope import Scope


class _FileScope(Scope):
    language: LanguageCode | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class FileOwner:
    """Defaults for records of a file: owner, conversation, language and time zone.

    `language` is the code of that of records that state none, `timezone` the zone of times without one, such as
    Europe/Berlin; UTC if absent.

    Raises:
        InvalidInputError: an id or the language isn't allowed, or there is no such zone.
    """

    user_id: str | None = None
    agent_id: str | None = None
    conversation_id: str | None = None
    language: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        validate_model(_FileScope, self.fields())
        try:
            self.zone()
        except (LookupError, ValueError, OSError) as error:  # a folder of zones is no zone either
            raise InvalidInputError("timezone", self.timezone, "a zone such as Europe/Berlin, or UTC") from error

    def zone(self) -> ZoneInfo | None:
        """Return the zone of times that state none; None for UTC."""
        return None if self.timezone is None else ZoneInfo(self.timezone)

    def fields(self) -> dict[str, str]:
        """Return the given fields."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}

    def key(self) -> tuple[str, ...]:
        """Return a key that separates one owner's notes from another's; empty without an owner."""
        given = (self.user_id, self.agent_id)
        return tuple(one or "" for one in given) if any(given) else ()


NOBODY = FileOwner()


@dataclass(frozen=True, slots=True)
class FileEntry:
    """The outcome of a `SourceItem`; `duplicate_of_line` is an earlier one that gave the same id."""

    line: int
    outcome: Record | InvalidLine | LeftOut
    raw: str
    end: int | None = None
    duplicate_of_line: int | None = None
    warning: str | None = None


def read_records(path: str | Path, format_name: str = "records") -> Iterator[tuple[int, Record | InvalidLine]]:
    """Yield the records of a file; missing ids are derived (`FileIdTracker`).

    A file in the format `locomo` holds either the published list of samples (numbered by item), whose turns, facts,
    summaries and events become records, or one document per line. Items that a format leaves out on purpose, such as
    system messages, are not among them.

    Args:
        path: the file.
        format_name: one of `detection.FORMATS`, or `auto`: detected from the content.

    Raises:
        InvalidInputError: `format_name` is not known, or the whole file is of another kind.
        OSError: the file can't be read.
    """
    for entry in iter_entries(checked_file(path), format_name):
        if not isinstance(entry.outcome, LeftOut):
            yield entry.line, entry.outcome


def iter_entries(path: Path, format_name: str | DetectedFormat, owner: FileOwner = NOBODY) -> Iterator[FileEntry]:
    """Yield every item's outcome with what a resumable, reporting reader needs; raises as `read_records` does."""
    if format_name in LINE_FORMATS:  # whatever the lines hold: each is validated by itself
        format_name = DetectedFormat(str(format_name))
    detected = detect_format(path, format_name) if isinstance(format_name, str) else format_name
    ids = FileIdTracker(owner.key())
    for item in _items(path, detected, owner):
        outcome = _outcome(item, detected.name, owner, ids)
        earlier = ids.earlier_line(outcome.id, item.number) if isinstance(outcome, Record) else None
        yield FileEntry(item.number, outcome, item.raw, item.end, earlier, item.warning)


def _items(path: Path, detected: DetectedFormat, owner: FileOwner) -> Iterator[SourceItem]:
    document = detected.document
    readers: dict[str, Callable[[], Iterator[SourceItem]]] = {
        "records": lambda: _line_items(path) if document is None else _listed(as_list(document)),
        "locomo": lambda: _locomo_items(path),
        "openai": lambda: read_messages(document, owner.conversation_id or file_title(path)),
        "langchain": lambda: read_messages(document, owner.conversation_id or file_title(path)),
        "chatgpt": lambda: read_chatgpt(document),
        "claude": lambda: read_claude(document),
        "slack": lambda: read_slack(path, document),
        "whatsapp": lambda: read_whatsapp(path, owner.conversation_id),
        "telegram": lambda: read_telegram(document),
        "mail": lambda: read_mail(path),
        "csv": lambda: read_csv(path),
        "markdown": lambda: read_markdown(path, owner.key()),
        "text": lambda: read_text(path),
    }
    return readers[detected.name]()


def _line_items(path: Path) -> Iterator[SourceItem]:
    for line in raw_lines(path):
        yield SourceItem(line.number, parse_object(line), to_printable(line.data), end=line.end)


def _locomo_items(path: Path) -> Iterator[SourceItem]:
    samples = load_samples(path)
    return _line_items(path) if samples is None else _listed(sample_documents(samples))


def _listed(items: Iterable[Any]) -> Iterator[SourceItem]:
    for number, item in enumerate(items, start=1):
        raw = display_value(item)
        fields = {"text": item} if isinstance(item, str) else item
        found = fields if isinstance(fields, dict | InvalidLine) else InvalidLine("no JSON object and no text", raw)
        yield SourceItem(number, found, raw)


def _outcome(item: SourceItem, name: str, owner: FileOwner, ids: FileIdTracker) -> Record | InvalidLine | LeftOut:
    fields = item.outcome
    if not isinstance(fields, dict):
        return fields
    try:
        if name == "locomo":
            record = record_from_document(fields)
        else:
            record = record_from_fields(with_zoned_times(fields, owner.zone()))
    except InvalidInputError as error:
        return InvalidLine(str(error), item.raw)
    missing = {key: value for key, value in owner.fields().items() if getattr(record, key, value) is None}
    record = record.model_copy(update=missing) if missing else record
    return record if fields.get("id") is not None else _with_derived_id(record, ids, item.raw)


def record_from_fields(fields: Mapping[str, Any]) -> Record:
    """Return one line of the format `records` as a record; an absent kind is derived, an absent id is a placeholder.

    Raises `InvalidInputError`, which names the field, its value and what is allowed.
    """
    if fields.get("text") is None and fields.get("content") is None:
        raise InvalidInputError("text", NOTHING, "text that is not blank, as `text` or `content`")
    stated = {name: value for name, value in fields.items() if name not in ("id", "kind") or value is not None}
    return parse_record({"id": ABSENT_ID, "kind": derive_kind(fields), **stated})


def _with_derived_id(record: Record, ids: FileIdTracker, raw: str) -> Record | InvalidLine:
    derived = record.model_copy(update={"id": ids.derive(record)})
    # The only rule that uses the id was checked with a placeholder.
    if isinstance(derived, Fact) and derived.superseded_by == derived.id:
        return InvalidLine("superseded_by: the id of another fact", raw)
    return derived
