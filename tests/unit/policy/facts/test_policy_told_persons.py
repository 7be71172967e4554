"""Whether somebody tells of a person, rather than addresses that person (CONF-4)."""

from __future__ import annotations

import pytest

from recall_loop.policy.facts.persons.told_persons import tells_of
from recall_loop.text.words.tokens import stems


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Ines", "Ines takes the bus on Mondays."),
        ("Ines", "The key to Ines's locker is lost."),
        ("Jonas", "Jonas hat am Freitag Klavier."),
        ("Lena", "Lenas Fahrrad steht im Keller."),
        ("Lucía", "Creo que Lucía no come gambas."),
        ("Chloé", "Hier Chloé est allée chez le dentiste."),
        ("Giulia", "Domani Giulia porta la chitarra."),
        ("Tiago", "O Tiago tem treino às quintas."),
        ("Daan", "Morgen gaat Daan naar de tandarts."),
        ("Маша", "Маша не ест орехи."),
        ("小明", "小明对花生过敏。"),
    ],
)
def test_who_is_named_within_a_sentence_is_told_of(name: str, text: str) -> None:
    """Proves: CONF-4."""
    assert tells_of(text, frozenset(stems(name)), frozenset())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Ines", "Hey Ines, that was a long day!"),
        ("Ines", "Thanks Ines! The cake was good."),
        ("Ines", "Ines did you find the key?"),
        ("Jonas", "Jonas, wo ist dein Helm?"),
        ("Lucía", "¿Vienes, Lucía? Ya está la cena."),
        ("Chloé", "Merci Chloé, à demain !"),
        ("小明", "小明，晚饭好了。"),
        ("Ines", "Ruben takes the bus on Mondays."),
    ],
)
def test_who_is_addressed_isnt_told_of(name: str, text: str) -> None:
    """Proves: CONF-4."""
    assert not tells_of(text, frozenset(stems(name)), frozenset())


def test_nobody_is_told_of_without_a_name() -> None:
    """Proves: CONF-4."""
    assert not tells_of("Ines takes the bus on Mondays.", frozenset(), frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "I told Ines that I moved to Cork.",
        "Ines asked whether I'm allergic to nuts.",
        "When Ines visited I found out that I am allergic to nuts.",
        "Le conté a Ines que me mudé a Cork.",
        "Ines hat gefragt, ob ich nach Cork gezogen bin.",
        "Ines's brother is allergic to nuts.",
        "Ines and Ruben came over. The ferry to Cork was late.",
    ],
)
def test_what_a_speaker_tells_of_somebody_else_isnt_told_of_the_named(text: str) -> None:
    """Proves: CONF-4."""
    assert not tells_of(text, frozenset(stems("Ines")), frozenset(stems("allergic moved")))


def test_of_several_sentences_that_on_the_matter_tells() -> None:
    """Proves: CONF-4."""
    text = "It rained all day. Ines is allergic to nuts."
    assert tells_of(text, frozenset(stems("Ines")), frozenset(stems("allergic")))
