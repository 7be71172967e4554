"""The words for persons, by language (OPEN-4): speakers, relatives and others, and possessives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import stop_words
from recall_loop.text.words.stemming import stem


@dataclass(frozen=True)
class PersonWords:
    """The words for persons of one language; see `persons.toml`. Words for relatives are stems.

    Attributes:
        asker: pronouns of the first person.
        together: words for the speaker with others, such as "we".
        third: pronouns of others.
        single: pronouns of one other person; "they" and the French "il" may mean nobody in particular.
        kin: the relative, in English in all languages, by stem; by word if several words have that stem ("hermano",
            "hermana"). Where a language tells more, that stands behind a full stop: "sister.elder".
        persons: stems of all words for persons.
        beside: prepositions before a companion ("with").
        of: words between a thing and its owner; empty if none is needed.
        whose: possessives of others.
        where: question words for a place.
        putting: beginnings of verbs of putting, leaving and keeping.
    """

    asker: frozenset[str]
    together: frozenset[str]
    third: frozenset[str]
    single: frozenset[str]
    beside: frozenset[str]
    of: frozenset[str]
    whose: frozenset[str]
    where: frozenset[str]
    putting: tuple[str, ...]
    kin: Mapping[str, str]
    persons: frozenset[str]


@cache
def person_words() -> Mapping[str, PersonWords]:
    """Return the words of each known language, by its code (ISO 639-1)."""
    return {code: _read(code, lists) for code, lists in packaged_table(__package__, "persons.toml").items()}


def _read(language: str, lists: Mapping[str, str]) -> PersonWords:
    groups = [(group.split(":")[0], fold(group.split(":")[1]).split("|")) for group in lists["kin"].split()]
    relatives: dict[str, set[str]] = {}
    for relative, group in groups:
        for word in group:
            relatives.setdefault(stem(word, language), set()).add(relative)
    forms = ((word, stem(word, language), relative) for relative, group in groups for word in group)
    kin = {word if len(relatives[root]) > 1 else root: relative for word, root, relative in forms}
    others = {stem(word, language) for word in fold(lists["others"]).split()}
    names = ("asker", "together", "third", "single", "beside", "of", "whose", "where")
    listed = {name: frozenset(fold(lists[name]).split()) for name in names}
    putting = tuple(fold(lists["putting"]).split())
    return PersonWords(kin=kin, persons=frozenset({*relatives, *others}), putting=putting, **listed)


def may_be_same_relative(one: str, other: str) -> bool:
    """Tell whether two relatives of `kin` may be the same: a sister may be the elder one."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def person_stem(word: str, language: str, known: PersonWords) -> str:
    """Return the stem of a word for a person, or the word if its stem is ambiguous; "" for any other word.

    A stop word is never one ("nicht" has the stem of "Nichte").
    """
    found = stem(word, language)
    if found not in known.persons or word in stop_words(language):
        return ""
    return word if word in known.kin else found


def is_person_word(text: str, language: str) -> bool:
    """Tell whether a text is a word for a person and nothing else: "Dad"."""
    known = person_words().get(language)
    return known is not None and bool(person_stem(fold(text), language, known))
