"""Messages folded into the facts drawn from them; superseded statements put last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recall_loop.policy.evidence.merging import EVIDENCE_SNIPPET_CHARACTERS, MAX_EVIDENCE
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.words.snippets import best_snippet


def fold_messages(ranked: Sequence[RankedEntry], most: int, terms: frozenset[str]) -> list[RankedEntry]:
    """Return the best `most` items, with messages folded into the returned facts that name them.

    Args:
        ranked: all items, best first.
        most: number of items to return.
        terms: stems of the question; evidence snippets show as many of them as possible.
    """
    messages = {item.id: item for item in ranked if item.kind == ContentType.MESSAGE}
    promoted = _promote_facts(ranked[:most], messages)
    kept: dict[str, RankedEntry] = {}
    sources: set[str] = set()
    for item in [*sorted(promoted, key=lambda item: (item.near_duplicate, -item.score)), *ranked[most:]]:
        if len(kept) >= most:
            break
        if item.kind == ContentType.MESSAGE and item.id in sources:
            continue
        kept[item.entry["key"]] = item
        named = _fact_sources(item.entry)
        sources |= named
        folded = [key for key, other in kept.items() if other.kind == ContentType.MESSAGE and other.id in named]
        for key in folded:
            del kept[key]
    return [replace(item, entry=_with_evidence(item.entry, messages, terms)) for item in kept.values()]


def _fact_sources(entry: PoolEntry) -> set[str]:
    """Return the ids of the records from which a fact, and those merged into it, were drawn; nothing for other kinds.

    The record itself names only its own sources; the evidence has those of all that say the same (RANK-1).
    """
    drawn = entry["record"]["kind"] == ContentType.FACT
    return {str(item["source_id"]) for item in entry["evidence"]} if drawn else set()


def _promote_facts(ranked: Sequence[RankedEntry], messages: Mapping[str, RankedEntry]) -> list[RankedEntry]:
    """Give each message's score and similarity to the best fact that was drawn from it, and to no other."""
    taken: set[str] = set()
    promoted = []
    for item in ranked:
        sources = _fact_sources(item.entry)
        drawn_from = [messages[source] for source in sorted(sources - taken) if source in messages]
        taken |= sources
        similarity = max(each.entry["similarity"] for each in [item, *drawn_from])
        score = max(each.score for each in [item, *drawn_from])
        entry: PoolEntry = {**item.entry, "similarity": similarity}
        own = max(each.similarity for each in [item, *drawn_from])
        promoted.append(replace(item, score=score, entry=entry, own_similarity=own) if drawn_from else item)
    return promoted


def _with_evidence(entry: PoolEntry, messages: Mapping[str, RankedEntry], terms: frozenset[str]) -> PoolEntry:
    """Return an entry with snippets in its evidence, and the evidence of the best message first."""
    sources = _fact_sources(entry)
    shown = [_evidence_with_snippet(item, entry, messages if sources else {}, terms) for item in entry["evidence"]]
    scores = {source: messages[source].score for source in sources if source in messages}
    shown.sort(key=lambda item: -scores.get(str(item["source_id"]), 0.0))
    return {**entry, "evidence": shown[:MAX_EVIDENCE]}


def _evidence_with_snippet(
    item: Mapping[str, object], entry: PoolEntry, messages: Mapping[str, RankedEntry], terms: frozenset[str]
) -> dict[str, object]:
    """Return a piece of evidence, with its snippet if its source is in the pool."""
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
    """Return the ids of the sources that the items name and that have no snippet yet, each once, in order."""
    named = (str(source["source_id"]) for item in items for source in item.entry["evidence"] if not source["snippet"])
    return list(dict.fromkeys(named))


def attach_sources(
    items: Sequence[RankedEntry], records: Mapping[str, Mapping[str, Any]], terms: frozenset[str]
) -> list[RankedEntry]:
    """Fill in the snippets of those sources that `records` holds by id; the others stay empty."""
    if not records:
        return list(items)

    def quoted(source: Mapping[str, Any]) -> dict[str, object]:
        record = None if source["snippet"] else records.get(source["source_id"])
        return dict(source) if record is None else _quote(record, terms)

    return [
        replace(item, entry={**item.entry, "evidence": [quoted(source) for source in item.entry["evidence"]]})
        for item in items
    ]


@dataclass(frozen=True)
class Supersession:
    """The id of the fact that superseded a message, and since when (RFC 3339)."""

    fact: str
    since: str


def fact_ids(ranked: Sequence[RankedEntry]) -> list[str]:
    """Return the ids of the facts among the items."""
    return [item.id for item in ranked if item.kind == ContentType.FACT]


def demote_superseded(ranked: Sequence[RankedEntry], outdated: Mapping[str, Supersession]) -> list[RankedEntry]:
    """Move outdated items directly behind the fact that supersedes them, at no higher score; mark the messages.

    Args:
        ranked: all items, best first.
        outdated: supersessions by message id. A message from which a current fact among the items was drawn still
            holds, and stays where it is.
    """
    facts = {item.id: item for item in ranked if item.kind == ContentType.FACT}
    moved = _successors(ranked, facts, outdated)
    ordered: list[RankedEntry] = []
    waiting: dict[str, list[RankedEntry]] = {}
    passed: set[str] = set()
    for item in ranked:
        supersession = moved.get(item.id)
        if supersession is None:
            ordered += [item, *waiting.pop(item.id, [])]
            passed.add(item.id)
            continue
        target = ordered if supersession.fact in passed else waiting.setdefault(supersession.fact, [])
        target.append(_mark_superseded(item, supersession, facts[supersession.fact].score))
    return ordered


def _successors(
    ranked: Sequence[RankedEntry], facts: Mapping[str, RankedEntry], outdated: Mapping[str, Supersession]
) -> dict[str, Supersession]:
    """Return by id which items have to move, and behind which fact."""
    moved = {name: last for name, item in facts.items() if (last := _latest_successor(item, facts)) is not None}
    current = (item.entry for item in facts.values() if not item.entry["record"].get("superseded_by"))
    holding = {source for entry in current for source in _fact_sources(entry)}
    messages = {item.id for item in ranked if item.kind == ContentType.MESSAGE} - holding
    for name in messages & outdated.keys():
        supersession = outdated[name]
        if supersession.fact in facts:  # where history is asked for, that fact may itself be superseded
            last = moved.get(supersession.fact, supersession)
            moved[name] = replace(supersession, fact=last.fact)
    return moved


def _latest_successor(item: RankedEntry, facts: Mapping[str, RankedEntry]) -> Supersession | None:
    """Return the supersession of a fact by the last of its successors among the items; None without one."""
    seen = {item.id}
    last, by = None, item.entry["record"].get("superseded_by")
    while isinstance(by, str) and by in facts and by not in seen:
        seen.add(by)
        last, by = by, facts[by].entry["record"].get("superseded_by")
    return None if last is None or by in seen else Supersession(last, "")


def _mark_superseded(item: RankedEntry, supersession: Supersession, highest: float) -> RankedEntry:
    lowered = replace(item, score=min(item.score, highest))
    if item.kind == ContentType.FACT:
        return lowered
    record = {**item.entry["record"], "superseded_by": supersession.fact, "valid_until": supersession.since}
    return replace(lowered, entry={**item.entry, "record": record})
