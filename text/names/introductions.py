"""Whether somebody tells their own name, in whatever words: "Hi, I'm Giulia", "Giulia here", "call me Jules" (OPEN-4).

Nothing of "what's my name?" stands in "Hi, I'm Giulia", which is how people tell it to whom they meet. The words stand
in `introductions.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import regex

from recall_loop.text.gloss.glosses import english_of
from recall_loop.text.names.name_spans import CALENDAR, HONORIFICS
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import CHINESE

# People tell their name in the beginning.
_READ = 600
# Up to three words with capitals; in Chinese, which has none, signs up to the end of the clause or a particle.
_NAME = r"(?P<name>\p{Lu}[\p{L}\p{M}'’-]*\p{L}(?: (?:de |van |von )?\p{Lu}[\p{L}\p{M}'’-]*\p{L}){0,2})(?![\p{L}\p{M}])"
_SIGNS = r"(?P<name>(?![了他她它你您我人上过个去来])[\p{Han}·]{1,6}?)(?=$|[^\p{Han}·]|吧|就|好了|的)"


class _Words(NamedTuple):
    """The words of one language; see `introductions.toml`."""

    language: str
    told: regex.Pattern[str]
    being: regex.Pattern[str]
    plain: str
    asked: regex.Pattern[str]
    others: regex.Pattern[str]
    peoples: frozenset[str]

    @classmethod
    def read(cls, language: str, lists: Mapping[str, str]) -> _Words:
        """Return the words of one table."""
        name = _SIGNS if language == CHINESE else _NAME
        told, being = (regex.compile(lists[part].replace("{name}", name)) for part in ("told", "being"))
        asked, others = (regex.compile(lists[part]) for part in ("asked", "others"))
        return cls(language, told, being, lists["plain"], asked, others, frozenset(lists.get("peoples", "").split()))


@lru_cache(maxsize=4096)
def with_plain_name(text: str) -> str:
    """Return a text with its speaker's name once more, in the words in which it is asked for, if it tells that."""
    plain = _plain_name(text)
    return f"{text}\n{plain}" if plain else text


@lru_cache(maxsize=4096)
def tells_own_name(text: str) -> bool:
    """Tell whether somebody tells their own name in a text."""
    return bool(_plain_name(text))


@lru_cache(maxsize=256)
def asked_own_name(question: str) -> str | None:
    """Return which of their own names somebody asks for: "" = the one by which they are called; None = no name."""
    folded = fold(question)
    found = next(filter(None, (words.others.search(folded) for words in _languages())), None)
    if found is not None:
        return str(found[1])
    return "" if any(words.asked.search(folded) for words in _languages()) else None


def _plain_name(text: str) -> str:
    read = text[:_READ]
    for words in _languages():
        for found in (*words.told.finditer(read), *words.being.finditer(read)):
            if _is_name(found, read, words):
                return words.plain.format(name=found["name"])
    return ""


def _is_name(found: regex.Match[str], text: str, words: _Words) -> bool:
    name = found["name"]
    if words.language == CHINESE:
        return english_of(name, CHINESE) is None
    if found.re is words.told:
        return fold(name.split()[0]) not in CALENDAR | HONORIFICS
    if name in words.peoples or fold(name.split()[0]) in HONORIFICS:
        return False
    return any(fold(known).startswith(fold(name)) for known in find_entities(text))


@cache
def _languages() -> tuple[_Words, ...]:
    lists = tomllib.loads(files("recall_loop.text.names").joinpath("introductions.toml").read_text(encoding="utf-8"))
    return tuple(_Words.read(language, each) for language, each in lists.items())
