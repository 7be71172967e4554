"""A change of one thing that was told outdates nothing else that was told in the same sentence (LIVE-4)."""

from __future__ import annotations

import pytest

from recall_loop import Memory, RetrieveResult


def recalled(question: str, *told: str) -> RetrieveResult:
    between = ("The team meets on Tuesdays at ten.", "We watched a film about whales.")
    said = (told[0], *between, *told[1:])
    with Memory() as memory:
        for day, text in enumerate(said, 1):
            at = f"2025-06-0{day}T10:00:00Z"
            memory.add([{"role": "user", "content": text, "timestamp": at}], user_id="jonas")
        return memory.recall(question, user_id="jonas")


IN_ENGLISH = "Hi, I'm Jonas. I live in Kiel with my cat Mimi."


@pytest.mark.parametrize(
    ("told", "changed", "question"),
    [
        (IN_ENGLISH, "I moved to Hamburg.", "What is my cat's name?"),
        (IN_ENGLISH, "I moved to Hamburg.", "Do I have a cat?"),
        (IN_ENGLISH, "Ich bin nach Hamburg gezogen.", "Do I have a cat?"),
        ("Ich wohne in Kiel mit meiner Katze Mimi.", "Ich bin nach Hamburg gezogen.", "Wie heißt meine Katze?"),
        ("Vivo en Cádiz con mi gato Milo.", "Me mudé a Sevilla.", "¿Cómo se llama mi gato?"),
        ("J'habite à Lyon avec mon chat Milo.", "J'ai déménagé à Nantes.", "Comment s'appelle mon chat ?"),
    ],
)
def test_a_move_does_not_outdate_the_cat(told: str, changed: str, question: str) -> None:
    """It was shown as corrected, below the move. Proves: LIVE-4."""
    first = recalled(question, told, changed).facts[0]
    assert first.text == told and first.superseded_by_hint is None


@pytest.mark.parametrize("question", ["Where do I live?", "In what place am I living?", "Do I still live in Kiel?"])
def test_a_move_still_outdates_the_old_home(question: str) -> None:
    """Proves: LIVE-4."""
    best, older = recalled(question, IN_ENGLISH, "I moved to Hamburg.").facts[:2]
    assert best.text == "I moved to Hamburg."
    assert older.superseded_by_hint == best.id


@pytest.mark.parametrize(
    ("told", "later", "question"),
    [
        ("My budget for the kitchen is 9,000 euros.", "The kitchen now has 14 drawers.", "What is my kitchen budget?"),
        ("My doctor is Dr. Patel.", "My doctor now has a fish tank.", "Who is my doctor?"),
        ("Die Küche kostet 9000 Euro.", "Die Küche hat jetzt Schubladen.", "Was kostet die Küche?"),
        ("La cocina cuesta 9000 euros.", "La cocina tiene ahora cajones.", "¿Cuánto cuesta la cocina?"),
        ("The rent is 870 euros.", "The rent used to be 700 euros.", "How much is the rent?"),
        ("I work in Turin.", "I used to work in Genoa.", "Where do I work?"),
        ("I work in Turin.", "I used to live in Genoa; I moved to Turin in 2019.", "Where do I work?"),
    ],
)
def test_what_else_is_told_of_it_outdates_nothing(told: str, later: str, question: str) -> None:
    """What it has now, how it used to be, or where who works there moved: it was shown as corrected. Proves: LIVE-4."""
    found = {fact.text: fact for fact in recalled(question, told, later).facts}
    assert found[told].superseded_by_hint is None


@pytest.mark.parametrize(
    ("told", "later", "question"),
    [
        (
            "Nora has taken up the violin. Hired from the school, £42 a term. Lesson is Tuesday with a Mr Hale.",
            "Nora switched from violin lessons to drums with Gerald, school is fine with it",
            "How much is the hire of Nora's violin?",
        ),
        (
            "La matrícula la puedo hacer hasta el 30 de septiembre, en la web.",
            "Al final cambié la optativa de la matrícula: dejo francés y cojo historia.",
            "¿Hasta cuándo tengo plazo para la matrícula?",
        ),
    ],
)
def test_a_change_that_is_no_answer_outdates_no_answer(told: str, later: str, question: str) -> None:
    """The change of something beside it was shown first. Proves: LIVE-4."""
    first = recalled(question, told, later).facts[0]
    assert first.text == told and first.superseded_by_hint is None


@pytest.mark.parametrize(
    ("told", "later", "question"),
    [
        ("The spare key is under the flower pot.", "I moved the spare key to the shed.", "Where is the spare key?"),
        (
            "The plan for Saturday is a hike.",
            "We changed the plan, it'll be the museum.",
            "What's the plan for Saturday?",
        ),
        (
            "The budget for the boat is 18,000 euros.",
            "They cut our budget by a third, 12,000 it is.",
            "What is the budget for the boat?",
        ),
        ("I have 3 cats.", "I now have 5 cats.", "How many cats do I have?"),
        ("Tomatoes grow in the back bed.", "The back bed has beans now.", "What grows in the back bed?"),
        ("My office is room 12.", "My office now has number 15.", "What number is my office?"),
        ("I drink coffee every day.", "I used to drink coffee.", "Do I drink coffee?"),
        ("I work in Turin.", "I no longer work in Turin.", "Where do I work?"),
    ],
)
def test_what_it_has_instead_or_no_longer_is_still_outdates_it(told: str, later: str, question: str) -> None:
    """Proves: LIVE-4."""
    found = {fact.text: fact for fact in recalled(question, told, later).facts}
    assert found[told].superseded_by_hint == found[later].id
