"""Questions about times: for anything that happened then, and for the last time of something (LIVE-4, CONF-3).

"What did I do on Thursday?": a record from that day may share no word with it. "Where was I on Thursday?" is more
specific. "When did I last run?" has one answer, and no earlier run is it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import regex

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.time.time_expressions import TimeExpression
from recall_loop.text.words.folding import fold
from recall_loop.text.words.tokens import words


class _TimeWords(NamedTuple):
    """The words of one language: asking for a thing, saying that something happened, asking for the last time."""

    what: frozenset[str]
    happened: frozenset[str]
    last: regex.Pattern[str]


def asks_what_happened(asked: Collection[str], phrases: Iterable[str], language: str) -> bool:
    """Tell whether a question asks what happened, in words that say nothing about it.

    Args:
        asked: its words, folded.
        phrases: its noun phrases without names and times.
        language: its language (ISO 639-1).
    """
    known = _words().get(language)
    nouns = {word for phrase in phrases for word in fold(phrase).split()}
    return known is not None and not known.what.isdisjoint(asked) and nouns <= known.happened


def last_time_words(question: str, times: Sequence[TimeExpression], language: str) -> frozenset[str]:
    """Return the words by which a question asks for the last time of something, folded; none if it doesn't.

    Args:
        question: its text.
        times: the times in it: "last week" asks for no last time.
        language: its language (ISO 639-1).
    """
    known = _words().get(language)
    if known is None:
        return frozenset()
    text = question
    for time in times:
        text = text[: time.at] + "." * len(time.text) + text[time.at + len(time.text) :]
    return frozenset(word for found in known.last.finditer(text) for word in words(found.group()))


@cache
def _words() -> dict[str, _TimeWords]:
    return {
        code: _TimeWords(
            frozenset(each["what"].split()),
            frozenset(each["happened"].split()),
            regex.compile(each["last"], regex.IGNORECASE),
        )
        for code, each in packaged_table(__package__, "asked_times.toml").items()
    }
