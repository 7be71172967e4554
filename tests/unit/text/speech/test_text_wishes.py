"""What is only wished for (LIVE-2)."""

from __future__ import annotations

import pytest

from recall_loop.text.speech.wishes import asks_for_wishes, only_wishes


@pytest.mark.parametrize(
    "text",
    [
        "I'd love to live in Lisbon some day",
        "I wish I could play the cello.",
        "am liebsten würde ich in Hamburg wohnen",
        "würd gern mal Cello lernen",
        "me gustaría aprender a tocar el violonchelo algún día",
        "ojalá pudiera vivir en Cádiz",
        "j'aimerais bien apprendre le violoncelle",
        "si seulement je pouvais vivre à Biarritz",
        "mi piacerebbe imparare a suonare il violoncello",
        "vorrei tanto vivere al mare un giorno",
        "queria muito morar em Lisboa um dia",
        "adorava viver em Lagos",
        "хочу когда-нибудь научиться играть на виолончели",
        "вот бы жить в Сочи",
        "真想住在大理",
        "以后想学大提琴",
        "いつか京都に住みたいな",
        "チェロを習ってみたい",
        "ik zou ooit graag cello leren spelen",
        "mijn droom is een huisje aan zee",
    ],
)
def test_wishes(text: str) -> None:
    """In each language, as people note them. Proves: LIVE-2, OPEN-4."""
    assert only_wishes(text)


@pytest.mark.parametrize(
    "text",
    [
        "I live in Lisbon",
        "I'd love to live in Lisbon. For now I live in Porto.",
        "I'd like the vegetarian menu",
        "Ich wurde gern gesehen",
        "me gusta vivir en Cádiz",
        "j'aime le thé",
        "vorrei il menu vegetariano",
        "gosto de morar em Natal",
        "хочу чай",
        "我想他是对的",
        "京都に住んでいます",
        "ik woon graag in Gent",
        "",
    ],
)
def test_statements_are_no_wishes(text: str) -> None:
    """Nor is what tells something beside a wish. Proves: LIVE-2."""
    assert not only_wishes(text)


def test_questions_for_wishes() -> None:
    """Proves: LIVE-2."""
    assert all(map(asks_for_wishes, ("Where would I like to live?", "¿Dónde quiero vivir?", "我想学什么？")))
    assert not any(map(asks_for_wishes, ("Where do I live?", "¿Dónde vivo?", "我住在哪里？")))
