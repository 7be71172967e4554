from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.text.words.stop_words import first_person_balance


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I moored my boat.", 1.0),
        ("I'm off, we've moored it", 1.0),
        ("You moored your boat, didn't you?", -1.0),
        ("You’re late, I waited", 0.0),
        ("I told you that we moored it", 1 / 3),
        ("The boat lies behind the mill.", 0.0),
        ("", 0.0),
    ],
)
def test_whom_a_text_tells_of(text: str, found: float) -> None:
    """Proves: CONF-4 (first-person words for its author, second-person words for the one spoken to)."""
    assert first_person_balance(text) == pytest.approx(found)


@given(text=st.text())
def test_a_voice_is_bounded(text: str) -> None:
    """Proves: CONF-4."""
    assert -1.0 <= first_person_balance(text) <= 1.0
