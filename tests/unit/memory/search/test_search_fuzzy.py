"""Typo tolerance: which stems a query's words are widened by, and how a query is corrected."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from recall_loop.memory.search.query.fuzzy import (
    MAX_VARIANTS,
    WEIGHTS,
    corrected_query,
    expand_query,
)
from recall_loop.memory.search.query.spelling import SpellingIndex, SpellingVocabulary, has_digit
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.search import SearchParams
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import stems

WORDS = "paint research family run running adoption support group conference november camping running relationship"


def vocabulary(**frequencies: int) -> SpellingVocabulary:
    known = dict.fromkeys(map(stem, WORDS.split()), 10)
    return SpellingVocabulary(known | frequencies)


def added(query: str, known: SpellingVocabulary, level: int = 1) -> list[str]:
    return [text for group in expand_query(query, known, level) for text, weight in group.variants if weight < 1.0]


@pytest.mark.parametrize("query", ["The family paints", "reserch fmaily", "", "?!", "x 12 of"])
def test_level_0_gives_each_stem_alone(query):
    """Proves: SEARCH-2."""
    groups = expand_query(query, vocabulary(), 0)
    assert [group.stem for group in groups] == list(dict.fromkeys(stems(query)))
    assert all(group.variants == ((group.stem, 1.0),) for group in groups)
    assert corrected_query(query, vocabulary(), 0) is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("reserch", "research"),  # deleted
        ("ressearch", "research"),  # inserted
        ("rezearch", "research"),  # substituted
        ("reserach", "research"),  # two neighbours swapped: one step
        ("fmaily", "family"),
        ("runnign", "run"),  # the typo keeps the stemmer from seeing the ending
        ("adoptoin", "adopt"),
        ("campinf", "camp"),
        ("REZEARCH", "research"),
    ],
)
def test_one_typo_is_found_at_level_1(typed, meant):
    """Proves: SEARCH-2."""
    assert (stem(meant), WEIGHTS[1]) in expand_query(typed, vocabulary(), 1)[0].variants


def test_two_typos_are_found_at_level_2_only_and_weigh_less():
    """Proves: SEARCH-2."""
    assert added("relatinoshpi", vocabulary(), 1) == []
    assert expand_query("relatinoshpi", vocabulary(), 2)[0].variants == (
        ("relatinoshpi", 1.0),
        ("relationship", WEIGHTS[2]),
    )
    assert 0.0 < WEIGHTS[2] < WEIGHTS[1] < 1.0


def test_short_words_get_one_step_at_level_2():
    """Proves: SEARCH-2."""
    assert added("pxixt", vocabulary(), 2) == []
    assert added("paixt", vocabulary(), 2) == ["paint"]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    "query", ["2024", "rum", "rvn", "paint2", "grou9", "grupo@mail.example", "src/grou.py", "my_grouq", "liked"]
)
def test_numbers_identifiers_short_and_function_words_stay(query, level):
    """Proves: SEARCH-2."""
    known = vocabulary(**{"2025": 50, "paint3": 50, "group8": 50, "group": 90, "like": 9, "bike": 900, "mile": 90})
    assert added(query, known, level) == []
    assert corrected_query(query, known, level) is None


def test_a_stem_with_digits_is_not_a_variant():
    """Proves: SEARCH-2."""
    assert (
        added("routex", SpellingVocabulary({"route8": 5, "route": 2}), 2) == ["rout"]
        or added("routex", SpellingVocabulary({"route8": 5}), 2) == []
    )
    assert has_digit("route8") and has_digit("²x") and not has_digit("школа") and not has_digit("一二三四")


def test_a_known_word_is_widened_at_level_1_only_by_a_far_more_frequent_one():
    """Proves: SEARCH-2."""
    assert added("pant", vocabulary(pant=1, paint=49)) == []
    assert added("pant", vocabulary(pant=1, paint=50)) == ["paint"]
    assert added("pant", vocabulary(pant=10, paint=49), 2) == ["paint"]


def test_a_stem_without_rows_is_not_a_variant():
    """Proves: SEARCH-2."""
    assert added("pantt", SpellingVocabulary({"pant": 0})) == []


def test_order_is_steps_first_letter_frequency_alphabet():
    """Proves: SEARCH-2."""
    known = SpellingVocabulary({"corn": 5, "cord": 9, "core": 9, "born": 99, "corxn": 1})
    assert added("corb", known) == ["cord", "core", "corn"]
    assert added("corn", SpellingVocabulary({"born": 99, "cord": 1, "corks": 1}), 2) == ["cord", "born"]


def test_at_most_eight_variants_the_most_frequent():
    """Proves: SEARCH-2."""
    known = SpellingVocabulary({f"stra{letter}d": rank for rank, letter in enumerate("bcdfghjklmnp", 1)})
    found = added("strad", known)
    assert len(found) == MAX_VARIANTS and found[0] == "strapd"


def test_equal_stems_make_one_group():
    """Proves: SEARCH-2."""
    assert [group.stem for group in expand_query("running runs reserch running", vocabulary(), 1)] == ["run", "reserch"]


@pytest.mark.parametrize(
    ("typed", "meant"), [("москав", "москва"), ("Θεσσαλονκη", "θεσσαλονικ"), ("조카들이", "조카들의")]
)
def test_other_scripts(typed, meant):
    """Proves: SEARCH-2."""
    assert added(typed, SpellingVocabulary({meant: 3})) == [meant]


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("Whose fmaily went to the Confrence?", "Whose family went to the Conference?"),
        ("RESERCH on adoptoin", "RESEARCH on adoption"),
        ("Reserch/camping in the fmaily", "Research/camping in the family"),
        ("the gropu's camping", "the group's camping"),
        ("reserch-group, 12 times", "research-group, 12 times"),
    ],
)
def test_a_query_is_corrected_in_place(query, corrected):
    """Proves: SEARCH-2."""
    assert corrected_query(query, vocabulary(), 1) == corrected


@pytest.mark.parametrize("level", [1, 2])
def test_clean_words_stay_in_the_corrected_query(level):
    """Proves: SEARCH-2."""
    known = vocabulary(pain=40, point=40)
    assert corrected_query("The family paints with a running group", known, level) is None
    assert corrected_query("The fmaily paints", known, level) == "The family paints"


def test_an_unknown_word_without_anything_near_stays():
    """Proves: SEARCH-2."""
    assert corrected_query("Zanzibar", vocabulary(), 2) is None and added("Zanzibar", vocabulary(), 2) == []


def test_an_empty_vocabulary_changes_nothing():
    """Proves: SEARCH-2."""
    assert added("reserch", SpellingVocabulary({}), 2) == [] and SpellingIndex([]).within("reserch", 2) == []


@pytest.mark.parametrize("level", [-1, 3])
def test_an_unknown_level_is_refused(level):
    """Proves: SEARCH-2."""
    with pytest.raises(InvalidInputError, match="fuzzy"):
        validate_model(SearchParams, {"fuzzy": level})


def test_very_long_words_are_left_alone():
    """Proves: SEARCH-2."""
    assert added("a" * 65, SpellingVocabulary({"a" * 64: 3}), 2) == []
    assert added("b" + "a" * 63, SpellingVocabulary({"b" + "a" * 62: 3}), 2) == ["b" + "a" * 62]


def test_threads_get_the_same_answers():
    """Proves: SEARCH-2."""
    known = vocabulary()
    queries = ["reserch fmaily runnign", "gropu confrence", "adoptoin campinf"] * 20
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: expand_query(query, known, 2), queries))
    assert found == [expand_query(query, vocabulary(), 2) for query in queries]
