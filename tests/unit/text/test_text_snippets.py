"""Snippets and token budgets."""

import pytest

from recall_loop.text.words.snippets import ELLIPSIS, best_snippet, estimate_tokens, fit_to_budget
from recall_loop.text.words.tokens import query_terms

FILLER = "The quick brown fox jumps over the lazy dog. " * 10
TEXT = f"{FILLER}A zebra stood. {FILLER}A rare zebra met a giraffe near the lake. {FILLER}"


def test_window_covers_most_terms() -> None:
    """The window with most different query terms wins over earlier ones. Proves: SEARCH-8."""
    shown = best_snippet(TEXT, query_terms("zebras and giraffes by the lake"), 60)
    assert "zebra met a giraffe near the lake" in shown
    assert shown.startswith(ELLIPSIS)
    assert shown.endswith(ELLIPSIS)
    assert len(shown) <= 60


def test_short_text_is_whole_and_no_match_gives_the_head() -> None:
    """Nothing is cut without need. Proves: SEARCH-8."""
    assert best_snippet("  short text ", ["x"], 100) == "short text"
    assert best_snippet(TEXT, ["absent"], 20) == f"The quick brown fox{ELLIPSIS}"
    assert best_snippet(TEXT, [], 20) == f"The quick brown fox{ELLIPSIS}"


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 10])
def test_tiny_limits_and_long_words(limit: int) -> None:
    """Even a single word never exceeds the limit. Proves: SEARCH-8."""
    assert len(best_snippet("x" * 300, ["x"], limit)) <= limit
    assert len(best_snippet(TEXT, ["giraff"], limit)) <= limit


def test_code_points_and_unspaced_scripts() -> None:
    """Marks stay with their letters; matches in unspaced text and addresses are found. Proves: SEARCH-8."""
    assert best_snippet("e\u0301" * 50, [], 4) == f"e\u0301{ELLIPSIS}"
    assert "大阪" in best_snippet("東京" * 50 + "大阪" + "東京" * 50, ["大阪"], 10)
    address = "https://example.com/" + "a/" * 100 + "zebra/" + "b/" * 100
    assert "zebra" in best_snippet(address, ["zebra"], 30)


def test_estimate_tokens() -> None:
    """The estimate is near what tokenizers give, rather above. Proves: LOOP-10."""
    assert estimate_tokens("") == 0
    assert 10 <= estimate_tokens("The quick brown fox jumps over the lazy dog.") <= 13
    assert estimate_tokens("東京に行く") == 5
    assert estimate_tokens("x" * 400) >= 100
    assert estimate_tokens("I don't know, maybe!") >= 7


def test_fit_keeps_the_head() -> None:
    """Texts go in by rank, and nothing is cut in two. Proves: LOOP-10."""
    texts = ["one two three", "four five six", "seven"]
    each = estimate_tokens(texts[0])
    assert fit_to_budget(texts, 1000) == texts
    assert fit_to_budget(texts, each) == texts[:1]
    assert fit_to_budget(texts, each - 1) == []
    assert fit_to_budget([], 5) == []
    assert estimate_tokens("\n".join(fit_to_budget(texts, 10))) <= 10
