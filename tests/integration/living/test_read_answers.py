"""What a memory's best records tell when they are read together with the question: its order and its sureness."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from recall_loop.graph.memories.memory import Memory
from recall_loop.memory.store.embed import answer_reader
from recall_loop.memory.store.embed.weight_patch import WeightPatch


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


@pytest.mark.parametrize(
    ("question", "answer", "others"),
    [
        (
            "What phone do I have?",
            "bought the Fairphone instead, 599, green",
            ["Need a new phone. thinking Pixel 10 but it's 899"],
        ),
        (
            "What was my half marathon time?",
            "did it in 1:57:40!!!",
            ["I run the half marathon on 2 November, aiming for under two hours"],
        ),
        (
            "When is my dentist appointment?",
            "they gave me Tuesday the 14th at half past three for the teeth",
            [
                "I need to make an appointment with the dentist",
                "Calling the dentist about an appointment again",
                "My dentist never has an appointment free",
                "An appointment at my dentist takes ages",
            ],
        ),
        (
            "Wann ist mein Termin beim Zahnarzt?",
            "sie haben mir Dienstag den 14. um halb vier gegeben, für die Zähne",
            [
                "Ich brauche einen Termin beim Zahnarzt",
                "Wegen eines Termins beim Zahnarzt angerufen",
                "Beim Zahnarzt ist nie ein Termin frei",
                "Ein Termin beim Zahnarzt dauert ewig",
            ],
        ),
    ],
)
def test_what_answers_comes_before_what_is_on_the_matter(question: str, answer: str, others: list[str]) -> None:
    """Proves: RANK-3, LIVE-4 (what is nearer to the question in words doesn't hold what it asks for)."""
    facts = recalled(question, *others, answer, "The vet said Biscuit needs two teeth out").facts
    assert facts[0].text == answer
    scores = [fact.score for fact in facts]
    assert scores == sorted(scores, reverse=True)


def test_a_damaged_reader_leaves_the_result_degraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: CONF-3 (a file that isn't the shipped one is told of, and the facts come all the same)."""
    damaged = tmp_path / "reader.npz"
    damaged.write_bytes(answer_reader.READER_PATCH.file.read_bytes()[:-1])
    monkeypatch.setattr(answer_reader, "READER_PATCH", WeightPatch(damaged, "0" * 64))
    result = recalled("When does the ferry leave?", "The ferry leaves at nine.")
    assert [fact.text for fact in result.facts] == ["The ferry leaves at nine."]
    assert result.degraded and "facts not read with the question" in " ".join(result.warnings)
    assert result.confidence.signals["read_best"] == 0.0
