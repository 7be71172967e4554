"""Of two statements on one matter the later one goes first, without a word that tells of a change (LIVE-4)."""

from __future__ import annotations

import pytest

from recall_loop import Memory

NOISE = ["The kitchen lamp flickers again.", "We had soup for lunch.", "My neighbour plays the drums at night."]

OFTEN = ["sings well", "likes rice", "has new boots", "reads a lot", "lost a tooth", "swims fast"]


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


def test_a_change_of_the_plain_thing_leaves_the_kind_of_it_that_is_asked_for_first():
    """Proves: LIVE-4."""
    told = [
        (1, "user", "Our door has a keypad, the code is 9026."),
        (2, "user", "The garage door code is 4417."),
        (20, "user", "I changed the door code to 3358 after the burglary."),
    ]
    assert ids_of(told, "What's the garage door code?")[0] == "2"
    assert ids_of(told, "What's the door code?")[0] == "20"


def test_a_mere_mention_of_the_plain_thing_doesnt_keep_a_change_from_the_kind_of_it():
    """Proves: LIVE-4."""
    told = [
        (1, "user", "My work laptop password is oak3."),
        (2, "user", "I typed my laptop password wrong again."),
        (20, "user", "I changed my laptop password to elm5."),
    ]
    assert ids_of(told, "What is my work laptop password?")[0] == "20"


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Our dog Rex gets 200 g of food.", "Our dog gets 250 g of food now.", "How much food does Rex get?"),
        ("The server Atlas runs on port 8080.", "The server runs on port 9090 now.", "Which port does Atlas run on?"),
        ("Notre chien Rex pèse 20 kilos.", "Notre chien pèse 25 kilos maintenant.", "Combien pèse Rex ?"),
    ],
)
def test_a_change_of_what_a_name_stands_beside_is_one_of_the_named(older, newer, question):
    """Proves: LIVE-4."""
    assert ids_of([(1, "user", older), (20, "user", newer)], question)[0] == "20"


@pytest.mark.parametrize(
    ("older", "newer", "question", "first"),
    [
        (
            "Mira is the girl who keeps bees, Aldo's daughter.",
            "The pastor is called Pater Quirin.",
            "Mira's father?",
            "1",
        ),
        ("Mira lives in Lund.", "Mira moved to Malmö last week.", "Where does Mira live?", "20"),
    ],
)
def test_what_tells_of_somebody_else_renews_nothing(older, newer, question, first):
    """Proves: LIVE-4."""
    assert ids_of([(1, "user", older), (20, "user", newer)], question)[0] == first


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "Ida gets a cast in June. Next check of her arm: 8 July at 13:15.",
            "Ida has the cast on now and mustn't get it wet.",
            "When is Ida's next check?",
        ),
        (
            "Ida bekommt im Juni einen Gips. Nächste Kontrolle: 8. Juli um 13:15.",
            "Ida hat jetzt den Gips, er darf nicht nass werden.",
            "Wann ist die nächste Kontrolle von Ida?",
        ),
    ],
)
def test_what_only_says_how_it_is_now_takes_no_place_of_a_date(older, newer, question):
    """Proves: LIVE-4."""
    assert ids_of([(1, "user", older), (20, "user", newer)], question)[0] == "1"


def test_a_moved_appointment_is_found_in_another_language():
    """Proves: LIVE-4, OPEN-4."""
    often = [(day, "user", f"Lena {what}.") for day, what in enumerate(OFTEN, 2)]
    told = [
        (1, "user", "Lena has a dentist appointment with Dr. Weiß on 4 April at 15:30."),
        *often,
        (20, "user", "Der Zahnarzttermin von Lena ist auf den 18. April um 16 Uhr verschoben."),
    ]
    assert ids_of(told, "When is Lena's dentist appointment?")[:2] == ["20", "1"]


def test_a_change_of_one_of_two_who_are_named_changes_nothing_for_the_other():
    """Proves: LIVE-4."""
    told = [(1, "user", "Oskar has glove size 6 now, Mia 4."), (20, "user", "Oskar needs new gloves again, now 7!")]
    assert ids_of(told, "What glove size does Mia have?")[0] == "1"
    assert ids_of(told, "What glove size does Oskar have?")[0] == "20"
