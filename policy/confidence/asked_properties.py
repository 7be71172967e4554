"""The properties for which people ask most, and whether a text tells one: age, birthday, name, job, … (CONF-3).

"What is our cat called?" is no more answered by "our cat has a torn ear" than by nothing, and neither is "how old is
Nadia?" by "Nadia comes at 5". The words by which a property is asked for and told stand in `asked_properties.toml`.
"""

from __future__ import annotations

import re
import tomllib
from enum import StrEnum
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from recall_loop.policy.question.amounts import number_words
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.text.words.folding import fold

LONGEST_TELLING = 400
"""Characters of a text of which it is told what it tells; longer ones tell of many things."""


class AskedProperty(StrEnum):
    """What is asked of somebody or something."""

    AGE = "age"
    BIRTHDAY = "birthday"
    NAME = "name"
    JOB = "job"
    RESIDENCE = "residence"
    COLOUR = "colour"
    PHONE = "phone"
    BREED = "breed"
    MEASURE = "measure"


# A question about a birthday asks for the day only where it asks for a date: "what did she get for her birthday?"
_KINDS = {AskedProperty.BIRTHDAY: AnswerKind.DATE, AskedProperty.AGE: AnswerKind.NUMBER}

# Patterns that those of all languages share, by the name that stands in braces for them.
_SHARED = ("bare", "breed", "measure")


@lru_cache(maxsize=256)
def asked_property(question: str, language: str, kind: AnswerKind | None) -> AskedProperty | None:
    """Return the property for which a question asks; None where it is another one, or the language has no list.

    Args:
        question: one question.
        language: its language (ISO 639-1).
        kind: the kind of answer that it asks for.
    """
    folded = fold(question)
    asked = ((each, _pattern(language, each, "asked")) for each in AskedProperty if language in _lists())
    found = (each for each, pattern in asked if pattern.search(folded))
    return next((each for each in found if _KINDS.get(each, kind) is kind), None)


@lru_cache(maxsize=4096)
def tells(wanted: AskedProperty, text: str, language: str) -> bool:
    """Tell whether a text has words by which a property is told in a language; a long text may always."""
    if len(text) > LONGEST_TELLING or language not in _lists():
        return True
    return bool(_pattern(language, wanted, "told").search(fold(text)))


def find_told(wanted: AskedProperty, text: str, language: str) -> list[int]:
    """Return where the words by which a text tells a property begin in the folded text; [] without a list."""
    if language not in _lists():
        return []
    return [found.start() for found in _pattern(language, wanted, "told").finditer(fold(text))]


def is_word_of(wanted: AskedProperty, word: str, language: str) -> bool:
    """Tell whether a word is one by which a property is asked for or told, or says which name ("first")."""
    if wanted is AskedProperty.NAME and fold(word) in _qualifiers():
        return True
    parts = ("asked", "told") if language in _lists() else ()
    return any(_pattern(language, wanted, part).search(fold(word)) for part in parts)


def without_counted(text: str, language: str) -> str:
    """Return a folded text without the numbers that count something else than money: "three nights", "5 mg"."""
    return _counted(language).sub(" ", fold(text))


@cache
def _lists() -> dict[str, Any]:
    text = files("recall_loop.policy.confidence").joinpath("asked_properties.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text))


@cache
def _qualifiers() -> frozenset[str]:
    return frozenset(_lists()["shared"]["qualifiers"].split())


@cache
def _pattern(language: str, wanted: AskedProperty, part: str) -> re.Pattern[str]:
    return _compiled(_lists()[language][wanted][part], language)


@cache
def _counted(language: str) -> re.Pattern[str]:
    return _compiled(_lists()["shared"]["counted"], language)


def _compiled(pattern: str, language: str) -> re.Pattern[str]:
    numbers = "|".join([r"\d+", *sorted(map(re.escape, map(fold, number_words(language))), key=len, reverse=True)])
    for name in _SHARED:
        pattern = pattern.replace(f"{{{name}}}", _lists()["shared"][name])
    return re.compile(pattern.replace("{n}", f"(?:{numbers})"))
