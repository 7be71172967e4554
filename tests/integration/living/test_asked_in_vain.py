"""What memory held when the same was asked and wasn't known is hardly the answer when it is asked again (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory

CASES = [
    (
        "The dentist uses her toothbrush after each coffee.",
        "Which brand is the dentist's electric toothbrush?",
        "what brand was the electric toothbrush of the dentist again?",
        "You never told me the brand.",
        "It is a Philips, the dentist's electric toothbrush.",
    ),
    (
        "Die Terrasse vom Nachbarn ist jetzt fertig, mit Lampen und Tischen.",
        "Welche Firma hat die Terrasse vom Nachbarn gebaut?",
        "welche firma hat nochmal die terrasse vom nachbarn gebaut?",
        "Nein, die hast du mir nicht gegeben.",
        "Die Terrasse vom Nachbarn hat die Firma Kogler gebaut.",
    ),
    (
        "L'ufficio adesso è in via Bosco, settimo piano.",
        "Qual è la password del wifi dell'ufficio in via Bosco?",
        "ti ricordi la password del wifi dell'ufficio in via Bosco?",
        "No, questa password non me l'hai mai data.",
        "La password del wifi dell'ufficio in via Bosco è betulla77.",
    ),
    (
        "O escritório agora fica na rua do Bosque, sétimo andar.",
        "Qual é a senha do wifi do escritório?",
        "vc lembra qual a senha do wifi do escritório?",
        "Não, essa senha você não me passou.",
        "A senha do wifi do escritório é bétula77.",
    ),
    (
        "Офис у нас теперь на Лесной, седьмой этаж.",
        "Какой пароль от вайфая в офисе на Лесной?",
        "не помнишь, какой пароль от вайфая в офисе на Лесной?",
        "Нет, этого пароля ты мне не присылала.",
        "Пароль от вайфая в офисе на Лесной — берёза77.",
    ),
]


def recalled(question: str, *said: tuple[str, str]) -> str:
    with Memory() as memory:
        for role, text in said:
            memory.add([{"role": role, "content": text}], user_id="ada")
        return memory.recall(question, user_id="ada").confidence.label


@pytest.mark.parametrize(("told", "question", "asked", "reply", "later"), CASES)
def test_what_was_there_when_it_was_not_known_makes_nothing_sure(
    told: str, question: str, asked: str, reply: str, later: str
) -> None:
    """Proves: LIVE-2, CONF-3."""
    in_vain = [("user", told), ("user", asked), ("assistant", reply)]
    assert recalled(question, *in_vain) == "low"
    assert recalled(question, *in_vain, ("user", later)) != "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What is the code of my locker?", "The code of my locker is 4512."),
        ("What is the code of the gym locker?", "My locker at the gym opens with 4512."),
        ("What is Lena's shoe size?", "Lena wears a 34 in shoes."),
    ],
)
def test_an_answer_stays_one_whatever_was_replied(question: str, told: str) -> None:
    """An assistant that replied without looking doesn't hide what memory holds. Proves: CONF-3."""
    assert recalled(question, ("user", told), ("user", question), ("assistant", "I don't know.")) != "low"


def test_another_users_vain_question_says_nothing() -> None:
    """Proves: CONF-3, LIVE-5."""
    question = "What is the code of the gym's locker?"
    with Memory() as memory:
        memory.add(["The gym's locker has the code with my birthday, 1204."], user_id="ada")
        before = memory.recall(question, user_id="ada").confidence.score
        memory.add([question, {"role": "assistant", "content": "You haven't told me."}], user_id="ben")
        assert memory.recall(question, user_id="ada").confidence.score == pytest.approx(before, abs=0.01)
