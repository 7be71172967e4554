"""What may answer a question for an amount, for where somebody lives or works, or for a person (CONF-3).

"How old is Rosa?" is no more answered by "my manager is called Rosa" than by nothing, however well the two match, and
neither is "where does Rosa live?". What tells no amount, in itself or around it, is then no evidence, what names her
and tells no place neither, and to "who is my judo teacher?" what tells of nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from recall_loop.policy.confidence.asked_properties import (
    AskedProperty,
    asks_to_pay,
    has_money,
    measures,
    without_counted,
)
from recall_loop.policy.confidence.bare_kinds import leaves_open_which
from recall_loop.policy.confidence.property_bearers import asked_of, is_about, property_of
from recall_loop.policy.confidence.told_properties import clauses_of, telling_property, tells_anywhere
from recall_loop.policy.evidence.coverage import states_answer, synonym_stems
from recall_loop.policy.evidence.pool_entries import entry_terms
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.change_words import PRICE, find_topics, place_words, prices_in, shared_words
from recall_loop.policy.facts.persons.mentioned_persons import relation_of_name
from recall_loop.policy.question.amounts import has_number, has_quantity, has_quantity_besides_times, states_amount
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.time.stated_times import without_times
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import GERMAN, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import content_words, stems, text_language, words

# In these languages a name is told by its capital.
_CAPITALISED = frozenset({"en", "de", "es", "fr", "it", "pt", "nl", "ru"})
_SHORT_REPLY = 6
# Numbers of so many digits may count things; a longer one before a word of the question is its price ("900 rent").
_SMALL_DIGITS = 2
_MEASURE_WORDS = 2
_STOPS = re.compile(r"[.!?]\s+")
_TOLD_BY_THEIR_WORDS = frozenset({AskedProperty.AGE, AskedProperty.CLOCK})
_PLACES = frozenset({"=residence", "=work"})


def may_answer(
    question: AnalysedQuestion, ranked: Sequence[RankedEntry], of_another: Set[str] = frozenset()
) -> list[RankedEntry]:
    """Return what may hold the amount, the property, the place or the person that a question asks for.

    Where nothing of what is left is about the question's subject, and something of the rest is, nothing is left: that
    the dog is four years old tells no more of Rosa's age than what tells none. Nor is anything where the best is told
    of somebody else, and all the rest of nobody who was asked for.

    Args:
        question: what is asked.
        ranked: what was found, best first.
        of_another: ids of what is told of somebody else.
    """
    own = [item for item in ranked if item.id not in of_another]
    several = len(question.parts) > 1
    kept = own
    if not several:
        told = telling_property(question, own)
        kept = [item for item in told if may_tell(question, item.entry)]
    if len(kept) < len(own):
        subject, left = _subject_of(question), {item.id for item in kept}
        missed = any(is_about(subject, item.entry) for item in own if item.id not in left)
    else:
        subject, missed = asked_of(question), bool(ranked) and ranked[0].id in of_another
    return [] if missed and subject and not any(is_about(subject, item.entry) for item in kept) else kept


def may_tell(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record may by itself tell the amount, the place, the person, or which thing is asked for."""
    return all(tell(question, entry) for tell in _MAY_TELL)


def asks_for_kind(question: AnalysedQuestion) -> bool:
    """Tell whether a question asks for a time, a number, a name or a property."""
    return question.asked is not None or property_of(question) is not None


def asks_for_name(question: AnalysedQuestion) -> bool:
    """Tell whether a question asks who somebody is, or for a name."""
    return question.asked is AnswerKind.PERSON or property_of(question) is AskedProperty.NAME


def told_by_words(question: AnalysedQuestion) -> bool:
    """Tell whether words of some kind tell what is asked for: of a time, a number or a property, not just any name."""
    return property_of(question) is not None or question.asked in (AnswerKind.DATE, AnswerKind.NUMBER)


