"""Facts about the user in the third person, rewritten in the first (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop.text.speech.user_in_first_person import in_first_person

TOLD = [
    ("User lives in Leeds with his wife.", "u-5", "I lives in Leeds with his wife."),
    ("The user's wife is a nurse. The user is a vet.", "", "my wife is a nurse. I is a vet."),
    ("Mary is the user\u2019s sister", "", "Mary is my sister"),
    ("Ada's passport expires in May.", "ada", "my passport expires in May."),
    ("The passport of Ada Lind is blue.", "ada.lind@example.org", "The passport of I is blue."),
]
LEFT = [
    ("Ada's passport expires in May.", "u-5"),
    ("Adam moved to Bergen.", "ada"),
    ("My art class is on Monday.", "art"),
    ("A user-agent is a line of text.", ""),
    ("Der Nutzer wohnt in Bergen, und seine Frau auch.", ""),
]


@pytest.mark.parametrize(("text", "user_id", "said"), TOLD)
def test_the_user_is_the_first_person(text: str, user_id: str, said: str) -> None:
    """By the word for a user, and by the names in the user's id. Proves: CONF-3."""
    assert in_first_person(text, user_id) == said


@pytest.mark.parametrize(("text", "user_id"), LEFT)
def test_mentions_of_others_stay(text: str, user_id: str) -> None:
    """Other names, words that are written like a name, and other languages. Proves: CONF-3."""
    assert in_first_person(text, user_id) == text
