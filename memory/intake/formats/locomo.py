"""LoCoMo's layout: a list of samples, or one document a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.formats.source_items import listed
from recall_loop.memory.parsing.foreign_json import as_mapping
from recall_loop.state.errors import InvalidInputError

Document = dict[str, Any]

_SESSION = re.compile(r"session_(\d+)")
_WHEN = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m)\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LIST_BREAK = re.compile(r"[;,\s]+")


def load_samples(path: Path) -> list[Any] | None:
    """Return the samples of a published file, or None where the file holds one document per line.

    Raises `InvalidInputError` where it starts as a list of samples and is not valid JSON.
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
        conversation = as_mapping(sample.get("conversation"))
        sessions = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
        for session in sessions:
            base = {
                "collection": str(sample.get("sample_id")),
                "session": session,
                "timestamp": parse_session_time(conversation.get(f"session_{session}_date_time")),
            }
            yield from _turns(base, conversation[f"session_{session}"])
            yield from _observations(base, as_mapping(sample.get("observation")))
            yield from _summary(base, as_mapping(sample.get("session_summary")))
            yield from _events(base, as_mapping(sample.get("event_summary")))


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
    for turn in map(as_mapping, listed(turns)):
        text, caption = turn.get("text"), turn.get("blip_caption")
        if isinstance(text, str) and isinstance(caption, str) and caption not in text:
            text = f"{text} [shares an image: {caption}]".strip()
        turn_id = f"{base['collection']}:{turn.get('dia_id')}" if turn.get("dia_id") else None
        yield base | {"id": turn_id, "kind": "message", "speaker": turn.get("speaker"), "text": text}


def _observations(base: Document, observations: Mapping[str, Any]) -> Iterator[Document]:
    by_speaker = as_mapping(observations.get(f"session_{base['session']}_observation"))
    for speaker, items in by_speaker.items():
        for number, item in enumerate(listed(items)):
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
    by_speaker = as_mapping(events.get(f"events_session_{base['session']}"))
    for speaker, items in by_speaker.items():
        if speaker == "date":
            continue
        for number, text in enumerate(listed(items)):
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
