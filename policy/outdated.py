"""Messages that said what has been superseded come behind the fact that holds now (OPS-5).

A correction changes facts, not what was once said. The old message is still a good match, often a better one than the
fact, and would speak first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recall_loop.policy.ranking import Ranked
from recall_loop.state.types import ContentType


@dataclass(frozen=True)
class Outdated:
    """By what a message is out of date: the id of the newer fact, and since when (RFC 3339)."""

    fact: str
    since: str


def fact_ids(ranked: Sequence[Ranked]) -> list[str]:
    """Return the ids of the facts among the items."""
    return [_id(item) for item in ranked if _is(item, ContentType.FACT)]


def behind(ranked: Sequence[Ranked], outdated: Mapping[str, Outdated]) -> list[Ranked]:
    """Return the items with every outdated message directly behind its fact, at no higher score, and marked as such.

    Args:
        ranked: all items, best first.
        outdated: by ids of messages. Those from which a current fact among the items was drawn say something that
            holds, and stay where they are.
    """
    facts = {_id(item): item for item in ranked if _is(item, ContentType.FACT)}
    holding = {source for item in facts.values() for source in _sources(item)}
    messages = {_id(item) for item in ranked if _is(item, ContentType.MESSAGE)} - holding
    moved = {name: outdated[name] for name in messages & outdated.keys() if outdated[name].fact in facts}
    ordered: list[Ranked] = []
    waiting: dict[str, list[Ranked]] = {}
    passed: set[str] = set()
    for item in ranked:
        why = moved.get(_id(item)) if _is(item, ContentType.MESSAGE) else None
        if why is None:
            ordered += [item, *waiting.pop(_id(item), [])]
            passed.add(_id(item))
            continue
        place = ordered if why.fact in passed else waiting.setdefault(why.fact, [])
        place.append(_marked(item, why, facts[why.fact].score))
    return ordered


def _id(item: Ranked) -> str:
    return str(item.entry["record"]["id"])


def _is(item: Ranked, kind: ContentType) -> bool:
    return bool(item.entry["record"]["kind"] == kind)


def _sources(item: Ranked) -> Sequence[str]:
    record = item.entry["record"]
    return () if record.get("superseded_by") else record.get("source_ids", ())


def _marked(item: Ranked, why: Outdated, most: float) -> Ranked:
    record = {**item.entry["record"], "superseded_by": why.fact, "valid_until": why.since}
    return replace(item, entry={**item.entry, "record": record}, score=min(item.score, most))
