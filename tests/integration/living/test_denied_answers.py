"""What says that there is none of what is asked for is an answer, too (RANK-3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop import Memory


@pytest.mark.parametrize(
    ("told", "beside", "question"),
    [
        (
            "The bike was a gift, it cost me nothing.",
            "The bike lock cost 40 euros.",
            "How much did the bike cost?",
        ),
        ("Lena has no phone.", "Lena's number at the race was 45.", "What is Lena's phone number?"),
    ],
)
def test_a_denial_ranks_first(told: str, beside: str, question: str) -> None:
    """It was ranked below a number of something else. Proves: RANK-3."""
    memory = Memory()
    for day, text in enumerate((beside, told)):
        said = {"role": "user", "content": text, "created_at": datetime(2026, 3, 2 + day, tzinfo=UTC)}
        memory.add([said], user_id="ada")
    assert memory.recall(question, user_id="ada").facts[0].text == told
