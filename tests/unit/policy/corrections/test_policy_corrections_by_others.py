"""Whether a later statement by somebody else is a correction: only about shared matters in the same conversation."""

from __future__ import annotations

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.facts.corrections import question_terms, relevant_statements
from recall_loop.policy.facts.corrections_by_others import correction_by_another, same_conversation
from recall_loop.policy.facts.rarity import rarity_of

EQUAL = rarity_of({}, 1)


def correction(older, newer, question):
    asked = question_terms(question)
    return correction_by_another(relevant_statements(older, asked), newer, asked, EQUAL)


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("The budget talk is on Thursday.", "The budget talk was moved to Friday.", "When is the budget talk?"),
        ("The train leaves at 10:15.", "The train leaves at 10:45 now.", "When does the train leave?"),
        ("My dentist is on Thursday.", "Your dentist called and moved it to Friday.", "When is my dentist?"),
        ("Die Sitzung ist am Donnerstag.", "Die Sitzung wurde auf Freitag verschoben.", "Wann ist die Sitzung?"),
        ("La reunión es el jueves.", "La reunión se ha pasado al viernes.", "¿Cuándo es la reunión?"),
        ("La réunion est jeudi.", "La réunion est reportée à vendredi.", "Quand est la réunion ?"),
        ("Собрание в четверг.", "Собрание перенесли на пятницу.", "Когда собрание?"),
        ("会议在周四。", "会议改到周五了。", "会议是什么时候？"),
    ],
)
def test_anybody_may_correct_a_shared_matter(older, newer, question):
    """Proves: LIVE-4."""
    found = correction(older, newer, question)
    assert found is not None and found.reason.startswith("somebody else said")


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("I live in Oslo.", "I moved to Bergen.", "Where does Ben live?"),
        ("The party is on Saturday.", "My party is on Sunday now.", "When is the party?"),
        ("My dentist is on Thursday.", "The dentist moved to Friday.", "When is my dentist?"),
        ("Our kiln has 4 shelves.", "Our kiln has 6 shelves now.", "How many shelves has the kiln?"),
        ("The train leaves at 10:15.", "The train leaves at 10:45.", "When does the train leave?"),
        ("Ines' talk is on Monday.", "The talk has moved to Friday.", "When is Ines' talk?"),
        ("The gym is open until nine.", "The gym has changed a lot.", "Until when is the gym open?"),
        ("Ich wohne in Köln.", "Ich bin nach Bonn umgezogen.", "Wo wohnt Anna?"),
        ("Vivo en Lugo.", "Me mudé a Vigo.", "¿Dónde vive Ana?"),
        ("J'habite à Nantes.", "J'ai déménagé à Lille.", "Où habite Paul ?"),
        ("Я живу в Туле.", "Я переехал в Орёл.", "Где живёт Анна?"),
        ("我住在武汉。", "我搬到天津了。", "小李住在哪里？"),
    ],
)
def test_statements_about_the_own_things_of_others_correct_nothing(older, newer, question):
    """Proves: LIVE-4."""
    assert correction(older, newer, question) is None


MESSAGE = {"kind": "message", "user_id": "ada", "conversation_id": "house", "session": "s1"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"session": "s2"}, True),
        ({"conversation_id": None}, True),
        ({"conversation_id": "boat", "session": "s2"}, False),
        ({"conversation_id": None, "session": None}, False),
        ({"user_id": "bo"}, False),
        ({"kind": "fact"}, False),
    ],
)
def test_only_the_same_conversation_counts(change, same):
    """Proves: LIVE-4."""
    assert same_conversation(MESSAGE, MESSAGE | change) is same


@pytest.mark.parametrize("together", [True, False])
def test_the_correction_by_another_comes_first_within_the_conversation(together):
    """Proves: LIVE-4."""
    said = [("a", "Ann", "The choir sings on Thursday."), ("b", "Bo", "The choir was moved to Friday.")]
    with MemoryStore.in_memory() as store:
        store.upsert(
            [
                {
                    "id": name,
                    "kind": "message",
                    "author": author,
                    "text": text,
                    "created_at": f"2024-05-0{at + 1}",
                    "conversation_id": "choir" if together else name,
                }
                for at, (name, author, text) in enumerate(said)
            ]
        )
        facts = retrieve("When does the choir sing?", store=store).facts
    hints = {fact.id: fact.superseded_by_hint for fact in facts}
    assert hints == {"a": "b" if together else None, "b": None}
    assert facts[0].id == "b" or not together
