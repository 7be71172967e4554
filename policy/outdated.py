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
    return [item.entry["record"]["id"] for item in ranked if item.entry["record"]["kind"] == ContentType.FACT]


def behind(ranked: Sequence[Ranked], outdated: Mapping[str, Outdated]) -> list[Ranked]:
    """Return the items with every outdated message directly behind its fact, at no higher score, and marked as such.

    Args:
        ranked: all items, best first.
        outdated: by ids of messages. Those from which a current fact among the items was drawn say something that
            holds, and stay where they are.
    """
    facts = {item.entry["record"]["id"]: item for item in ranked if item.entry["record"]["kind"] == ContentType.FACT}
    holding = {source for item in facts.values() for source in _sources(item)}
    moved = {
        item.entry["record"]["id"]: outdated[item.entry["record"]["id"]]
        for item in ranked
        if item.entry["record"]["kind"] == ContentType.MESSAGE
        and item.entry["record"]["id"] in outdated.keys() - holding
        and outdated[item.entry["record"]["id"]].fact in facts
    }
    if not moved:
        return list(ranked)
    waiting: dict[str, list[Ranked]] = {}
    ordered: list[Ranked] = []
    passed: set[str] = set()
    for item in ranked:
        name = item.entry["record"]["id"]
        why = moved.get(name)
        if why is None:
            ordered += [item, *waiting.pop(name, [])]
            passed.add(name)
        else:
            marked = _marked(item, why, facts[why.fact].score)
            if why.fact in passed:
                ordered.append(marked)
            else:
                waiting.setdefault(why.fact, []).append(marked)
    return ordered


def _sources(item: Ranked) -> Sequence[str]:
    record = item.entry["record"]
    return () if record.get("superseded_by") else record.get("source_ids", ())


def _marked(item: Ranked, why: Outdated, most: float) -> Ranked:
    record = {**item.entry["record"], "superseded_by": why.fact, "valid_until": why.since}
    return replace(item, entry={**item.entry, "record": record}, score=min(item.score, most))
