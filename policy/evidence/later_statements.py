"""Later statements that may correct one, by the same speaker or somebody else (LIVE-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.policy.facts.corrections import (
    Correction,
    has_no_end,
    may_be_correction,
    relevant_statements,
    speaker_key,
    surest_correction,
)
from recall_loop.policy.facts.corrections_by_others import correction_by_another, same_conversation
from recall_loop.policy.facts.rarity import Rarity
from recall_loop.policy.facts.supersession import said_at
from recall_loop.policy.facts.wording import Statement
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role

LIKELY_DEPTH = 2
"""How many of the best entries are likely enough to be what is asked for if they share no word with the question."""
MATTER_DEPTH, MATTER_SIMILARITY = 3, 0.7
"""Among so many of the best entries a later one that is nearly as similar to the request, to this share, goes first."""


def latest_on_matter(
    ranked: Sequence[RankedEntry], asked: frozenset[str], is_evidence: Callable[[PoolEntry], bool]
) -> RankedEntry | None:
    """Return what a user said latest about the matter of the first message, on a later day; None if that is the latest.

    Which of two such statements answers better is a matter of chance, and what holds now is more likely the later one.
    It has to share as many words with the question, whose terms are `asked`, as the first one does, and at least one.
    Of other kinds than messages a document isn't renewed by what somebody says, and facts have ends of their own.
    """
    if not ranked or ranked[0].kind != ContentType.MESSAGE:
        return None
    first, shared = ranked[0], _shared_terms(ranked[0], asked)
    if not shared:
        return None
    latest, least = first, MATTER_SIMILARITY * first.entry["similarity"]
    for item in ranked[1:MATTER_DEPTH]:
        near = item.entry["similarity"] >= least and _may_follow(item, first) and is_evidence(item.entry)
        if near and _day(item) > _day(latest) and _shared_terms(item, asked) >= shared:
            latest = item
    return None if latest is first else latest


def _shared_terms(item: RankedEntry, asked: frozenset[str]) -> int:
    told = relevant_statements(item.entry["record"]["text"], asked) if _day(item) else ()
    return len(asked & frozenset[str]().union(*(statement.terms for statement in told)))


def _may_follow(item: RankedEntry, first: RankedEntry) -> bool:
    record, before = item.entry["record"], first.entry["record"]
    outdated = record.get("superseded_by_hint") or record.get("superseded_by")
    same_speaker = before.get("role") != Role.USER or speaker_key(record) == speaker_key(before)
    return record.get("role") == Role.USER and same_speaker and not outdated


def _day(item: RankedEntry) -> str:
    return (item.entry["record"].get("created_at") or "")[:10]


class LaterStatements:
    """What may correct something, by speaker: what the same speaker said later, or else somebody else.

    Somebody else is only heard within the conversation, and where the same speaker corrects nothing.
    """

    def __init__(self, items: Iterable[RankedEntry], asked: frozenset[str], rarity: Rarity) -> None:
        self._asked, self._rarity = asked, rarity
        self._said: dict[tuple[object, ...], list[tuple[tuple[datetime, int], RankedEntry]]] = {}
        for item in items:
            record = item.entry["record"]
            if may_be_correction(record):
                self._said.setdefault(speaker_key(record), []).append((said_at(record), item))

    def best(self, item: RankedEntry, place: int) -> tuple[str, Correction] | None:
        """Return the surest correction of the entry at a place; of equal ones the latest."""
        record = item.entry["record"]
        if not record.get("created_at") or not has_no_end(record):
            return None
        stated = relevant_statements(first_person_text(record), self._asked)
        if not stated or (place >= LIKELY_DEPTH and not any(each.terms & self._asked for each in stated)):
            return None
        speaker = speaker_key(record)
        own = self._surest(item, stated, self._said.get(speaker, ()), surest_correction)
        if own is not None:
            return own
        others = [
            (said, other)
            for name, told in self._said.items()
            for said, other in (told if name != speaker else ())
            if same_conversation(record, other.entry["record"])
        ]
        return self._surest(item, stated, others, correction_by_another)

    def _surest(
        self,
        item: RankedEntry,
        stated: Sequence[Statement],
        told: Iterable[tuple[tuple[datetime, int], RankedEntry]],
        correct: Callable[[Sequence[Statement], str, frozenset[str], Rarity], Correction | None],
    ) -> tuple[str, Correction] | None:
        moment = said_at(item.entry["record"])
        sure: list[tuple[float, str, str, Correction]] = []
        for said, other in told:
            if moment < said:
                newer = other.entry["record"]
                correction = correct(stated, first_person_text(newer), self._asked, self._rarity)
                if correction is not None:
                    sure.append((correction.margin, newer["created_at"], other.id, correction))
        best = max(sure, key=lambda each: each[:3], default=None)
        return None if best is None else (best[2], best[3])
