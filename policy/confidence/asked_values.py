"""What may answer a question for an amount, for where somebody lives or works, or for a person (CONF-3).

"How old is Rosa?" is no more answered by "my manager is called Rosa" than by nothing, however well the two match, and
neither is "where does Rosa live?". What tells no amount, in itself or around it, is then no evidence, what names her
and tells no place neither, and to "who is my judo teacher?" what tells of nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from recall_loop.policy.confidence.asked_properties import (
    LONGEST_TELLING,
    AskedProperty,
    asked_property,
    is_word_of,
    tells,
    without_counted,
)
from recall_loop.policy.evidence.coverage import entry_terms, entry_window_terms, synonym_stems
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.change_words import PRICE, find_topics, place_words, shared_words
from recall_loop.policy.facts.persons import person_beside
from recall_loop.policy.question.amounts import counts, counts_beside_times, tells_amount
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import GERMAN
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import content_words, stems, text_language, words

# In these languages a name is told by its capital.
_CAPITALISED = frozenset({"en", "es", "fr", "ru"})
_PLACES = frozenset({"=residence", "=work"})
# A full stop behind a short word or a number ends no sentence.
_SENTENCES = re.compile(r"(?<=\w\w\w)\.(?:\s+|$)|[!?。！？\n]+")


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
        kept = [item for item in _telling(question, own) if all(tell(question, item.entry) for tell in _MAY_TELL)]
    if len(kept) < len(own):
        subject, left = _subject_of(question), {item.id for item in kept}
        missed = any(_is_about(subject, item.entry) for item in own if item.id not in left)
    else:
        subject, missed = _asked_of(question), bool(ranked) and ranked[0].id in of_another
    return [] if missed and subject and not any(_is_about(subject, item.entry) for item in kept) else kept


def _may_tell_amount(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    if question.asked is not AnswerKind.NUMBER:
        return True
    # What is said next to it may count what it is about; a time there is mostly of something else.
    if _property_of(question) is AskedProperty.AGE:
        return True
    if PRICE in find_topics(fold(question.text), question.language):
        return _tells_price(entry["record"]["text"]) or _tells_price(entry["window"])
    return tells_amount(entry["record"]["text"]) or counts(entry["window"])


def _subject_of(question: AnalysedQuestion) -> frozenset[str]:
    """Return the stems of whom a question is about, or else of its words but those for a price, with their synonyms."""
    if whose := _asked_of(question):
        return whose
    language = question.language
    asked = [word for word in content_words(question.text) if next(find_topics(fold(word), language), None) is None]
    return frozenset(stem(word, language) for word in asked).union(
        *(synonym_stems(word, question.table) for word in asked)
    )


def _asked_of(question: AnalysedQuestion) -> frozenset[str]:
    """Return the stems of the names in a question, and of all words for the relatives in it."""
    language, known = question.language, person_words().get(question.language)
    if known is None:
        return question.name_terms
    persons = {person_stem(word, language, known) for word in words(question.text)}
    groups = {known.kin[person] for person in persons if person in known.kin}
    return question.name_terms.union(stem(word, language) for word, group in known.kin.items() if group in groups)


def _may_tell_place(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    known = person_words().get(question.language)
    if known is None or known.where.isdisjoint(words(question.text)):
        return True
    whose = _asked_of(question)
    if not whose or _PLACES.isdisjoint(find_topics(fold(question.text), question.language)):
        return True
    if entry["record"]["kind"] == ContentType.FACT or whose.isdisjoint(entry_terms(entry)):
        return True  # what a fact was drawn from may tell the place
    return _tells_place(entry["record"]["text"], question)


def _is_about(subject: frozenset[str], entry: PoolEntry) -> bool:
    """Tell whether a record has a word of the subject, or a pronoun that may stand for one next to it."""
    if not subject.isdisjoint(entry_terms(entry)):
        return True
    text = entry["record"]["text"]
    known = person_words().get(text_language(text))
    refers = known is None or not known.third.isdisjoint(words(text))
    return refers and not subject.isdisjoint(entry_window_terms(entry))


def _may_tell_person(question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record tells of anybody, if that is what is asked for.

    Whoever it is by may be the answer, where that is known, and the one who asks, but not for what is theirs ("who is
    my landlord?"). In German any noun may be a name, and so may any word of a text without capitals.
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


def _property_of(question: AnalysedQuestion) -> AskedProperty | None:
    return asked_property(question.text, question.language, question.asked)


def _tells_price(text: str) -> bool:
    return counts_beside_times(text) and counts_beside_times(without_counted(text, text_language(text)))


def _telling(question: AnalysedQuestion, items: Sequence[RankedEntry]) -> list[RankedEntry]:
    """Return what may tell the property that a question asks for, if it asks for one that is known.

    Where anything is about the subject, only that counts, and what tells it stands in one sentence with the subject or
    in the next. What a fact was drawn from may tell it elsewhere.
    """
    wanted = _property_of(question)
    if wanted is None:
        return list(items)
    subject = _bearer_of(question, wanted)
    owner = question.name_terms if wanted is AskedProperty.NAME else frozenset()  # "Priya's dog"
    about = {
        item.id for item in items if _is_about(subject, item.entry) and (not owner or _is_about(owner, item.entry))
    }
    return [
        item
        for item in items
        if item.entry["record"].get("source_ids")
        or (not about and _tells_at_all(wanted, question, item.entry))
        or (item.id in about and _tells_of(wanted, question, subject, item.entry))
        or _names_for(wanted, question, item.entry)
    ]


def _bearer_of(question: AnalysedQuestion, wanted: AskedProperty) -> frozenset[str]:
    """Return the stems of whose property is asked for: of a name that of what has it, else that of whom is named."""
    language, named = question.language, question.name_terms
    asked = [word for word in content_words(question.text) if not is_word_of(wanted, word, language)]
    things = {stem(word, language) for word in asked} - named
    if wanted is AskedProperty.NAME and things:
        return frozenset(things).union(*(synonym_stems(word, question.table) for word in asked))
    return _asked_of(question)


def _names_for(wanted: AskedProperty, question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record names somebody and speaks of whom is asked: "Mum is seeing a man called Len"."""
    text, whose = entry["record"]["text"], _asked_of(question)
    named = wanted is AskedProperty.NAME and tells(wanted, text, text_language(text))
    return named and not whose.isdisjoint(entry_terms(entry))


