"""A state that is told by how it began, in six languages, and what others' events tell nothing of. Proves: STOP-5."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.policy.evidence.state_events import StateEvents
from recall_loop.state.types import ConfidenceLabel
from recall_loop.text.words.stemming import stem

_OTHERS = ("The lamp in the hall is green.", "Das Boot braucht Farbe.")


@pytest.mark.parametrize(
    ("language", "state", "told"),
    [
        ("en", "live", "I moved to Riga."),
        ("en", "job", "I was hired as a cook."),
        ("en", "work", "I started at Nordkalk."),
        ("de", "wohnt", "Ich bin nach Riga umgezogen."),
        ("de", "mann", "Ich habe Ole geheiratet."),
        ("es", "trabajo", "Empecé en Nordkalk."),
        ("fr", "travaille", "J'ai été embauchée chez Nordkalk."),
        ("ru", "живу", "Я переехала в Ригу."),
        ("zh", "住", "我搬到里加了。"),
    ],
)
def test_an_event_tells_a_state(language, state, told):
    """Proves: STOP-5."""
    known = StateEvents({0: [stem(state, language)]}, language, frozenset(), who=False)
    assert known.tells({0}, told) and not known.misleads({0}, told)


@pytest.mark.parametrize(
    ("asked", "told", "who"),
    [
        ((), "My aunt moved to Riga.", False),
        ((), "Marta moved to Riga.", False),
        ((), "I moved to Riga.", True),
        (("uncl",), "My aunt moved to Riga.", False),
    ],
)
def test_an_event_of_another_or_of_no_person_tells_nothing(asked, told, who):
    """Proves: STOP-5."""
    known = StateEvents({0: ["live"]}, "en", frozenset(asked), who=who)
    assert known.misleads({0}, told) and not known.tells({0}, told)


def test_whose_event_is_asked_for_is_told():
    """Proves: STOP-5."""
    known = StateEvents({0: ["live"]}, "en", frozenset({"aunt"}), who=False)
    assert known.tells({0}, "My aunt moved to Riga.")
    assert not known.tells({0, 1}, "My aunt moved to Riga.")


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("They hired me at the tannery.", "Where do I work?"),
        ("Ich habe bei Nordkalk als Gerber angefangen.", "Wo arbeite ich?"),
        ("J'ai déménagé à Riga.", "Où est-ce que j'habite ?"),
        ("Я переехала в Ригу.", "Где я живу?"),
        ("我搬到里加了。", "我住在哪里？"),
    ],
)
def test_a_state_told_by_an_event_is_found_first_and_not_called_low(told, question):
    """Proves: STOP-5, CONF-3."""
    with Memory() as memory:
        memory.add([told, *_OTHERS])
        result = memory.recall(question)
    assert result.facts[0].text == told
    assert result.confidence.label is not ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("My sister moved to Riga.", "Where do I live?"),
        ("I moved to Riga.", "Who do I live with?"),
        ("I moved to Riga.", "Where do I work?"),
        ("Моя сестра переехала в Ригу.", "Где живёт мой брат?"),
    ],
)
def test_what_an_event_doesnt_tell_stays_low(told, question):
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add([told])
        assert memory.recall(question).confidence.label is ConfidenceLabel.LOW
