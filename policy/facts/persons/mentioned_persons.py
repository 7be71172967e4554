"""The persons that a text mentions: its speaker, relatives and others, and the relation of a name (CONF-3, LIVE-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.speech.first_person import has_first_person, opens_in_first_person
from recall_loop.text.speech.person_words import PersonWords, person_stem, person_words
from recall_loop.text.words.folding import fold
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import stems, text_language, words

# A name is the subject if one of so many words after it is in the question: "Tom has three children".
AFTER_NAME = 3
# A person after so many words may not be the subject.
_OPENING = 3
BEING = word_set("is was are were has have had will")
# Words from a thing to its owner: there may be another one between them ("his old passport").
OWNER_DISTANCE = 2
_ELIDED = re.compile(r"\bj['\u2019]", re.IGNORECASE)


@dataclass(frozen=True)
class MentionedPersons:
    """The persons that a text mentions.

    Attributes:
        words: its words.
        speaker_is_subject: whether its speaker is a subject of it.
        mentions_speaker: whether it is about its speaker at all, other than by naming a relative of theirs.
        has_third_person: whether it has a pronoun for others.
        persons: stems of its words for persons.
        subjects: those that open it or are the speaker's relatives, without companions ("with my wife") and reporters
            ("the doctor says no running").
        has_possessive: whether anything is the speaker's.
        possessions: stems of the words for things of the speaker's ("my flat"), not for persons.
    """

    words: Sequence[str]
    speaker_is_subject: bool
    mentions_speaker: bool
    has_third_person: bool
    persons: frozenset[str]
    subjects: frozenset[str]
    has_possessive: bool
    possessions: frozenset[str]

    @classmethod
    def of(cls, text: str, language: str, known: PersonWords) -> MentionedPersons:
        """Return the persons of a text."""
        found = words(text)
        persons = frozenset(filter(None, (person_stem(word, language, known) for word in found)))
        own = list(_own_words(found, language, known))
        elided = language == "fr" and _ELIDED.search(text) is not None
        possessives = shared_words("possessives") - known.third
        # "My older brother", "mon beau-frère": there may be an adjective between.
        places = [at for at, word in enumerate(found[:-1]) if word in possessives]
        after = [found[at + 1 : at + 1 + OWNER_DISTANCE] for at in places]
        owned = [_first_person_word(near, language, known) for near in after]
        first = elided or has_first_person(text, language)
        speaks = not shared_words("speakers").isdisjoint(own) or opens_in_first_person(text, language)
        subjects = (*owned, *(person_stem(word, language, known) for word in found[:_OPENING]))
        return cls(
            words=found,
            speaker_is_subject=first or any(word in known.asker for word in own),
            mentions_speaker=first or speaks,
            has_third_person=not known.third.isdisjoint(found),
            persons=persons,
            subjects=frozenset(filter(None, subjects))
            - _companions(found, language, known)
            - _reporters(found, language, known),
            has_possessive=not possessives.isdisjoint(found),
            possessions=frozenset(
                stem(word, language) for near, person in zip(after, owned, strict=True) if not person for word in near
            ),
        )


def _first_person_word(found: Sequence[str], language: str, known: PersonWords) -> str:
    """Return the stem of the first word for a person, "" if there is none."""
    return next(filter(None, (person_stem(word, language, known) for word in found)), "")


def _companions(found: Sequence[str], language: str, known: PersonWords) -> frozenset[str]:
    """Return the stems of words for persons after words such as "with", maybe with a possessive between."""
    places = [at for at, word in enumerate(found) if word in known.beside]
    return frozenset(person_stem(word, language, known) for at in places for word in found[at + 1 : at + 3]) - {""}


def _reporters(found: Sequence[str], language: str, known: PersonWords) -> frozenset[str]:
    """Return the stems of words for persons who say the rest; none if that may be about them ("she says she …")."""
    if not known.third.isdisjoint(found):
        return frozenset()
    reporting = shared_words("reporting")
    return frozenset(person_stem(who, language, known) for who, verb in pairwise(found) if verb in reporting) - {""}


def _own_words(found: Sequence[str], language: str, known: PersonWords) -> Iterator[str]:
    """Yield the words without pronouns that only mark a relative as the speaker's, as in Chinese."""
    for word, following in pairwise([*found, ""]):
        if word not in known.asker or not person_stem(following, language, known):
            yield word


def relation_of_name(found: Sequence[str], at: int, language: str, known: PersonWords) -> str:
    """Return the word for the relation of a name: "my sister Ruth", "Ruth, my sister", "Ruth is my sister"; else "".

    Args:
        found: the words of a text.
        at: the place of the name among them.
        language: the language of the text.
        known: the language's words for persons.
    """
    before = found[max(at - AFTER_NAME, 0) : at]
    if before and known.whose.isdisjoint(before) and (person := person_stem(before[-1], language, known)):
        return person
    after = [word for word in found[at + 1 : at + 1 + AFTER_NAME] if word not in BEING]
    own = after and after[0] in shared_words("possessives") - known.third - known.whose
    return person_stem(after[1], language, known) if own and len(after) > 1 else ""


@lru_cache(maxsize=4096)
def mentioned_relatives(text: str, language: str) -> frozenset[str | None]:
    """Return the relatives that a text is about, with None for its speaker; empty if that isn't clear.

    A text about something of the speaker's ("my wife moved my lesson") is about the speaker too.
    """
    known = person_words().get(language)
    mentioned = MentionedPersons.of(text, language, known) if known else None
    if known is None or mentioned is None or mentioned.has_third_person:
        return frozenset()
    relatives = frozenset(known.kin[person] for person in mentioned.subjects if person in known.kin)
    return relatives | {None} if mentioned.mentions_speaker or mentioned.possessions else relatives


def opens_with_another(text: str, asked: Set[str]) -> bool:
    """Tell whether a text begins with a relative, a possession or a name that isn't in the question.

    Args:
        text: the text.
        asked: the stems of the question's words.
    """
    found = words(text)
    language = text_language(text)
    if len(found) > 1 and found[0] in shared_words("possessives"):
        return stem(found[1], language) not in asked
    name = opening_name(text)
    return bool(name) and asked.isdisjoint(stems(name, language))


def opening_name(text: str) -> str:
    """Return the name with which a text begins, or ""."""
    name = next(iter(find_entities(text)), "")
    return name if name and fold(text).startswith(fold(name)) else ""
