"""People and organizations."""

import pytest

from recall_loop.text.names.proper_names import find_entities, find_organizations, find_people


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kater Ohm frisst wieder, die Tierärztin meint, es ist die Schilddrüse.", ("Ohm",)),
        ("Frau Blum mag die Wohnung in Harleshausen.", ("Blum", "Harleshausen")),
        ("Primer día en la panadería con Lucía", ("Lucía",)),
        ("Вторник и четверг, тренер Ильдар.", ("Ильдар",)),
    ],
)
def test_the_words_of_a_glossed_language_are_no_names(text: str, expected: tuple[str, ...]) -> None:
    """In German every noun has a capital, in any of them the first word of a sentence. Proves: OPEN-4."""
    assert find_entities(text) == expected
