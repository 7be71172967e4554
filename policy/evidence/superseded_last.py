"""Places superseded facts, and messages that said them, behind the fact that holds now (OPS-5).

A correction changes facts, not what was once said. The old message is still a good match, often a better one than the
fact, and would come first; so would an old fact where history is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.types import ContentType


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
    current = (item.entry["record"] for item in facts.values() if not item.entry["record"].get("superseded_by"))
    holding = {source for record in current for source in record.get("source_ids", ())}
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
