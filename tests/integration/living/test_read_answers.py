"""What a memory's best records tell when they are read together with the question: its order and its sureness."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop.graph.memories.memory import Memory


def recalled(question: str, *told: str):
    """Return what a memory answers in which these messages were said, a day apart."""
    memory = Memory()
    for day, text in enumerate(told, 1):
        said = {"role": "user", "content": text, "created_at": datetime(2026, 3, day, tzinfo=UTC)}
        memory.add([said], user_id="ada", conversation_id=f"c{day}")
    return memory.recall(question, user_id="ada")


@pytest.mark.parametrize(
    ("told", "answered", "open_"),
    [
        ("My sister bought a car in March", "When did my sister buy a car?", "What make is my sister's car?"),
        ("The plumber comes on Friday at ten", "When does the plumber come?", "What is the plumber called?"),
        ("Meine Schwester wohnt seit Mai in Bremen", "Wo wohnt meine Schwester?", "Wie alt ist meine Schwester?"),
    ],
)
def test_a_property_that_is_not_told_is_less_sure(told: str, answered: str, open_: str) -> None:
    """Proves: CONF-3."""
    sure, unsure = recalled(answered, told).confidence, recalled(open_, told).confidence
    assert sure.score > unsure.score + 0.05
