"""Only statements are evidence: not questions, requests or refusals to answer (LIVE-2).

A memory that is lived in holds the questions that it was asked, and replies that it didn't know. Nothing resembles a
question as closely as the question itself, so without this rule its echo would come first and look like an answer.
Where a request asks what was asked, everything that was said counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from recall_loop.policy.evidence.ranking import RankedEntry, turn_before
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role, SpeechAct
from recall_loop.text.speech.negations import is_negated
from recall_loop.text.speech.person_words import person_words
from recall_loop.text.speech.speech_acts import speech_acts, stated_text
from recall_loop.text.speech.user_in_first_person import in_first_person
from recall_loop.text.words.tokens import jaccard, stems, text_language, words

# Share of words that a text has in common with the question, of those of both, from which it is the question again.
_ECHO = 0.75
_LONGEST_ECHO = 400
# Of entries compared by whether they are negated: how many, and their least share of the first one's score.
_COMPARED, _NEARLY = 5, 0.85
# Share of its similarity that a statement keeps beside a question that has all the words.
_LEAST_TOLD = 0.4
# Mean token match from which a question asks the same in other words.
_CLOSE = 0.6


def evidence_text(entry: PoolEntry) -> str:
    """Return the part of a record's text that is evidence: of a message its statements, of other kinds all of it."""
    record = entry["record"]
    if record["kind"] != ContentType.MESSAGE:
        return str(record["text"])
    return stated_text(record["text"], _role(entry))


def first_person_text(record: Mapping[str, Any]) -> str:
    """Return a record's text as its user would say it: what others write down of them, "User's cat", is theirs.

    What somebody said stays as it was: who says "the user" speaks of somebody else. A message by nobody is a note.
    """
    text = str(record["text"])
    is_said = record["kind"] == ContentType.MESSAGE and (record.get("role") or record.get("author"))
    return text if is_said else in_first_person(text, record.get("user_id") or "")


def acts_of(entry: PoolEntry) -> frozenset[SpeechAct]:
    """Return the speech acts of a record's sentences."""
    return speech_acts(entry["record"]["text"], _role(entry))


def states_something(
    entry: PoolEntry, asked: Sequence[str] = (), answers: Callable[[PoolEntry], bool] | None = None
) -> bool:
    """Tell whether a record is evidence for anything: a message that states something, or a record of another kind.

    A record of any kind that is little but the question itself is none. Neither is a message that has words of the
    question only in what it asks, and beside it neither an answer nor a pronoun for whom it asks about: "What's her
    name? I'm writing a card."

    Args:
        entry: the record.
        asked: all words of the question, in order.
        answers: tells whether a record may hold what the question asks for; None = it can't be told.
    """
    record = entry["record"]
    if is_echo(record["text"], asked):
        return False
    if record["kind"] != ContentType.MESSAGE:
        return True
    return SpeechAct.STATEMENT in acts_of(entry) and (answers is None or not _only_asks(entry, asked, answers))


def _only_asks(entry: PoolEntry, asked: Sequence[str], answers: Callable[[PoolEntry], bool]) -> bool:
    text, stated = entry["record"]["text"], evidence_text(entry)
    if stated == text:
        return False
    terms = frozenset(stems(" ".join(asked)))
    if not terms.isdisjoint(stems(stated)) or terms.isdisjoint(stems(text)):
        return False
    known = person_words().get(text_language(text))
    if known is not None and not known.third.isdisjoint(words(stated)):
        return False
    return not answers({**entry, "record": {**entry["record"], "text": stated}, "window": stated})


def is_echo(text: str, asked: Sequence[str]) -> bool:
    """Tell whether somebody asked the same: the same opening, which a statement seldom has, and hardly another word.

    `asked` are all words of the question, in order.
    """
    if not asked or len(text) > _LONGEST_ECHO:
        return False
    said = words(text)
    return said[:1] == asked[:1] and jaccard(frozenset(said), frozenset(asked)) >= _ECHO


def as_evidence(
    entry: PoolEntry, asked: frozenset[str] = frozenset(), answers: Callable[[PoolEntry], bool] | None = None
) -> PoolEntry:
    """Return an entry with nothing but statements in its text, and in its window in place of the whole text.

    Its alignment is that of the whole text. It is left out where what the text asks, and not what it states, has the
    words of the question, and the similarity then counts as far as the statements have them. So it does where the same
    was asked just before, and the entry has neither words of the question nor what it asks for.

    Args:
        entry: the record.
        asked: the stems of the question.
        answers: as in `states_something`.
    """
    record, stated = entry["record"], evidence_text(entry)
    if stated == record["text"]:
        if answers is not None and _asked_before(entry, asked) and not answers(entry):
            return {**entry, "similarity": entry["similarity"] * _LEAST_TOLD}
        return entry
    window = entry["window"].replace(record["text"], stated)
    told, said = asked & set(stems(stated)), asked & set(stems(record["text"]))
    evidence: PoolEntry = {**entry, "record": {**record, "text": stated}, "window": window}
    if 2 * len(told) >= len(said):
        return evidence
    return {**evidence, "alignment": [], "similarity": entry["similarity"] * max(len(told) / len(said), _LEAST_TOLD)}