def holds_asked_kind(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record has a time, a number, a name, or words for the property, if a question asks for one."""
    wanted = property_of(question)
    if wanted is not None:
        return tells_anywhere(wanted, question, entry)
    terms = {*stems(question.text)}
    return question.asked is not None and states_answer(question.asked, entry, terms, asks_last=question.asks_last)


def _may_tell_amount(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    if question.asked is not AnswerKind.NUMBER:
        return True
    # What is said next to it may count what it is about; a time there is mostly of something else.
    if property_of(question) in _TOLD_BY_THEIR_WORDS:
        return True
    text, beside = entry["record"]["text"], _lines_on_the_matter(question, entry)
    asked = fold(question.text)
    language = question.language
    if PRICE in find_topics(asked, language) or prices_in(asked, language) or asks_to_pay(question.text, language):
        return any(_tells_price(each, question) for each in (text, *beside))
    return states_amount(text) or any(map(has_quantity, beside))


def _lines_on_the_matter(question: AnalysedQuestion, entry: PoolEntry) -> list[str]:
    """Return the lines around a record that have a word of the question, or are as short as a reply ("340 euros")."""
    asked = {*stems(question.text)}
    lines = entry["window"].split("\n")
    return [line for line in lines if len(words(line)) <= _SHORT_REPLY or not asked.isdisjoint(stems(line))]


def _subject_of(question: AnalysedQuestion) -> frozenset[str]:
    """Return the stems of whom a question is about, or else of its words but those for a price, with their synonyms."""
    if whose := asked_of(question):
        return whose
    language = question.language
    asked = [word for word in content_words(question.text) if next(find_topics(fold(word), language), None) is None]
    return frozenset(stem(word, language) for word in asked).union(
        *(synonym_stems(word, question.table, language) for word in asked)
    )


def tells_by_rule(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record tells the asked property, or a place where it is asked where somebody lives or works.

    The record's language is tried too: that of a question of three words is often not known.
    """
    if property_of(question) not in (None, AskedProperty.NAME):
        return holds_asked_kind(question, entry)
    text, asked = entry["record"]["text"], fold(question.text)
    languages = {question.language, text_language(text)} & person_words().keys()
    return any(not _PLACES.isdisjoint(find_topics(asked, each)) for each in languages) and _tells_place(text, question)


def _may_tell_place(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    known = person_words().get(question.language)
    if known is None or known.where.isdisjoint(words(question.text)):
        return True
    whose = asked_of(question)
    if not whose or _PLACES.isdisjoint(find_topics(fold(question.text), question.language)):
        return True
    if entry["record"]["kind"] == ContentType.FACT or whose.isdisjoint(entry_terms(entry)):
        return True  # what a fact was drawn from may tell the place
    return _tells_place(entry["record"]["text"], question)


def _may_tell_person(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record tells of anybody, if that is what is asked for.

    Whoever it is by may be the answer, where that is known, and the one who asks, but not for what is theirs ("who is
    my landlord?"). Any word of a text without capitals may be a name.
    """
    record, known = entry["record"], person_words().get(question.language)
    if question.asked is not AnswerKind.PERSON or known is None or record.get("author") or record.get("subject"):
        return True
    text, asked = record["text"], {*words(question.text)}
    language = text_language(text)
    if language not in _CAPITALISED or language != question.language or text.islower():
        return True
    found = words(text)
    persons = {person_stem(word, language, known) for word in found if word not in asked} - {""}
    if persons or not known.third.isdisjoint(found) or any({*words(name)} - asked for name in find_entities(text)):
        return True
    owned = not (shared_words("possessives") - known.third).isdisjoint(asked)
    return not owned and (not shared_words("speakers").isdisjoint(found) or has_first_person(text, language))


def _tells_price(text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a text has money, or a number that is no time and counts nothing; "un piso" has none.

    The question's own numbers are no price, and neither is a small one before its words: "the 24 chairs".
    """
    language = text_language(text)
    if has_money(text, language):
        return True
    if not has_quantity_besides_times(text):
        return False
    things = (word for word in content_words(question.text) if PRICE not in find_topics(fold(word), language))
    asked = {stem(word, language) for word in things}
    numbers = {*filter(has_number, words(question.text))} | stop_words(language)
    told = without_times(without_counted(text, language))
    left = [part for clause in clauses_of(told) for part in _STOPS.split(clause)]
    return any(has_number(" ".join({*_uncounted(words(each), asked, language)} - numbers)) for each in left)


def _uncounted(found: Sequence[str], things: Set[str], language: str) -> list[str]:
    """Return words without small numbers right before one of the things; none of another measure ("size 52")."""
    if len(found) == _MEASURE_WORDS and _is_small(found[1]) and _is_measure(found[0], things, language):
        return []
    following = zip(found, [*found[1:], ""], strict=False)
    return [word for word, after in following if not (_is_small(word) and stem(after, language) in things)]


def _is_measure(word: str, things: Set[str], language: str) -> bool:
    """Tell whether a word, or the end of a compound, names a measure other than a price, and is none of the things."""
    measured = fold(word).endswith(measures()) if language == GERMAN else fold(word) in measures()
    return measured and stem(word, language) not in things


def _is_small(word: str) -> bool:
    return len(word) <= _SMALL_DIGITS or not word.isdigit()


def _may_tell_which(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record, or a turn beside it, says which thing is asked for; what a fact was drawn from may."""
    record = entry["record"]
    return bool(record.get("source_ids")) or not leaves_open_which(question, entry["window"] or record["text"])


_MAY_TELL = (_may_tell_amount, _may_tell_place, _may_tell_person, _may_tell_which)


def _tells_place(text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a text has a word before which or by which a place stands, or a name that may be a place's."""
    language = text_language(text)
    if language not in person_words():
        return True
    named = any(_may_be_place(name, text, question) for name in find_entities(text))
    return named or not place_words(language).isdisjoint(map(fold, words(text)))


def _may_be_place(name: str, text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a name isn't asked for, and isn't a relative's ("my sister Ruth")."""
    parts, found, language = words(name), words(text), text_language(text)
    if {*parts} <= {*words(question.text)}:
        return False
    at = found.index(parts[0]) if parts and parts[0] in found else None
    return at is None or not relation_of_name(found, at, language, person_words()[language])
