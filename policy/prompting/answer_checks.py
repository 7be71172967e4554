"""A written answer out of cited sentences (LOOP-10)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from recall_loop.text.words.stop_words import word_set

NOT_IN_MEMORY = "Not in memory."
# Citations are put here, from `cites`: what a model writes in brackets is none.
_OPEN_BRACKET = re.compile(r"\s*(?:\[[^\]]*)?$")
_BRACKETS = re.compile(r"\s*\[[^\]]*\]")
# The end of a sentence: after a word of three letters or a number, before a capital; not after an abbreviation.
_BOUNDARY = re.compile(r"(?<=[\w)\"”’]{2}[.!?])\s+(?=[\"“(]?[A-Z0-9])")
_ABBREVIATIONS = word_set("approx corp dept dr est etc gen inc jr lt ltd messrs mr mrs ms mt no prof sr st vs")
_LAST_WORD = re.compile(r"(\w+)\.$")


def cited_ids(numbers: Iterable[int], ids: Sequence[str]) -> list[str]:
    """Return the fact ids of 1-based memory numbers, in order; numbers that no memory has are left out."""
    return list(dict.fromkeys(ids[number - 1] for number in numbers if 1 <= number <= len(ids)))


def format_citation(numbers: Iterable[int], ids: Sequence[str]) -> str:
    """Return the citation that ends a sentence, such as ` [m1][f2]`; empty without a valid number."""
    return "".join([" ", *(f"[{name}]" for name in found)]) if (found := cited_ids(numbers, ids)) else ""


def strip_brackets(text: str) -> str:
    """Return text on one line, without anything in brackets."""
    return " ".join(_BRACKETS.sub("", " ".join(text.split())).split())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with its sign at the end; abbreviations and initials end none."""
    found: list[str] = []
    start = 0
    for gap in _BOUNDARY.finditer(text):
        word = _LAST_WORD.search(text[start : gap.start()])
        if word and (word[1].lower() in _ABBREVIATIONS or len(word[1]) == 1):
            continue
        found.append(text[start : gap.start()])
        start = gap.end()
    return [sentence for sentence in [*found, text[start:]] if sentence]


def compose_partial_answer(items: Sequence[tuple[Sequence[int], str]], ids: Sequence[str]) -> str:
    """Return what may be shown of an answer that is still being written: a head of what `compose` will give.

    Only the last sentence is open; it is shown as far as it can't change any more.
    """
    if not items:
        return ""
    numbers, text = items[-1]
    done = _cited_sentences(items[:-1], ids)
    opened = split_sentences(strip_brackets(_OPEN_BRACKET.sub("", text))) if cited_ids(numbers, ids) else []
    done += [sentence + format_citation(numbers, ids) for sentence in opened[:-1]]
    return " ".join([*done, *opened[-1:]])


def compose_answer(items: Iterable[tuple[Sequence[int], str]], ids: Sequence[str]) -> str:
    """Return the text of all items, every sentence with its item's citation; items without a valid one are dropped.

    An answer of which nothing is left is "Not in memory.".
    """
    return " ".join(_cited_sentences(items, ids)) or NOT_IN_MEMORY


def _cited_sentences(items: Iterable[tuple[Sequence[int], str]], ids: Sequence[str]) -> list[str]:
    return [
        sentence + format_citation(numbers, ids)
        for numbers, text in items
        if cited_ids(numbers, ids)
        for sentence in split_sentences(strip_brackets(text))
    ]
