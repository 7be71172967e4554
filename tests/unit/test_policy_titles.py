"""Titled records that the question or other records refer to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from recall_loop.policy.ranking import rank
from recall_loop.policy.titles import crowding, references, title_of
from recall_loop.state.settings import Settings

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
PLAIN = Settings(rank_reference_weight=0.0)


def entry(name: str, text: str, label: str | None = None, relevance: float = 0.5, kind: str = "archival") -> Any:
    return {
        "key": f"key:{name}",
        "record": {"id": name, "kind": kind, "text": text, "label": label},
        "window": "",
        "similarity": relevance,
        "relevance": relevance,
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
        ("travel notes", None),
        ("Q3", None),
        ("(draft)", None),
        (None, None),
    ],
)
def test_a_title_is_a_name_without_what_is_in_brackets(label: str | None, title: str | None) -> None:
    """Proves: RANK-3."""
    assert title_of(entry("x", "text", label)) == title


def test_only_archival_entries_have_titles() -> None:
    """Proves: RANK-3."""
    assert title_of(entry("x", "text", "The Heron", kind="trajectory")) is None


def test_a_title_in_a_found_text_counts_as_much_as_that_is_relevant() -> None:
    """Proves: RANK-3."""
    assert references([FERRY, LINES, OTHER], "Who founded the owner?") == {"key:lines": 0.8}


def test_a_title_in_the_question_counts_most() -> None:
    """Proves: RANK-3."""
    assert references([FERRY, LINES], "Who owns The Heron?")["key:ferry"] == 1.0


@pytest.mark.parametrize("text", ["Ulvey Linesman", "ulvey lines", "McUlvey Lines", "Ulvey  Lines"])
def test_a_title_counts_where_it_stands_as_whole_words(text: str) -> None:
    """Proves: RANK-3."""
    assert references([entry("a", text, relevance=0.9), LINES], "") == {}
    assert references([entry("a", f"{text}, and Ulvey Lines.", relevance=0.9), LINES], "") == {"key:lines": 0.9}


def test_a_record_does_not_refer_to_itself() -> None:
    """Proves: RANK-3."""
    assert references([entry("a", "Ulvey Lines is a company.", "Ulvey Lines", 0.9)], "") == {}


def test_what_a_relevant_fact_names_passes_what_nobody_names() -> None:
    """Proves: RANK-3, RANK-4 (and no score leaves [0,1])."""
    pool = [FERRY, LINES, {**OTHER, "relevance": 0.31}]
    order = [item.entry["record"]["id"] for item in rank(pool, PLAIN, NOW)]
    assert order == ["ferry", "other", "lines"]
    ranked = rank(pool, Settings(), NOW)
    assert [item.entry["record"]["id"] for item in ranked] == ["ferry", "lines", "other"]
    assert [item.components["reference"] for item in ranked] == pytest.approx([0.0, 0.04, 0.0])
    assert all(0.0 <= item.score <= 1.0 for item in ranked)
    best = [entry("b", "The Heron sails.", "Heron", 1.0), entry("c", "Heron", "The Heron", 1.0)]
    assert all(item.score <= 1.0 for item in rank(best, Settings(rank_reference_weight=1.0), NOW, None, "The Heron"))


def test_the_third_of_a_title_and_those_after_it_count() -> None:
    """Proves: RANK-3."""
    assert crowding(["A", None, "A", "B", "A", None, "A"]) == [0, 0, 0, 0, 1, 0, 2]


def test_pieces_of_one_text_leave_room_for_others() -> None:
    """Proves: RANK-3 (scores stay what the order follows, and none falls below 0)."""
    pieces = [entry(f"p{at}", f"piece {at}", "The Harbour", 0.5 - at / 1000) for at in range(5)]
    pool = [*pieces, entry("z", "about another place", "The Mole", 0.48)]
    assert [item.entry["record"]["id"] for item in rank(pool, Settings(), NOW)] == ["p0", "p1", "z", "p2", "p3", "p4"]
    without = rank(pool, Settings(rank_crowding_weight=0.0), NOW)
    assert [item.entry["record"]["id"] for item in without] == ["p0", "p1", "p2", "p3", "p4", "z"]
    scores = [item.score for item in rank(pool, Settings(rank_crowding_weight=1.0), NOW)]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == 0.0
    notes = [{**each, "record": {**each["record"], "label": "notes"}} for each in pieces]
    assert [item.entry["record"]["id"] for item in rank([*notes, pool[-1]], Settings(), NOW)][-1] == "z"
