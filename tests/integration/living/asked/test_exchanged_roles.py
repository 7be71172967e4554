"""Who owes me isn't told by whom I owe (CONF-3)."""

from __future__ import annotations

import pytest

from tests.integration.living.asked.labels import label


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Who owes me money?", "i owe ben 20 euros"),
        ("Who helped me move?", "I helped Tom move."),
        ("Wer schuldet mir Geld?", "Ich schulde Ben 20 Euro."),
        ("¿Quién me debe dinero?", "Debo 20 euros a Ben."),
        ("Кто мне должен деньги?", "Я должен Бену 20 евро."),
        ("谁欠我钱？", "我欠小明20块"),
    ],
)
def test_what_i_did_to_others_is_not_what_they_did_to_me(question: str, told: str) -> None:
    """Proves: CONF-3."""
    assert label(question, told) == "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Who owes me money?", "Anna owes me 5 euros."),
        ("Who do I owe money?", "I owe Ben 20 euros."),
        ("Who helped me move?", "I was helped by Tom to move."),
        ("Wem schulde ich Geld?", "Ich schulde Ben 20 Euro."),
        ("谁欠我钱？", "小明欠我20块"),
        ("Who owes me money?", "I think Ben owes me 20 euros."),
        ("Who lives with me?", "I live with Tom."),
        ("Qui travaille avec moi ?", "Je travaille avec Zoé."),
        ("Who met me in Rome?", "I met my wife Anna in Rome."),
    ],
)
def test_what_is_asked_for_is_believed(question: str, told: str) -> None:
    """Proves: CONF-3."""
    assert label(question, told) != "low"
