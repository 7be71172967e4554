"""How sure a memory of two messages is of an answer."""

from __future__ import annotations

from recall_loop import Memory


def label(question: str, told: str) -> str:
    """Return the label of the answer to a question where `told` and a matter of its own were said."""
    with Memory() as memory:
        memory.add([told, "I bought the blue sofa."], user_id="ada")
        return memory.recall(question, user_id="ada").confidence.label
