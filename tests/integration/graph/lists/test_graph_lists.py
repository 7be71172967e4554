"""Lists whose members lie in several sessions are found by further iterations (PIECES-1)."""

from __future__ import annotations

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource, StopReason

# A turn of each session tells of a sport; only the first two say so in the words of the question.
SPORTS = {
    "football": "I have played football since school, it is the sport of my life.",
    "volleyball": "On Fridays I play volleyball, my second sport.",
    "golf": "My uncle took me out last weekend and we did eighteen holes of golf under a grey sky.",
    "karate": "Yesterday evening I passed the exam for the orange belt in karate, I was so nervous before.",
    "basketball": "We went to the yard behind the library and threw a basketball until it got dark.",
}
CHATTER = (
    "Kevin, which sports are played at your school these days?",
    "Do you watch sports on the telly, Kevin?",
    "My brother Olaf has played every sport that there is, I have played none.",
    "Kevin, sports are played all year in this town.",
    "Olaf says that sports played with a ball are the best ones.",
    "Has Kevin told you which match is played tomorrow?",
    "I never played any sport, Kevin knows.",
    "The sports shop was closed again, Kevin.",
    "A game was played here, Kevin, and nobody came.",
    "Kevin played me his new song, it has nothing to do with sports.",
    "They played the sports news twice.",
    "Kevin, who has played the flute so late?",
)
QUESTION = "Which sports has Kevin played?"


def records():
    for session, (sport, told) in enumerate(SPORTS.items(), 1):
        turns = [
            ("Hanna", "Good to hear from you, how was your week?"),
            ("Kevin", told),
            ("Hanna", "That sounds like quite a week."),
            ("Kevin", "It was. The bakery on the corner has new owners, by the way."),
            *(("Hanna", line) for line in CHATTER[session - 1 :: len(SPORTS)]),
        ]
        for position, (author, text) in enumerate(turns):
            yield {
                "id": sport if text == told else f"s{session}-{position}",
                "kind": "message",
                "text": text,
                "author": author,
                "role": "user",
                "session": f"s{session}",
                "position": position,
                "created_at": f"2024-0{session}-10T09:0{position}:00Z",
            }


@pytest.fixture(scope="module")
def world(embedder):
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert(list(records()), tenant="team")
        yield store


def ask(store, question, **settings):
    request = {
        "messages": [{"role": "user", "content": question}],
        "tenant": "team",
        "max_facts": 6,
        "reference_time": "2024-07-01T00:00:00Z",
        "debug": True,
    }
    return retrieve(request, store=store, settings=Settings(**settings))


def found(result):
    return {fact.id for fact in result.facts} & SPORTS.keys()


def test_members_in_other_sessions_take_further_iterations(world):
    """One round finds those told in the question's words, further ones the rest. Proves: PIECES-1."""
    assert found(ask(world, QUESTION, max_iterations=1)) < SPORTS.keys()
    result = ask(world, QUESTION)
    assert found(result) == SPORTS.keys()
    sources = {match["source"] for fact in result.facts for match in fact.debug["matches"]}
    assert {QuerySource.STATEMENT, QuerySource.MEMBER} <= sources


def test_rounds_end_without_a_new_member(world):
    """A list isn't complete because one record covers the question; it is when nothing new comes. Proves: PIECES-1."""
    result = ask(world, QUESTION)
    assert 2 <= result.stop.iteration <= 4
    assert result.stop.reason in (StopReason.COVERED, StopReason.NO_NOVELTY, StopReason.EXHAUSTED)


GERMAN = {
    "fussball": "Ich habe früher viel Fußball gespielt, das war meine Sportart.",
    "golf": "Mein Onkel nahm mich am Wochenende mit, wir haben achtzehn Löcher Golf geschafft.",
    "karate": "Gestern habe ich die Prüfung für den Gürtel in Karate bestanden, ich war sehr nervös.",
}


def test_members_are_looked_up_in_the_language_of_the_question(embedder):
    """A kind of German has German members. Proves: PIECES-1, OPEN-4."""
    others = (
        "Kevin, welche Sportarten gibt es bei euch?",
        "Kevin hat gespielt, ich habe zugesehen.",
        "Es hat geregnet.",
    )
    texts = [("Kevin", *item) for item in GERMAN.items()] + [("Hanna", text, text) for text in others * 3]
    turns = [
        {"id": f"{at}-{name}", "kind": "message", "author": author, "text": text, "role": "user", "session": f"s{at}"}
        for at, (author, name, text) in enumerate(texts)
    ]
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert(turns, tenant="team")
        result = ask(store, "Welche Sportarten hat Kevin gespielt?")
    looked_up = [each["query"] for each in result.metadata["trace"]["query_results"] if each["source"] == "member"]
    assert any("karate" in query or "golf" in query for query in looked_up)


def test_no_list_no_further_members(world):
    """A question for a single thing is searched as ever. Proves: PIECES-1."""
    result = ask(world, "When did Kevin pass the exam?")
    sources = {outcome["source"] for outcome in result.metadata["trace"]["query_results"]}
    assert sources.isdisjoint({QuerySource.STATEMENT, QuerySource.MEMBER})
    assert "member" not in result.facts[0].debug["components"]


def test_only_a_single_answer_may_lack_its_kind(world):
    """What lacks a time is ranked lower for "when", and nothing is for a list. Proves: RANK-3, PIECES-1."""
    when = {fact.text: fact.debug["components"] for fact in ask(world, "When did Kevin pass the exam?").facts}
    lacking = {text for text, components in when.items() if "lacking" in components}
    assert SPORTS["karate"] not in lacking and "That sounds like quite a week." in lacking
    assert not any("lacking" in fact.debug["components"] for fact in ask(world, QUESTION).facts)
