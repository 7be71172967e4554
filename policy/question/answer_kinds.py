"""The kind of answer that a question asks for, if its wording shows it: a date, a number or a person (STOP-5, OPEN-4).

The first question word decides: "who was there when it burnt?" asks for a person, and "what do I do when it rains?" for
none of the three.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import WITHOUT_BLANKS, language_words
from recall_loop.text.words.stop_words import QUESTION_WORDS

# The question word that opens a question may follow a preposition ("in what", "mit wem").
_OPENING_WORDS = 2
_WORD = re.compile(r"[^\W\d_]+")


class AnswerKind(StrEnum):
    """The kind of answer that a question asks for."""

    DATE = "date"
    NUMBER = "number"
    PERSON = "person"


_ENGLISH = {
    AnswerKind.NUMBER: r"how\s+(?:many|much|old|long|often|far|tall|big)\b"
    r"|what\s+(?:do|does|did|will|would)\s+(?:\S+\s+){1,4}(?:pay|charge|cost|owe|earn)\b"
    r"|what(?:'s|\s+is|\s+was)\s+(?:\S+\s+){0,3}(?:price|cost|fee|rent|salary|wage)\b",
    AnswerKind.DATE: r"(?:when|what\s+(?:date|day|year|month|time)|which\s+(?:date|day|year|month))\b",
    AnswerKind.PERSON: r"(?:who|whom|whose)\b",
}
_WHO_IS = r"who(?:['\u2019]?s|\s+(?:is|was|are))\s+{name}"


def asks_who_is(question: str, name: str, language: str) -> bool:
    """Tell whether a question asks who somebody is whom it names: any other name is no better an answer than none."""
    known = language_words().get(language)
    pattern = (known.who_is if known else _WHO_IS) or r"(?!)"
    whole = rf"\W*{pattern.replace('{name}', re.escape(name))}\W*"
    return re.fullmatch(whole, question, re.IGNORECASE) is not None


def asked_kind(question: str, language: str) -> AnswerKind | None:
    """Return the kind of answer that a question asks for; None if its wording doesn't show it.

    Args:
        question: a single question.
        language: its language (ISO 639-1); those without patterns of their own are read as English.
    """
    matches = ((kind, pattern.search(question)) for kind, pattern in _patterns(language))
    found = [(match.start(), at, kind) for at, (kind, match) in enumerate(matches) if match]
    if not found:
        return None
    start, _, kind = min(found)
    opening = _WORD.findall(fold(question[:start]))[:_OPENING_WORDS]
    return None if _question_words(language).intersection(opening) else kind


@cache
def _patterns(language: str) -> tuple[tuple[AnswerKind, re.Pattern[str]], ...]:
    """Return the patterns of questions for a number, a date or a person; of two matches at one place, the first."""
    known = language_words().get(language)
    answers = known.answers if known and known.answers else _ENGLISH
    before = "" if language in WITHOUT_BLANKS else r"(?<!\w)"
    return tuple((kind, re.compile(f"{before}(?:{answers[kind]})", re.IGNORECASE)) for kind in _ENGLISH)


def _question_words(language: str) -> frozenset[str]:
    """Return the words that may open a question; none for languages where they may be anywhere."""
    if language in WITHOUT_BLANKS:
        return frozenset()
    known = language_words().get(language)
    return known.question if known and known.question else QUESTION_WORDS
