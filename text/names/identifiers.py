"""Identifiers in a text: error codes, tickets, versions, ports, files, names in code; and patterns that find them.

An identifier must match exactly: E2001 isn't E1042, and 1.10 isn't 1.1. Only its spelling varies: `v1.10` is 1.10, and
`parseConfig`, `parse_config` and "parse config" are one name. It is recognised by its form alone:

- letters followed by digits (E1042, PROJ-123), or seven or more characters of a hexadecimal id;
- numbers of three digits or more, or with a full stop, that count nothing: "port 8080", "Python 3.12", but not "3.5
  miles" or a year. A number of two digits, or one that may be an amount, is uncertain: "exit code 137", "sprint 14";
- words joined by underscores, or by a capital inside (`retryLimit`), flags (`--no-cache`), branches, and file names.

`RetryLimit` is none here, since names of companies and people have that form too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from recall_loop.text.time.stated_times import without_times
from recall_loop.text.words.folding import UNSPACED
from recall_loop.text.words.languages import stop_words
from recall_loop.text.words.tokens import text_language, words

# Only between parts of two letters or more: iPhone and PhD are one word, APIs is a plural.
_HUMP = re.compile(r"(?<=[A-Za-z0-9][a-z0-9])(?=[A-Z][A-Za-z])|(?<=[A-Z][A-Z])(?=[A-Z][a-z]{2})")
_IN_CODE = re.compile(r"\w+", re.ASCII)
_AROUND = " \"'`()[]{}<>,;:!?*\u201c\u201d\u2018\u2019\u00bb\u00ab\u3002\uff1f\uff0c"
_RUN = re.compile(rf"[{UNSPACED}]+|(?:(?![{UNSPACED}])[\w.,/#$%'\u2019\u20ac\u00a3+-])+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)", re.IGNORECASE)
_CODE = re.compile(r"[A-Z]+-?\d[A-Z0-9-]*", re.IGNORECASE)
_NUMBERED = re.compile(r"([A-Z]{3,})-?(\d+)", re.IGNORECASE)
# A name of a thing rather than a code: PS5, F1, A4, vitamin D3.
_SHORT = re.compile(r"[A-Z]{1,2}\d", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,}", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")
_CAMEL = re.compile(r"[a-z]+[a-z0-9]+(?:[A-Z][A-Za-z0-9]+)+")
_FLAG = re.compile(r"--[A-Za-z][\w-]+")
_BRANCH = re.compile(r"[\w-]+(?:/[\w-]+)*/\w+(?:-\w+)+")
_FILE = re.compile(r"([\w-]{2,}(?:\.[\w-]+)*|)\.([a-z][a-z0-9]{0,4})")
_PART = re.compile(r"[^\W\d_]+|\d+")
_BEGINS, _ENDS, _BETWEEN = r"(?<!\w)", r"(?!\w)", r"[\W_]{0,2}"
_MIN_DIGITS = 3
_MIN_HEXADECIMAL = 7
_MAX_IDENTIFIERS = 32


def spelt_apart(text: str) -> str:
    """Return a text with a blank between the words of names in code such as `parseConfig`."""
    return _HUMP.sub(" ", text)


def other_spellings(text: str) -> str:
    """Return the names in code of a text once in several words and once in one; "" where it has none."""
    if not _is_several(text):
        return ""
    found = (name.strip("_") for name in _IN_CODE.findall(text))
    return " ".join(f"{spelt_apart(name)} {name.replace('_', '')}" for name in found if _is_several(name))


def _is_several(name: str) -> bool:
    return "_" in name or _HUMP.search(name) is not None


class Identifier(NamedTuple):
    """Patterns that find an identifier in any spelling, and others of its kind.

    `others` finds those with another number (E1042 for E2001); None if the kind has none. One that `may_count` may be a
    mere amount: its absence matters only in a text that has others.
    """

    spelt: re.Pattern[str]
    others: re.Pattern[str] | None = None
    may_count: bool = False


@lru_cache(maxsize=256)
def find_identifiers(text: str) -> tuple[Identifier, ...]:
    """Return the identifiers in a text, at most 32."""
    runs = [_POSSESSIVE.sub("", run.strip(_AROUND)) for run in _RUN.findall(text)]
    bare = [run.rstrip(".").lstrip("#") for run in runs]
    made = (_number(text, runs, at) if _VERSION.fullmatch(each) else _name(each) for at, each in enumerate(bare))
    pairs = ((written, identifier) for written, identifier in zip(bare, made, strict=True) if identifier is not None)
    found = list(islice(pairs, _MAX_IDENTIFIERS))
    outside_times = without_times(text) if found else ""
    return tuple(identifier for written, identifier in found if written in outside_times)


def _number(text: str, runs: list[str], at: int) -> Identifier | None:
    """Return a number; None if it is a year, short, or a mere amount."""
    run, before, after = runs[at], *(runs[at - 1 : at] or [""]), *(runs[at + 1 : at + 2] or [""])
    number, stop = run.strip("vV#."), stop_words(text_language(text))
    qualifier = before if before.isalpha() and not stop.issuperset(words(before)) else ""
    general = re.sub(r"\d+", r"\\d+", re.escape(number)) if "." in number else rf"\d{{{len(number)}}}"
    spelt = _compiled(rf"(?<!\d)(?<!\d\.){number.replace('.', '[.:]')}(?!\d)")  # 10.30 may be an hour
    others = _compiled(rf"{_BEGINS}{qualifier}{_BETWEEN}v?\d" if qualifier else rf"(?<![\d.]){general}(?!\d)")
    if run[:1] in "vV#" or number.count(".") > 1:
        return Identifier(spelt, others)
    if len(number) < _MIN_DIGITS - 1 or _YEAR.fullmatch(number):
        return None
    counts = not stop.issuperset(words(after)[:1])
    if len(number) >= _MIN_DIGITS and (not counts or before[:1].isupper()):
        return Identifier(spelt, others)
    return Identifier(spelt, others, may_count=True) if qualifier else None


def _name(written: str) -> Identifier | None:
    """Return an identifier other than a number; None if a run of characters is none."""
    if _HEXADECIMAL.fullmatch(written):
        return Identifier(_compiled(_BEGINS + written[:_MIN_HEXADECIMAL]))  # either side may be abbreviated
    if _CODE.fullmatch(written):
        numbered = _NUMBERED.fullmatch(written)
        # The name without any number may mean the same: COVID-19.
        bare = rf"|{_BEGINS}{numbered[1]}{_ENDS}(?!{_BETWEEN}\d)" if numbered else ""
        others = _compiled(_BEGINS + _spelt(written, r"\d+"))
        return Identifier(_compiled(_whole(_spelt(written)) + bare), others, _SHORT.fullmatch(written) is not None)
    if any(form.fullmatch(written) for form in (_CAMEL, _FLAG, _BRANCH)):
        return Identifier(_compiled(_whole(_spelt(written))))
    last = written.rpartition("/")[2]
    if named := _FILE.fullmatch(last):
        name, ending = _spelt(named[1]), named[2]
        # Without its extension it may be the same file, but not with a different one.
        with_name = rf"{_BEGINS}{name}(?:{_BETWEEN}{ending}{_ENDS}|{_ENDS}(?!\.\w))"
        return Identifier(_compiled(with_name if name else rf"\.{ending}{_ENDS}"))
    return Identifier(_compiled(_whole(_spelt(last)))) if "_" in last.strip("_") else None


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


def _spelt(written: str, number: str | None = None) -> str:
    """Return a pattern for words and numbers, however they are joined; `number` replaces each of the numbers."""
    parts = _PART.findall(spelt_apart(written))
    return _BETWEEN.join(number if number and part.isdigit() else part for part in parts)


def _whole(pattern: str) -> str:
    return _BEGINS + pattern + _ENDS
