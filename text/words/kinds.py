"""Which words are members of a kind ("sport": golf, karate …), in six languages (PIECES-1).

For English by a tree of nouns (`kinds.txt`), made from WordNet by `benchmarks/words/make_kinds.py` without rare
meanings of words. A kind with hardly a member of its own ("hobby", "pet") is taken for the next wider one. For other
languages, and for what the tree has elsewhere, by a table of everyday kinds (`everyday_kinds.tsv`).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from recall_loop.text.packaged_data import packaged_text
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import words

# Fewer members than this are no list of what may be told; the kind above, at most two levels, is taken instead.
FEW_MEMBERS = 5
# More than these are no kind that a word tells: "thing", "event".
MOST_MEMBERS = 4000
_MOST_LEVELS_UP = 2
_ENDINGS = (("s", ""), ("ies", "y"), ("es", ""), ("ves", "f"), ("ves", "fe"))
_IRREGULAR = {"children": "child", "men": "man", "women": "woman", "people": "person", "kids": "child"}
_KIND_WORDS = 2
# Words for anything; WordNet has meanings of them with members ("the thing": the latest, a pill).
_ANYTHING = frozenset({"thing", "things"})


@lru_cache(maxsize=256)
def members_of(kind: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Return the words for things of a kind, each once, folded, those of the table first.

    () for what isn't known as a kind, and for one that is too wide to tell anything.

    Args:
        kind: a noun phrase, singular or plural; its last two words are looked up, or else the last one.
        language: its language (ISO 639-1).
    """
    everyday = _everyday_members(kind, language)
    if language != ENGLISH:
        return everyday
    below = (member for each in everyday for member in _members_in_tree(each))
    return tuple(dict.fromkeys((*everyday, *_members_in_tree(kind), *below)))


def _everyday_members(kind: str, language: str) -> tuple[str, ...]:
    table, found = _everyday(language), words(kind)
    keys = (" ".join(stem(word, language) for word in found[-length:]) for length in (_KIND_WORDS, 1))
    return next((table[key] for key in keys if key in table), ())


@cache
def _everyday(language: str) -> Mapping[str, tuple[str, ...]]:
    """Return the members of a language's everyday kinds by the stems of the kind.

    Other languages are left alone: to cut their words may take a dictionary of their own.
    """
    table: dict[str, tuple[str, ...]] = {}
    for line in packaged_text(__package__, "everyday_kinds.tsv").splitlines():
        if line.startswith("#"):
            continue
        known, kinds, members = line.split("\t")
        for kind in fold(kinds).split("|") if known == language else ():
            table[" ".join(stem(word, language) for word in words(kind))] = tuple(fold(members).split("|"))
    return table


@lru_cache(maxsize=1024)
def _members_in_tree(kind: str) -> tuple[str, ...]:
    found = fold(kind).split()
    for length in range(min(_KIND_WORDS, len(found)), 0, -1):
        for name in _singular(" ".join(found[-length:])):
            lines = [] if name in _ANYTHING else _lines_of(name)
            many = [members for members in map(_below, lines) if len(members) >= FEW_MEMBERS]
            below = list(chain.from_iterable(many or map(_enough_below, lines)))
            if below:
                members = tuple(word for word in dict.fromkeys(below) if word != name)
                return members if len(members) <= MOST_MEMBERS else ()
    return ()


def _singular(phrase: str) -> Iterator[str]:
    """Yield a phrase as the tree may have it: with its last word in the singular, and as written."""
    head, _, last = phrase.rpartition(" ")
    before = f"{head} " if head else ""
    if last in _IRREGULAR:
        yield before + _IRREGULAR[last]
    yield from (before + last[: -len(end)] + single for end, single in _ENDINGS if last.endswith(end))
    yield phrase


class _Tree(NamedTuple):
    """The tree as it is written, and where each line begins: an object for each line would take much more memory."""

    text: str
    starts: array[int]

    def depth(self, number: int) -> int:
        """Return how deep a line stands, from 0."""
        start = self.starts[number]
        return int(self.text[start : self.text.index("\t", start)])

    def above(self, number: int) -> int:
        """Return the number of the line under which one stands; its own where it stands under none."""
        depth = self.depth(number)
        at = self.text.rfind(f"\n{depth - 1}\t", 0, self.starts[number])
        return number if at < 0 else bisect_right(self.starts, at + 1) - 1

    def below(self, number: int) -> str:
        """Return the lines that stand under one."""
        start = self.starts[number + 1]
        end = _not_deeper(self.depth(number)).search(self.text, start - 1)
        return self.text[start : end.start() + 1 if end else len(self.text)]

    def numbers_of(self, name: str) -> Iterator[int]:
        """Yield the numbers of the lines that have a name, with or without "~" before it, ascending.

        The text is long: it is read once for both, and what merely ends like the name is left out.
        """
        end = f"{name}|"
        at = self.text.find(end)
        while at >= 0:
            if self.text[at - 2 : at].removesuffix("~").endswith("|"):
                yield bisect_right(self.starts, at) - 1
            at = self.text.find(end, at + 1)


@cache
def _tree() -> _Tree:
    text = packaged_text(__package__, "kinds.txt")
    text = text[text.index("\n0\t") + 1 :]  # behind the comment
    return _Tree(text, array("L", chain((0,), (end.end() for end in re.finditer("\n", text)))))


def _lines_of(name: str) -> list[int]:
    """Return the numbers of the lines of a kind's meanings, in their order."""
    return list(dict.fromkeys(_tree().numbers_of(name)))


def _enough_below(number: int) -> list[str]:
    """Return the members of a meaning, or of one above it where they are few."""
    members = _below(number)
    for _ in range(_MOST_LEVELS_UP):
        if len(members) >= FEW_MEMBERS:
            break
        number = _tree().above(number)
        members = _below(number)
    return members


def _below(number: int) -> list[str]:
    lines = (line.split("|")[1:-1] for line in _tree().below(number).splitlines())
    return [word for names in lines for word in names if word and not word.startswith("~")]


@cache
def _not_deeper(depth: int) -> re.Pattern[str]:
    """Return what begins a line of at most a depth, behind the end of the line before it."""
    return re.compile(rf"\n(?:{'|'.join(map(str, range(depth + 1)))})\t")
