"""The words that mark a change, by language (`change_markers.json`): function words, marks, topics, the past."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH, WITHOUT_BLANKS

MARKS = ("change", "later", "now", "over", "instead")
_NEGATABLE = ("change", "over")
# A negation of a mark is within so many characters before it.
_NEAR = 30
# The special characters of the patterns in the lists.
_PIECE = re.compile(r"( \.\.\. | \.\.\.|\.\.\. | ~ |[ *$#(),])")
# Right after these a word identifies a thing, and doesn't mark an end: "the left side", "my retired uncle".
_DETERMINER = re.compile(r"\b(?:the|an?|my|your|his|her|its|our|their)\s+$")
_OWNER, _COUNT = re.compile(r"'s\s+$"), re.compile(r"\d\s+$")
_AFTER_LEFT = re.compile(r"\s+(?:the|an?|my|our|his|her|their|for|in|on|at|us|me|him|them|it|home|work)\b|\W*$")
_GAP = r"\s+((?:\S+\s+){0,3}?)"
_PATTERN_CHARACTERS = {
    " ... ": _GAP,
    " ...": _GAP,
    " ~ ": r"\s((?:.*\s)?)",
    " ": r"\s+",
    "*": r"\w*",
    "$": r"(?=\W*$)",
    "#": r"(?=\d)",
    "(": "(?:",
    ")": ")",
    ",": "|",
}


def find_marks(folded: str, language: str) -> dict[str, frozenset[int]]:
    """Return the kinds of marks of change in a sentence, each with the positions of its characters.

    A negated mark of a change or an end doesn't count: "we haven't moved", "never give up". Neither does a part of a
    longer mark of another kind: a price that has gone up isn't gone.
    """
    found = list(_matches(folded, language))
    marks: dict[str, frozenset[int]] = {}
    for kind, match in found:
        if not any(kind != other and _is_part(match, longer) for other, longer in found):
            gaps = (range(*match.span(gap)) for gap in range(1, (match.lastindex or 0) + 1))
            marks[kind] = marks.get(kind, frozenset()).union(range(*match.span())).difference(*gaps)
    return marks


def _matches(folded: str, language: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the marks of change in a sentence that aren't negated or used in another sense."""
    for kind, pattern in _patterns(language).items():
        for match in pattern.finditer(folded):
            if kind in _NEGATABLE and _negation(language).search(folded, max(match.start() - _NEAR, 0), match.start()):
                continue
            if kind == "over" and language == ENGLISH and _identifies_thing(folded, match):
                continue
            if kind != "now" or not _opens_range(folded, match.end()):
                yield kind, match


def _identifies_thing(folded: str, match: re.Match[str]) -> bool:
    """Tell whether a word identifies a thing or says how many: "the left side", "Gran's left eye", "250 left"."""
    if _DETERMINER.search(folded, 0, match.start()):
        return True
    if match[0] != "left":
        return False
    side = _OWNER.search(folded, 0, match.start()) and not _AFTER_LEFT.match(folded, match.end())
    return bool(side or _COUNT.search(folded, 0, match.start()))


def _is_part(match: re.Match[str], longer: re.Match[str]) -> bool:
    """Tell whether a mark is part of a longer one without gaps."""
    whole = not any(longer.groups())
    return whole and longer.start() <= match.start() and match.end() <= longer.end() and match[0] != longer[0]


def _opens_range(folded: str, end: int) -> bool:
    """Tell whether a time opens a range: "open from Tuesday to Friday" doesn't mean a change on Tuesday."""
    return bool(_range_end().match(folded, end))


@cache
def _range_end() -> re.Pattern[str]:
    joining, dates = ("|".join(map(re.escape, sorted(shared_words(name)))) for name in ("ranges", "dates"))
    return re.compile(rf"\s+(?:{joining})\s+(?:\w+\s+)?(?:{dates})\b")


@cache
def _lists() -> dict[str, Any]:
    return packaged_table(__package__, "change_markers.json")


@cache
def function_words(language: str) -> frozenset[str]:
    """Return the function words of a language."""
    return frozenset(fold(_lists()[language]["function"]).split())


@cache
def place_words(language: str) -> frozenset[str]:
    """Return the words of a language that introduce a place."""
    return frozenset(_lists()[language]["places"].split())


@cache
def having_words(language: str) -> frozenset[str]:
    """Return the forms of a language's verb "have"; Russian, Chinese and Japanese have none here."""
    return frozenset(fold(_lists()[language].get("having", "")).split())


@cache
def shared_words(name: str) -> frozenset[str]:
    """Return a list that all languages share, such as `dates` or `speakers`: `about` in the file describes them."""
    return frozenset(fold(_lists()[name]).split())


@cache
def date_words(language: str) -> frozenset[str]:
    """Return weekdays, months and times of day in all languages, and those that are other words elsewhere."""
    return shared_words("dates").union(fold(_lists()[language].get("dates", "")).split())


@cache
def _patterns(language: str) -> dict[str, re.Pattern[str]]:
    spaced = language not in WITHOUT_BLANKS
    return {kind: re.compile("|".join(_alternatives(_lists()[language][kind], spaced))) for kind in MARKS}


@cache
def past_pattern(language: str) -> re.Pattern[str]:
    """Return the pattern of a question about the past."""
    return re.compile("|".join(_alternatives(_lists()[language]["past"], language not in WITHOUT_BLANKS)))


def is_negated_at(folded: str, at: int, language: str) -> bool:
    """Tell whether a negation precedes a place in a sentence, with at most one word between ("pas le 20")."""
    return bool(_negation(language).search(folded, max(at - _NEAR, 0), at))


@cache
def _negation(language: str) -> re.Pattern[str]:
    """Return a pattern that ends in a negation, or in a negation and a further word."""
    spaced = language not in WITHOUT_BLANKS
    words = "|".join(_alternatives(_lists()[language]["negations"], spaced))
    return re.compile(rf"(?:{words})['\s]\s*(?:[\w']+\s+)?$" if spaced else rf"(?:{words})$")


PRICE = "=price"
"""The topic of payments, as `find_topics` yields it."""


def find_topics(folded: str, language: str) -> Iterator[str]:
    """Yield the topics of a sentence, in a form that no word has."""
    return (f"={name}" for name, pattern in _topic_patterns(language).items() if pattern.search(folded))


@cache
def _topic_patterns(language: str) -> dict[str, re.Pattern[str]]:
    spaced = language not in WITHOUT_BLANKS
    topics = _lists()[language]["topics"].items()
    return {name: re.compile("|".join(_alternatives(listed, spaced))) for name, listed in topics}


def prices_in(folded: str, language: str) -> frozenset[str]:
    """Return the kinds of payment that a sentence mentions: a rent says nothing about a salary."""
    return frozenset(name for name, pattern in _price_patterns(language).items() if pattern.search(folded))


@cache
def _price_patterns(language: str) -> dict[str, re.Pattern[str]]:
    spaced, kinds = language not in WITHOUT_BLANKS, _lists()[language]["prices"].items()
    return {name: re.compile("|".join(_alternatives(listed, spaced))) for name, listed in kinds}


def _alternatives(listed: str, spaced: bool) -> Iterator[str]:
    """Yield regular expressions of patterns: the longest first, so that a prefix never matches in its place."""
    for pattern in sorted(fold(listed).split("/"), key=len, reverse=True):
        body = "".join(_PATTERN_CHARACTERS.get(piece, re.escape(piece)) for piece in _PIECE.split(pattern) if piece)
        yield rf"\b{body}\b" if spaced else body.replace(r"\w*", "(.{0,4}?)")
