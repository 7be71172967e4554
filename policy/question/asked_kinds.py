"""Questions about a kind of thing, and texts that mention a member: "which herb can't I stand?", coriander (STOP-5).

A memory seldom states the kind: somebody who drives a Corolla needn't say that it is a car. The kinds are those of
`text.words.kinds`; words of other languages are looked up by their English translation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from recall_loop.text.gloss.glosses import english_of
from recall_loop.text.words.folding import fold
from recall_loop.text.words.kinds import members_of
from recall_loop.text.words.languages import ENGLISH, WITHOUT_BLANKS, language_words, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import text_language, words

# Longer texts are about many things.
_LONGEST = 1000
_ENGLISH = re.compile(
    r"\bwhich\s+(?:(?:kind|type|sort|brand|breed)s?\s+of\s+)?(\w+(?:\s\w+){0,2})"
    r"|\bwhat\s+(?:kind|type|sort)s?\s+of\s+(\w+(?:\s\w+)?)"
    r"|\bwhat\s+(\w+(?:\s\w+){0,2}?)\s+(?:am|are|is|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b"
    r"|\bfavou?rite\s+(\w+(?:\s\w+)?)",
    re.IGNORECASE,
)


class AskedKind(NamedTuple):
    """The kind of thing that a question asks for: the stems of its words, and of English words for its members.

    A duty has no members; instead `statement_pattern` matches folded statements of it.
    """

    stems: frozenset[str]
    members: frozenset[str]
    statement_pattern: re.Pattern[str] | None = None

    def stems_if_mentioned(self, text: str) -> frozenset[str]:
        """Return the stems of the kind's words if a text mentions one of its members, in any known language."""
        if self.statement_pattern is not None:
            return self.stems if self.statement_pattern.search(fold(text[:_LONGEST])) else frozenset()
        mentioned = self.members and not self.members.isdisjoint(_english_stems(text[:_LONGEST]))
        return self.stems if mentioned else frozenset()


NO_KIND = AskedKind(frozenset(), frozenset())


@lru_cache(maxsize=256)
def asked_kind_of(question: str, language: str) -> AskedKind:
    """Return the kind of thing that a question asks for; `NO_KIND` if it asks for no known kind."""
    for found in _pattern(language).finditer(question):
        for kind, english in _kinds(next(filter(None, found.groups()), ""), language):
            if members_of(english):
                return AskedKind(frozenset(stem(word, language) for word in words(kind)), _member_stems(english))
    return NO_KIND


@lru_cache(maxsize=256)
def asked_noun(question: str, language: str) -> str | None:
    """Return the first word of the kind of thing that a question asks for ("surgeon"), known or not; None without."""
    found = _pattern(language).search(question)
    phrase = next(filter(None, found.groups()), "") if found else ""
    first = next(iter(words(phrase)), None)
    return None if first in stop_words(language) else first


@lru_cache(maxsize=128)
def _member_stems(kind: str) -> frozenset[str]:
    single = frozenset(stem(word) for word in members_of(kind) if " " not in word)
    return single - {stem(word) for word in kind.split()}


@lru_cache(maxsize=4096)
def _english_stems(text: str) -> frozenset[str]:
    language = text_language(text)
    stop = stop_words(language)
    found = [word for word in words(text) if word not in stop]
    if language == ENGLISH:
        return frozenset(stem(word) for word in found)
    english = (english_of(word, language) or "" for word in found)
    return frozenset(stem(word) for gloss in english for word in gloss.split())


def _kinds(phrase: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the possible kinds in a phrase with their English: known two-word terms first, then single words."""
    if language in WITHOUT_BLANKS:
        parts = [phrase[:end] for end in range(len(phrase), 0, -1)]
    else:
        parts = [fold(word) for word in phrase.split() if fold(word) not in stop_words(language)]
    if language == ENGLISH:
        pairs = (f"{first} {second}" for first, second in pairwise(parts))
        yield from ((pair, pair) for pair in pairs if members_of(pair) != members_of(pair.split()[1]))
    for part in parts:
        yield part, (None if language == ENGLISH else english_of(part, language)) or part


@cache
def _pattern(language: str) -> re.Pattern[str]:
    known = language_words().get(language)
    return re.compile(known.things, re.IGNORECASE) if known and known.things else _ENGLISH
