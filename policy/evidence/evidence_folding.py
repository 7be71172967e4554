"""Folding: a message that a returned fact was drawn from is that fact's evidence, not a second item (RANK-1).

The best of the facts that name a message takes the better place and similarity of the two, so that folding never
costs what the message had earned. Its evidence stands in the order of its messages' scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recall_loop.policy.evidence.merging import EVIDENCE_SNIPPET_CHARACTERS, MAX_EVIDENCE
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.words.snippets import best_snippet


def fold_messages(ranked: Sequence[RankedEntry], most: int, terms: frozenset[str]) -> list[RankedEntry]:
    """Return the best `most` items, messages folded into the returned facts that name them.

    Args:
        ranked: all items, best first.
        most: number of items to return.
        terms: stems of the question; the snippets of the evidence show as many of them as they can.
    """
    messages = {item.entry["record"]["id"]: item for item in ranked if _is_message(item)}
    promoted = _promote_facts(ranked[:most], messages)
    kept: dict[str, RankedEntry] = {}
    sources: set[str] = set()
    for item in [*sorted(promoted, key=lambda item: (item.near_duplicate, -item.score)), *ranked[most:]]:
        if len(kept) >= most:
            break
        if _is_message(item) and item.entry["record"]["id"] in sources:
            continue
        kept[item.entry["key"]] = item
        named = _sources(item.entry)
        if not named:
            continue
        sources |= named
        for key in [key for key, other in kept.items() if _is_message(other) and _id(other) in named]:
            del kept[key]
    return [_with_entry(item, _with_evidence(item.entry, messages, terms)) for item in kept.values()]


def _with_entry(item: RankedEntry, entry: PoolEntry) -> RankedEntry:
    return RankedEntry(entry, item.score, item.components, item.near_duplicate)


def _id(item: RankedEntry) -> str:
    return str(item.entry["record"]["id"])


def _is_message(item: RankedEntry) -> bool:
    return bool(item.entry["record"]["kind"] == ContentType.MESSAGE)


def _sources(entry: PoolEntry) -> set[str]:
    """Return the ids of the records that a fact was drawn from; nothing for other kinds."""
    return set(entry["record"].get("source_ids", ())) if entry["record"]["kind"] == ContentType.FACT else set()


def _promote_facts(ranked: Sequence[RankedEntry], messages: Mapping[str, RankedEntry]) -> list[RankedEntry]:
    """Give each message's score and similarity to the best fact that was drawn from it, and to no other."""
    taken: set[str] = set()
    promoted = []
    for item in ranked:
        mine = [messages[source] for source in sorted(_sources(item.entry) - taken) if source in messages]
        taken |= _sources(item.entry)
        similarity = max([item.entry["similarity"], *(message.entry["similarity"] for message in mine)])
        score = max([item.score, *(message.score for message in mine)])
        promoted.append(replace(item, score=score, entry={**item.entry, "similarity": similarity}) if mine else item)
    return promoted


def _with_evidence(entry: PoolEntry, messages: Mapping[str, RankedEntry], terms: frozenset[str]) -> PoolEntry:
    """Return an entry whose evidence has its snippets, that of the best message first."""
    named = _sources(entry)
    shown = [_evidence_with_snippet(item, entry, messages if named else {}, terms) for item in entry["evidence"]]
    scores = {source: messages[source].score for source in named if source in messages}
    shown.sort(key=lambda item: -scores.get(str(item["source_id"]), 0.0))
    return {**entry, "evidence": shown[:MAX_EVIDENCE]}


def _evidence_with_snippet(
    item: Mapping[str, object], entry: PoolEntry, messages: Mapping[str, RankedEntry], terms: frozenset[str]
) -> dict[str, object]:
    """Return a piece of evidence with its snippet, as far as its source is in the pool."""
    message = messages.get(str(item["source_id"]))
    if message is not None:
        return _quote(message.entry["record"], terms)
    if item["source_id"] == entry["record"]["id"]:
        return {**item, "snippet": best_snippet(entry["record"]["text"], terms, EVIDENCE_SNIPPET_CHARACTERS)}
    return dict(item)


def _quote(record: Mapping[str, Any], terms: frozenset[str]) -> dict[str, object]:
    return {
        "source_id": record["id"],
        "snippet": best_snippet(record["text"], terms, EVIDENCE_SNIPPET_CHARACTERS),
        "author": record.get("author"),
        "created_at": record.get("created_at"),
    }


def unread_source_ids(items: Sequence[RankedEntry]) -> list[str]:
    """Return the ids of the sources that the items name and nobody has read yet, each once, in order."""
    named = (str(source["source_id"]) for item in items for source in item.entry["evidence"] if not source["snippet"])
    return list(dict.fromkeys(named))


def attach_sources(
    items: Sequence[RankedEntry], records: Mapping[str, Mapping[str, Any]], terms: frozenset[str]
) -> list[RankedEntry]:
    """Return the items with the words of those sources that `records` holds; the others' snippets stay empty."""
    if not records:
        return list(items)
    return [
        _with_entry(
            item, {**item.entry, "evidence": [_read(source, records, terms) for source in item.entry["evidence"]]}
        )
        for item in items
    ]


def _read(
    source: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]], terms: frozenset[str]
) -> dict[str, object]:
    record = None if source["snippet"] else records.get(source["source_id"])
    return dict(source) if record is None else _quote(record, terms)
