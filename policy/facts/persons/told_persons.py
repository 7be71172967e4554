"""The persons of whom a text tells: its teller, relatives, others, and who a name is (CONF-3, LIVE-2)."""

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

# Words after a name among which what is asked for makes it the subject: "Tom has three children".
AFTER_NAME = 3
# A person further on may only be mentioned.
_OPENING = 3
BEING = word_set("is was are were has have had will")
# Words between which and whose it is there may be a further one ("his old passport").
BESIDE_THING = 2
_ELIDED = re.compile(r"\bj['\u2019]", re.IGNORECASE)


@dataclass(frozen=True)
class ToldPersons:
    """The persons of whom a text speaks.

    Attributes:
        words: its words.
        asker: whether the one who says it is a subject of it.
        teller: whether it speaks of the one who says it at all, other than as whose relative somebody is.
        third: whether it has a pronoun for others.
        persons: stems of its words for persons.
        told: those with which it begins, or which are somebody's relatives; none who only takes part ("with my wife")
            or only says it ("the doctor says no running").
        owns: whether anything is the teller's.
        things: stems of the words for what is the teller's and is no person ("my flat").
    """

    words: Sequence[str]
    asker: bool
    teller: bool
    third: bool
    persons: frozenset[str]
    told: frozenset[str]
    owns: bool
    things: frozenset[str]

    @classmethod
    def of(cls, text: str, language: str, known: PersonWords) -> ToldPersons:
        """Return the persons of a text."""
        found = words(text)
        persons = frozenset(filter(None, (person_stem(word, language, known) for word in found)))
        own = list(_own_words(found, language, known))
        elided = language == "fr" and _ELIDED.search(text) is not None
        possessives = shared_words("possessives") - known.third
        # "My older brother", "mon beau-frère": an adjective may stand between.
        places = [at for at, word in enumerate(found[:-1]) if word in possessives]
        behind = [found[at + 1 : at + 1 + BESIDE_THING] for at in places]
        owned = [_first_person_word(near, language, known) for near in behind]
        first = elided or has_first_person(text, language)
        speaks = not shared_words("speakers").isdisjoint(own) or opens_in_first_person(text, language)
        told = (*owned, *(person_stem(word, language, known) for word in found[:_OPENING]))
        return cls(
            words=found,
            asker=first or any(word in known.asker for word in own),
            teller=first or speaks,
            third=not known.third.isdisjoint(found),
            persons=persons,
            told=frozenset(filter(None, told))
            - _companions(found, language, known)
            - _reporters(found, language, known),
            owns=not possessives.isdisjoint(found),
            things=frozenset(
                stem(word, language) for near, person in zip(behind, owned, strict=True) if not person for word in near
            ),
        )


def _first_person_word(found: Sequence[str], language: str, known: PersonWords) -> str:
    """Return the stem of the first word for a person, "" where there is none."""
    return next(filter(None, (person_stem(word, language, known) for word in found)), "")


def _companions(found: Sequence[str], language: str, known: PersonWords) -> frozenset[str]:
    """Return the stems of words for persons behind such words as "with", with a possessive between or without."""
    places = [at for at, word in enumerate(found) if word in known.beside]
    return frozenset(person_stem(word, language, known) for at in places for word in found[at + 1 : at + 3]) - {""}


def _reporters(found: Sequence[str], language: str, known: PersonWords) -> frozenset[str]:
    """Return the stems of words for persons who say the rest; not where it may be of them ("she says that she …")."""
    if not known.third.isdisjoint(found):
        return frozenset()
    reporting = shared_words("reporting")
    return frozenset(person_stem(who, language, known) for who, verb in pairwise(found) if verb in reporting) - {""}


def _own_words(found: Sequence[str], language: str, known: PersonWords) -> Iterator[str]:
    """Yield the words but a pronoun that only says whose relative somebody is, as in Chinese."""
    for word, following in pairwise([*found, ""]):
        if word not in known.asker or not person_stem(following, language, known):
            yield word


def person_beside(found: Sequence[str], at: int, language: str, known: PersonWords) -> str:
    """Return the word that tells who a name is: "my sister Ruth", "Ruth, my sister", "Ruth is my sister"; else "".

    Args:
        found: the words of a text.
        at: the place of the name among them.
        language: of the text.
        known: its words for persons.
    """
    before = found[max(at - AFTER_NAME, 0) : at]
    if before and known.whose.isdisjoint(before) and (person := person_stem(before[-1], language, known)):
        return person
    behind = [word for word in found[at + 1 : at + 1 + AFTER_NAME] if word not in BEING]
    own = behind and behind[0] in shared_words("possessives") - known.third - known.whose
    return person_stem(behind[1], language, known) if own and len(behind) > 1 else ""


@lru_cache(maxsize=4096)
def told_relatives(text: str, language: str) -> frozenset[int | None]:
    """Return of which relatives a text tells, by their groups, None for its teller; empty where that isn't plain.

    What tells of something of the teller's ("my wife moved my lesson") tells of the teller too.
    """
    known = person_words().get(language)
    said = ToldPersons.of(text, language, known) if known else None
    if known is None or said is None or said.third:
        return frozenset()
    relatives = frozenset(known.kin[person] for person in said.told if person in known.kin)
    return relatives | {None} if said.teller or said.things else relatives


def opens_with_another(text: str, asked: Set[str]) -> bool:
    """Tell whether a text begins with whose relative or thing it is about, or with a name, and neither is asked for.

    Args:
        text: what was said.
        asked: the stems of the question's words.
    """
    found = words(text)
    language = text_language(text)
    if len(found) > 1 and found[0] in shared_words("possessives"):
        return stem(found[1], language) not in asked
    name = opening_name(text)
    return bool(name) and asked.isdisjoint(stems(name, language))


def opening_name(text: str) -> str:
    """Return the name with which a text begins; "" where it begins with none."""
    name = next(iter(find_entities(text)), "")
    return name if name and fold(text).startswith(fold(name)) else ""
