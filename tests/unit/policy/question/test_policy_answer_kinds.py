"""The kind of answer that a question asks for (STOP-5, OPEN-4)."""

from __future__ import annotations

import pytest

from recall_loop.policy.question.answer_kinds import AnswerKind, asked_kind, asks_who_is
from recall_loop.text.words.tokens import text_language

DATE, NUMBER, PERSON = AnswerKind.DATE, AnswerKind.NUMBER, AnswerKind.PERSON


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("When do I eat?", DATE),
        ("At what time do we meet?", DATE),
        ("Do you know when the train leaves?", DATE),
        ("How old is the dog?", NUMBER),
        ("With whom did I travel when I was in Rome?", PERSON),
        ("Um wie viel Uhr fährt der Zug?", DATE),
        ("Wie viele Räder habe ich?", NUMBER),
        ("Mit wem war ich in Rom?", PERSON),
        ("¿Cuándo llega el tren?", DATE),
        ("¿Quién llamó cuando yo no estaba?", PERSON),
        ("À quelle heure part le train ?", DATE),
        ("Quel âge a le chien ?", NUMBER),
        ("A che ora ci vediamo?", DATE),
        ("Quand'è l'esame?", DATE),
        ("Quanti anni ha il cane?", NUMBER),
        ("Con chi sono stato a Roma?", PERSON),
        ("A que horas a gente se encontra?", DATE),
        ("Em que dia tenho judô?", DATE),
        ("Quantos anos tem o cachorro?", NUMBER),
        ("Quem ligou quando eu não estava?", PERSON),
        ("Когда у меня дзюдо?", DATE),
        ("Сколько лет собаке?", NUMBER),
        ("我什么时候练柔道？", DATE),
        ("我姐姐多大了？", NUMBER),
        ("柔道は何曜日だっけ?", DATE),
        ("会議は何時からですか", DATE),
        ("会議は何時間ですか", NUMBER),
        ("家賃はいくら?", NUMBER),
        ("誰と金沢に行った?", PERSON),
        ("Hoe laat vertrekt de trein?", DATE),
        ("Hoe oud is de hond?", NUMBER),
        ("Met wie was ik in Rome?", PERSON),
    ],
)
def test_kind(question: str, kind: AnswerKind) -> None:
    """Of several question words the first one tells it. Proves: STOP-5, OPEN-4."""
    assert asked_kind(question, text_language(question)) is kind


@pytest.mark.parametrize(
    "question",
    [
        "What do I do when I'm sad?",
        "Which rules do I follow when I eat?",
        "In which town does the man live who called?",
        "Was mache ich, wann immer es regnet?",
        "¿Qué hago cuando llueve?",
        "Qu'est-ce que je fais quand il pleut ?",
        "Cosa faccio quando piove?",
        "O que eu faço quando chove?",
        "Что я делаю, когда идёт дождь?",
        "下雨的时候我做什么？",
        "いつも何を飲む?",
        "Wat doe ik wanneer het regent?",
    ],
)
def test_clause_asks_nothing(question: str) -> None:
    """A clause that says when or who is no question for it. Proves: STOP-5, OPEN-4."""
    assert asked_kind(question, text_language(question)) is None


WHO_IS = [
    ("who is Dr Lindqvist?", "Dr Lindqvist"),
    ("Who's Ada?", "Ada"),
    ("Wer ist Dr. Behrens?", "Dr. Behrens"),
    ("¿Quién es Marta?", "Marta"),
    ("C'est qui, Luc ?", "Luc"),
    ("Qui est Luc ?", "Luc"),
    ("Chi è Luca?", "Luca"),
    ("Quem é a Joana?", "Joana"),
    ("Wie is Joost?", "Joost"),
    ("Кто такая Маша?", "Маша"),
]
WHO_ELSE = [
    ("Who is Ada's dentist?", "Ada"),
    ("Who likes Ada?", "Ada"),
    ("Who has Biscuit?", "Biscuit"),
    ("Who was with Ada?", "Ada"),
    ("Wer ist bei Malte?", "Malte"),
    ("¿Quién es el jefe de Marta?", "Marta"),
]


@pytest.mark.parametrize(("question", "name"), WHO_IS + WHO_ELSE)
def test_a_question_who_a_named_person_is(question: str, name: str) -> None:
    """Proves: OPEN-4."""
    assert asks_who_is(question, name, text_language(question)) == ((question, name) in WHO_IS)
