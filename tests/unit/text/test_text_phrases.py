"""Entities and noun phrases."""

import pytest

from recall_loop.text.names.proper_names import find_entities, find_noun_phrases


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zoltan went to the market with Priya yesterday.", ["Zoltan", "Priya"]),
        ("When did Priya's Chess Circle start?", ["Priya", "Chess Circle"]),
        ("Can you tell me about Dr. Smith and J. K. Rowling?", ["Dr. Smith", "J. K. Rowling"]),
        ("Thanks Priya! Did you read “The Long Walk”?", ["Priya", "The Long Walk"]),
        (
            "Yesterday I met people of the Bank of America in New York City.",
            ["Bank of America", "New York City"],
        ),
        ("What is GPT-4 on an iPhone 15?", ["GPT-4", "iPhone 15"]),
        ("Is Lima in Peru? Painting is fun.", ["Lima", "Peru"]),
        ("WHAT DID YOU DO IN LIMA", []),
        ("Did Priya come on May 7, 2023, or Monday at 10am?", ["Priya"]),
        ("Who works at NASA? OK, LOL", ["NASA"]),
        ("Jürgen and O'Brien met Anne-Marie", ["Jürgen", "O'Brien", "Anne-Marie"]),
        ("Gardening helps. I told my sister Rita that gardening helps.", ["Rita"]),
        ("priya: Hey Zoltan! Good to see you", ["Zoltan"]),
        ("She said 'silent spring' and left, it's nice", ["silent spring"]),
        ("Reminds me of Lima. Feels good! Woohoo", ["Lima"]),
        ("The IT team met in the US, I was SO glad about 'that'", ["IT", "US"]),
        ("", []),
        ("no names here", []),
    ],
)
def test_entities(text: str, expected: list[str]) -> None:
    """Names are found at the start of a sentence too, its common openers aren't. Proves: QUERY-1."""
    assert list(find_entities(text)) == expected


@pytest.mark.parametrize(
    "opener",
    ["When did", "Can you", "Thanks", "Yesterday", "Did", "What", "Tell me", "Is", "Who knows", "Sure"],
)
def test_openers_are_no_entities(opener: str) -> None:
    """Function words at the start of a sentence name nothing. Proves: QUERY-1, QUERY-3."""
    assert find_entities(f"{opener} we go there") == ()


def test_first_word_that_is_a_name_elsewhere() -> None:
    """A capital inside a sentence makes an ordinary first word a name. Proves: QUERY-1."""
    assert find_entities("Rose came. We saw Rose.") == ("Rose",)
    assert find_entities("Rose petals fell, a rose petal.") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tell me about the support group meeting, please", ["support group meeting"]),
        ("How long did the road trip to Lima take?", ["road trip", "Lima take"]),
        ("Who knows machine learning?", ["machine learning"]),
        ("red green blue white black pink", ["red green blue white", "black pink"]),
        ("Priya's dog. Dog food", ["Priya", "dog", "Dog food"]),
        ("what is it", []),
    ],
)
def test_noun_phrases(text: str, expected: list[str]) -> None:
    """Runs of content words, one to four, without verbs of asking. Proves: QUERY-1, QUERY-3."""
    assert find_noun_phrases(text) == expected


@pytest.mark.timeout(30)
def test_long_input_takes_no_quadratic_time() -> None:
    """Proves: LOOP-9."""
    for text in ("Foo " * 15_000, "of the " * 15_000, "a" * 150_000, '"a ' * 15_000, "'a " * 15_000, "A.B." * 15_000):
        find_entities(text)
        find_noun_phrases(text)
