"""Identifiers that are asked for: another error, ticket, version, port or file is no answer (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory, RetrieveResult
from recall_loop.state.types import ConfidenceLabel

TOLD = [
    "Error E1042 means the disk is full.",
    "PROJ-321 is about slow exports.",
    "v1.10 drops support for Python 3.9.",
    "1.1 was the first public release.",
    "Redis runs on port 6379.",
    "exit code 137 means the container was killed for memory.",
    "Commit a1b2c3d introduced the memory leak.",
    "config.toml lies in the home directory of the service user.",
    "parseConfig reads the settings file and validates it.",
    "RETRY_LIMIT is 5 by default.",
    "Sprint 14 ends on Friday.",
]


def _recalled(question: str, *more: str) -> RetrieveResult:
    with Memory() as memory:
        for text in (*TOLD, *more):
            memory.add(text)
        return memory.recall(question)


@pytest.mark.parametrize(
    "question",
    [
        "What does error E2001 mean?",
        "Was bedeutet Fehler E2001?",
        "What is PROJ-123 about?",
        "What changed in 1.11?",
        "What runs on port 9090?",
        "What does exit code 139 mean?",
        "What did commit f00ba47 do?",
        "Where is config.yaml?",
        "What does parseHeader do?",
        "What is CACHE_LIMIT?",
        "When does sprint 15 end?",
    ],
)
def test_what_tells_of_others_is_no_answer(question: str) -> None:
    """Proves: CONF-3, LIVE-3."""
    assert _recalled(question).confidence.label is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does error E2001 mean?", "E2001"),
        ("What is error e-1042?", "E1042"),
        ("What changed in 1.10?", "v1.10"),
        ("What changed in v1.1?", "1.1 was"),
        ("What does exit code 137 mean?", "137"),
        ("What did commit a1b2c3d4e5f6 do?", "a1b2c3d"),
        ("What does parse_config do?", "parseConfig"),
        ("What does ParseConfig do?", "parseConfig"),
        ("What does the parse config function do?", "parseConfig"),
        ("What is the default retry limit?", "RETRY_LIMIT"),
        ("How does calcTotal round?", "calc_total"),
        ("I use Bootstrap 5.3.0. Where is config.toml?", "config.toml"),
    ],
)
def test_what_tells_of_the_same_in_another_spelling_is_one(question: str, answer: str) -> None:
    """Also beside what it could be taken for. Proves: CONF-3, STOP-5."""
    found = _recalled(
        question, "Error E2001 means the server can't be reached.", "The function calc_total rounds half up."
    )
    assert answer in found.facts[0].text
    assert found.confidence.label is not ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("I had Covid over Easter", "When did I have COVID-19?"),
        ("Mara ran three and a half miles", "Who ran 3.5 miles?"),
        ("The CI uses Node 20", "Which Node.js version does the CI use?"),
    ],
)
def test_amounts_and_what_needs_no_number_need_not_be_said_so(told: str, question: str) -> None:
    """Proves: CONF-3."""
    found = _recalled(question, told)
    assert found.facts[0].text == told
    assert found.confidence.label is not ConfidenceLabel.LOW
