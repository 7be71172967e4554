"""Folding: a message that a returned fact was drawn from is that fact's evidence, not a second item (RANK-1).

The fact takes the better place of the two, so that folding never costs what the message had earned, and its
evidence stands in the order of its messages' scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recall_loop.policy.merging import SNIPPET_CHARACTERS
from recall_loop.policy.ranking import Ranked
from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.snippets import best_snippet


def absorb(ranked: Sequence[Ranked], most: int, terms: frozenset[str]) -> list[Ranked]:
    """Return the best `most` items, messages folded into the returned facts that name them.

    Args:
        ranked: all items, best first.
        most: number of items to return.
        terms: stems of the question; the snippets of the evidence show as many of them as they can.
    """
    messages = {item.entry["record"]["id"]: item for item in ranked if _is_message(item)}
    promoted = [_promoted(item, messages) if place < most else item for place, item in enumerate(ranked)]
    kept: dict[str, Ranked] = {}
    sources: set[str] = set()
    for item in sorted(promoted[:most], key=lambda item: -item.score) + promoted[most:]:
        if len(kept) >= most:
            break
        if _is_message(item) and item.entry["record"]["id"] in sources:
            continue
        kept[item.entry["key"]] = item
        named = _sources(item.entry)
        sources |= named
        for key in [key for key, other in kept.items() if _is_message(other) and _id(other) in named]:
            del kept[key]
    return [replace(item, entry=_with_evidence(item.entry, messages, terms)) for item in kept.values()]


def _id(item: Ranked) -> str:
    return str(item.entry["record"]["id"])


def _is_message(item: Ranked) -> bool:
    return bool(item.entry["record"]["kind"] == ContentType.MESSAGE)


def _sources(entry: PoolEntry) -> set[str]:
    """Return the ids of the records that a fact was drawn from; nothing for other kinds."""
    return set(entry["record"].get("source_ids", ())) if entry["record"]["kind"] == ContentType.FACT else set()


def _promoted(item: Ranked, messages: Mapping[str, Ranked]) -> Ranked:
    """Give a fact the best score of the messages that it was drawn from."""
    scores = [messages[source].score for source in _sources(item.entry) if source in messages]
    return replace(item, score=max([item.score, *scores]))


def _with_evidence(entry: PoolEntry, messages: Mapping[str, Ranked], terms: frozenset[str]) -> PoolEntry:
    """Return an entry whose evidence has its snippets, that of the best message first."""
    named = _sources(entry)
    shown = [_shown(item, entry, messages if named else {}, terms) for item in entry["evidence"]]
    scores = {source: messages[source].score for source in named if source in messages}
    shown.sort(key=lambda item: -scores.get(str(item["source_id"]), 0.0))
    return {**entry, "evidence": shown}


def _shown(
    item: Mapping[str, object], entry: PoolEntry, messages: Mapping[str, Ranked], terms: frozenset[str]
) -> dict[str, object]:
    """Return a piece of evidence with its snippet: the message's own words where it is at hand."""
    message = messages.get(str(item["source_id"]))
    if message is None:
        text = item["snippet"] or best_snippet(entry["record"]["text"], terms, SNIPPET_CHARACTERS)
        return {**item, "snippet": text}
    record = message.entry["record"]
    return {
        "source_id": item["source_id"],
        "snippet": best_snippet(record["text"], terms, SNIPPET_CHARACTERS),
        "author": record.get("author"),
        "created_at": record.get("created_at"),
    }
