"""Composes an answer from cited sentences (LOOP-10)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from recall_loop.text.words.stop_words import word_set

NOT_IN_MEMORY = "Not in memory."
# For a failed search: it isn't known what memory holds.
NOT_SEARCHED = "I could not search the memory."
# Citations are added here, from `cites`; any brackets that a model writes are removed.
_OPEN_BRACKET = re.compile(r"\s*(?:\[[^\]]*)?$")
_BRACKETS = re.compile(r"\s*\[[^\]]*\]")
# The end of a sentence: after a word of three letters or a number, before a capital; not after an abbreviation.
_BOUNDARY = re.compile(r"(?<=[\w)\"”’]{2}[.!?])\s+(?=[\"“(]?[A-Z0-9])")
_ABBREVIATIONS = word_set("approx corp dept dr est etc gen inc jr lt ltd messrs mr mrs ms mt no prof sr st vs")
_LAST_WORD = re.compile(r"(\w+)\.$")


def cited_ids(numbers: Iterable[int], ids: Sequence[str]) -> list[str]:
    """Return the fact ids of 1-based memory numbers, in order; numbers without a memory are left out."""
    return list(dict.fromkeys(ids[number - 1] for number in numbers if 1 <= number <= len(ids)))


def format_citation(numbers: Iterable[int], ids: Sequence[str]) -> str:
    """Return the citation that ends a sentence, such as ` [m1][f2]`; empty without a valid number."""
    citation = "".join(f"[{name}]" for name in cited_ids(numbers, ids))
    return f" {citation}" if citation else ""


def strip_brackets(text: str) -> str:
    """Return text on one line, without its bracketed parts."""
    return " ".join(_BRACKETS.sub("", " ".join(text.split())).split())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text with their punctuation; abbreviations and initials don't end a sentence."""
    sentences: list[str] = []
    start = 0
    for gap in _BOUNDARY.finditer(text):
        word = _LAST_WORD.search(text[start : gap.start()])
        if word and (word[1].lower() in _ABBREVIATIONS or len(word[1]) == 1):
            continue
        sentences.append(text[start : gap.start()])
        start = gap.end()
    return [sentence for sentence in [*sentences, text[start:]] if sentence]


def compose_partial_answer(items: Sequence[tuple[Sequence[int], str]], ids: Sequence[str]) -> str:
    """Return the part of an unfinished answer that may be shown: a prefix of what `compose_answer` will return.

    Only the last sentence is unfinished; its part that can't change any more is shown.
    """
    if not items:
        return ""
    numbers, text = items[-1]
    finished = _cited_sentences(items[:-1], ids)
    sentences = split_sentences(strip_brackets(_OPEN_BRACKET.sub("", text))) if cited_ids(numbers, ids) else []
    finished += [sentence + format_citation(numbers, ids) for sentence in sentences[:-1]]
    return " ".join([*finished, *sentences[-1:]])


def compose_answer(items: Iterable[tuple[Sequence[int], str]], ids: Sequence[str]) -> str:
    """Return the text of all items, each sentence with its item's citation; "Not in memory." if nothing is left.

    Items without a valid citation are dropped.
    """
    return " ".join(_cited_sentences(items, ids)) or NOT_IN_MEMORY


def _cited_sentences(items: Iterable[tuple[Sequence[int], str]], ids: Sequence[str]) -> list[str]:
    return [
        sentence + format_citation(numbers, ids)
        for numbers, text in items
        if cited_ids(numbers, ids)
        for sentence in split_sentences(strip_brackets(text))
    ]
