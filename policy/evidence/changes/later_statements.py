"""Later statements that may correct one, by the same speaker or somebody else (LIVE-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from recall_loop.policy.evidence.changes.plain_things import is_of_plain_thing, stems_of
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

CORRECTED_DEPTH = 10
"""How many of the best entries may turn out to be corrected, or, for a question about the past, to be corrections."""
LIKELY_DEPTH = 2
"""How many of the best entries are likely enough to be what is asked for if they share no word with the question."""


class LaterStatements:
    """What may correct something, by speaker: what the same speaker said later, or else somebody else.

    Somebody else is only heard within the conversation, and where the same speaker corrects nothing. What only says how
    something is now corrects nothing that alone `holds_kind` of answer: "the brace is in now" no next appointment.
    """

    def __init__(
        self,
        items: Iterable[RankedEntry],
        asked: frozenset[str],
        rarity: Rarity,
        holds_kind: Callable[[PoolEntry], bool] | None = None,
    ) -> None:
        self._asked, self._rarity, self._holds_kind = asked, rarity, holds_kind
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

    def _is_of_plain_thing(self, older: Sequence[Statement], newer: RankedEntry, moment: tuple[datetime, int]) -> bool:
        earlier = (item for told in self._said.values() for said, item in told if said < moment)
        return is_of_plain_thing(stems_of(older), newer, earlier, self._asked)

    def _lacks_kind(self, older: PoolEntry, newer: PoolEntry) -> bool:
        return self._holds_kind is not None and self._holds_kind(older) and not self._holds_kind(newer)

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
                if correction is None or self._is_of_plain_thing(stated, other, said):
                    continue
                if not (correction.only_now and self._lacks_kind(item.entry, other.entry)):
                    sure.append((correction.margin, newer["created_at"], other.id, correction))
        best = max(sure, key=lambda each: each[:3], default=None)
        return None if best is None else (best[2], best[3])
