"""Snippets are cut between grapheme clusters only."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.text.words.snippets import ELLIPSIS, best_snippet

CLUSTERS = [
    "a",
    "e\u0301",
    "n\u0303\u0323",
    "\U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f",
    "1\ufe0f\u20e3",
    "\U0001f1e9\U0001f1ea",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    "\u1100\u1161\u11a8",
    "\uac00\u11a8",
    "\u0915\u094d\u0937",
    "\u0915\u094d\u200d\u0937\u093f",
    "\u1000\u1039\u1001",
    "\u1780\u17d2\u1798",
    "\u0646\u200c",
    "\uff76\uff9e",
]
# White space separates whatever stands beside it, and so does a sign that is written before a character.
_CLUSTER = regex.compile(r"(?!\p{Grapheme_Cluster_Break=Prepend})\X|.", regex.DOTALL)
PARTS = st.lists(st.sampled_from([*CLUSTERS, " ", "-", "word", "東"]), max_size=60)


def ends(parts: list[str]) -> set[int]:
    """Return the places between parts, and both ends."""
    places, at = {0}, 0
    for part in parts:
        at += len(part)
        places.add(at)
    return places


def splits_cluster(text: str, at: int) -> bool:
    """Tell whether a cut of `text` before the character at `at` splits a cluster."""
    if text[at - 1 : at].isspace() or text[at : at + 1].isspace():
        return False
    return at > 0 and at not in {cluster.end() for cluster in _CLUSTER.finditer(text)}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_cluster_is_never_split_and_ends_at_the_next(cluster: str) -> None:
    """Proves: SEARCH-8."""
    text = f"x{cluster}x{cluster}{cluster}東"
    allowed = ends(["x", cluster, "x", cluster, cluster, "東"])
    assert {at for at in range(len(text) + 1) if not splits_cluster(text, at)} == allowed
    shown = [best_snippet(text, [], limit).rstrip(ELLIPSIS) for limit in range(1, len(text) + 1)]
    assert {len(part) for part in shown} <= allowed
    assert all(text.startswith(part) for part in shown)


@given(PARTS, st.sets(st.sampled_from(["word", "a", "東"])), st.integers(1, 40))
def test_a_snippet_splits_no_cluster(parts: list[str], terms: set[str], limit: int) -> None:
    """Whatever is cut, what is shown begins and ends between characters as read. Proves: SEARCH-8."""
    text = "".join(parts).strip()
    shown = best_snippet(text, terms, limit)
    assert len(shown) <= limit
    if shown == text:
        return
    body = shown.strip(ELLIPSIS)
    places = [at for at in range(len(text)) if text.startswith(body, at)]
    assert places
    assert any(not splits_cluster(text, at) and not splits_cluster(text, at + len(body)) for at in places)
    assert shown.endswith(ELLIPSIS) or (shown.startswith(ELLIPSIS) and text.endswith(body))
    shown.encode("utf-8")


@given(st.text(max_size=120), st.integers(1, 30))
def test_a_snippet_of_any_text_splits_no_cluster(text: str, limit: int) -> None:
    """Proves: SEARCH-8."""
    whole = text.strip()
    shown = best_snippet(whole, [], limit)
    assert len(shown) <= limit
    if shown != whole and ELLIPSIS not in whole and (body := shown.strip(ELLIPSIS)):
        places = [at for at in range(len(whole)) if whole.startswith(body, at)]
        assert any(not splits_cluster(whole, at) and not splits_cluster(whole, at + len(body)) for at in places)


def test_a_cluster_longer_than_the_limit_is_left_out() -> None:
    """Proves: SEARCH-8."""
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    assert best_snippet(family, [], 4) == ELLIPSIS
    assert best_snippet(f"see {family} there", [], 8) == f"see{ELLIPSIS}"
