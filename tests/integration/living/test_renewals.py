"""Renewals (LIVE-4): what a user says later about the same matter comes first, without a word that it changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recall_loop import Memory

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
BESIDE = [
    "Had soup with Lena at the market today, it rained all morning.",
    "Could you help me to word a letter to the council?",
    "My brother called from Porto, the ferry was late again.",
]


def recalled(question: str, *told: str, role: str = "user") -> list[str]:
    """Return the texts recalled from what was told a week apart each, among other things; best first."""
    memory = Memory()
    for week, text in enumerate([told[0], *BESIDE, *told[1:]]):
        memory.add([{"role": role, "content": text, "created_at": START + timedelta(weeks=week)}], user_id="ada")
    return [fact.text for fact in memory.recall(question, user_id="ada").facts]


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "Rented a bench in the old dairy from a man called Graeme, 310 a week, lovely light.",
            "Graeme came by with a long face: 345 from April.",
            "How much do I pay Graeme?",
        ),
        (
            "Choir practice is on Thursdays at 7 in the school hall.",
            "They need the school hall for gymnastics, so choir is Mondays at half past six.",
            "What day is choir practice?",
        ),
        (
            "Der Töpferkurs ist dienstags um 19 Uhr im Gemeindehaus.",
            "Im Gemeindehaus wird gestrichen, der Töpferkurs trifft sich donnerstags um 18 Uhr.",
            "Wann ist mein Töpferkurs?",
        ),
        (
            "A Brenda le alquilamos el monoambiente, paga 320 por mes.",
            "Hablé con Brenda por el aumento, arreglamos 390.",
            "¿Cuánto paga Brenda por mes?",
        ),
        (
            "Le cours de yoga, c'est le mardi à 18h au gymnase.",
            "Le gymnase est en travaux, le yoga se passe le vendredi à 17h.",
            "Quel jour est mon cours de yoga ?",
        ),
        ("豆豆的婚礼定在五月一号，在贵阳办。", "豆豆婚礼往后挪了，五月十八号。", "豆豆的婚礼是几号？"),
    ],
)
def test_what_was_said_later_about_the_same_comes_first(older: str, newer: str, question: str) -> None:
    """No word says that it changed. Proves: LIVE-4."""
    found = recalled(question, older, newer)
    assert found.index(newer) < found.index(older)


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "My landlord Graeme takes 310 a week.",
            "Saw Graeme at the bakery, he has a new dog.",
            "What does Graeme take?",
        ),
        ("Choir practice is on Thursdays at 7.", "The choir's concert was lovely.", "What day is choir practice?"),
        ("Rufus gets 20 g of food.", "Mina gets 35 g of food.", "How much food does Rufus get?"),
        ("My dentist is Dr. Weber.", "My sister's dentist is Dr. Klein.", "Who is my dentist?"),
        ("The flat costs 900.", "The garage costs 80.", "What does the flat cost?"),
    ],
)
def test_what_was_said_later_about_something_else_does_not(older: str, newer: str, question: str) -> None:
    """It holds no answer, or another's. Proves: LIVE-4."""
    assert recalled(question, older, newer)[0] == older


def test_what_an_assistant_said_later_renews_nothing() -> None:
    """It may repeat what it read somewhere. Proves: LIVE-4."""
    older, newer = "Choir practice is on Thursdays at 7.", "Choir practice is often on Mondays at 6."
    memory = Memory()
    for week, (role, text) in enumerate((("user", older), ("assistant", newer))):
        memory.add([{"role": role, "content": text, "created_at": START + timedelta(weeks=week)}], user_id="ada")
    assert memory.recall("What day is choir practice?", user_id="ada").facts[0].text == older
