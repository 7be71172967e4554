"""Titled records that the question or other records refer to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from recall_loop.policy.evidence.ranking import rank_entries
from recall_loop.policy.evidence.repeats import demote_duplicates
from recall_loop.policy.question.titles import crowded_titles, entry_title, title_references, without_qualifier
from recall_loop.state.settings.settings import Settings

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
PLAIN = Settings(rank_reference_weight=0.0)


def entry(name: str, text: str, label: str | None = None, relevance: float = 0.5, kind: str = "archival") -> Any:
    return {
        "key": f"key:{name}",
        "record": {"id": name, "kind": kind, "text": text, "label": label},
        "window": "",
        "similarity": relevance,
        "relevance": relevance,
        "alignment": [],
        "matches": [{"query": "q", "score": relevance}],
        "evidence": [],
        "evidence_keys": [name],
        "first_iteration": 1,
        "is_new": False,
        "legs": {},
    }


FERRY = entry("ferry", "Its owner is Ulvey Lines, founded by two sisters.", "The Heron (ferry)", 0.8)
LINES = entry("lines", "A company of the north coast.", "Ulvey Lines", 0.3)
OTHER = entry("other", "A company of the south coast.", "Lines of Ulvey", 0.3)


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("The Heron (ferry)", "The Heron"),
        ("Heron (ferry) (1990)", "Heron (ferry)"),
        ("NASA", "NASA"),
        ("\u65e5\u672c\u8a9e", "\u65e5\u672c\u8a9e"),
        ("(Draft)", "(Draft)"),
        ("Thanks :)", "Thanks :)"),
    ],
)
def test_a_title_is_a_label_without_what_is_in_brackets_at_its_end(label: str, title: str) -> None:
    """Proves: RANK-3."""
    assert entry_title(entry("x", "text", label)) == label
    assert without_qualifier(label) == title


@pytest.mark.parametrize(
    "label", ["travel notes", "Q3", "2024-05-01", "---", "T" * 201, "Plan" + " " * 60_000 + "x", None]
)
def test_what_is_no_title(label: str | None) -> None:
    """Proves: RANK-3."""
    assert entry_title(entry("x", "text", label)) is None


def test_only_archival_entries_have_titles() -> None:
    """Proves: RANK-3."""
    assert entry_title(entry("x", "text", "The Heron", kind="trajectory")) is None


def test_a_title_in_a_found_text_counts_as_much_as_that_is_relevant() -> None:
    """Proves: RANK-3."""
    assert title_references([FERRY, LINES, OTHER], "Who founded the owner?") == {"key:lines": 0.8}


def test_a_title_in_the_question_counts_most() -> None:
    """Proves: RANK-3."""
    assert title_references([FERRY, LINES], "Who owns The Heron?")["key:ferry"] == 1.0


@pytest.mark.parametrize("text", ["Ulvey Linesman", "ulvey lines", "McUlvey Lines", "Ulvey  Lines"])
def test_a_title_counts_where_it_stands_as_whole_words(text: str) -> None:
    """Proves: RANK-3."""
    assert title_references([entry("a", text, relevance=0.9), LINES], "") == {}
    assert title_references([entry("a", f"{text}, and Ulvey Lines.", relevance=0.9), LINES], "") == {"key:lines": 0.9}


def test_a_record_does_not_refer_to_itself() -> None:
    """Proves: RANK-3."""
    assert title_references([entry("a", "Ulvey Lines is a company.", "Ulvey Lines", 0.9)], "") == {}


def test_what_a_relevant_fact_names_passes_what_nobody_names() -> None:
    """Proves: RANK-3, RANK-4 (and no score leaves [0,1])."""
    pool = [FERRY, LINES, {**OTHER, "relevance": 0.31}]
    order = [item.entry["record"]["id"] for item in rank_entries(pool, PLAIN, NOW)]
    assert order == ["ferry", "other", "lines"]
    ranked = rank_entries(pool, Settings(), NOW)
    assert [item.entry["record"]["id"] for item in ranked] == ["ferry", "lines", "other"]
    assert [item.components["reference"] for item in ranked] == pytest.approx([0.0, 0.04, 0.0])
    assert all(0.0 <= item.score <= 1.0 for item in ranked)
    best = [entry("b", "The Heron sails.", "Heron", 1.0), entry("c", "Heron", "The Heron", 1.0)]
    assert all(item.score <= 1.0 for item in rank_entries(best, Settings(rank_reference_weight=1.0), NOW, "The Heron"))


def test_pieces_of_one_text_do_not_refer_to_each_other() -> None:
    """Proves: RANK-3."""
    pieces = [entry(name, "Ulvey Lines sails.", "Ulvey Lines", 0.9) for name in "abc"]
    assert title_references(pieces, "") == {}
    assert title_references([*pieces, FERRY], "") == dict.fromkeys(["key:a", "key:b", "key:c"], 0.8)


def test_a_name_of_several_things_counts_for_each_of_them_and_they_do_not_crowd_each_other() -> None:
    """Proves: RANK-3."""
    planets = [entry(kind, f"about the {kind}", f"Mercury ({kind})") for kind in ("planet", "element", "myth")]
    assert title_references([entry("t", "Mercury is hot.", relevance=0.9), *planets], "").keys() == {
        each["key"] for each in planets
    }
    assert crowded_titles([entry_title(each) for each in planets]) == [False, False, False]


def test_the_third_of_a_title_and_those_after_it_are_crowded() -> None:
    """Proves: RANK-3."""
    assert crowded_titles(["A", None, "A", "B", "A", None, "A"]) == [False, False, False, False, True, False, True]


def order(pool: list[Any], crowding: float) -> list[tuple[str, float]]:
    ranked = demote_duplicates(rank_entries(pool, Settings(), NOW), 0.9, crowding)
    return [(item.entry["record"]["id"], item.score) for item in ranked]


def test_pieces_of_one_text_leave_room_for_others_and_keep_their_order() -> None:
    """Proves: RANK-3, RANK-4 (scores stay what the order follows)."""
    pieces = [entry(f"p{9 - at}", f"piece {at} of {at}", "The Harbour", 0.5 - at / 1000) for at in range(5)]
    pool = [*pieces, entry("z", "about another place", "The Mole", 0.48)]
    names = [name for name, _ in order(pool, 0.1)]
    assert names == ["p9", "p8", "z", "p7", "p6", "p5"]
    assert [name for name, _ in order(pool, 0.0)] == ["p9", "p8", "p7", "p6", "p5", "z"]
    for crowding in (0.1, 1.0):
        scores = [score for _, score in order(pool, crowding)]
        assert scores == sorted(scores, reverse=True)
    assert [name for name, _ in order(pool, 1.0)] == names


def test_a_relevant_piece_is_not_lost_behind_what_is_irrelevant() -> None:
    """Proves: RANK-4."""
    pieces = [entry(f"p{at:02}", f"piece {at} of {at}", "Travel", 0.9 - at / 1000) for at in range(40)]
    names = [name for name, _ in order([*pieces, entry("z", "something else", None, 0.5)], 0.1)]
    assert names == [*(f"p{at:02}" for at in range(40)), "z"]


def test_near_duplicates_do_not_count_as_pieces() -> None:
    """Proves: RANK-3."""
    same = [entry(name, "the very same words here", "The Harbour", 0.5) for name in "ab"]
    pool = [*same, entry("c", "quite another piece", "The Harbour", 0.49), entry("d", "a mole", "The Mole", 0.48)]
    assert [name for name, _ in order(pool, 0.1)] == ["a", "c", "d", "b"]


def test_labels_in_small_letters_are_categories() -> None:
    """Proves: RANK-3."""
    notes = [entry(f"p{at}", f"piece {at} of {at}", "notes", 0.5 - at / 1000) for at in range(5)]
    assert order(notes, 0.1) == order(notes, 0.0)
