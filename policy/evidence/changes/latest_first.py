"""The latest of what is found, where the last time of something is asked for (LIVE-4).

No earlier run is the last one, however well it is told: "ran 10k with Priya today" before "back at it, a slow 5k run".
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from recall_loop.policy.evidence.changes.matter import Matter
from recall_loop.policy.evidence.changes.placing import raised
from recall_loop.policy.evidence.changes.renewals import RENEWAL_DEPTH
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.question.periods import entry_created_at
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import Role

CLOSE_SIMILARITY = 0.6
"""The least share of the first one's similarity at which another tells of the same kind of event."""
_ASSISTING = (Role.ASSISTANT, Role.TOOL)


def put_latest_first(
    ranked: list[RankedEntry], matter: Matter, now: datetime, told: Callable[[PoolEntry], frozenset[int]]
) -> list[RankedEntry]:
    """Return the entries with the latest one first that tells as much of what is asked for as the first of them.

    Args:
        ranked: the entries, best first.
        matter: what the question is about.
        now: the question's now; nothing dated later has happened.
        told: returns which of the question's names and phrases an entry's own text has.
    """
    found = [item for item in ranked[:RENEWAL_DEPTH] if told(item.entry) and matter.is_evidence(item.entry)]
    first = next((item for item in found if item.similarity >= ranked[0].similarity), None)
    if first is None:
        return ranked
    known = told(first.entry)
    rivals = [item for item in found if told(item.entry) >= known and (item is first or _is_such(item, first, matter))]
    dated = [(made, item) for item in rivals if (made := entry_created_at(item.entry)) and made <= now]
    latest = max(dated, key=lambda each: each[0], default=(now, first))[1]  # of equal ones the best
    return [raised(latest, ranked[0]), *(item for item in ranked if item is not latest)]


def _is_such(item: RankedEntry, first: RankedEntry, matter: Matter) -> bool:
    """Tell whether an entry may tell of the same kind of event as the first; an assistant mostly only repeats it."""
    record, before = item.entry["record"], first.entry["record"]
    echoes = record.get("role") in _ASSISTING and before.get("role") not in _ASSISTING
    outdated = record.get("superseded_by_hint") or record.get("superseded_by")
    lacks_kind = matter.asks_kind and matter.holds_kind(first.entry) and not matter.holds_kind(item.entry)
    close = item.similarity >= CLOSE_SIMILARITY * first.similarity
    return close and not (echoes or outdated or lacks_kind)
