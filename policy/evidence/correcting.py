"""Corrected statements: the newer directly above the older, which is marked; reversed for a question about the past.

Only the order inside a pair changes (LIVE-4): the newer takes the place of the older, with its score. It is judged by
at least the older one's similarity with the request, and told with its own. The older one is marked with the id of what
corrects it, and with the reason. A question about the past gets the older one first, and nothing is marked: what held
then is not out of date. What somebody else said after a correction and merely confirms it stands behind both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from recall_loop.policy.evidence.later_statements import LaterStatements, Matter, find_renewal, renewal_terms
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.statements import first_person_text
from recall_loop.policy.facts.confirmations import merely_confirms, merely_repeats
from recall_loop.policy.facts.corrections import (
    Correction,
    may_correct,
    question_terms,
    relevant_statements,
    speaker_key,
)
from recall_loop.policy.facts.supersession import said_before
from recall_loop.policy.facts.wording import asks_about_past, is_in_past_tense, past_words
from recall_loop.policy.logistic import log_odds
from recall_loop.policy.question.periods import entry_created_at
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role, is_to_come
from recall_loop.text.time.time_expressions import TimeExpression
from recall_loop.text.words.tokens import words

CORRECTED_DEPTH = 10
"""How many of the best entries may turn out to be corrected, or, for a question about the past, to be corrections."""
CLOSE = 0.7
"""The least share of the surest correction's margin at which the same statement corrects another one, too."""
# What takes a first place answers the question no less likely than not, or not so much less likely than what had it, in
# log-odds. Chosen on the lives in `benchmarks/weights/confidence/lives`: where the asked kind doesn't count, it leaves
# out one of 18 right corrections and seven of 16 wrong ones.
_EVEN, _FAR_LIKELIER = 0.5, 3.4
_REPEATED = "it only says again what was corrected later"
_PERIODS = ("year", "month", "range")
_YEAR = timedelta(days=365)
_KINDS = (ContentType.MESSAGE, ContentType.FACT, ContentType.ARCHIVAL)


@dataclass(frozen=True)
class AskedMoment:
    """Whether a question is about the past, and the end of the time that it names, if it names a past one.

    `now` is the clock's time: what is dated later than that by more than a day corrects nothing (GUARD-5).
    """

    past: bool
    until: datetime | None
    now: datetime


def asked_moment(question: AnalysedQuestion, reference: datetime, now: datetime) -> AskedMoment:
    """Return which moment a question asks about; `reference` is its now, `now` the clock's."""
    past = asks_about_past(question.text)
    told = past or is_in_past_tense(question.text)
    any_time = question.asks_only_about_times  # "what did I do on Thursday?"
    known = (time for time in question.event_times if any_time or time.kind in _PERIODS)
    times = [time for time in known if time.end <= reference]
    ends = [time.end for time in times if told or not _is_rather_to_come(time, reference)]
    return AskedMoment(past, max(ends, default=None), now)


def _is_rather_to_come(time: TimeExpression, reference: datetime) -> bool:
    """Tell whether a month without a year is nearer ahead than behind: "where do we go in August?", asked in July."""
    named = [word for word in words(time.text) if word != "in"]
    if time.kind != "month" or len(named) != 1 or not named[0].isalpha():
        return False
    return time.start + _YEAR - reference < reference - time.end


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
        return _older_first(ranked, everything, later, asked - past_words(question.text))
    found = _without_no_answer(ranked, everything, _corrections(ranked, everything, later), matter)
    repeats = _repeated(ranked, everything, found)
    found |= {name: (found[of][0], replace(found[of][1], reason=_REPEATED)) for name, of in repeats.items()}
    return _newer_first(ranked, everything, found, repeats) if found else list(ranked)


def put_renewal_first(
    ordered: list[RankedEntry], question: AnalysedQuestion, moment: AskedMoment, matter: Matter
) -> list[RankedEntry]:
    """Put what renews the first entry before it, where the question asks how things are now.

    Args:
        ordered: what `order_corrections` returned.
        question: the question; one for a list has several answers, in any order.
        moment: the moment that it asks about.
        matter: what it is about.
    """
    if moment.past or moment.until is not None or question.listed is not None:
        return ordered
    latest = find_renewal(ordered, matter)
    if latest is None:
        return ordered
    return [_raised(latest, ordered[0]), *(item for item in ordered if item.id != latest.id)]


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


def _without_no_answer(
    ranked: Sequence[RankedEntry],
    everything: Mapping[str, RankedEntry],
    found: dict[str, tuple[str, Correction]],
    matter: Matter,
) -> dict[str, tuple[str, Correction]]:
    """Leave out what corrects the first entry if that answers the question, as it is read, and the newest doesn't.

    What has the kind of answer that is asked for counts as one: "moved to Kiel" is read as no home.
    """
    first = ranked[0] if ranked else None
    if first is None or first.id not in found:
        return found
    newest = everything[_chain(first.id, found)[0]]
    answers = matter.read(newest)
    if (matter.asks_kind and matter.holds_kind(newest.entry)) or answers >= _EVEN:
        return found
    if log_odds(matter.read(first)) - log_odds(answers) < _FAR_LIKELIER:
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
                ordered.append(_marked(_raised(everything.get(name, item), item), found.get(name)))
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


def _raised(item: RankedEntry, place: RankedEntry) -> RankedEntry:
    """Return an entry that takes a better one's place."""
    if item.id == place.id:
        return item
    similarity = max(item.entry["similarity"], place.entry["similarity"])
    score = max(item.score, place.score)
    near = place.near_duplicate and item.near_duplicate
    entry: PoolEntry = {**item.entry, "similarity": similarity}
    return replace(item, score=score, near_duplicate=near, entry=entry, own_similarity=item.similarity)


def _marked(item: RankedEntry, by: tuple[str, Correction] | None) -> RankedEntry:
    if by is None:
        return item
    record = {**item.entry["record"], "superseded_by_hint": by[0], "superseded_reason": by[1].reason}
    return replace(item, entry={**item.entry, "record": record})


def _older_first(
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
    return _lifted(ranked, before, everything)


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


def _lifted(
    ranked: Sequence[RankedEntry], before: Mapping[str, str], everything: Mapping[str, RankedEntry]
) -> list[RankedEntry]:
    ordered: list[RankedEntry] = []
    placed: set[str] = set()
    for item in ranked:
        older = before.get(item.id)
        if older is not None and older not in placed and item.id not in placed:
            placed.add(older)
            ordered.append(_raised(everything[older], item))
        if item.id not in placed:
            placed.add(item.id)
            ordered.append(item)
    return ordered
