"""A question that was asked before, with a reason beside it, is no answer to itself (LIVE-1, LIVE-2)."""

from __future__ import annotations

import pytest

from recall_loop import Memory

ASKED_WITH_A_REASON = [
    ("Which exam board is Toby's maths with?", "Which exam board is Toby's maths with? I have to print past papers"),
    (
        "Wann läuft der Mietvertrag aus?",
        "wann läuft eigentlich der mietvertrag aus? sollt ich vor dem unterschreiben wissen",
    ),
    ("¿De qué marca es el pienso del gato?", "De qué marca es el pienso del gato? que voy a pedirlo por internet"),
    ("Quel est le code wifi des voisins ?", "c'est quoi le code wifi des voisins, tu l'as ?"),
    ("Какой корм прописал ветеринар?", "какой корм прописал ветеринар? в магазине стою"),
    ("双桥子的房东姓什么？", "双桥子这个房东姓什么来着？物业要填表"),
]
DECLINED = [
    ("Which exam board is Toby's maths with?", "The exam board of Toby's maths hasn't come up, so I can't say."),
    ("Ist Olga geimpft?", "Über Olgas Impfung weiß ich nichts, da hilft der Impfpass."),
    ("¿De qué marca es el pienso del gato?", "No me dijo la marca del pienso del gato."),
    ("Qu'a dit l'ophtalmo pour Jules ?", "Non, tu m'as seulement dit que Jules avait vu l'ophtalmo."),
    ("Какая у меня зарплата?", "Такой суммы у меня нет, ты о зарплате не писал."),
    ("邓医生的电话是多少？", "我这里没有邓医生的电话。"),
]


@pytest.mark.parametrize(("question", "asked"), ASKED_WITH_A_REASON)
def test_a_reason_beside_the_question_is_no_answer(question: str, asked: str) -> None:
    """Proves: LIVE-2."""
    with Memory() as memory:
        memory.add([asked], user_id="ada")
        assert memory.recall(question, user_id="ada").confidence.label == "low"


@pytest.mark.parametrize(("question", "reply"), DECLINED)
def test_an_assistant_that_was_not_told_tells_nothing(question: str, reply: str) -> None:
    """Proves: LIVE-1, LIVE-2."""
    with Memory() as memory:
        memory.add([{"role": "assistant", "text": reply}], user_id="ada")
        assert memory.recall(question, user_id="ada").confidence.label == "low"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is the calf called?", "What shall we call the calf? Biscuit, I think, she is so brown."),
        ("How much was the sofa?", "Did I tell you about the sofa? We paid 340 euros."),
        ("What is wrong with Mia?", "Should I take Mia to the vet? She is limping."),
    ],
)
def test_an_answer_beside_the_question_still_counts(question: str, said: str) -> None:
    """Proves: LIVE-2."""
    with Memory() as memory:
        memory.add([said, "The bins go out on Tuesday."], user_id="ada")
        result = memory.recall(question, user_id="ada")
    assert result.facts[0].text == said and said in result.context


def test_what_was_said_after_it_wasnt_known_is_the_answer() -> None:
    """Proves: LIVE-2."""
    asked = "How long does the loan for the van run?"
    with Memory() as memory:
        memory.add(
            [
                {"role": "user", "content": "The van needs a new exhaust before the inspection."},
                {"role": "user", "content": asked},
                {"role": "assistant", "content": "I don't know, you haven't told me yet."},
                {"role": "user", "content": "My wife says until February 2026."},
                {"role": "user", "content": "We loaded the van with a long table for the fair."},
            ],
            user_id="ada",
        )
        result = memory.recall(asked, user_id="ada")
    assert result.facts[0].text == "My wife says until February 2026."


def test_what_was_said_of_something_else_after_it_wasnt_known_is_none() -> None:
    """Proves: LIVE-2, CONF-3."""
    asked = "How long does the loan for the van run?"
    with Memory() as memory:
        memory.add(
            [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": "I don't know, you haven't told me yet."},
                {"role": "user", "content": "The choir sang beautifully, by the way."},
            ],
            user_id="ada",
        )
        assert memory.recall(asked, user_id="ada").confidence.label == "low"
