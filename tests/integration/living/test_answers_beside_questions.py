"""Answers that follow their own question, and "none" as an answer, stay answers (LIVE-2, CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory

SELF_ANSWERED = [
    (
        "Who fixed the leaking boiler in the cellar? The boiler was fixed by a cousin of ours.",
        "Who fixed the leaking boiler in the cellar?",
    ),
    (
        "Wo habe ich die Pässe der Kinder hingelegt? Die Pässe müssen hinter dem Spiegel sein.",
        "Wo habe ich die Pässe der Kinder hingelegt?",
    ),
    (
        "Qui a réparé la chaudière de la cave ? La chaudière a été réparée par un cousin.",
        "Qui a réparé la chaudière de la cave ?",
    ),
]
NONE = [
    ("I grew up as an only child, without siblings.", "How many siblings do I have?", "You don't have any siblings."),
    ("Die Kinder von Rosa? Rosa hat keine Kinder.", "Wie viele Kinder hat Rosa?", "Rosa hat keine Kinder."),
]
LISTED = [
    ("The concert tickets: adults 35. Kids 20.", "How much are the concert tickets?"),
    ("Haircut prices at Lou's. Men 25. Women 45.", "How much is a haircut at Lou's?"),
    ("Museum, Eintritt: Erwachsene 12. Kinder 6.", "Was kostet der Eintritt ins Museum?"),
]


@pytest.mark.parametrize(("told", "question"), SELF_ANSWERED)
def test_an_answer_behind_its_own_question_is_found(told: str, question: str) -> None:
    """Proves: LIVE-2."""
    with Memory() as memory:
        memory.add([{"role": "user", "content": f"Note {at}: the ferry to pier {at} was late."} for at in range(30)])
        memory.add([{"id": "told", "role": "user", "content": told}])
        assert memory.recall(question).facts[0].id == "told"


@pytest.mark.parametrize(("told", "question", "reply"), NONE)
def test_that_there_is_none_is_an_answer(told: str, question: str, reply: str) -> None:
    """Proves: CONF-3."""
    said = [("user", told), ("user", question), ("assistant", reply)]
    with Memory() as memory:
        for at, (role, text) in enumerate(said):
            stamp = f"2024-05-{1 + 10 * (at > 0):02}T10:0{at}:00Z"
            memory.add([{"role": role, "content": text, "timestamp": stamp}], conversation_id="c")
        assert memory.recall(question).confidence.label != "low"


@pytest.mark.parametrize(("told", "question"), LISTED)
def test_numbers_behind_words_in_a_list_of_prices_are_prices(told: str, question: str) -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(told)
        assert memory.recall(question).confidence.label != "low"


def test_a_size_is_no_price() -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add("I bought a gravel bike, size 56, green, from a garage in Lavis.")
        assert memory.recall("How much did the gravel bike cost?").confidence.label == "low"
