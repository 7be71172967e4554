"""Questions that ask for a list: several things of a kind, or every time that something happened (PIECES-1).

The answers to "which sports has Kevin played?", "what has she painted?" and "where have they been?" are spread over
several records, each with a member. Such questions are recognised by their form: a question word with a plural
noun, a kind, type or sort of something, a perfect that leaves the time open, or a count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from recall_loop.text.words.languages import ENGLISH, WITHOUT_BLANKS, language_words
from recall_loop.text.words.stop_words import STOP_WORDS
from recall_loop.text.words.tokens import content_words, stems, words

_AUXILIARY = r"(?:has|have|had|do|does|did|is|are|was|were|can|could|will|would|should)"
_SORT = r"(?:kind|type|sort|form|style|genre)s?\s+of\s+"
_PHRASE = r"(?P<kind>[\w'\u2019+-]+(?:[\s/]+[\w'\u2019+-]+){0,3}?)"
_KINDS = (
    re.compile(
        rf"\b(?:what|which|how\s+many)\s+(?:other\s+|else\s+)?(?P<sort>{_SORT})?{_PHRASE}\s+{_AUXILIARY}\b", re.I
    ),
    re.compile(
        rf"\b(?:what|which)\s+(?:are|were)\s+(?:(?:all|some|the|of|names?|any|other)\s+)*(?:[\w]+['\u2019]s?\s+)?"
        rf"(?P<sort>{_SORT})?{_PHRASE}\s*(?:\?|$|,|\b(?:that|which|who|of|in|with|for|to|from|at|on|about|{_AUXILIARY})\b)",
        re.I,
    ),
    re.compile(r"\b(?:what|which)\s+(?:are|were)\s+some\s+(?:of\s+)?(?P<kind>[\w'\u2019-]+s)\b", re.I),
    re.compile(rf"\b(?:list|name|tell\s+me)\s+(?:me\s+)?(?:all|every)\s+(?:of\s+)?(?:the\s+|my\s+)?{_PHRASE}\b", re.I),
)
# Perfects leave the time open; so does "how many times", which counts.
_OPEN = re.compile(
    r"\b(?:what|where|who|whom)(?:\s+all|\s+else)?\s+(?:has|have|had)\b(?!\s+to\b)|\bhow\s+many\s+times\b"
    r"|\bin\s+(?:what|which)\s+ways\b|\b(?:what|where|who)\s+all\b",
    re.I,
)
_PLURALS = frozenset(["people", "children", "men", "women", "kids", "media"])
_NO_KIND = STOP_WORDS | {"times"}
_NO_PLURAL = ("ss", "us", "is", "'s", "\u2019s")


@dataclass(frozen=True)
class ListRequest:
    """The list that a question asks for.

    Attributes:
        kind: the noun phrase for the kind of its members, as written; empty if the question names none.
        form: the question's other content words, without names; statements that answer it often share them ("painted").
    """

    kind: str
    form: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def list_request(text: str, language: str = ENGLISH, names: tuple[str, ...] = ()) -> ListRequest | None:
    """Return the list that a question asks for; None if it asks for a single thing.

    Args:
        text: the question.
        language: its language (ISO 639-1); those without rules of their own are read as English.
        names: the names in it.
    """
    foreign = language_words().get(language)
    if foreign is None or not foreign.lists:
        kind = _english_kind(text, frozenset(stems(" ".join(names))))
    else:
        found = _foreign_pattern(language).search(text)
        kind = None if found is None else _kind_of(found)
    if kind is None:
        return None
    taken = frozenset(stems(" ".join((kind, *names))))
    return ListRequest(kind, tuple(word for word in content_words(text) if taken.isdisjoint(stems(word))))


@cache
def _foreign_pattern(language: str) -> re.Pattern[str]:
    before = "" if language in WITHOUT_BLANKS else r"(?<!\w)"
    return re.compile(f"{before}(?:{language_words()[language].lists})", re.IGNORECASE)


def _kind_of(found: re.Match[str]) -> str:
    return next((value for value in found.groups() if value), "").strip()


def _english_kind(text: str, names: frozenset[str]) -> str | None:
    """Return the kind of list that an English question asks for, "" for any kind, None if it asks for no list."""
    for pattern in _KINDS:
        for found in pattern.finditer(text):
            kind, sort = found["kind"], found.groupdict().get("sort") or ""
            last = words(kind)[-1:]
            if not last or last[0] in _NO_KIND or not names.isdisjoint(stems(last[0])):
                continue
            if _is_plural(kind.split()[-1]) or "s of" in sort:
                return kind
    return "" if _OPEN.search(text) else None


def _is_plural(word: str) -> bool:
    plain = word.lower()
    return plain in _PLURALS or (plain.endswith("s") and not plain.endswith(_NO_PLURAL) and len(plain) > 3)
