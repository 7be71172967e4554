"""Corrected statements: the newer directly above the older, which is marked; reversed for a question about the past.

Only the order inside a pair changes (LIVE-4): the newer takes the place of the older, with its score. It is judged by
at least the older one's similarity with the request, and told with its own. The older one is marked with the id of what
corrects it, and with the reason. A question about the past gets the older one first, and nothing is marked: what held
then is not out of date. What somebody else said after a correction and merely confirms it stands behind both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from recall_loop.policy.evidence.changes.confirmations import merely_confirms, merely_repeats
from recall_loop.policy.evidence.changes.later_statements import CORRECTED_DEPTH, LaterStatements
from recall_loop.policy.evidence.changes.matter import AskedMoment, Matter
from recall_loop.policy.evidence.changes.older_first import older_first
from recall_loop.policy.evidence.changes.placing import raised
from recall_loop.policy.evidence.changes.renewals import renewal_terms
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.policy.facts.corrections import Correction, question_terms, relevant_statements, speaker_key
from recall_loop.policy.facts.supersession import said_before
from recall_loop.policy.facts.wording import past_words
from recall_loop.policy.logistic import log_odds
from recall_loop.policy.question.periods import entry_created_at
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.types import ContentType, Role, is_to_come

CLOSE = 0.7
"""The least share of the surest correction's margin at which the same statement corrects another one, too."""
# What takes a first place answers the question no less likely than not, or not so much less likely than what had it, in
# log-odds. Chosen on the lives in `benchmarks/weights/confidence/lives`.
_EVEN, _FAR_LIKELIER = 0.5, 3.4
_REPEATED = "it only says again what was corrected later"
_KINDS = (ContentType.MESSAGE, ContentType.FACT, ContentType.ARCHIVAL)


def older_terms(ranked: Sequence[RankedEntry], question: str) -> frozenset[str]:
    """Return the words of the best entries' statements that the question may be about; their rarity is needed."""
    asked = question_terms(question)
    texts = [first_person_text(item.entry["record"]) for item in ranked[:CORRECTED_DEPTH] if item.kind in _KINDS]
    return renewal_terms(ranked).union(
        term for text in texts for statement in relevant_statements(text, asked) for term in statement.terms
    )


def order_corrections(
    ranked: Sequence[RankedEntry],
    others: Iterable[RankedEntry],
    question: AnalysedQuestion,
    moment: AskedMoment,
    matter: Matter,
) -> list[RankedEntry]:
    """Return the entries with corrections above what they correct.

    Args:
        ranked: all entries, best first.
        others: entries that aren't among them, and may only come in as corrections.
        question: the question.
        moment: the moment that it asks about.
        matter: what it is about.
    """
    everything = {item.id: item for item in (*others, *ranked) if item.kind in _KINDS}
    asked, holds_kind = matter.terms, matter.holds_kind if question.asked else None
    known = [item for item in everything.values() if moment.until is None or _made_before(item, moment.until)]
    said = everything.values() if moment.past else known
    later = LaterStatements(
        (item for item in said if not is_to_come(entry_created_at(item.entry), moment.now)),
        asked,
        matter.rarity,
        holds_kind,
    )
    if moment.past:
        return older_first(ranked, everything, later, asked - past_words(question.text))
    found = _keep_answer_first(ranked, everything, _corrections(ranked, everything, later), matter)
    repeats = _repeated(ranked, everything, found)
    found |= {name: (found[of][0], replace(found[of][1], reason=_REPEATED)) for name, of in repeats.items()}
    return _newer_first(ranked, everything, found, repeats) if found else list(ranked)


def _corrections(
    ranked: Sequence[RankedEntry], everything: Mapping[str, RankedEntry], later: LaterStatements
) -> dict[str, tuple[str, Correction]]:
    """Return what corrects the best entries, by id; what corrects a correction too."""
    found: dict[str, tuple[str, Correction]] = {}
    places = {item.id: at for at, item in enumerate(ranked[:CORRECTED_DEPTH])}
    waiting = [item for item in ranked[:CORRECTED_DEPTH] if item.id in everything]
    for item in waiting:
        best = later.best(item, places.get(item.id, 0))
        if best is None:
            continue
        found[item.id] = best
        if best[0] not in {other.id for other in waiting}:
            waiting.append(everything[best[0]])
    return _surest(found)


