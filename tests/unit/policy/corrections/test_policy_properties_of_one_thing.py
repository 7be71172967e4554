"""A change of a thing of which much is told changes only what it names: LIVE-4."""

from __future__ import annotations

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.policy.facts.corrections import question_terms, relevant_statements, surest_correction
from recall_loop.policy.facts.rarity import Rarity, rarity_of

OFTEN = {"harrier": 9, "offic": 6, "milo": 8, "volvo": 6, "denholm": 7}


def corrects(question: str, older: str, newer: str, rarity: Rarity) -> bool:
    asked = question_terms(question)
    return surest_correction(relevant_statements(older, asked), newer, asked, rarity) is not None


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "Which database does Harrier use?",
            "Harrier's database is PostgreSQL 15",
            "Line length in Harrier is 120 since June 15",
        ),
        ("Where do Harrier logs go?", "Harrier logs go to Loki", "We replaced the cron jobs in Harrier"),
        ("Where is the office?", "The office is at 12 Quay Street", "The lease of the office was extended to 2029"),
        (
            "Where is the printer?",
            "The printer of the office is on the second floor",
            "The office cleaner comes on Fridays instead of Wednesdays",
        ),
        ("What is Milo allergic to?", "Milo is allergic to peanuts", "Milo now wears glasses"),
        ("How soon does Denholm pay?", "Denholm pays within 60 days", "Denholm upgraded its order to 300 units"),
    ],
)
def test_a_change_of_something_else_of_a_thing_that_is_often_told_of(question: str, older: str, newer: str) -> None:
    assert not corrects(question, older, newer, rarity_of(OFTEN, 30))
    assert corrects(question, older, newer, rarity_of({}, 30))  # where little is told, it is the likelier guess


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("What car do I drive?", "I drive a Volvo", "I sold the Volvo and drive a Skoda"),
        ("What is the retry limit?", "The retry limit in Harrier is 3", "The retry limit in Harrier was raised to 5"),
        ("Where does Milo live?", "Milo lives in Leeds", "Milo moved to Hull"),
    ],
)
def test_what_ends_or_names_what_was_told_corrects_it_still(question: str, older: str, newer: str) -> None:
    assert corrects(question, older, newer, rarity_of(OFTEN, 30))


NOTES = [
    "Harrier's database is PostgreSQL 15",
    "Harrier's CI runs on GitHub Actions",
    "Deploys of Harrier go out on Tuesdays",
    "Harrier pins pydantic to 1.10",
    "Harrier logs go to Loki",
    "Line length in Harrier is 120 since June 15",
    "We replaced the cron jobs in Harrier with a scheduler",
    "Harrier pins pydantic to 2.9 now",
    "Deploys of Harrier go out on Thursdays from now on",
]


def test_of_a_project_only_what_was_corrected_is_marked(store: MemoryStore) -> None:
    day = "2026-03-{:02}T09:00:00+00:00".format
    store.upsert(
        [{"id": str(at), "kind": "fact", "text": text, "created_at": day(at + 1)} for at, text in enumerate(NOTES)]
    )
    marked = {
        (fact.id, fact.superseded_by_hint)
        for question in ("Which database does Harrier use?", "Which pydantic is pinned?", "When do deploys go out?")
        for fact in retrieve(question, store=store).facts
        if fact.superseded_by_hint
    }
    assert marked == {("3", "7"), ("2", "8")}


@pytest.mark.parametrize(
    ("told", "question", "first"),
    [
        (["The server has 32 GB", "The server is in the cellar"], "What does the server run?", "Debian"),
        (["The office is bright", "The office opens at 8"], "Where is the office?", "market"),
    ],
)
def test_of_a_thing_of_which_little_is_told_the_change_is_believed(
    store: MemoryStore, told: list[str], question: str, first: str
) -> None:
    """Proves: LIVE-4."""
    thing = told[0].split()[1]
    ends = {"server": ("runs Ubuntu", "was upgraded to Debian"), "office": ("is in Camden", "is now at the market")}
    texts = [f"The {thing} {ends[thing][0]}", *told, f"The {thing} {ends[thing][1]}"]
    day = "2026-03-{:02}T09:00:00+00:00".format
    store.upsert(
        [{"id": str(at), "kind": "fact", "text": text, "created_at": day(at + 1)} for at, text in enumerate(texts)]
    )
    assert first in retrieve(question, store=store).facts[0].text
