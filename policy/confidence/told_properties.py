"""Whether a record tells the property that a question asks for, and of whom the question asks (CONF-3).

A message tells of several: in "Rolf is 80, and Ida visits on Sundays" the age is Rolf's. What tells an age, a job or a
birthday belongs to the last one who was named before it in its sentence, or else to the first one behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import chain

from recall_loop.policy.confidence.asked_properties import (
    AGES,
    LONGEST_TELLING,
    AskedProperty,
    find_bare_ages,
    find_told,
    is_word_of,
    owner_before,
    tells,
)
from recall_loop.policy.confidence.property_bearers import asked_of, bearer_of, is_about, property_of
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.facts.change_words import place_words, shared_words
from recall_loop.policy.facts.persons.mentioned_persons import mentioned_relatives
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.text.names.introductions import asked_own_name, tells_own_name
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.time.stated_times import says_when
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import WITHOUT_BLANKS
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems, text_language, words

# A full stop behind a short word or a number ends no sentence.
_SENTENCES = re.compile(r"(?<=\w\w\w)\.(?:\s+|$)|[!?。！？\n]+")
_CLAUSES = re.compile(r"[,;:()]\s|[，；：]|\s[-–—]+\s")
# What stands behind it is about somebody else: "Jules 9 ans ; Ninon 5 ans".
_PARTS = re.compile(r"[;；]")
# Words from what is asked for to its name: "our cat, an old grey one, is called Tom".
_NEAR = 8
# A sentence of no more words may be just a name: "Our dentist moved. Dr Huber, as before."
_SHORT = 4
_OWNS = ("'s", "’s")
# Their values are no names, which would otherwise be taken for somebody else.
_ATTRIBUTED = AGES | {AskedProperty.JOB}
# Of these a relative's is surely not that of somebody else, of whom nothing is told.
_PERSONAL = _ATTRIBUTED | {
    AskedProperty.PHONE,
    AskedProperty.EMAIL,
    AskedProperty.ADDRESS,
    AskedProperty.RESIDENCE,
}


def telling_property(question: AnalysedQuestion, items: Sequence[RankedEntry]) -> list[RankedEntry]:
    """Return what may tell the property that a question asks for, if it asks for one that is known.

    Where anything is about the subject, only that counts, and what tells it stands in one sentence with the subject or
    in the next. What a fact was drawn from may tell it elsewhere. Whose name is asked for may be told by a word for it
    alone ("Mum is seeing a man called Len").
    """
    wanted = property_of(question)
    if wanted is None:
        return list(items)
    subject = bearer_of(question, wanted)
    owner = question.name_terms if wanted is AskedProperty.NAME else frozenset()  # "Priya's dog"
    about = {item.id for item in items if is_about(subject, item.entry) and (not owner or is_about(owner, item.entry))}
    anywhere = not about and not owner
    own = asked_own_name(question.text) == ""
    return [
        item
        for item in items
        if item.entry["record"].get("source_ids")
        or (
            anywhere
            and not _is_relatives(wanted, subject, item.entry)
            and not _is_anothers(wanted, question, item.entry)
            and tells_anywhere(wanted, question, item.entry)
        )
        or (item.id in about and _tells_of(wanted, question, subject, item.entry))
        or _names_for(wanted, question, item.entry)
        or (own and tells_own_name(item.entry["record"]["text"]))
    ]


def _is_relatives(wanted: AskedProperty, subject: Set[str], entry: PoolEntry) -> bool:
    """Tell whether a record tells of a relative where somebody else is asked about ("my landlord's number")."""
    text = entry["record"]["text"]
    return wanted in _PERSONAL and bool(subject) and bool(mentioned_relatives(text, text_language(text)) - {None})


def _is_anothers(wanted: AskedProperty, question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record tells it of an owner who is neither its speaker nor in the question; in Japanese only."""
    text = entry["record"]["text"]
    owner = owner_before(wanted, text, text_language(text)) if wanted in _PERSONAL else ""
    known = bool(owner) and (owner in fold(question.text) or owner in shared_words("possessives"))
    return bool(owner) and not known and not says_when(owner)