def _keep_answer_first(
    ranked: Sequence[RankedEntry],
    everything: Mapping[str, RankedEntry],
    found: dict[str, tuple[str, Correction]],
    matter: Matter,
) -> dict[str, tuple[str, Correction]]:
    """Return the corrections without the first entry's, if that answers the question, as it is read, and this doesn't.

    A change is only read so where it lacks the kind of answer that is asked for: "moved the key to the shed" is read as
    no place of a key.
    """
    first = ranked[0] if ranked else None
    if first is None or first.id not in found or not matter.asks_kind:
        return found
    newest = everything[_chain(first.id, found)[0]]
    if matter.holds_kind(newest.entry) or matter.read(newest) >= _EVEN:
        return found
    if log_odds(matter.read(first)) - log_odds(matter.read(newest)) < _FAR_LIKELIER:
        return found
    return {name: by for name, by in found.items() if name != first.id}


def _repeated(
    ranked: Sequence[RankedEntry],
    everything: Mapping[str, RankedEntry],
    found: Mapping[str, tuple[str, Correction]],
) -> dict[str, str]:
    """Return the assistant's replies that only say again what was corrected later, and what they say again."""
    repeats: dict[str, str] = {}
    replies = (item for item in ranked if item.id in everything and item.id not in found)
    for item in (each for each in replies if each.entry["record"].get("role") == Role.ASSISTANT):
        record = item.entry["record"]
        for name, (by, _) in found.items():
            older, newer = (everything[each].entry["record"] for each in (name, by))
            between = record.get("created_at") and said_before(older, record) and said_before(record, newer)
            if between and merely_repeats(older["text"], newer["text"], record["text"]):
                repeats[item.id] = name
    return repeats


def _surest(found: Mapping[str, tuple[str, Correction]]) -> dict[str, tuple[str, Correction]]:
    """Leave out what a statement corrects far less surely than another: it rarely corrects two things at once."""
    best: dict[str, float] = {}
    for by, correction in found.values():
        best[by] = max(correction.margin, best.get(by, 0.0))
    return {name: each for name, each in found.items() if each[1].margin >= CLOSE * best[each[0]]}


def _made_before(item: RankedEntry, moment: datetime) -> bool:
    made = entry_created_at(item.entry)
    return made is not None and made < moment


def _newer_first(
    ranked: Sequence[RankedEntry],
    everything: Mapping[str, RankedEntry],
    found: Mapping[str, tuple[str, Correction]],
    repeats: Mapping[str, str],
) -> list[RankedEntry]:
    """Return the entries behind what corrects them, and what is repeated before what only repeats it."""
    ordered: list[RankedEntry] = []
    placed: set[str] = set()
    for item in ranked:
        if item.id in placed:
            continue
        before = repeats.get(item.id) or _confirmed(item, everything, found)
        for name in (*(_chain(before, found) if before else ()), *_chain(item.id, found)):
            if name not in placed:
                placed.add(name)
                ordered.append(_marked(raised(everything.get(name, item), item), found.get(name)))
    return ordered


def _confirmed(
    item: RankedEntry, everything: Mapping[str, RankedEntry], found: Mapping[str, tuple[str, Correction]]
) -> str | None:
    """Return the id of what was corrected by something that an entry merely confirms, in another's words."""
    record = item.entry["record"]
    if item.id not in everything or not record.get("created_at"):
        return None
    for name, (by, _) in found.items():
        older, newer = (everything[each].entry["record"] for each in (name, by))
        later = speaker_key(record) != speaker_key(newer) and said_before(newer, record)
        if later and merely_confirms(older["text"], newer["text"], record["text"]):
            return name
    return None


def _chain(name: str, found: Mapping[str, tuple[str, Correction]]) -> list[str]:
    """Return an id and the ids of what corrects it, the last correction first."""
    chain = [name]
    while chain[-1] in found:
        chain.append(found[chain[-1]][0])
    return chain[::-1]


def _marked(item: RankedEntry, by: tuple[str, Correction] | None) -> RankedEntry:
    if by is None:
        return item
    record = {**item.entry["record"], "superseded_by_hint": by[0], "superseded_reason": by[1].reason}
    return replace(item, entry={**item.entry, "record": record})
