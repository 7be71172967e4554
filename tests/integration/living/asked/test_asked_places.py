"""Where somebody lives or works: what tells no place is no answer, however well it matches (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory
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
        ("Gudrun plays the harp", "Where does Gudrun live?"),
        ("Ximena tiene dos gatos", "¿Dónde vive Ximena?"),
        ("Gudrun spielt Harfe", "Wo wohnt Gudrun?"),
        ("Mi hermana Pilar trabaja de veterinaria", "¿Dónde vive mi hermana?"),
        ("My sister Pilar is a vet", "Where does my sister live?"),
        ("Papa mag keinen Rosenkohl", "Wo arbeitet Papa?"),
        ("我妈喜欢养花。", "我妈住在哪里？"),
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
        ("Mi hermana Pilar vive en Soria", "¿Dónde vive mi hermana?"),
        ("我姐姐住在海边。", "我姐姐住在哪里？"),
    ],
)
def test_a_place_without_a_name_is_a_home(told: str, question: str) -> None:
    """Proves: CONF-3, LIVE-3."""
    assert _label(told, question) is not ConfidenceLabel.LOW
