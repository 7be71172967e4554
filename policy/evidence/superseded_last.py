"""What has been superseded comes behind the fact that holds now, and so do messages that said it (OPS-5).

A correction changes facts, not what was once said. The old message is still a good match, often a better one than the
fact, and would speak first; so would an old fact where history is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.types import ContentType


@dataclass(frozen=True)
class Supersession:
    """By what a message is out of date: the id of the newer fact, and since when (RFC 3339)."""

    fact: str
    since: str


def fact_ids(ranked: Sequence[RankedEntry]) -> list[str]:
    """Return the ids of the facts among the items."""
    return [_id(item) for item in ranked if _is(item, ContentType.FACT)]


def demote_superseded(ranked: Sequence[RankedEntry], outdated: Mapping[str, Supersession]) -> list[RankedEntry]:
    """Return the items with what is outdated directly behind its fact, at no higher score, and messages marked as such.

    Args:
        ranked: all items, best first.
        outdated: by ids of messages. Those from which a current fact among the items was drawn say something that
            holds, and stay where they are.
    """
    facts = {_id(item): item for item in ranked if _is(item, ContentType.FACT)}
    moved = {name: why for name, item in facts.items() if (why := _latest_successor(item, facts)) is not None}
    holding = {source for item in facts.values() for source in _sources(item)}
    messages = {_id(item) for item in ranked if _is(item, ContentType.MESSAGE)} - holding
    for name in messages & outdated.keys():
        why = outdated[name]
        if why.fact in facts:  # which may have ended itself, where history is asked for
            moved[name] = replace(why, fact=moved[why.fact].fact) if why.fact in moved else why
    ordered: list[RankedEntry] = []
    waiting: dict[str, list[RankedEntry]] = {}
    passed: set[str] = set()
    for item in ranked:
        late = moved.get(_id(item))
        if late is None:
            ordered += [item, *waiting.pop(_id(item), [])]
            passed.add(_id(item))
            continue
        place = ordered if late.fact in passed else waiting.setdefault(late.fact, [])
        place.append(_mark_superseded(item, late, facts[late.fact].score))
    return ordered


def _id(item: RankedEntry) -> str:
    return str(item.entry["record"]["id"])


def _is(item: RankedEntry, kind: ContentType) -> bool:
    return bool(item.entry["record"]["kind"] == kind)


def _sources(item: RankedEntry) -> Sequence[str]:
    record = item.entry["record"]
    return () if record.get("superseded_by") else record.get("source_ids", ())


def _latest_successor(item: RankedEntry, facts: Mapping[str, RankedEntry]) -> Supersession | None:
    """Return by what a fact is out of date that is among the items: the last of its successors there."""
    seen = {_id(item)}
    last, by = None, item.entry["record"].get("superseded_by")
    while isinstance(by, str) and by in facts and by not in seen:
        seen.add(by)
        last, by = by, facts[by].entry["record"].get("superseded_by")
    return None if last is None or by in seen else Supersession(last, "")


def _mark_superseded(item: RankedEntry, why: Supersession, most: float) -> RankedEntry:
    if _is(item, ContentType.FACT):
        return replace(item, score=min(item.score, most))
    record = {**item.entry["record"], "superseded_by": why.fact, "valid_until": why.since}
    return replace(item, entry={**item.entry, "record": record}, score=min(item.score, most))
