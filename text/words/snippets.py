"""Pieces of text: snippets around a query's words, estimates of tokens, escaped tags."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple
from xml.sax.saxutils import escape

import regex

from recall_loop.text.words.folding import MARKS, UNSPACED, fold
from recall_loop.text.words.passages import READ_CHARACTERS, passage
from recall_loop.text.words.segmentation import placed_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import words

ELLIPSIS = "\u2026"
# Besides marks, these belong to the character before them: joiners, Japanese half-width voicing.
_ATTACHED = "\u200d\u200c\uff9e\uff9f"
# Signs of Burmese and Khmer writing that bind the consonants on both sides into one.
_LINKERS = "\u1039\u17d2"
_CLUSTER = rf"[{UNSPACED}](?:[{MARKS}{_ATTACHED}]|(?<=[{_LINKERS}])[{UNSPACED}])*"
_CHUNK = re.compile(rf"(?P<run>(?:{_CLUSTER})+)|[^\s{UNSPACED}]+")
_CHARACTER = re.compile(_CLUSTER)
_PIECE = re.compile(rf"(?:[^\W_][{MARKS}{_ATTACHED}]*)+|[\W_]+")
_GRAPHEME_CLUSTER = regex.compile(r"\X")
_NOTHING: frozenset[str] = frozenset()


class _Chunk(NamedTuple):
    start: int
    end: int
    terms: frozenset[str]


def best_snippet(text: str, terms: Collection[str], limit: int) -> str:
    """Return the part of `text` with the most different `terms`, in at most `limit` characters.

    Args:
        text: The text to cut; outer white space is dropped. Of a long one only a passage is read.
        terms: Query terms as stems (`query_terms`).
        limit: Most characters (code points) of the result, including ellipses; below 1 gives "".

    The window begins and ends between words, with an ellipsis at each cut side, and grows evenly around the words
    that match. Of equal windows the first wins; without a match it is the start of the text. A word longer than the
    window is cut, but never inside a grapheme cluster: a single cluster longer than `limit` is left out.
    """
    whole = text.strip()
    if len(whole) <= limit:
        return whole
    if limit < 1:
        return ""
    whole = passage(whole, terms, max(READ_CHARACTERS, limit))
    size = max(limit - 2 * len(ELLIPSIS), 1)
    chunks = list(_chunks(whole, frozenset(terms), size))
    first, last = _widened(chunks, *_best_window(chunks, size), limit)
    return _shown(whole, chunks, first, last, limit)


def _chunks(text: str, wanted: frozenset[str], size: int) -> Iterator[_Chunk]:
    """Yield the words of `text` with adjoining punctuation; one that is too long comes in pieces."""
    for chunk in _CHUNK.finditer(text):
        start, end = chunk.span()
        if chunk["run"]:
            yield from _characters(text, start, end, wanted)
            continue
        for piece in [chunk] if end - start <= size else _PIECE.finditer(text, start, end):
            yield _Chunk(*piece.span(), _matching(piece.group(), wanted))


def _characters(text: str, start: int, end: int, wanted: frozenset[str]) -> Iterator[_Chunk]:
    """Yield the characters of a run without blanks, each with the terms whose words it stands in."""
    held: dict[int, set[str]] = {}
    for at, word in placed_words(text[start:end]) if wanted else ():
        if (term := fold(word)) in wanted:
            for place in range(start + at, start + at + len(word)):
                held.setdefault(place, set()).add(term)
    for character in _CHARACTER.finditer(text, start, end):
        yield _Chunk(*character.span(), frozenset(held.get(character.start(), ())))


def _matching(chunk: str, wanted: frozenset[str]) -> frozenset[str]:
    held = _stems_of(chunk) if wanted else wanted
    return _NOTHING if held.isdisjoint(wanted) else held & wanted


@lru_cache(maxsize=16_384)
def _stems_of(chunk: str) -> frozenset[str]:
    return frozenset(map(stem, words(chunk)))


def _best_window(chunks: list[_Chunk], size: int) -> tuple[int, int]:
    """Return the first and last chunk of the run within `size` characters that has the most different terms.

    Of runs with equally many, the one with more matching words wins, then the earlier one.
    """
    hits = [at for at, chunk in enumerate(chunks) if chunk.terms]
    counts: Counter[str] = Counter()
    best, best_rank, left = (0, 0), (0, 0), 0
    for right, at in enumerate(hits):
        counts.update(chunks[at].terms)
        while left < right and chunks[at].end - chunks[hits[left]].start > size:
            counts.subtract(chunks[hits[left]].terms)
            left += 1
        rank = (sum(count > 0 for count in counts.values()), right - left + 1)
        if rank > best_rank:
            best, best_rank = (hits[left], at), rank
    return best


def _widened(chunks: list[_Chunk], first: int, last: int, limit: int) -> tuple[int, int]:
    """Grow the window on both sides in turn, one word at a time, while it fits."""
    grown = True
    while grown:
        grown = False
        if last + 1 < len(chunks) and _length(chunks, first, last + 1) <= limit:
            last, grown = last + 1, True
        if first > 0 and _length(chunks, first - 1, last) <= limit:
            first, grown = first - 1, True
    return first, last


def _length(chunks: list[_Chunk], first: int, last: int) -> int:
    cut_sides = (first > 0) + (last + 1 < len(chunks))
    return chunks[last].end - chunks[first].start + cut_sides * len(ELLIPSIS)


def _shown(text: str, chunks: list[_Chunk], first: int, last: int, limit: int) -> str:
    start, end = chunks[first].start, chunks[last].end
    before = ELLIPSIS if first > 0 else ""
    after = ELLIPSIS if last + 1 < len(chunks) else ""
    if len(before) + end - start + len(after) <= limit:
        return before + text[start:end] + after
    before = before if limit > 2 * len(ELLIPSIS) else ""
    return before + _cut(text[start:end], limit - len(before) - len(ELLIPSIS)) + ELLIPSIS


def _cut(word: str, size: int) -> str:
    """Return the longest start of `word` of at most `size` characters that splits no grapheme cluster."""
    ends = (cluster.end() for cluster in _GRAPHEME_CLUSTER.finditer(word))
    return word[: max(takewhile(lambda end: end <= size, ends), default=0)]


def escape_text(text: str) -> str:
    """Return `text` on one line, with tag characters as entities."""
    return escape(" ".join(text.split()))


_TOKENS_PER_WORD = 1.3
CHARACTERS_PER_TOKEN = 4
"""Characters for which `estimate_tokens` counts at least one token."""
_LINE_BREAK_TOKENS = 1
_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"[^\w\s]")
_WIDE = re.compile(rf"[{UNSPACED}]|[^\x00-\u024f\s]")


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a common language model's tokenizer makes of `text`, rounded up.

    It is the largest of 1.3 for each word, one for each word and punctuation character, and a quarter of the number
    of characters; a character outside the Latin script counts as a token. Empty text gives 0. Long numbers and rare
    words may take up to half as much again.
    """
    narrow, wide = (text, 0) if text.isascii() else _WIDE.subn(" ", text)
    words, signs = len(_WORD.findall(narrow)), len(_SIGN.findall(narrow))
    by_length = (len(text) - wide) / CHARACTERS_PER_TOKEN
    return math.ceil(max(words * _TOKENS_PER_WORD, words + signs, by_length)) + wide


def fit_to_budget(texts: Iterable[str], budget: int) -> list[str]:
    """Return the longest prefix of `texts` whose estimate, one a line, is within `budget` tokens.

    Nothing is cut or skipped: the order is a ranking. A budget below the first text's estimate gives an empty list.
    """
    used, fitting = -_LINE_BREAK_TOKENS, list[str]()
    for text in texts:
        used += _LINE_BREAK_TOKENS + estimate_tokens(text)
        if used > budget:
            break
        fitting.append(text)
    return fitting
