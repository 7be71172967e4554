"""Typo tolerance against a plain reading of its rules."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from recall_loop.memory.search.query.fuzzy import (
    MAX_VARIANTS,
    WEIGHTS,
    corrected_query,
    expand_query,
)
from recall_loop.memory.search.query.spelling import SpellingIndex, SpellingVocabulary, has_digit
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems, words
from recall_loop.text.words.verb_forms import word_events

SPELT = st.text("abcé", min_size=1, max_size=8) | st.text(string.ascii_lowercase + "123 жя", min_size=1, max_size=12)
FREQUENCIES = st.dictionaries(st.text("abcé1", min_size=1, max_size=8), st.integers(0, 200), max_size=30)
QUERIES = st.lists(SPELT, max_size=6).map(" ".join)
LEVELS = st.sampled_from([0, 1, 2])


def steps(one: str, other: str) -> int:
    """Optimal string alignment, written out: the definition that the fast way must agree with."""
    table = [
        [row + column if not row or not column else 0 for column in range(len(other) + 1)]
        for row in range(len(one) + 1)
    ]
    for row in range(1, len(one) + 1):
        for column in range(1, len(other) + 1):
            best = min(
                table[row - 1][column] + 1,
                table[row][column - 1] + 1,
                table[row - 1][column - 1] + (one[row - 1] != other[column - 1]),
            )
            if row > 1 and column > 1 and one[row - 1] == other[column - 2] and one[row - 2] == other[column - 1]:
                best = min(best, table[row - 2][column - 2] + 1)
            table[row][column] = best
    return table[-1][-1]


@given(st.lists(SPELT, max_size=20, unique=True), SPELT, st.sampled_from([1, 2]))
def test_nothing_near_is_missed_and_nothing_far_found(held, asked, most):
    """Proves: SEARCH-2."""
    found = SpellingIndex(held).within(asked, most)
    wanted = {text: steps(text, asked) for text in held if len(text) >= 3 and not has_digit(text)}
    assert sorted(found) == sorted((text, count) for text, count in wanted.items() if 1 <= count <= most)


@given(QUERIES, FREQUENCIES, LEVELS)
def test_groups_keep_the_query_and_bound_what_is_added(query, frequencies, level):
    """In English, where a word has one form; the events that tell of a state are no typos. Proves: SEARCH-2."""
    events = {event for word in words(query) for event in word_events(word, "en")}
    groups = expand_query(query, SpellingVocabulary(frequencies), level, "en")
    assert [group.stem for group in groups] == list(dict.fromkeys(stems(query, "en")))
    for group in groups:
        (own, exact), *others = group.variants
        added = [variant for variant in others if variant[0] not in events]
        assert (own, exact) == (group.stem, 1.0)
        assert len(added) <= (MAX_VARIANTS if level else 0)
        assert len(dict(group.variants)) == len(group.variants)
        for text, weight in added:
            assert 0.0 < weight < exact and weight in WEIGHTS.values()
            assert frequencies[text] > 0 and not has_digit(text) and not has_digit(group.stem)
            assert level == 2 or weight == WEIGHTS[1]


@given(QUERIES, FREQUENCIES, LEVELS)
def test_the_same_vocabulary_gives_the_same_answer_in_any_order(query, frequencies, level):
    """Proves: SEARCH-2."""
    turned = SpellingVocabulary(dict(reversed(frequencies.items())))
    known = SpellingVocabulary(frequencies)
    first = expand_query(query, known, level), corrected_query(query, known, level)
    assert first == (expand_query(query, known, level), corrected_query(query, known, level))
    assert first == (expand_query(query, turned, level), corrected_query(query, turned, level))


@given(st.text(string.ascii_lowercase, min_size=5, max_size=12), st.data())
def test_two_swapped_neighbours_count_as_one_step(word, data):
    """Proves: SEARCH-2."""
    at = data.draw(st.integers(1, len(word) - 2))
    typed = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if typed != word:
        assert SpellingIndex([word]).within(typed, 1) == [(word, 1)]


@given(st.lists(st.text(string.ascii_lowercase, min_size=4, max_size=10), min_size=1, max_size=6), LEVELS)
def test_a_query_of_known_words_is_never_corrected(spelt, level):
    """Proves: SEARCH-2."""
    known = SpellingVocabulary({stem(word): 3 for word in spelt})
    assert corrected_query(" ".join(spelt), known, level) is None
