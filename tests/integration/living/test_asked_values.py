"""Questions for an amount or a place: what has neither answers none of them, however well it matches (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.policy.question.answer_kinds import asks_measure
from recall_loop.state.types import ConfidenceLabel

OTHERS = ["The cellar smells of paint again", "We fly to Malta on 4 May", "Bins go out on Thursdays"]


def _label(told: str, question: str) -> ConfidenceLabel:
    with Memory() as memory:
        for text in (told, *OTHERS):
            memory.add(text)
        return memory.recall(question).confidence.label


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("Our cleaner Ludmila comes on Mondays", "How old is our cleaner Ludmila?"),
        ("The sailing course with Pete is brilliant", "How much is the sailing course with Pete?"),
        ("Unser Gärtner Holger kommt montags", "Wie alt ist unser Gärtner Holger?"),
        ("El curso de vela con Pedro es genial", "¿Cuánto cuesta el curso de vela con Pedro?"),
        ("Le cours de voile avec Pierre est génial", "Combien coûte le cours de voile avec Pierre ?"),
    ],
)
def test_what_has_no_number_is_no_amount(told: str, question: str) -> None:
    """Proves: CONF-3, LIVE-3."""
    assert _label(told, question) is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("Our cleaner Ludmila is forty", "How old is our cleaner Ludmila?"),
        ("The sailing course with Pete is free", "How much is the sailing course with Pete?"),
        ("Der Segelkurs mit Peter kostet 90 Euro", "Was kostet der Segelkurs mit Peter?"),
        ("El curso de vela con Pedro es gratis", "¿Cuánto cuesta el curso de vela con Pedro?"),
    ],
)
def test_a_number_in_words_and_nothing_to_pay_are_amounts(told: str, question: str) -> None:
    """Proves: CONF-3, LIVE-3."""
    assert _label(told, question) is not ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("Gudrun plays the harp", "Where does Gudrun live?"),
        ("Ximena tiene dos gatos", "¿Dónde vive Ximena?"),
        ("Gudrun spielt Harfe", "Wo wohnt Gudrun?"),
    ],
)
def test_what_tells_no_place_is_no_home(told: str, question: str) -> None:
    """Proves: CONF-3, LIVE-3."""
    assert _label(told, question) is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("Gudrun has a flat by the canal", "Where does Gudrun live?"),
        ("Gudrun moved to Trier", "Where does Gudrun live?"),
        ("Ximena vive encima de la panadería", "¿Dónde vive Ximena?"),
        ("Gudrun wohnt beim Bahnhof", "Wo wohnt Gudrun?"),
    ],
)
def test_a_place_without_a_name_is_a_home(told: str, question: str) -> None:
    """Proves: CONF-3, LIVE-3."""
    assert _label(told, question) is not ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("question", "language", "expected"),
    [
        ("How heavy is the parcel?", "en", True),
        ("How many aunts do I have?", "en", False),
        ("How much flour goes in?", "en", False),
        ("Wie teuer war das Zelt?", "de", True),
        ("Wie viele Tanten habe ich?", "de", False),
        ("¿Cuánto pesa el gato?", "es", True),
        ("¿Cuántas tías tengo?", "es", False),
        ("Quel âge a le chat ?", "fr", True),
        ("Combien de tantes ai-je ?", "fr", False),
        ("Сколько стоит палатка?", "ru", True),
        ("Сколько у меня тёть?", "ru", False),
        ("帐篷多少钱？", "zh", True),
        ("我有几个姑姑？", "zh", False),
        ("Hoeveel kost de tent?", "nl", False),
    ],
)
def test_what_can_be_listed_is_no_amount(question: str, language: str, expected: bool) -> None:
    """Proves: CONF-3."""
    assert asks_measure(question, language) is expected
