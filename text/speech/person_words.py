"""The words for persons, by language (OPEN-4): those who speak, relatives, others, and what tells whose a thing is."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import stop_words
from recall_loop.text.words.stemming import stem


@dataclass(frozen=True)
class PersonWords:
    """The words for persons of one language; see `persons.toml`. Those of relatives are stems.

    Attributes:
        asker: pronouns of the one who asks.
        together: words of those who speak of themselves with others.
        third: pronouns of others.
        single: those of one other person; "they" and the French "il" may be nobody in particular.
        kin: by its stem the group of a word for one and the same relative; by the word where several have that stem
            ("hermano", "hermana").
        persons: stems of all words for persons.
        beside: prepositions behind which somebody only takes part.
        of: words between a thing and whose it is; empty where none is needed.
        whose: words for somebody else's.
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
    kin: Mapping[str, int]
    persons: frozenset[str]


@cache
def person_words() -> Mapping[str, PersonWords]:
    """Return the words of each language that has any, by its code (ISO 639-1)."""
    text = files("recall_loop.text.speech").joinpath("persons.toml").read_text(encoding="utf-8")
    return {code: _read(code, lists) for code, lists in tomllib.loads(text).items()}


def _read(language: str, lists: Mapping[str, str]) -> PersonWords:
    groups = [fold(group).split("|") for group in lists["kin"].split()]
    numbers: dict[str, set[int]] = {}
    for number, group in enumerate(groups):
        for word in group:
            numbers.setdefault(stem(word, language), set()).add(number)
    forms = ((word, stem(word, language), number) for number, group in enumerate(groups) for word in group)
    kin = {word if len(numbers[root]) > 1 else root: number for word, root, number in forms}
    others = {stem(word, language) for word in fold(lists["others"]).split()}
    names = ("asker", "together", "third", "single", "beside", "of", "whose", "where")
    listed = {name: frozenset(fold(lists[name]).split()) for name in names}
    putting = tuple(fold(lists["putting"]).split())
    return PersonWords(kin=kin, persons=frozenset({*numbers, *others}), putting=putting, **listed)


def person_stem(word: str, language: str, known: PersonWords) -> str:
    """Return the stem of a word for a person, or the word where its stem doesn't tell the person; "" for any other.

    A stop word is none ("nicht" has the stem of "Nichte").
    """
    found = stem(word, language)
    if found not in known.persons or word in stop_words(language):
        return ""
    return word if word in known.kin else found


def is_person_word(text: str, language: str) -> bool:
    """Tell whether a text is a word for a person and nothing else: "Dad"."""
    known = person_words().get(language)
    return known is not None and bool(person_stem(fold(text), language, known))
