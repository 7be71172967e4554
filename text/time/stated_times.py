"""Whether a text says when something is: dates, parts of the day and the year, frequencies, hours, days of a month."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.time.time_expressions import ANY_REFERENCE, parse_times, without_dates
from recall_loop.text.words.languages import WITHOUT_BLANKS

_WORD = re.compile(r"\w+")


def says_when(text: str) -> bool:
    """Tell whether `text` states a time: a date or relative time, a time of the day or year, or a frequency.

    This includes times without a date: an hour ("at half past two", "à 15h") and a day of some month ("the 6th", "el
    16").
    """
    words = _words(text)
    hour = _may_name_hour(text, words) and _hours_and_days().search(text)
    return bool(hour or _names_recurring_time(text, words) or parse_times(text, ANY_REFERENCE))


def without_times(text: str) -> str:
    """Return a text without what it says of when and how long: dates, relative times, hours, lengths of time."""
    rest = without_dates(text)
    rest = _hours_and_days().sub(" ", rest) if _may_name_hour(rest, _words(rest)) else rest
    return _lengths().sub(" ", rest)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _names_recurring_time(text: str, words: list[str]) -> bool:
    """Tell whether a text has one of the words in `when_words.json`; some languages have no blanks around them."""
    single, joined, unspaced = _recurring_times()
    if not single.isdisjoint(words) or ("-" in text and joined.search(text)):
        return True
    return not text.isascii() and unspaced.search(text) is not None


@cache
def _recurring_times() -> tuple[frozenset[str], re.Pattern[str], re.Pattern[str]]:
    """Return the words, the pattern of those with a hyphen, and of those in languages without blanks."""
    data = packaged_table(__package__, "when_words.json")
    unspaced = [word for code in WITHOUT_BLANKS & data.keys() for word in data.pop(code).split()]
    spaced = [word for listed in data.values() for word in listed.split()]
    joined = "|".join(word for word in spaced if "-" in word)
    single = frozenset(word.casefold() for word in spaced if "-" not in word)
    return single, re.compile(rf"\b(?:{joined})\b", re.IGNORECASE), re.compile("|".join(unspaced))


def _may_name_hour(text: str, words: list[str]) -> bool:
    """Tell whether a text has a digit or the word of an hour, without which the far slower patterns find nothing."""
    spaced, unspaced = _hour_words()
    return any(map(str.isdigit, text)) or not spaced.isdisjoint(words) or not unspaced.isdisjoint(text)


@cache
def _hour_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of hours, and the characters of those in languages without blanks."""
    listed = {code: each["hours"].split() for code, each in _when_forms().items() if not isinstance(each, str)}
    unspaced = frozenset[str]().union(*(listed.pop(code) for code in WITHOUT_BLANKS & listed.keys()))
    return frozenset[str]().union(*listed.values()), unspaced


@cache
def _lengths() -> re.Pattern[str]:
    """Return the pattern of a unit of time with the word before it, which may be its number."""
    units = _when_forms()["lengths"].replace(" ", "|")
    return re.compile(
        rf"[^\W_]+\s+(?:{units})\b|[\d一二两三四五六七八九十]+个?(?:小时|分钟|天|晚|周|星期|月|年|時間|分間|日間|週間|[かヶカヵ]月|泊)",
        re.IGNORECASE,
    )


@cache
def _when_forms() -> Mapping[str, Any]:
    return packaged_table(__package__, "when_forms.json")


@cache
def _hours_and_days() -> re.Pattern[str]:
    """Return the pattern of the forms in `when_forms.json`: # is the hour or the day, a final % means nothing follows.

    A noun that follows would be what is counted: "at 7 houses", "the 2nd gear".
    """
    following = _when_forms()["following"].replace(" ", "|")
    ends = rf"(?![:.]\d)(?=[^\w%\u20ac$]*$|\s*[^\w\s%\u20ac$]|\s+(?:{following})\b)"
    forms = (
        ("" if language in WITHOUT_BLANKS else r"(?<![\w.,:])")
        + form.replace("#", _hour_or_day(each["hours"])).replace("%", ends)
        for language, each in _when_forms().items()
        if not isinstance(each, str)
        for form in each["forms"]
    )
    return re.compile("|".join(forms), re.IGNORECASE)


def _hour_or_day(hours: str) -> str:
    return rf"(?:{hours.replace(' ', '|')}|[0-2]?\d|3[01])"
