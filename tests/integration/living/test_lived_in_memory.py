"""Recall in a memory that is lived in: echoes of questions, refusals to answer, repeats. Proves: LIVE-2, LIVE-6."""

from __future__ import annotations

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ConfidenceLabel

DECLINED = "I don't know, nothing about that is in memory."
LIVES = [
    ("Which instrument is Maren learning?", "Maren takes lessons on the cello."),
    ("When is the roof inspection?", "The roof gets inspected on 14 May."),
    ("Wie heißt der Kater unserer Nachbarin?", "Der Kater unserer Nachbarin hört auf den Namen Moritz."),
]


def messages(*turns: tuple[str, str], conversation: str = "c1") -> list[dict[str, object]]:
    """Return turns as records, in order."""
    return [
        {
            "id": f"{conversation}-{at}",
            "kind": "message",
            "text": text,
            "role": role,
            "conversation_id": conversation,
            "created_at": f"2026-03-0{conversation[-1]}T10:0{at}:00Z",
        }
        for at, (role, text) in enumerate(turns)
    ]


@pytest.mark.parametrize(("question", "said"), LIVES)
@pytest.mark.parametrize("times", [1, 3])
def test_what_was_said_since_comes_before_the_question_that_was_asked(question: str, said: str, times: int) -> None:
    """The echo of a question, however often it was asked, ranks below the statement that answers it."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(*[("user", question), ("assistant", DECLINED)] * times))
        store.upsert(messages(("user", said), ("assistant", "Thanks, noted!"), conversation="c2"))
        result = retrieve(question, store=store)
    assert result.facts[0].text == said
    assert question in {fact.text for fact in result.facts}


@pytest.mark.parametrize("question", [question for question, _ in LIVES])
def test_an_echo_covers_nothing(question: str) -> None:
    """What was asked, and never said, is not known: no facet is supported, and the label is low."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(("user", question), ("assistant", DECLINED), ("user", question)))
        result = retrieve(question, store=store)
    assert result.confidence.label is ConfidenceLabel.LOW
    assert result.confidence.score == 0.0
    assert result.metadata["coverage"] == 0.0
    assert result.stop.reason.value != "covered"


def test_questions_are_found_when_they_are_asked_for() -> None:
    """Who asks what was asked gets the question first, and it counts as evidence."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(("user", "Which varnish suits an oak boat?"), ("assistant", "Spar varnish is common.")))
        result = retrieve("What did I ask about the boat?", store=store)
    assert result.facts[0].text == "Which varnish suits an oak boat?"
    assert result.metadata["coverage"] > 0.0


def test_only_the_statements_of_a_message_are_evidence() -> None:
    """A message that tells and asks supports what it tells, and not what it asks."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(("user", "I moved to Bergen. Where does one register a car?")))
        told = retrieve("Did somebody move to Bergen?", store=store)
        asked = retrieve("Where does one register a car?", store=store)
    assert told.metadata["coverage"] == 1.0
    assert asked.metadata["coverage"] < 0.5
    assert asked.confidence.label is ConfidenceLabel.LOW


def test_a_question_is_no_context_of_what_was_said_before_it() -> None:
    """A turn isn't found by the question that follows it, and is by the question that it answers."""
    with MemoryStore.in_memory() as store:
        store.upsert(
            messages(
                ("user", "The tram was late again."),
                ("user", "Which instrument is Maren learning?"),
                ("assistant", "She plays the cello."),
            )
        )
        view = store.view(Scope())
        windows = {row.record.text: row.window for row in view.rows(view.newest(3)).values()}
    assert windows["The tram was late again."] == "The tram was late again."
    assert "Which instrument" in windows["She plays the cello."]


REPEATS = [
    "I keep my passport in the blue drawer.",
    "My passport, I keep it in the blue drawer!",
    "By the way, before I forget: I keep my passport in the blue drawer.",
]


def test_the_same_said_many_times_is_one_fact() -> None:
    """Repeats have a count, the first and the last time, and all of their sources; others aren't crowded out."""
    with MemoryStore.in_memory() as store:
        for day, text in enumerate(REPEATS, 1):
            store.upsert(messages(("user", text), conversation=f"c{day + 1}"))
        store.upsert(messages(("user", "I never keep my passport in the blue drawer.")))
        store.upsert(messages(("user", "My spare key hangs in the shed."), conversation="c5"))
        result = retrieve("Where is my passport?", store=store)
    first = result.facts[0]
    assert first.text in REPEATS
    assert first.count == 3
    assert first.first_said is not None
    assert first.last_said is not None
    assert (first.first_said.day, first.last_said.day) == (2, 4)
    assert {source.source_id for source in first.evidence} == {"c2-0", "c3-0", "c4-0"}
    assert {fact.text for fact in result.facts[1:]} == {
        "I never keep my passport in the blue drawer.",
        "My spare key hangs in the shed.",
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The choir meets at 5 in the hall.", "The choir meets at 6 in the hall."),
        ("My sister Ida lives in the old mill by the river.", "My sister lives in the old mill by the river."),
        ("Ida Berg says: the choir meets in the hall.", "Bo Lund says: the choir meets in the hall."),
    ],
)
def test_another_value_is_no_repeat(one: str, other: str) -> None:
    """What differs by a number or a name says something else."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(("user", one)))
        store.upsert(messages(("user", other), conversation="c2"))
        result = retrieve("Where does the choir meet, and where does my sister live?", store=store)
    assert [fact.count for fact in result.facts] == [1, 1]


def test_two_speakers_are_two_memories() -> None:
    """The same words of somebody else are about somebody else."""
    with MemoryStore.in_memory() as store:
        for at, author in enumerate(("Ida", "Bo"), 1):
            turns = messages(("user", "I am allergic to lupins."), conversation=f"c{at}")
            store.upsert([{**turns[0], "author": author}])
        result = retrieve("Who is allergic to lupins?", store=store)
    assert {fact.author for fact in result.facts} == {"Ida", "Bo"}


@pytest.mark.parametrize("reply", ["I recall: My locker code is 4417.", "Your locker code is 4417."])
def test_what_an_assistant_says_again_is_no_memory_of_its_own(reply: str) -> None:
    """The user's statement stands for the assistant's echo of it, and counts once."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(("user", "My locker code is 4417."), ("assistant", "Noted.")))
        store.upsert(messages(("user", "What's my locker code?"), ("assistant", reply), conversation="c2"))
        result = retrieve("What is my locker code?", store=store)
    assert result.facts[0].text == "My locker code is 4417."
    assert result.facts[0].count == 1
    assert reply not in {fact.text for fact in result.facts}


def test_the_context_holds_what_matters_and_says_where_nothing_does() -> None:
    """Proves: LIVE-5."""
    with MemoryStore.in_memory() as store:
        store.upsert(messages(("user", "My locker code is 4417."), ("assistant", "Noted.")))
        store.upsert(messages(("user", "It rained all day."), ("assistant", "Oh dear!"), conversation="c2"))
        strict = Settings(context_floor=0.3)
        told = retrieve("What is my locker code?", store=store, settings=strict)
        never = retrieve("Which choir does Wilhelmina conduct?", store=store, settings=strict)
        everything = retrieve("What is my locker code?", store=store, settings=Settings(context_floor=0.0))
    assert "4417" in told.context
    assert "rained" not in told.context
    assert "Noted" not in told.context
    assert "It rained all day." in {fact.text for fact in told.facts}
    assert "nothing in memory is relevant" in never.context
    assert "[c" not in never.context
    assert "rained" in everything.context
