"""The formats that ingest reads: lines of records, and LoCoMo's samples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.files.documents import ABSENT_ID, FileIdTracker, record_from_document
from recall_loop.memory.parsing.foreign_json import InvalidLine, parse_object, raw_lines, to_printable
from recall_loop.memory.store.encoding.derivation import derive_kind
from recall_loop.state.errors import NOTHING, InvalidInputError, display_value
from recall_loop.state.records.records import Fact, Record, parse_record

Document = dict[str, Any]

_SESSION = re.compile(r"session_(\d+)")
_WHEN = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m)\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LIST_BREAK = re.compile(r"[;,\s]+")


def load_samples(path: Path) -> list[Any] | None:
    """Return the samples of a published file, or None where the file holds one document per line.

    Raises:
        InvalidInputError: the file starts as a list of samples and is not valid JSON.
        OSError: the file can't be read.
    """
    if not path.is_file():  # a pipe can be read only once: as lines
        return None
    with path.open("rb") as file:
        if not file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
            return None
    try:
        samples = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(str(path), str(error), "a JSON list of samples, or JSON Lines") from error
    return list(samples)


def sample_documents(samples: list[Any]) -> Iterator[Document]:
    """Yield every turn, observation, summary and event of the samples, session by session."""
    for sample in samples:
        if not isinstance(sample, Mapping):
            yield {"kind": f"a sample that is {type(sample).__name__}, not an object"}
            continue
        conversation = _mapping(sample.get("conversation"))
        sessions = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
        for session in sessions:
            base = {
                "collection": str(sample.get("sample_id")),
                "session": session,
                "timestamp": parse_session_time(conversation.get(f"session_{session}_date_time")),
            }
            yield from _turns(base, conversation[f"session_{session}"])
            yield from _observations(base, _mapping(sample.get("observation")))
            yield from _summary(base, _mapping(sample.get("session_summary")))
            yield from _events(base, _mapping(sample.get("event_summary")))


def parse_session_time(text: object) -> str | None:
    """Return a time such as "1:56 pm on 8 May, 2023" in ISO format; None for anything else."""
    match = _WHEN.search(text) if isinstance(text, str) else None
    month = match[5][:3].lower() if match else ""
    if match is None or month not in _MONTHS:
        return None
    hour = int(match[1]) % 12 + (12 if match[3].lower() == "pm" else 0)
    try:
        return datetime(int(match[6]), _MONTHS.index(month) + 1, int(match[4]), hour, int(match[2])).isoformat()
    except ValueError:
        return None


def _turns(base: Document, turns: Any) -> Iterator[Document]:
    for turn in map(_mapping, turns if isinstance(turns, list) else []):
        text, caption = turn.get("text"), turn.get("blip_caption")
        if isinstance(text, str) and isinstance(caption, str) and caption not in text:
            text = f"{text} [shares an image: {caption}]".strip()
        turn_id = f"{base['collection']}:{turn.get('dia_id')}" if turn.get("dia_id") else None
        yield base | {"id": turn_id, "kind": "message", "speaker": turn.get("speaker"), "text": text}


def _observations(base: Document, observations: Mapping[str, Any]) -> Iterator[Document]:
    by_speaker = _mapping(observations.get(f"session_{base['session']}_observation"))
    for speaker, items in by_speaker.items():
        for number, item in enumerate(items if isinstance(items, list) else []):
            text, sources = (item[0], item[1:]) if isinstance(item, list) and item else (item, [])
            yield base | {
                "id": f"{base['collection']}:F{base['session']}:{speaker}:{number}",
                "kind": "fact",
                "speaker": speaker,
                "text": text,
                "source_ids": [f"{base['collection']}:{source}" for source in _ids(sources)],
            }


def _summary(base: Document, summaries: Mapping[str, Any]) -> Iterator[Document]:
    text = summaries.get(f"session_{base['session']}_summary")
    if text:
        yield base | {"id": f"{base['collection']}:S{base['session']}", "kind": "session_summary", "text": text}


def _events(base: Document, events: Mapping[str, Any]) -> Iterator[Document]:
    by_speaker = _mapping(events.get(f"events_session_{base['session']}"))
    for speaker, items in by_speaker.items():
        if speaker == "date":
            continue
        for number, text in enumerate(items if isinstance(items, list) else []):
            yield base | {
                "id": f"{base['collection']}:E{base['session']}:{speaker}:{number}",
                "kind": "event",
                "speaker": speaker,
                "date": by_speaker.get("date"),
                "text": text,
            }


def _ids(sources: Any) -> Iterator[str]:
    """Yield the turn ids out of strings, lists and strings that hold several."""
    if isinstance(sources, str):
        yield from filter(None, _LIST_BREAK.split(sources))
    elif isinstance(sources, list):
        for source in sources:
            yield from _ids(source)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


FORMATS = ("records", "locomo")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One line's outcome. `end` is the byte offset after it, or None if the file has no lines."""

    line: int
    outcome: Record | InvalidLine
    raw: str
    end: int | None = None
    duplicate_of_line: int | None = None


