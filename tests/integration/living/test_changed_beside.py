"""A change of one thing that was told outdates nothing else that was told in the same sentence (LIVE-4)."""

from __future__ import annotations

import pytest

from recall_loop import Memory, RetrieveResult


def recalled(question: str, *told: str) -> RetrieveResult:
    between = ("The team meets on Tuesdays at ten.", "We watched a film about whales.")
    said = (told[0], *between, *told[1:])
    with Memory() as memory:
        for day, text in enumerate(said, 1):
            at = f"2025-06-0{day}T10:00:00Z"
            memory.add([{"role": "user", "content": text, "timestamp": at}], user_id="jonas")
        return memory.recall(question, user_id="jonas")


IN_ENGLISH = "Hi, I'm Jonas. I live in Kiel with my cat Mimi."


@pytest.mark.parametrize(
    ("told", "changed", "question"),
    [
        (IN_ENGLISH, "I moved to Hamburg.", "What is my cat's name?"),
        (IN_ENGLISH, "I moved to Hamburg.", "Do I have a cat?"),
        (IN_ENGLISH, "Ich bin nach Hamburg gezogen.", "Do I have a cat?"),
        ("Ich wohne in Kiel mit meiner Katze Mimi.", "Ich bin nach Hamburg gezogen.", "Wie heißt meine Katze?"),
        ("Vivo en Cádiz con mi gato Milo.", "Me mudé a Sevilla.", "¿Cómo se llama mi gato?"),
        ("J'habite à Lyon avec mon chat Milo.", "J'ai déménagé à Nantes.", "Comment s'appelle mon chat ?"),
    ],
)
def test_a_move_does_not_outdate_the_cat(told: str, changed: str, question: str) -> None:
    """It was shown as corrected, below the move. Proves: LIVE-4."""
    first = recalled(question, told, changed).facts[0]
    assert first.text == told and first.superseded_by_hint is None


@pytest.mark.parametrize("question", ["Where do I live?", "In what place am I living?", "Do I still live in Kiel?"])
def test_a_move_still_outdates_the_old_home(question: str) -> None:
    """Proves: LIVE-4."""
    best, older = recalled(question, IN_ENGLISH, "I moved to Hamburg.").facts[:2]
    assert best.text == "I moved to Hamburg."
    assert older.superseded_by_hint == best.id
