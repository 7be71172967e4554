"""What a record of the evidence pool is told apart and found by: its key, its words, the names in it."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from recall_loop.state.records.records import Record
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.gloss.glosses import english_stems
from recall_loop.text.names.identifiers import other_spellings
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.words.folding import normalise
from recall_loop.text.words.passages import READ_CHARACTERS
from recall_loop.text.words.tokens import index_stems

_LONGEST_PLAIN = 200
_HASH_DIGITS = 32
_SEPARATOR = " / "
# A run compares the same short texts again and again.
_KEPT_TEXTS, _KEPT_CHARACTERS = 2048, 600


def entry_text(entry: PoolEntry) -> str:
    """Return the text of a record with its author, subject and label."""
    record = entry["record"]
    parts = [*map(record.get, ("author", "subject", "label")), record["text"]]
    return " ".join(part for part in parts if part)


def entry_terms(entry: PoolEntry) -> frozenset[str]:
    """Return the stems of a record's own text, author, subject and label, and of the text's English translation."""
    return indexed_terms(entry_text(entry), entry["record"].get("language")) | english_stems(entry["record"]["text"])


def entry_window_terms(entry: PoolEntry) -> frozenset[str]:
    """Return the stems of a record's window, including its own."""
    return entry_terms(entry) | indexed_terms(entry["window"], entry["record"].get("language"))


@lru_cache(maxsize=8192)
def indexed_terms(text: str, language: str | None = None) -> frozenset[str]:
    """Return the stems by which a text is found, in any spelling of its identifiers."""
    spellings = other_spellings(text)
    return frozenset(index_stems(text, language) + (index_stems(spellings, language) if spellings else []))


def entry_entities(entry: PoolEntry) -> tuple[str, ...]:
    """Return the names in a record: its label first, then the entities of its text."""
    label = entry["record"].get("label")
    names = find_entities(entry["record"]["text"])
    return tuple(dict.fromkeys([label, *names] if label else names))


def fact_key(record: Record) -> str:
    """Return the semantic identity of a record (RANK-1).

    A fact with subject and type is identified by these and its object, or its text if it has no object. Any other
    fact is identified by its normalised text, a message by its id, and an archival entry or a trajectory by its kind,
    label and text. A text of more than 8,000 characters is compared as it is written: its normalised form would take a
    hundred times as long (GUARD-2).
    """
    if record.kind is ContentType.MESSAGE:
        return f"{record.kind.value}:{record.id}"
    if record.kind is not ContentType.FACT:
        parts = [_comparable(record.label or ""), _digest(_comparable(record.text))]
    elif record.subject and record.fact_type:
        parts = [_comparable(part) for part in (record.subject, record.fact_type, record.object or record.text)]
    else:
        parts = [_comparable(record.text)]
    return f"{record.kind.value}:{_short(_SEPARATOR.join(parts))}"


_known_normalised = lru_cache(maxsize=_KEPT_TEXTS)(normalise)


def _comparable(text: str) -> str:
    if len(text) <= _KEPT_CHARACTERS:
        return _known_normalised(text)
    return normalise(text) if len(text) <= READ_CHARACTERS else text


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_PLAIN else "#" + _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
