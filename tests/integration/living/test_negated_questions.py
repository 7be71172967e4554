"""What is denied comes first where the question denies it, and what is affirmed where it doesn't. Proves: SEARCH-3."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.text.speech.negations import is_negated


@pytest.mark.parametrize(
    ("told", "denied", "negated", "plain"),
    [
        (
            ["Jonas eats a lot of pasta.", "Jonas often eats with Anna."],
            "Jonas does not eat meat.",
            "What doesn't Jonas eat?",
            "What does Jonas eat?",
        ),
        (
            ["Jonas isst gern Nudeln.", "Jonas isst oft mit Anna."],
            "Jonas isst kein Fleisch.",
            "Was isst Jonas nicht?",
            "Was isst Jonas?",
        ),
        (["Jonas come mucha pasta."], "Jonas no come carne.", "¿Qué no come Jonas?", "¿Qué come Jonas?"),
        (
            ["Jonas mange des pâtes."],
            "Jonas ne mange pas de viande.",
            "Qu'est-ce que Jonas ne mange pas ?",
            "Que mange Jonas ?",
        ),
        (["Йонас ест макароны."], "Йонас не ест мясо.", "Чего не ест Йонас?", "Что ест Йонас?"),
        (["约纳斯吃面条。"], "约纳斯不吃肉。", "约纳斯不吃什么？", "约纳斯吃什么？"),
    ],
)
def test_negated_questions_get_what_is_denied(told, denied, negated, plain):
    """Proves: SEARCH-3."""
    with Memory() as memory:
        memory.add([*told, denied])
        assert memory.recall(negated).facts[0].text == denied
        assert memory.recall(plain).facts[0].text != denied


def test_whether_something_is_so_still_gets_that_it_is_not():
    """Proves: SEARCH-3."""
    with Memory() as memory:
        memory.add(["Jonas eats pasta.", "Jonas doesn't eat meat."])
        assert memory.recall("Does Jonas eat meat?").facts[0].text == "Jonas doesn't eat meat."


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("Jonas doesn't eat meat.", True),
        ("Jonas doesn\u2019t eat meat.", True),
        ("Jonas eats meat.", False),
        ("Jonas isst kein Fleisch.", True),
        ("Jonas non mangia carne.", True),
        ("O Jonas não come carne.", True),
        ("O Jonas come carne.", False),
        ("约纳斯不吃肉。", True),
        ("Not once " + "did he look at the sea " * 5, False),
    ],
)
def test_short_texts_are_negated_by_a_word(text, negated):
    """Proves: SEARCH-3."""
    assert is_negated(text) is negated


def test_what_is_denied_is_no_repeat_of_what_is_affirmed():
    """Proves: LIVE-6."""
    with Memory() as memory:
        memory.add(["I like green tea in the morning.", "I don't like green tea in the morning."])
        assert len(memory.recall("Do I like green tea?").facts) == 2