def _tells_at_all(wanted: AskedProperty, question: AnalysedQuestion, entry: PoolEntry) -> bool:
    return any(_tells_in(wanted, text, question) for text in (entry["record"]["text"], entry["window"]))


def _tells_of(wanted: AskedProperty, question: AnalysedQuestion, subject: Set[str], entry: PoolEntry) -> bool:
    text = entry["record"]["text"]
    language = text_language(text)
    told = [part for part in _SENTENCES.split(text) if part.strip()]
    has_subject = [not subject.isdisjoint(stems(part, language)) for part in told]
    if len(text) > LONGEST_TELLING or not any(has_subject):  # a pronoun stands for it
        return _tells_at_all(wanted, question, entry)
    near = [part for part, *before in zip(told, has_subject, [False, *has_subject], strict=False) if any(before)]
    return any(_tells_in(wanted, part, question) for part in near)


def _tells_in(wanted: AskedProperty, text: str, question: AnalysedQuestion) -> bool:
    if any(tells(wanted, text, language) for language in {question.language, text_language(text)}):
        return True
    return wanted is AskedProperty.NAME and _has_new_name(text, question)


def _has_new_name(text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a text has a name that isn't asked for and is no place's; in German right behind what is asked for.

    There any noun has a capital.
    """
    language, found = text_language(text), words(text)
    asked = {stem(word, language) for word in words(question.text)}
    for name in find_entities(text):
        parts = words(name)
        known = [stem(part, language) in asked for part in parts]
        if not parts or parts[0] not in found or all(known):
            continue
        before = found[max(found.index(parts[0]) - 1, 0) : found.index(parts[0])]
        if language == GERMAN:
            if any(known) or any(stem(word, language) in asked for word in before):
                return True
        elif not any(known) and (language not in person_words() or place_words(language).isdisjoint(before)):
            return True
    return False


_MAY_TELL = (_may_tell_amount, _may_tell_place, _may_tell_person)


def _tells_place(text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a text has a word before which or by which a place stands, or a name that may be a place's."""
    language = text_language(text)
    if language not in person_words():
        return True
    named = language != GERMAN and any(_may_be_place(name, text, question) for name in find_entities(text))
    return named or not place_words(language).isdisjoint(map(fold, words(text)))


def _may_be_place(name: str, text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a name isn't asked for, and isn't a relative's ("my sister Ruth")."""
    parts, found, language = words(name), words(text), text_language(text)
    if {*parts} <= {*words(question.text)}:
        return False
    at = found.index(parts[0]) if parts and parts[0] in found else None
    return at is None or not person_beside(found, at, language, person_words()[language])
