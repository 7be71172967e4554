"""How far a question depends on what was said before it, in each language."""

from __future__ import annotations

import pytest

from recall_loop.policy.question.follow_ups import Dependence, dependence
from recall_loop.text.words.tokens import text_language


def depends(text: str) -> Dependence:
    return dependence(text, (), text_language(text))


@pytest.mark.parametrize(
    "text",
    [
        "What is my cat's name?",
        "Where is the bike?",
        "Do I have a cat?",
        "Is there a bakery downtown?",
        "Wie heißt meine Katze?",
        "¿Dónde está la llave?",
        "¿Cómo se llama mi gato?",
        "Où est la clé ?",
        "Comment s'appelle mon chat ?",
        "Как зовут моего кота?",
        "我的猫叫什么名字？",
        "Hoe heet mijn kat?",
        "Waar is de sleutel?",
        "ジムは何曜日に行ってる?",
    ],
)
def test_a_question_that_says_what_it_is_about_depends_on_nothing(text: str) -> None:
    """It took names and topic of what was said before. Proves: QUERY-1."""
    assert depends(text) is Dependence.NONE


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live?",
        "Wo wohne ich?",
        "¿Dónde vivo?",
        "Où est-ce que j'habite ?",
        "Где я живу?",
        "我住在哪里？",
        "Waar woon ik?",
        "私はどこに住んでる?",
    ],
)
def test_what_one_asks_of_oneself_by_a_verb_alone_may_go_on(text: str) -> None:
    """Proves: QUERY-1."""
    assert depends(text) is Dependence.MATTER


@pytest.mark.parametrize(
    "text",
    [
        "And his wife?",
        "How old is she?",
        "Where?",
        "Why did he leave?",
        "Where did I put it?",
        "And my wife?",
        "What about my uncle?",
        "Which one do you recommend?",
        "Yes, for my family.",
        "und wann?",
        "Wie alt ist sie?",
        "Und meine Frau?",
        "¿Y mi mujer?",
        "¿Cuándo la compré?",
        "¿Cuándo empezó?",
        "Et ma femme ?",
        "Quand est-ce que je la paie ?",
        "Où habite-t-il ?",
        "А моя жена?",
        "Сколько ей лет?",
        "那我妻子呢？",
        "她多大了？",
        "En mijn vrouw?",
        "Hoe oud is ze?",
        "それはいつ?",
        "じゃあ、妻は?",
    ],
)
def test_a_follow_up_depends_on_what_was_said(text: str) -> None:
    """Proves: QUERY-1."""
    assert depends(text) is Dependence.WHOLE
