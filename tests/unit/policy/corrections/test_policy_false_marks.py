"""Words that look like a mark of change, or like something in common, and aren't (LIVE-4)."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.policy.facts.change_words import find_marks
from recall_loop.policy.question.answer_kinds import AnswerKind, asked_kind


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Gran's right eye was done in March.", "Gran's left eye is booked for May.", "Which eye did Gran have done?"),
        ("Interview at the museum on 30 April 2pm.", "Swimming for Ivy: now Mondays 4pm.", "When is my interview?"),
        (
            "Petra fährt sonntags wieder Rad.",
            "Kroatien ist wieder Thema, Toni will jetzt im Mai.",
            "Was macht Petra sonntags?",
        ),
    ],
)
def test_what_only_looks_alike_is_not_out_of_date(older: str, newer: str, question: str) -> None:
    """Proves: LIVE-4."""
    with Memory() as memory:
        for text in (older, newer):
            memory.add(text)
        found = memory.recall(question).facts
    assert found[0].text == older and not any(fact.superseded_by_hint for fact in found)


@pytest.mark.parametrize(
    ("said", "marked"),
    [
        ("250 left to pay", False),
        ("gran's left knee hurts", False),
        ("the left one is broken", False),
        ("tom's left the firm", True),
        ("she left in may", True),
    ],
)
def test_left_says_which_or_that_somebody_went(said: str, marked: bool) -> None:
    """Proves: LIVE-4."""
    assert ("over" in find_marks(said, "en")) is marked


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Во сколько обошёлся кухонный гарнитур?", AnswerKind.NUMBER),
        ("Во сколько нам встал ремонт?", AnswerKind.NUMBER),
        ("Во сколько поезд?", AnswerKind.DATE),
    ],
)
def test_at_how_much_may_be_a_price(question: str, kind: AnswerKind) -> None:
    """Proves: OPEN-4."""
    assert asked_kind(question, "ru") is kind
