"""People and organizations."""

import pytest

from recall_loop.text.names.proper_names import find_organizations, find_people


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Priya went to Lima with Zoltan and Rita.", ["Priya", "Zoltan", "Rita"]),
        ("What did Priya say about Dr. Okafor?", ["Priya", "Okafor"]),
        ("Priya's brother Luis lives in Quito.", ["Priya", "Luis"]),
        ("Thanks, Priya! I moved to Boston.", ["Priya"]),
        ("Zoltan: hello\nRita: hi", ["Zoltan", "Rita"]),
        ("Is Tim Brown going to the US in May?", ["Tim Brown"]),
        ("I met Rita at Central Park on Monday.", ["Rita"]),
        ("We talked about Python and Kubernetes with NASA", []),
        ("A dog named Biscuit", ["Biscuit"]),
        ("Anna and Lucía met Ed or Bo", ["Anna", "Lucía", "Ed", "Bo"]),
        ("Would Priya be called? Have both Luis and Rita ever flown?", ["Priya", "Luis", "Rita"]),
        ("Is Lima in Peru?", []),
        ("nobody here", []),
    ],
)
def test_people(text: str, expected: list[str]) -> None:
    """A name counts as a person by the words around it. Proves: LOOP-7, STOP-5."""
    assert list(find_people(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She studied at Stanford University and joined NASA", ["Stanford University", "NASA"]),
        ("He works at Globex in Berlin", ["Globex"]),
        ("Who is the CEO of Initech?", ["Initech"]),
        ("He volunteers for the Red Cross", ["Red Cross"]),
        ("When did Rita join Acme Corp?", ["Acme Corp"]),
        ("We met at Central Park in the US", []),
        ("I waited for Rita and was SO late", []),
    ],
)
def test_organizations(text: str, expected: list[str]) -> None:
    """An organization is told by its own words or by those of work. Proves: LOOP-7."""
    assert list(find_organizations(text)) == expected
