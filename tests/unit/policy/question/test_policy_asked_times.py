"""Questions for anything that happened at some time (LIVE-4, CONF-3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import RetrieveRequest

ALONE = [
    "What did I do on Thursday?",
    "What happened yesterday?",
    "Was habe ich am Donnerstag gemacht?",
    "¿Qué hice el jueves?",
    "Qu'est-ce que j'ai fait jeudi ?",
    "¿Qué hice el 5 de mayo?",
    "Cosa ho fatto giovedì?",
    "Cosa ho fatto il 5 maggio?",
    "O que eu fiz na quinta-feira?",
    "O que eu fiz no dia 4 de maio?",
    "O que aconteceu semana passada?",
    "Что я делала в четверг?",
    "我星期四做了什么？",
    "木曜に何をした?",
    "Wat heb ik donderdag gedaan?",
]
MORE = [
    "Where was I on Thursday?",
    "How was Thursday?",
    "What did I eat on Thursday?",
    "What did Nina do on Thursday?",
    "Who called on Thursday?",
    "What did I do?",
    "Wo war ich am Donnerstag?",
    "Dove sono stato giovedì?",
    "O que eu comi ontem?",
    "木曜に何を食べた?",
    "Waar was ik donderdag?",
]


def alone(question: str) -> bool:
    request = RetrieveRequest(messages=[{"role": "user", "content": question}])
    return analyse_question(request, datetime(2026, 11, 23, 9, tzinfo=UTC)).asks_only_about_times


@pytest.mark.parametrize("question", ALONE)
def test_it_asks_for_nothing_but_a_time(question: str) -> None:
    """In each language. Proves: LIVE-4, OPEN-4."""
    assert alone(question)


@pytest.mark.parametrize("question", MORE)
def test_it_asks_for_more_than_a_time(question: str) -> None:
    """A place, a person, a way, a meal; or no time. Proves: LIVE-4."""
    assert not alone(question)


LAST = [
    "When did I last run?",
    "when was the last time I saw Ada",
    "When did I see Priya last?",
    "Who did I last run with?",
    "What did I pay for my last order?",
    "What was Ada's last job?",
    "Wann war ich zuletzt beim Arzt?",
    "Wann war ich das letzte Mal laufen?",
    "Was kostete meine letzte Bestellung?",
    "¿Cuándo fui por última vez al médico?",
    "cuando fue la ultima vez que corri",
    "Quand ai-je couru pour la dernière fois ?",
    "Quando sono andato l'ultima volta dal dentista?",
    "Quando foi a última vez que corri?",
    "Когда я последний раз был у врача?",
    "我上次去看牙医是什么时候？",
    "最後に歯医者に行ったのはいつ？",
    "Wanneer ben ik voor het laatst bij de tandarts geweest?",
]
NOT_LAST = [
    "What is her last name?",
    "How long did the battery last?",
    "Will the paint last until spring?",
    "What did I do last week?",
    "Where was I last Tuesday?",
    "What did I eat in the last few days?",
    "Was war letzte Woche?",
    "¿Qué hice la última semana?",
    "上周我做了什么？",
    "Wat deed ik vorige week?",
]


@pytest.mark.parametrize("question", LAST + NOT_LAST)
def test_a_question_for_the_last_time_of_something(question):
    """Proves: LIVE-4 (in every known language; a time, a name and a verb are something else)."""
    request = RetrieveRequest.model_validate({"messages": [{"content": question}]})
    found = analyse_question(request, datetime(2025, 7, 20, tzinfo=UTC))
    assert found.asks_last == (question in LAST)
    if found.asks_last:
        assert not {"last", "zuletzt", "ultima", "laatst", "上次", "最後"} & set(" ".join(found.phrases).split())
