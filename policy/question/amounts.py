"""Whether a text states an amount: a number, a word such as "several", or a time (CONF-3)."""

from __future__ import annotations

import re
from functools import lru_cache

from recall_loop.text.time.stated_times import says_when, without_times
from recall_loop.text.words.languages import language_words
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import text_language, words

_NUMBER_WORDS = word_set(
    """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen dozen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million once twice
    first second third couple"""
)
_AMOUNT_WORDS = word_set(
    """both half pair several few many lots plenty all none nobody nothing zero free daily weekly monthly yearly
    annually hourly always never rarely seldom sometimes often constantly time times each every baby newborn toddler
    teenager pensioner"""
)
# Han numerals have no blanks around them; a single one is part of many other words, unless a unit follows.
_HAN_UNITS = "个岁次位本条张只台天年周元块件层间套点歳才円匹つ"
_DIGIT = re.compile(rf"\d|[一二两三四五六七八九十百千万亿零]{{2}}|[二两三四五六七八九十百千万][{_HAN_UNITS}]")


@lru_cache(maxsize=4096)
def states_amount(text: str) -> bool:
    """Tell whether a text has a number, a word such as "several" or "every", or a time."""
    return has_quantity(text) or says_when(text)


@lru_cache(maxsize=4096)
def has_quantity(text: str) -> bool:
    """Tell whether a text has a number, or a word such as "several" or "every"."""
    if has_number(text):
        return True
    known = language_words().get(text_language(text))
    return not (known.amounts if known else _AMOUNT_WORDS).isdisjoint(words(text))


@lru_cache(maxsize=4096)
def has_quantity_besides_times(text: str) -> bool:
    """Tell whether a text has such a number or word outside of its times: "it opens at six" has none."""
    return has_quantity(text) and has_quantity(without_times(text))


def number_words(language: str) -> frozenset[str]:
    """Return a language's number words; the English ones if it has no list."""
    known = language_words().get(language)
    return known.numbers if known else _NUMBER_WORDS


@lru_cache(maxsize=4096)
def has_number(text: str) -> bool:
    """Tell whether a text has a number, in digits or in words."""
    found = words(text)
    return bool(_DIGIT.search(text)) or not number_words(text_language(text)).isdisjoint(found)
