"""Who has said what a question asks for (RANK-3)."""

from __future__ import annotations

import pytest

from recall_loop.policy.question.titles import expected_speaker
from recall_loop.state.types import Role


@pytest.mark.parametrize(
    "question",
    [
        "When does my lease end?",
        "Have I ever been to Oslo?",
        "How many columns did I want to add?",
        "What did I tell you about my sister?",
        "What was the name that I've already mentioned to you?",
        "Which of our plans did we drop?",
        "When did my assistant begin to work for me?",
    ],
)
def test_what_is_asked_of_oneself_oneself_has_said(question):
    """Proves: RANK-3."""
    assert expected_speaker(question) is Role.USER


@pytest.mark.parametrize(
    "question",
    [
        "What did you recommend for my back?",
        "Which books have you already suggested to me?",
        "You told me about a museum: which one was it?",
        "What was the recipe that you'd given me?",
        "What did you say when I asked about the visa?",
        "What did my assistant suggest?",
        "What recipe did I get from you?",
    ],
)
def test_what_is_asked_of_the_assistants_words_it_has_said(question):
    """Proves: RANK-3."""
    assert expected_speaker(question) is Role.ASSISTANT


@pytest.mark.parametrize(
    "question",
    [
        "Where does Ruth Meyer live?",
        "What would you suggest for my back?",
        "Can you help me plan my trip?",
        "Show me my trip.",
        "Remind me of my appointments.",
        "Do you know my sister?",
        "",
        "Wo wohnt meine Schwester?",
        "Quali sono i libri di Ruth?",
        "¿Qué me recomendó Ruth?",
        "Who won the US Open?",
        "Where does Ruth work in the U.S.?",
        "When did World War I end?",
        "Who was Elizabeth I?",
    ],
)
def test_other_words_tell_nothing(question):
    """Proves: RANK-3. A request to be served is none about oneself."""
    assert expected_speaker(question) is None
