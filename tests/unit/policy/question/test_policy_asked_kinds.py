"""The kind of thing that a question asks for, and texts that mention a member (STOP-5)."""

from __future__ import annotations

import pytest

from recall_loop.policy.question.asked_kinds import NO_KIND, asked_kind_of

TOLD = [
    ("Which herb can't I stand?", "en", "herb", "Coriander tastes like soap to me."),
    ("What kind of boat do I own?", "en", "boat", "I bought a canoe."),
    ("Which musical instrument does Leo play?", "en", "instrument", "Leo has cello practice."),
    ("What's my favourite drink?", "en", "drink", "Ich trinke am liebsten Kaffee."),
    ("Welches Instrument spielt Leo?", "de", "instrument", "Leo has cello practice."),
    ("¿Qué deporte hago?", "es", "deport", "Los martes juego al tenis."),
    ("Quel fruit rend ma fille malade ?", "fr", "fruit", "Les fraises lui donnent des boutons."),
    ("Какой фрукт нельзя Мие?", "ru", "фрукт", "От клубники у Мии сыпь."),
    ("哪种水果让女儿过敏？", "zh", "水果", "女儿不能吃草莓。"),
]
NO_KINDS = [
    ("What makes her ill?", "en"),
    ("When do I play?", "en"),
    ("What is my name?", "en"),
]


@pytest.mark.parametrize(("question", "language", "kind", "text"), TOLD)
def test_a_member_shows_its_kind(question: str, language: str, kind: str, text: str) -> None:
    """In the language of the question or another one. Proves: STOP-5, OPEN-4."""
    asked = asked_kind_of(question, language)
    assert kind in asked.stems
    assert asked.stems_if_mentioned(text) == asked.stems
    assert asked.stems_if_mentioned("Carla lives in the house behind ours.") == frozenset()


@pytest.mark.parametrize(("question", "language"), NO_KINDS)
def test_other_questions_ask_for_no_kind(question: str, language: str) -> None:
    """If no noun follows the question word, or it is no kind. Proves: STOP-5."""
    assert asked_kind_of(question, language) is NO_KIND


def test_the_word_for_the_kind_names_no_member() -> None:
    """A drink is known to be wanted, not which. Proves: STOP-5."""
    assert asked_kind_of("What drink does Nina order?", "en").stems_if_mentioned("Nina wants a drink.") == frozenset()
