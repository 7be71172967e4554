"""Pieces of text: snippets around a query's words, token estimates, escaped tags."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
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
# Signs of the Burmese and Khmer scripts that join the consonants on both sides.
_LINKERS = "\u1039\u17d2"
_CLUSTER = rf"[{UNSPACED}](?:[{MARKS}{_ATTACHED}]|(?<=[{_LINKERS}])[{UNSPACED}])*"
_CHUNK = re.compile(rf"(?P<run>(?:{_CLUSTER})+)|[^\s{UNSPACED}]+")
_CHARACTER = re.compile(_CLUSTER)
# Common characters that nothing is attached to.
_SINGLE_CHARACTERS = re.compile("[\u4e00-\u9fff]+")
_PIECE = re.compile(rf"(?:[^\W_][{MARKS}{_ATTACHED}]*)+|[\W_]+")
_GRAPHEME_CLUSTER = regex.compile(r"\X")
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Chunks:
    """The words of a text: the start and end of each, and by index the terms of those that have any."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    terms: dict[int, Collection[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, start: int, end: int, terms: Collection[str]) -> None:
        """Add the next word."""
        if terms:
            self.terms[len(self.starts)] = terms
        self.starts.append(start)
        self.ends.append(end)


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
    chunks = _read_chunks(whole, frozenset(terms), size)
    first, last = _widened(chunks, *_best_window(chunks, size), limit)
    return _shown(whole, chunks, first, last, limit)


def _read_chunks(text: str, wanted: frozenset[str], size: int) -> _Chunks:
    """Return the words of `text` with adjoining punctuation; one that is too long is split into pieces."""
    chunks = _Chunks()
    for chunk in _CHUNK.finditer(text):
        start, end = chunk.span()
        if chunk["run"]:
            _add_characters(chunks, text, start, end, wanted)
        elif end - start <= size:
            chunks.add(start, end, _matching(chunk.group(), wanted))
        else:
            for piece in _PIECE.finditer(text, start, end):
                chunks.add(*piece.span(), _matching(piece.group(), wanted))
    return chunks


def _add_characters(chunks: _Chunks, text: str, start: int, end: int, wanted: frozenset[str]) -> None:
    """Add the characters of a run without blanks, each with the terms of the words that it is part of."""
    held: dict[int, set[str]] = {}
    run = text[start:end]
    folded = fold(run)
    may_hold = any(term in folded for term in wanted)
    for at, word in placed_words(run) if may_hold else ():
        if (term := fold(word)) in wanted:
            for place in range(start + at, start + at + len(word)):
                held.setdefault(place, set()).add(term)
    if held or not _SINGLE_CHARACTERS.fullmatch(run):
        for character in _CHARACTER.finditer(text, start, end):
            chunks.add(*character.span(), held.get(character.start(), _NOTHING))
    else:
        chunks.starts.extend(range(start, end))
        chunks.ends.extend(range(start + 1, end + 1))


def _matching(chunk: str, wanted: frozenset[str]) -> frozenset[str]:
    held = _stems_of(chunk) if wanted else wanted
    return _NOTHING if held.isdisjoint(wanted) else held & wanted


@lru_cache(maxsize=16_384)
def _stems_of(chunk: str) -> frozenset[str]:
    return frozenset(map(stem, words(chunk)))


def _best_window(chunks: _Chunks, size: int) -> tuple[int, int]:
    """Return the first and last chunk of the run within `size` characters that has the most different terms.

    Of runs with equally many, the one with more matching words wins, then the earlier one.
    """
    hits = list(chunks.terms)
    counts: Counter[str] = Counter()
    best, best_rank, left = (0, 0), (0, 0), 0
    for right, at in enumerate(hits):
        counts.update(chunks.terms[at])
        while left < right and chunks.ends[at] - chunks.starts[hits[left]] > size:
            counts.subtract(chunks.terms[hits[left]])
            left += 1
        rank = (sum(count > 0 for count in counts.values()), right - left + 1)
        if rank > best_rank:
            best, best_rank = (hits[left], at), rank
    return best


def _widened(chunks: _Chunks, first: int, last: int, limit: int) -> tuple[int, int]:
    """Grow the window on both sides in turn, one word at a time, while it fits."""
    grown = True
    while grown:
        grown = False
        if last + 1 < len(chunks) and _length(chunks, first, last + 1) <= limit:
            last, grown = last + 1, True
        if first > 0 and _length(chunks, first - 1, last) <= limit:
            first, grown = first - 1, True
    return first, last


def _length(chunks: _Chunks, first: int, last: int) -> int:
    cut_sides = (first > 0) + (last + 1 < len(chunks))
    return chunks.ends[last] - chunks.starts[first] + cut_sides * len(ELLIPSIS)


def _shown(text: str, chunks: _Chunks, first: int, last: int, limit: int) -> str:
    start, end = chunks.starts[first], chunks.ends[last]
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
    """Estimate the number of tokens of `text` in a common language model's tokenizer, rounded up.

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
