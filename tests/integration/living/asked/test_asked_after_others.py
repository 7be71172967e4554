"""A question that says what it is about is answered as well after other turns as alone (QUERY-1, LIVE-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory, RetrieveResult, retrieve

TOLD = (
    "Hi, I'm Jonas. I live in Kiel with my cat Mimi.",
    "The repair of the bike was finished on Monday.",
    "Lena is allergic to nuts.",
    "Das Fahrrad ist in der Werkstatt.",
    "We watched a film about whales.",
)


def asked(question: str, *before: str) -> RetrieveResult:
    replies = [("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate((*before, question))]
    with Memory() as memory:
        memory.add([{"role": "user", "content": text} for text in TOLD], user_id="u")
        messages = [{"role": role, "content": text} for role, text in replies]
        return retrieve({"messages": messages, "user_id": "u"}, store=memory.store)


@pytest.mark.parametrize(
    ("question", "before"),
    [
        ("Where do I live?", "Was kostet die Reparatur vom Fahrrad?"),
        ("What is my cat's name?", "What is Lena allergic to?"),
        ("Do I have a cat?", "What is Lena allergic to?"),
    ],
)
def test_a_question_is_answered_after_another_as_if_asked_alone(question: str, before: str) -> None:
    """What had been asked before was taken for whom it is about: the score fell to 0. Proves: QUERY-1, LIVE-3."""
    alone, after = asked(question), asked(question, before, "Nothing in memory about that.")
    assert after.facts[0].text == alone.facts[0].text == TOLD[0]
    assert after.confidence.score >= alone.confidence.score - 0.01
    assert "low" not in (alone.confidence.label, after.confidence.label)


def test_a_follow_up_still_takes_whom_it_is_about_from_the_turn_before() -> None:
    """Proves: QUERY-1."""
    assert asked("What is she allergic to?", "Do you know Lena?", "Yes.").facts[0].text == TOLD[2]
