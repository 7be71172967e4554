"""Questions for a list, in each language (PIECES-1)."""

from __future__ import annotations

import pytest

from recall_loop.policy.question.lists import list_request
from recall_loop.text.words.tokens import text_language


def asked(text: str, *names: str):
    return list_request(text, text_language(text), names)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Which sports has Kevin played?", "sports"),
        ("What kinds of food do I like?", "food"),
        ("What are Joanna's hobbies?", "hobbies"),
        ("What are the names of Audrey's dogs?", "dogs"),
        ("How many tournaments has Nate won?", "tournaments"),
        ("List all of the books that I read", "books"),
        ("what has she painted", ""),
        ("where have they been?", ""),
        ("How many times have they been to Rome?", ""),
        ("Welche Sportarten hat Kevin gespielt?", "Sportarten"),
        ("Wo waren sie schon überall?", ""),
        ("Wie viele Male waren sie in Rom?", ""),
        ("¿Qué deportes ha practicado Kevin?", "deportes"),
        ("¿Qué ha pintado ella?", ""),
        ("¿Cuántas veces han estado en Roma?", ""),
        ("Quels sports Kevin a-t-il pratiqués ?", "sports"),
        ("Où sont-ils allés ?", ""),
        ("Combien de fois sont-ils allés à Rome ?", ""),
        ("Quali sport ha praticato Kevin?", "sport"),
        ("Che libri ho letto?", "libri"),
        ("Dove siamo stati?", ""),
        ("Quante volte sono stati a Roma?", ""),
        ("Quais esportes o Kevin praticou?", "esportes"),
        ("Que livros eu li?", "livros"),
        ("Quantas vezes eles foram a Roma?", ""),
        ("Какими видами спорта занимался Кевин?", "спорта"),
        ("Где они побывали?", ""),
        ("Сколько раз они были в Риме?", ""),
        ("凯文玩过哪些运动？", "运动"),
        ("她画过什么？", ""),
        ("他们去过几次罗马？", ""),
        ("どんなスポーツをしましたか", "スポーツ"),
        ("ローマには何回行きましたか", ""),
        ("Welke sporten heeft Kevin gedaan?", "sporten"),
        ("Waar zijn ze allemaal geweest?", ""),
    ],
)
def test_lists_are_recognised(text, kind):
    """By a plural, a kind of something, an open perfect or a count. Proves: PIECES-1."""
    wanted = asked(text, "Kevin", "Joanna", "Audrey", "Nate")
    assert wanted is not None
    assert wanted.kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "When did Kevin play golf?",
        "Which city does Kevin live in?",
        "Which bus goes home?",
        "What does Kevin's boss want?",
        "What is my name?",
        "Che lavoro faccio?",
        "Che cosa ho mangiato?",
        "Que horas são?",
        "O que eu comi ontem?",
        "What art does she make?",
        "Wie heißt mein Hund?",
        "¿Qué es esto?",
        "Quel est son nom ?",
        "Какой сегодня день?",
        "凯文的生日是哪天？",
        "猫の名前は?",
        "Hoe heet mijn hond?",
        "",
    ],
)
def test_single_things_are_no_lists(text):
    """A question for one thing is none. Proves: PIECES-1."""
    assert asked(text, "Kevin") is None


def test_form_is_what_else_the_question_says():
    """Without names and the kind itself. Proves: PIECES-1."""
    assert asked("Which books has Tim read in Rome?", "Tim").form == ("read", "rome")
