"""Of two statements on one matter the later one goes first, without a word that tells of a change (LIVE-4)."""

from __future__ import annotations

import pytest

from recall_loop import Memory

NOISE = ["The kitchen lamp flickers again.", "We had soup for lunch.", "My neighbour plays the drums at night."]


def ids_of(told, question, noise=NOISE):
    """Return the ids of what is recalled among other messages; statements are (day of March, role, text)."""
    with Memory() as memory:
        turns = [
            {"id": str(day), "role": role, "content": text, "created_at": f"2024-03-{day:02}T09:00:00Z"}
            for day, role, text in told
        ]
        memory.add([*turns, *noise], user_id="ada")
        return [fact.id for fact in memory.recall(question, user_id="ada").facts]


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "The choir trip goes to Porto from 1 to 4 May, by coach.",
            "For the choir trip we booked Burgos, the same days.",
            "Where does the choir trip go?",
        ),
        (
            "Die Chorreise geht nach Porto, vom 1. bis 4. Mai.",
            "Für die Chorreise haben wir Burgos gebucht, am selben Wochenende.",
            "Wohin noch mal die Chorreise?",
        ),
    ],
)
def test_of_two_statements_on_one_matter_the_later_one_goes_first(older, newer, question):
    """Proves: LIVE-4."""
    assert ids_of([(1, "user", older), (20, "user", newer)], question)[:2] == ["20", "1"]
    assert ids_of([(1, "user", newer), (20, "user", older)], question)[:2] == ["20", "1"]


def test_what_an_assistant_said_later_doesnt_go_first():
    """Proves: LIVE-4."""
    told = [
        (1, "user", "The choir trip goes to Porto from 1 to 4 May, by coach."),
        (20, "assistant", "For a choir trip many go to Burgos, the trip is shorter."),
    ]
    assert ids_of(told, "Where does the choir trip go?")[0] == "1"


def test_a_question_about_the_past_leaves_the_earlier_one_first():
    """Proves: LIVE-4."""
    told = [
        (1, "user", "The choir trip goes to Porto from 1 to 4 May, by coach."),
        (20, "user", "The choir trip goes to Burgos now, Porto is too dear."),
    ]
    assert ids_of(told, "Where did the choir trip use to go?")[0] == "1"


def test_what_is_said_of_another_matter_doesnt_go_first():
    """Proves: LIVE-4."""
    told = [
        (1, "user", "The choir trip goes to Porto from 1 to 4 May, by coach."),
        (20, "user", "The choir sings in church on Sunday."),
    ]
    assert ids_of(told, "Where does the choir trip go?")[0] == "1"


@pytest.mark.parametrize(
    ("told", "again", "question"),
    [
        (
            "The choir trip goes to Porto from 1 to 4 May.",
            "Remind me where the choir trip goes.",
            "Where does the choir trip go?",
        ),
        ("Unsere Chorreise geht nach Porto.", "wohin geht nochmal unsere chorreise", "Wohin geht unsere Chorreise?"),
        ("Мы едем с хором в Порту.", "куда мы едем с хором, забыл", "Куда мы едем с хором?"),
    ],
)
def test_the_same_question_asked_later_doesnt_go_first(told, again, question):
    """Proves: LIVE-1, LIVE-4."""
    assert ids_of([(1, "user", told), (20, "user", again)], question, NOISE[:1])[0] == "1"


def test_what_somebody_says_of_a_document_doesnt_go_before_it():
    """Proves: LIVE-4."""
    records = [
        {"id": "policy", "kind": "archival", "text": "Refund policy: refunds are paid within 30 days of the order."},
        {
            "id": "said",
            "kind": "message",
            "role": "user",
            "text": "I read the refund policy: refunds paid for the order.",
        },
    ]
    with Memory() as memory:
        for day, record in enumerate(records, 1):
            memory.store.upsert([{**record, "created_at": f"2024-03-{day:02}T09:00:00Z"}])
        facts = memory.recall("When is an order paid by the refund policy?").facts
    assert facts[0].id == "policy"
