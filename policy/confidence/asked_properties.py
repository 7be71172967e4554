"""The properties for which people ask most, and whether a text tells one: age, birthday, name, job, … (CONF-3).

"What is our cat called?" is no more answered by "our cat has a torn ear" than by nothing, and neither is "how old is
Nadia?" by "Nadia comes at 5". The words by which a property is asked for and told stand in `asked_properties.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any

from recall_loop.policy.facts.change_words import place_words, shared_words
from recall_loop.policy.question.amounts import number_words
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.text.gloss.glosses import english_of
from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.time.stated_times import says_when, without_times
from recall_loop.text.time.time_expressions import parse_times, without_dates
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH, JAPANESE
from recall_loop.text.words.tokens import words_in_order

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
    EMAIL = "email"  # before the address: "email address"
    ADDRESS = "address"
    BREED = "breed"
    MEASURE = "measure"
    CLOCK = "clock"
    WISH = "wish"


# A question about a birthday asks for the day only where it asks for a date: "what did she get for her birthday?"
_KINDS = {AskedProperty.BIRTHDAY: AnswerKind.DATE, AskedProperty.AGE: AnswerKind.NUMBER}

AGES = frozenset({AskedProperty.AGE, AskedProperty.BIRTHDAY})
# A time's digits tell none of them.
_NUMBERED = frozenset({AskedProperty.PHONE, AskedProperty.ADDRESS})
# Patterns that those of all languages share, by the name that stands in braces for them.
_SHARED = ("breed", "measure", "hour")
_OWNER = re.compile("([^\\W\\d_\u3041-\u309f]+)(?:さん|ちゃん|くん)?の$")
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


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
    return bool(find_told(wanted, text, language)) or (wanted in AGES and bool(find_bare_ages(text, language)))


def find_told(wanted: AskedProperty, text: str, language: str) -> list[int]:
    """Return where the words by which a text tells a property begin in the folded text; [] without a list.

    A birthday is told by a day beside a word for it or beside an age ("Tess, 40 on 3 March"), a job by what somebody
    is as well.
    """
    if language not in _lists():
        return []
    folded = fold(_without_others(wanted, text))
    found = [told.start() for told in _pattern(language, wanted, "told").finditer(folded)]
    if wanted is AskedProperty.JOB:
        return [*found, *_find_occupations(text, language)]
    if wanted is not AskedProperty.BIRTHDAY:
        return found
    ages = find_told(AskedProperty.AGE, text, language) if _has_date(text) else []
    return [*found, *ages] if ages or says_when(text) or any(map(str.isdigit, text)) else []


def _without_others(wanted: AskedProperty, text: str) -> str:
    """Return a text without numbers that mean something else: "12.6. at 9:30" is no phone number, its date no hour."""
    if wanted is AskedProperty.CLOCK:
        return without_dates(text)
    return without_times(text) if wanted in _NUMBERED else text


def find_bare_ages(text: str, language: str) -> list[int]:
    """Return where a word begins in the folded text behind which a number stands that may be its age: "Owen 9"."""
    if language not in _lists():
        return []
    return [found.start() for found in _shared_pattern("bare", language).finditer(fold(text))]


def _find_occupations(text: str, language: str) -> Iterator[int]:
    """Yield where words for what somebody is by work begin in the folded text, if not for somebody known by it.

    "The doctor", "to our dentist" tell nobody's job.
    """
    folded, at, before = fold(text), 0, ""
    for word in words_in_order(text):
        at = max(folded.find(word, at), at)
        english = word if language == ENGLISH else english_of(word, language) or ""
        if before not in _definite_words(language) and not _occupations().isdisjoint(english.split()):
            yield at
        before, at = word, at + len(word)


@cache
def _definite_words(language: str) -> frozenset[str]:
    linking = frozenset(fold(_lists()["shared"]["linking_articles"]).split())
    return shared_words("possessives") | place_words(language) | articles() | linking


@cache
def articles() -> frozenset[str]:
    """Return the definite articles and demonstratives of all languages, folded."""
    return frozenset(fold(_lists()["shared"]["articles"]).split())


@cache
def auxiliaries() -> frozenset[str]:
    """Return the words of all languages that begin the rest of a verb ("the school has called"), folded."""
    return frozenset(fold(_lists()["shared"]["auxiliaries"]).split())


@cache
def _occupations() -> frozenset[str]:
    return frozenset(_lists()["shared"]["occupations"].split())


def _has_date(text: str) -> bool:
    return any(any(map(str.isdigit, time.text)) for time in parse_times(text, _ANY_TIME))


def owner_before(wanted: AskedProperty, text: str, language: str) -> str:
    """Return the word before "no" and the first word for a property in a Japanese text ("Naoko no"), else ""."""
    folded = fold(text)
    found = _pattern(language, wanted, "asked").search(folded) if language == JAPANESE else None
    owner = _OWNER.search(folded, 0, found.start()) if found else None
    return owner[1] if owner else ""


def is_word_of(wanted: AskedProperty, word: str, language: str) -> bool:
    """Tell whether a word is one by which a property is asked for or told, or says which name ("first")."""
    if wanted is AskedProperty.NAME and fold(word) in _qualifiers():
        return True
    parts = ("asked", "told") if language in _lists() else ()
    return any(_pattern(language, wanted, part).search(fold(word)) for part in parts)


def asks_to_pay(question: str, language: str) -> bool:
    """Tell whether a question asks what somebody paid."""
    return bool(_shared_pattern("paying", language).search(fold(question)))


def has_money(text: str, language: str) -> bool:
    """Tell whether a text has a number with a currency, or so much a month: it is no year then ("1950 euros")."""
    return bool(_shared_pattern("money", language).search(fold(text)))


def without_counted(text: str, language: str) -> str:
    """Return a folded text without the numbers that count something else than money: "three nights", "5 mg"."""
    return _shared_pattern("counted", language).sub(" ", fold(text))


@cache
def measures() -> tuple[str, ...]:
    """Return the folded words behind which a number is a size, or the number of something, and no price."""
    return tuple(_lists()["shared"]["measures"].split())


@cache
def _lists() -> dict[str, Any]:
    return packaged_table(__package__, "asked_properties.toml")


@cache
def _qualifiers() -> frozenset[str]:
    return frozenset(_lists()["shared"]["qualifiers"].split())


@cache
def _pattern(language: str, wanted: AskedProperty, part: str) -> re.Pattern[str]:
    return _compiled(_lists()[language][wanted][part], language)


@cache
def _shared_pattern(name: str, language: str) -> re.Pattern[str]:
    return _compiled(_lists()["shared"][name], language)


def _compiled(pattern: str, language: str) -> re.Pattern[str]:
    numbers = "|".join(
        [r"(?<!\d)\d++", *sorted(map(re.escape, map(fold, number_words(language))), key=len, reverse=True)]
    )
    for name in _SHARED:
        pattern = pattern.replace(f"{{{name}}}", _lists()["shared"][name])
    return re.compile(pattern.replace("{n}", f"(?:{numbers})"))