def _asked_before(entry: PoolEntry, asked: frozenset[str]) -> bool:
    """Tell whether the turn before a message asks most of the question, and the message has no word of it."""
    before = turn_before(entry)
    if not asked.isdisjoint(stems(entry["record"]["text"])) or 2 * len(asked & set(stems(before))) <= len(asked):
        return False
    return SpeechAct.QUESTION in speech_acts(before)


def without_lines(entry: PoolEntry, is_left_out: Callable[[str], bool]) -> PoolEntry:
    """Return an entry without some lines of its window: what its neighbours tell is none of its evidence then."""
    lines = entry["window"].split("\n")
    kept = [line for line in lines if not is_left_out(line)]
    return entry if len(kept) == len(lines) else {**entry, "window": "\n".join(kept)}


def _role(entry: PoolEntry) -> Role | None:
    role = entry["record"].get("role")
    return Role(role) if role else None


def put_statements_first(
    ranked: Sequence[RankedEntry],
    states: Callable[[PoolEntry], bool],
    supports: Callable[[PoolEntry], Set[int]],
    least_similarity: float,
) -> list[RankedEntry]:
    """Move what states nothing behind what does, at no higher score; the rest stays in order.

    The question in other words, refusals and acknowledgements go behind every statement. Other questions and requests
    only go behind the first statement on the matter: they may well imply what is asked for ("is the 90 % accuracy of
    our tool a risk?").

    Args:
        ranked: all entries, best first.
        states: tells whether an entry states something.
        supports: returns the indices of the facets that an entry supports; one that supports any is on the matter.
        least_similarity: similarity from which a statement is on the matter too, in [0,1].
    """
    silent = [item for item in ranked if not states(item.entry)]
    if not silent or len(silent) == len(ranked):
        return list(ranked)
    stating = [item for item in ranked if states(item.entry)]
    on_matter = (item for item in stating if item.entry["similarity"] >= least_similarity or supports(item.entry))
    highest = next((item.score for item in on_matter), 1.0)
    echoes = [item for item in silent if _is_nothing_else(item.entry)]
    others = [replace(item, score=min(item.score, highest)) for item in silent if not _is_nothing_else(item.entry)]
    told = sorted([*stating, *others], key=lambda item: -item.score)
    least = told[-1].score if told else 1.0
    return [*told, *(replace(item, score=min(item.score, least)) for item in echoes)]


def put_alike_negated_first(ranked: Sequence[RankedEntry], question: str) -> list[RankedEntry]:
    """Return the entries with those first, of nearly equal best ones, that are negated if the question is, or aren't.

    "What doesn't Jonas eat?" and "what does he eat?" have the same words. Only entries that have all words of the
    question that the first one has count, so that "does Jonas eat meat?" still gets that he eats none; they take its
    score.
    """
    best = ranked[0] if ranked else None
    asked = frozenset(words(question))
    said = asked.intersection(words(evidence_text(best.entry))) if best else frozenset()
    if best is None or not said or _agrees(best, question):
        return list(ranked)
    least, similar = _NEARLY * best.score, best.entry["similarity"]
    near = [item for item in ranked[1:_COMPARED] if item.score >= least or item.entry["similarity"] >= similar]
    better = [item for item in near if said.issubset(words(evidence_text(item.entry))) and _agrees(item, question)]
    first = [replace(item, score=best.score) for item in better]
    moved = {item.id for item in better}
    return [*first, *(item for item in ranked if item.id not in moved)]


def _agrees(item: RankedEntry, question: str) -> bool:
    return is_negated(evidence_text(item.entry)) == is_negated(question)


def put_asked_person_first(
    ranked: Sequence[RankedEntry],
    is_about_another: Callable[[PoolEntry], bool],
    is_on_matter: Callable[[PoolEntry], bool],
) -> list[RankedEntry]:
    """Move what is told of somebody else behind the first statement on the matter, at no higher score.

    Without such a statement the order stays: what is told of a sister is then the nearest that memory has.

    Args:
        ranked: all entries, best first.
        is_about_another: tells whether an entry is about somebody else than the question.
        is_on_matter: tells whether an entry is on the matter that is asked about.
    """
    others = {item.entry["key"] for item in ranked if is_about_another(item.entry)}
    highest = next((item.score for item in ranked if is_on_matter(item.entry)), None) if others else None
    if highest is None:
        return list(ranked)
    lowered = [
        replace(item, score=min(item.score, highest)) if item.entry["key"] in others else item for item in ranked
    ]
    return sorted(lowered, key=lambda item: (-item.score, item.entry["key"] in others))


def put_asked_first(ranked: Sequence[RankedEntry], is_asked: Callable[[PoolEntry], bool]) -> list[RankedEntry]:
    """Move the rest behind whatever was at the time, or has to be done, that alone is asked for, at no higher score."""
    first = [item for item in ranked if is_asked(item.entry)]
    if not first:
        return list(ranked)
    least = first[-1].score
    taken = {item.id for item in first}
    return [*first, *(replace(item, score=min(item.score, least)) for item in ranked if item.id not in taken)]


def _is_nothing_else(entry: PoolEntry) -> bool:
    """Tell whether a text that states nothing is the question in some wording, or a reply without content.

    Other questions and requests may be what is looked for, as somebody's wish or plan.
    """
    close = entry["alignment"][1:2] >= [_CLOSE]
    return close or acts_of(entry) <= {SpeechAct.NON_ANSWER, SpeechAct.ACKNOWLEDGEMENT}
