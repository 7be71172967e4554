"""Of a long text a passage is read."""

from recall_loop.policy.evidence.pool_entries import fact_key
from recall_loop.state.records.records import ArchivalEntry
from recall_loop.text.words.passages import READ_CHARACTERS, SEARCHED_CHARACTERS, passage
from recall_loop.text.words.snippets import best_snippet
from recall_loop.text.words.tokens import query_terms, words

FILLER = "The quick brown fox jumps over the lazy dog. "
ANSWER = "Kettler Heating repairs the boiler for 340 euros."
TERMS = query_terms("Who repairs the boiler, and for how many euros?")


def filled(size: int) -> str:
    return (FILLER * (size // len(FILLER) + 1))[:size]


def test_a_passage_is_where_most_terms_are() -> None:
    """It has the size that is read, wherever the words are. Proves: GUARD-2."""
    for before in (0, 3_000, 30_000, 150_000):
        found = passage(f"{filled(before)} A boiler. {filled(5_000)}{ANSWER}{filled(100_000)}", TERMS)
        assert len(found) == READ_CHARACTERS
        assert ANSWER in found
    assert passage("short", TERMS) == "short"
    assert passage(filled(50_000), TERMS) == filled(50_000)[:READ_CHARACTERS]


def test_a_passage_has_whole_numbers_and_beginnings_of_words() -> None:
    """It was that of 1238 and "several", where 38 and "ral" stand in other words. Proves: GUARD-2, SEARCH-8."""
    terms = query_terms("Which RAL colour has room 38?")
    near = "Room 34 has several shelves, its colour is 1238, and there are 380 tins. "
    found = passage(f"{near}{filled(30_000)}Room 38 has the colour RAL 9010.{filled(30_000)}", terms)
    assert "RAL 9010" in found
    assert "9010\u53f7" in passage(f"{near}{filled(30_000)}\u623f38: 9010\u53f7{filled(30_000)}", ["38"])


def test_words_behind_what_is_searched_are_not_looked_for() -> None:
    """The work has an end. Proves: GUARD-2."""
    text = filled(SEARCHED_CHARACTERS + READ_CHARACTERS) + ANSWER
    assert passage(text, TERMS) == text[:READ_CHARACTERS]


def test_a_snippet_of_a_long_text_shows_the_words_asked_for() -> None:
    """Proves: GUARD-2, SEARCH-8."""
    assert "340 euros" in best_snippet(filled(120_000) + ANSWER + filled(800_000), TERMS, 240)


def test_long_texts_are_one_fact_only_as_they_are_written() -> None:
    """They aren't normalised; a difference behind what is read counts. Proves: GUARD-2, RANK-1."""
    text = filled(2 * READ_CHARACTERS)
    key = fact_key(ArchivalEntry(id="a", text=text))
    assert key == fact_key(ArchivalEntry(id="b", text=text))
    assert key != fact_key(ArchivalEntry(id="a", text=text + "!"))
    assert key != fact_key(ArchivalEntry(id="a", text=text[:-1] + "?"))


def test_words_of_mixed_scripts() -> None:
    """Runs of ASCII and others give the words that they give together. Proves: QUERY-3."""
    assert words("C++ für 1,000 Größe\u00a0東京 don’t\u2003naïve .NET") == [
        *("cpp", "fur", "1000", "grosse", "東京", "do", "naive", "dotnet"),
    ]