def tells_anywhere(wanted: AskedProperty, question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record, or what was said beside it, has words by which a property is told, of whomever."""
    return any(_tells_in(wanted, text, question) for text in (entry["record"]["text"], entry["window"]))


def _names_for(wanted: AskedProperty, question: AnalysedQuestion, entry: PoolEntry) -> bool:
    """Tell whether a record has a word for a name, of whom is asked about, and another name than the question's.

    Where names can't be told from other words, any may be another.
    """
    text, whose = entry["record"]["text"], asked_of(question)
    language = text_language(text)
    if wanted is not AskedProperty.NAME or not tells(wanted, text, language) or whose.isdisjoint(stems(text, language)):
        return False
    return text.islower() or language in WITHOUT_BLANKS or _has_new_name(text, question)


def _tells_of(wanted: AskedProperty, question: AnalysedQuestion, subject: Set[str], entry: PoolEntry) -> bool:
    text = entry["record"]["text"]
    anywhere = wanted is AskedProperty.CLOCK or len(text) > LONGEST_TELLING
    if wanted in _ATTRIBUTED and not subject.isdisjoint(stems(entry["record"].get("author") or "")):
        own = (stems(word) or [word] for word in shared_words("own"))
        told = frozenset(subject).union(*own)  # "my birthday", by whom is asked about
        return any(_tells_of_in(wanted, question, told, part) for part in _PARTS.split(text))
    if anywhere or subject.isdisjoint(stems(text)):  # a pronoun stands for it
        return tells_anywhere(wanted, question, entry)
    return any(_tells_of_in(wanted, question, subject, part) for part in _PARTS.split(text))


def _tells_of_in(wanted: AskedProperty, question: AnalysedQuestion, subject: Set[str], text: str) -> bool:
    """Tell whether a sentence with the subject, or one that goes on about it, tells a property of it.

    A sentence goes on about the subject of the one before, and of any before if it has a pronoun and no name.
    """
    asked_in, language = question.language, text_language(text)
    told = sentences_of(text)
    has_subject = [not subject.isdisjoint(stems(part, language)) for part in told]
    for at, part in enumerate(told):
        follows = any(has_subject[max(at - 1, 0) : at]) or (any(has_subject[:at]) and _only_refers(part, language))
        if not (has_subject[at] or follows) or not _tells_in(wanted, part, question):
            continue
        if wanted is AskedProperty.NAME and not has_subject[at]:
            if tells(wanted, part, language) or len(words(part)) <= _SHORT:
                return True
        elif wanted not in _ATTRIBUTED or _is_of(wanted, part, asked_in, subject, follows=follows):
            return True
    return False


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, without their marks."""
    return [part for part in _SENTENCES.split(text) if part.strip()]


def clauses_of(text: str) -> list[str]:
    """Return the parts of a sentence between commas, colons, brackets and dashes."""
    return _CLAUSES.split(text)


def _only_refers(sentence: str, language: str) -> bool:
    known = person_words().get(language)
    return known is not None and not known.third.isdisjoint(words(sentence)) and not _other_names(sentence, language)


def _is_of(wanted: AskedProperty, sentence: str, asked_in: str, subject: Set[str], *, follows: bool) -> bool:
    """Tell whether anything in a sentence that tells a property tells it of the subject.

    `follows` says that the sentence before has the subject: where nobody is named, it is still about that one. The
    question's language counts beside the sentence's, which a few words may not tell.
    """
    language = text_language(sentence)
    named = list(_mentions(sentence, subject, language if language in person_words() else asked_in))
    for at in chain.from_iterable(find_told(wanted, sentence, each) for each in {asked_in, language}):
        before = [is_subject for place, is_subject in named if place < at]
        behind = [is_subject for place, is_subject in named if place >= at]
        if before[-1] if before else follows or not behind or behind[0]:
            return True
    subjects = {place for place, is_subject in named if is_subject}
    return wanted in AGES and not subjects.isdisjoint(find_bare_ages(sentence, language))


def _mentions(sentence: str, subject: Set[str], language: str) -> Iterator[tuple[int, bool]]:
    """Yield where somebody is named in a folded sentence, and whether it is the subject; in order.

    A name behind a word for the subject, or such a word behind the name, is still the subject: "my sister Ruth", "the
    cat is called Luna".
    """
    folded, known, at = fold(sentence), person_words().get(language), 0
    others, same, is_subject = _other_names(sentence, language), 0, False
    for word in words(sentence):
        found = folded.find(word, at)
        if found < 0:
            continue
        at, same = found + len(word), same - 1
        if stem(word, language) in subject:
            same, is_subject = 0 if folded.startswith(_OWNS, at) else 2, True
            yield found, True
        elif word in others or (known is not None and person_stem(word, language, known)):
            is_subject = same > 0
            yield found, is_subject
        elif word in shared_words("possessives"):
            same += 1  # "Ruth, my sister"
        elif is_subject and is_word_of(AskedProperty.NAME, word, language):
            same = 2


def _other_names(sentence: str, language: str) -> frozenset[str]:
    """Return the first words of names that are no places'; none in languages without capitals."""
    if language in WITHOUT_BLANKS or language not in person_words():
        return frozenset()
    found, before = words(sentence), place_words(language)
    names = (words(name)[:1] for name in find_entities(sentence))
    return frozenset(
        first for name in names for first in name if first in found and _previous(found, first) not in before
    )


def _previous(found: Sequence[str], word: str) -> str:
    at = found.index(word)
    return found[at - 1] if at else ""


def _tells_in(wanted: AskedProperty, text: str, question: AnalysedQuestion) -> bool:
    language = text_language(text)
    told = any(tells(wanted, text, each) for each in {question.language, language})
    if wanted is not AskedProperty.NAME:
        return told
    if text.islower() or language in WITHOUT_BLANKS or language not in person_words():
        return told or _has_new_name(text, question)
    return _has_new_name(text, question)


def _has_new_name(text: str, question: AnalysedQuestion) -> bool:
    """Tell whether a text has a name that isn't asked for and is no place's, near what is asked for if it has that."""
    language, found = text_language(text), words(text)
    asked = {stem(word, language) for word in words(question.text)}
    places = [at for at, word in enumerate(found) if stem(word, language) in asked]
    for name in find_entities(text):
        parts = words(name)
        known = [stem(part, language) in asked for part in parts]
        if not parts or parts[0] not in found or all(known):
            continue
        before = _previous(found, parts[0])
        if not any(known) and (language not in person_words() or before not in place_words(language)):
            at = found.index(parts[0])
            if not places or any(abs(at - place) <= _NEAR for place in places):
                return True
    return False
