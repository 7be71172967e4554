"""Questions about a day: records of that day come first, with confidence (LIVE-4, CONF-3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop import Memory

SAID = [
    ("2026-11-18", "Ran 8 km along the canal."),
    ("2026-11-19", "Finished reading Piranesi."),
    ("2026-11-19", "Booked the train to Ghent, 14 January, 39 euros."),
    ("2026-11-20", "Dentist: one filling."),
    ("2026-11-20", "Dad's 70th is on 12 December, we're giving him a kayak trip."),
    ("2026-11-21", "Bowl came out of the kiln, cracked."),
    ("2026-11-21", "Ran 10 km, slow."),
    ("2026-11-22", "Cancelled the train to Ghent, got 20 euros back."),
]


@pytest.fixture(scope="module")
def memory():
    with Memory() as filled:
        for day, text in SAID:
            filled.add([{"role": "user", "content": text, "created_at": f"{day}T09:00:00Z"}], user_id="u")
        yield filled


@pytest.mark.parametrize(
    ("question", "day"), [("What did I do on Thursday?", "19"), ("What did I do yesterday?", "22")]
)
def test_what_is_from_the_asked_day_comes_first(memory, question, day):
    """What was undone later was done then all the same. Proves: LIVE-4, CONF-3."""
    recalled = memory.recall(question, user_id="u", reference_time=datetime(2026, 11, 23, 9, tzinfo=UTC))
    from_day = {text for date, text in SAID if date.endswith(day)}
    assert {fact.text for fact in recalled.facts[: len(from_day)]} == from_day
    assert recalled.confidence.label != "low"


def test_of_a_day_without_anything_confidence_is_low(memory):
    """Other days tell nothing of it. Proves: CONF-3."""
    asked = "What did I do on Tuesday?"
    recalled = memory.recall(asked, user_id="u", reference_time=datetime(2026, 11, 23, 9, tzinfo=UTC))
    assert recalled.confidence.label == "low"


def test_who_asks_where_they_were_asks_for_more_than_the_day(memory):
    """What was read on a train tells no place. Proves: CONF-3."""
    asked = "Where was I on Thursday?"
    recalled = memory.recall(asked, user_id="u", reference_time=datetime(2026, 11, 23, 9, tzinfo=UTC))
    assert recalled.confidence.label == "low"
