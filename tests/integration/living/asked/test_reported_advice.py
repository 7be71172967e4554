"""Whoever says something isn't whom it is about: a doctor's advice answers what I may do (CONF-3, LIVE-2)."""

from __future__ import annotations

import pytest

from tests.integration.living.asked.labels import label


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Can I go running?", "doctor says no running for two weeks"),
        ("Am I allowed to run?", "The doctor forbids running for two weeks."),
        ("Darf ich laufen?", "Der Arzt sagt, zwei Wochen kein Laufen."),
        ("¿Puedo ir a correr?", "El médico dice que nada de correr dos semanas."),
        ("Je peux faire de la course ?", "Le médecin dit pas de course pendant deux semaines."),
        ("Можно мне бегать?", "Врач сказал не бегать две недели."),
        ("我可以去跑步吗？", "医生说两周不能跑步。"),
    ],
)
def test_who_says_it_is_not_whom_it_is_about(question: str, told: str) -> None:
    """Proves: CONF-3, LIVE-2."""
    assert label(question, told) != "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Am I allergic to nuts?", "My sister says she's allergic to nuts."),
        ("Can I go swimming?", "doctor says no running for two weeks"),
    ],
)
def test_what_they_say_of_themselves_or_of_another_thing_is_no_answer(question: str, told: str) -> None:
    """Proves: CONF-3, LIVE-2."""
    assert label(question, told) == "low"
