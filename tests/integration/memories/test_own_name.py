"""One's own name: told as people introduce themselves, and asked for plainly (OPEN-4, CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory

LIVES = [
    ("Hi, I'm Giulia.", "What's my name?", ["My cat is called Mouse.", "My sister Carla lives in Turin."]),
    ("Hallo, ich bin Giulia.", "Wie heiße ich?", ["Meine Katze heißt Maus.", "Meine Schwester Carla lebt in Turin."]),
    ("Hola, soy Giulia.", "¿Cómo me llamo?", ["Mi gata se llama Nube.", "Mi hermana Carla vive en Turín."]),
    ("Moi c'est Giulia.", "Comment je m'appelle ?", ["Mon chat s'appelle Souris.", "Le loyer est de 800 euros."]),
    ("Привет, я Джулия.", "Как меня зовут?", ["Мою кошку зовут Мышка.", "Моя сестра Карла живёт в Турине."]),
    ("hola! soy ana, vivo con pablo", "¿cómo me llamo?", ["mi gata se llama nube.", "el alquiler son 800 euros."]),
    ("叫我小朱吧。", "我叫什么名字？", ["我的猫叫小鼠。", "我妹妹卡拉住在都灵。"]),
]


@pytest.mark.parametrize(("told", "question", "others"), LIVES)
def test_an_introduction_states_the_name(told: str, question: str, others: list[str]) -> None:
    """It comes before what a cat is called, with more than low confidence. Proves: OPEN-4."""
    with Memory() as memory:
        for text in (others[0], told, *others[1:]):
            memory.add(text, user_id="u")
        recalled = memory.recall(question, user_id="u")
        assert recalled.facts[0].text == told
        assert recalled.confidence.label != "low"


@pytest.mark.parametrize(("told", "question", "others"), LIVES)
def test_what_another_is_called_is_no_answer(told: str, question: str, others: list[str]) -> None:
    """Where nobody told their name, confidence is low. Proves: CONF-3."""
    with Memory() as memory:
        for text in others:
            memory.add(text, user_id="u")
        assert memory.recall(question, user_id="u").confidence.label == "low"


def test_the_plain_words_are_shown_nowhere() -> None:
    """Neither in what is found, nor beside it. Proves: OPEN-4."""
    with Memory() as memory:
        said = [{"role": "user", "content": "Hi, I'm Giulia."}, {"role": "assistant", "content": "Hello Giulia!"}]
        memory.add(said, user_id="u", conversation_id="c")
        recalled = memory.recall("What's my name?", user_id="u")
    assert "I am called" not in recalled.model_dump_json()


def test_an_introduction_tells_no_middle_name() -> None:
    """Who is called Sam may have any. Proves: CONF-3."""
    with Memory() as memory:
        memory.add("Call me Sam, nobody says Samantha.", user_id="u")
        assert memory.recall("What's my middle name?", user_id="u").confidence.label == "low"
