"""What somebody else says after a correction: whether it merely confirms it, and where it stands then."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.evidence.changes.confirmations import merely_confirms, merely_repeats

CONFIRMED = [
    ("The choir sings on Thursday.", "The choir sings on Friday now.", "Fine, Friday it is then."),
    ("Der Chor singt am Donnerstag.", "Der Chor singt jetzt am Freitag.", "OK, ich trage Freitag ein."),
    ("Wir üben im Café Rosa.", "Wir üben jetzt im Café Blau.", "Gut, dann also im Café Blau."),
    ("El coro canta el jueves.", "El coro ahora canta el viernes.", "Vale, apunto el viernes."),
    ("Le loyer est de 700 euros.", "Le loyer passe à 760 euros.", "Parfait, je note 760 euros."),
    ("Я живу в Туле.", "Я переехал в Казань.", "Хорошо, теперь вы живёте в Казань."),
    ("会议在周四。", "会议改到周五了。", "好的，那就周五。"),
]


@pytest.mark.parametrize(("older", "newer", "said"), CONFIRMED)
def test_who_says_the_new_value_again_confirms_it(older, newer, said):
    """Proves: LIVE-4."""
    assert merely_confirms(older, newer, said)


@pytest.mark.parametrize(
    "said",
    ["No, it's Saturday after all.", "The choir sings well.", "On Friday Marta has a match at six.", "I know. " * 200],
)
def test_who_says_something_else_confirms_nothing(said):
    """Proves: LIVE-4."""
    assert not merely_confirms("The choir sings on Thursday.", "The choir sings on Friday now.", said)


@pytest.mark.parametrize(
    ("said", "question"),
    [
        (
            ["El coro canta el jueves.", "Ahora el coro canta el viernes.", "Vale, si el coro canta el viernes, voy."],
            "¿Cuándo canta el coro?",
        ),
        (
            [
                "Der Chor singt am Donnerstag.",
                "Der Chor singt jetzt am Freitag.",
                "Alles klar, wenn der Chor am Freitag singt, komme ich.",
            ],
            "Wann singt der Chor?",
        ),
    ],
)
def test_a_confirmation_stands_behind_the_correction_and_what_it_corrects(said, question):
    """Proves: LIVE-4."""
    with MemoryStore.in_memory() as store:
        store.upsert(
            [
                {
                    "id": str(at),
                    "kind": "message",
                    "text": text,
                    "created_at": f"2024-05-0{at + 1}",
                    "author": "Bo" if at == 2 else "Ann",
                }
                for at, text in enumerate(said)
            ]
        )
        facts = retrieve(question, store=store).facts
    assert [(fact.id, fact.superseded_by_hint) for fact in facts] == [("1", None), ("0", "1"), ("2", None)]


@pytest.mark.parametrize(
    ("older", "reply", "newer", "question"),
    [
        (
            "My dentist appointment is on 5 March at 9.",
            "Noted: dentist on 5 March at 9, good luck!",
            "The dentist moved my appointment to 12 March.",
            "When is my dentist appointment?",
        ),
        (
            "Unser Termin beim Orthopäden ist am 4. April um 8:20.",
            "4. April um 8:20 Uhr, ist notiert.",
            "Der Termin beim Orthopäden wurde auf den 17. April verlegt.",
            "Wann ist der Termin beim Orthopäden?",
        ),
        ("婚礼定在10月5号，我当伴娘。", "恭喜！10月5日婚礼，你当伴娘。", "婚礼提前到9月21号了。", "婚礼是哪天？"),
    ],
)
def test_an_assistants_reply_is_as_out_of_date_as_what_it_repeats(older, reply, newer, question):
    """Proves: LIVE-4."""
    said = [("user", older), ("assistant", reply), ("user", newer)]
    with Memory() as memory:
        turns = [
            {"id": str(at), "role": role, "content": text, "created_at": f"2024-03-0{at + 1}T09:00:00Z"}
            for at, (role, text) in enumerate(said)
        ]
        memory.add(turns, user_id="ada")
        facts = memory.recall(question, user_id="ada").facts
    assert [(fact.id, fact.superseded_by_hint) for fact in facts] == [("2", None), ("0", "2"), ("1", "2")]


def test_a_reply_with_something_of_its_own_is_not_out_of_date():
    """Proves: LIVE-4."""
    assert not merely_repeats("We meet on Friday.", "We meet on Monday now.", "Friday: bring the 12 keys.")
    assert merely_repeats("We meet on Friday.", "We meet on Monday now.", "Friday it is.")