def read_records(path: Path, format_name: str = "records") -> Iterator[tuple[int, Record | InvalidLine]]:
    """Yield the records of a file; ids that are absent are derived (`FileIdTracker`).

    A file in the format `locomo` holds either the published list of samples (numbered by item), whose turns, facts,
    summaries and events become records, or one document per line.

    Raises:
        InvalidInputError: `format_name` is not one of `FORMATS`.
        OSError: the file can't be read.
    """
    return ((entry.line, entry.outcome) for entry in iter_entries(path, format_name))


def iter_entries(path: Path, format_name: str) -> Iterator[FileEntry]:
    """Yield every line's outcome with what a resumable, reporting reader needs; raises as `read_records` does."""
    if format_name not in FORMATS:
        raise InvalidInputError("format", format_name, " or ".join(FORMATS))
    if format_name == "records":
        yield from _line_entries(path, record_from_fields)
    elif (samples := load_samples(path)) is not None:
        yield from _sample_entries(samples)
    else:
        yield from _line_entries(path, record_from_document)


def record_from_fields(fields: Mapping[str, Any]) -> Record:
    """Return one line of the format `records` as a record; an absent kind is derived, an absent id is a placeholder.

    Raises:
        InvalidInputError: names the field, its value and what is allowed.
    """
    if fields.get("text") is None and fields.get("content") is None:
        raise InvalidInputError("text", NOTHING, "text that is not blank, as `text` or `content`")
    stated = {name: value for name, value in fields.items() if name not in ("id", "kind") or value is not None}
    return parse_record({"id": ABSENT_ID, "kind": derive_kind(fields), **stated})


def _line_entries(path: Path, convert: Callable[[Mapping[str, Any]], Record]) -> Iterator[FileEntry]:
    ids = FileIdTracker()
    for line in raw_lines(path):
        fields = parse_object(line)
        raw = to_printable(line.data)
        outcome = fields if isinstance(fields, InvalidLine) else _convert(fields, raw, convert)
        if isinstance(outcome, Record) and isinstance(fields, dict) and fields.get("id") is None:
            outcome = _with_derived_id(outcome, ids, raw)
        earlier = ids.earlier_line(outcome.id, line.number) if isinstance(outcome, Record) else None
        yield FileEntry(line.number, outcome, raw, line.end, earlier)


def _sample_entries(samples: list[Any]) -> Iterator[FileEntry]:
    ids = FileIdTracker()
    for number, document in enumerate(sample_documents(samples), start=1):
        raw = display_value(document)
        outcome = _convert(document, raw, record_from_document)
        earlier = ids.earlier_line(outcome.id, number) if isinstance(outcome, Record) else None
        yield FileEntry(number, outcome, raw, None, earlier)


def _convert(fields: Any, raw: str, convert: Callable[[Mapping[str, Any]], Record]) -> Record | InvalidLine:
    try:
        return convert(fields)
    except InvalidInputError as error:
        return InvalidLine(str(error), raw)


def _with_derived_id(record: Record, ids: FileIdTracker, raw: str) -> Record | InvalidLine:
    derived = record.model_copy(update={"id": ids.derive(record)})
    # The one rule that looks at the id was checked with a placeholder in its place.
    if isinstance(derived, Fact) and derived.superseded_by == derived.id:
        return InvalidLine("superseded_by: the id of another fact", raw)
    return derived
