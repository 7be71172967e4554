"""What held before, above what corrected it: the order for a question about the past (LIVE-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recall_loop.policy.evidence.changes.later_statements import CORRECTED_DEPTH, LaterStatements
from recall_loop.policy.evidence.changes.placing import lifted
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.policy.facts.corrections import may_correct, relevant_statements


def older_first(
    ranked: Sequence[RankedEntry], everything: Mapping[str, RankedEntry], later: LaterStatements, asked: frozenset[str]
) -> list[RankedEntry]:
    """Return the entries with what was corrected above the correction, unmarked."""
    before: dict[str, str] = {}
    for place, item in enumerate(ranked[: 2 * CORRECTED_DEPTH]):
        best = later.best(item, place) if item.id in everything else None
        if best is not None:
            before.setdefault(best[0], item.id)
    if ranked and ranked[0].id not in {*before, *before.values()}:
        before |= _earlier(ranked[:CORRECTED_DEPTH], everything, asked)
    return lifted(ranked, before, everything)


def _earlier(
    best: Sequence[RankedEntry], everything: Mapping[str, RankedEntry], asked: frozenset[str]
) -> dict[str, str]:
    """Return what was probably so before, by the id of the first entry, where that one tells of a change.

    A question about the past itself says that something else was so before, so that less evidence is needed.
    """
    known = [item for item in best if item.id in everything]
    newest = relevant_statements(first_person_text(known[0].entry["record"]), asked) if known else ()
    if not any(statement.marks for statement in newest):
        return {}
    matter = asked.union(*(statement.terms for statement in newest))
    newer = known[0].entry["record"]
    for item in known[1:]:
        record = item.entry["record"]
        told = relevant_statements(first_person_text(record), asked)
        if may_correct(record, newer) and any(statement.terms & matter for statement in told):
            return {known[0].id: item.id}
    return {}
