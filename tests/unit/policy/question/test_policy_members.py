"""Further members of a list: their queries, how well records fit, and when the search for them ends (PIECES-1)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from recall_loop.policy.evidence.members import MEMBER_DEPTH, count_new_members, member_fit
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.repeats import demote_duplicates
from recall_loop.policy.planning.member_queries import (
    MAX_LOOKED_UP,
    MAX_WORDS,
    kind_words,
    list_queries,
    stems_by_word,
    words_in_memory,
    words_not_mentioned,
    words_to_look_up,
)
from recall_loop.policy.question.question import analyse_question
from recall_loop.policy.stopping import RunProgress, stop_reason
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource, Role, StopReason
from recall_loop.text.time.dates import to_utc
from recall_loop.text.words.tokens import stems
from tests.integration.graph.worlds import NOW

KEVIN = frozenset(stems("Kevin"))


def question(text="Which sports has Kevin played?"):

    request = RetrieveRequest.model_validate({"messages": [{"role": "user", "content": text}], "tenant": "t"})
    return analyse_question(request, to_utc(datetime.fromisoformat(NOW)))


def entry(text, *, author="Kevin", iteration=1, sources=(), session="s1"):
    return {
        "key": text,
        "record": {"id": text, "kind": "message", "text": text, "author": author, "role": "user", "session": session},
        "window": text,
        "similarity": 0.5,
        "relevance": 0.5,
        "matches": [{"query": "q", "source": source, "iteration": at} for source, at in sources],
        "first_iteration": iteration,
    }


def test_kind_gives_words_that_the_question_lacks():
    """A known kind gives its members; no kind, an unknown one and no list give none. Proves: PIECES-1."""
    words = kind_words(question())
    assert {"golf", "karate"} <= set(words)
    assert "sport" not in words
    for other in ("What has Kevin painted?", "Which zxqvs has Kevin played?", "When did Kevin play golf?"):
        assert kind_words(question(other)) == []


def test_rare_single_words_of_memory_come_first():
    """Unknown words, words of most records, and terms with a known word in them are left out. Proves: PIECES-1."""
    words = stems_by_word(["golf", "golf game", "ice hockey", "tennis", "judo", "ball"], "en")
    frequencies = {"golf": 6, "game": 3, "ice": 2, "hockey": 1, "tenni": 3, "ball": 90}
    assert words_in_memory(words, frequencies, 100) == ["tennis", "golf", "ice hockey"]


def test_words_are_looked_up_once_and_not_without_end():
    """Proves: PIECES-1 (rounds end)."""
    assert words_to_look_up(["golf", "judo"], ["sports kevin played golf"]) == ["judo"]
    assert words_to_look_up(["golf", "judo"], ["some query"] * MAX_LOOKED_UP) == []


def test_members_that_were_mentioned_are_not_looked_up():
    """Proves: PIECES-1 (different members before more of the same)."""
    assert words_not_mentioned(["golf", "judo"], [entry("I play golf.")], "en") == ["judo"]


def test_queries_by_word_by_what_is_shared_by_form_and_by_session():
    """Each way to a further member has a query of its own. Proves: PIECES-1."""
    ranked = [entry("I played tennis with Olaf.", session="s4"), entry("Tennis with Olaf?", author="Hanna")]
    queries = list_queries(question(), ranked, ["golf", "judo", "polo", "darts", "chess"], 120)
    members = [query for query in queries if query["source"] == QuerySource.MEMBER]
    assert [query["entity"] for query in members] == ["golf", "judo", "polo", "darts"][:MAX_WORDS]
    narrowed = [query["narrowed"]["filters"] for query in queries if query["narrowed"]]
    assert narrowed == [{"speech_acts": ["statement"]}, {"session": "s4"}]
    assert "olaf" in queries[0]["text"].lower()
    assert len({query["text"] for query in queries}) == len(queries)


def test_filters_of_the_request_are_not_widened():
    """Where it asks for certain speech acts, no query is narrowed to others. Proves: PIECES-1."""
    queries = list_queries(question(), [entry("I played tennis.")], [], 120, narrow=False)
    assert all("speech_acts" not in (query["narrowed"] or {"filters": {}})["filters"] for query in queries)


def test_no_list_no_queries():
    """Proves: PIECES-1."""
    assert list_queries(question("When did Kevin play golf?"), [entry("I played golf.")], ["golf"], 120) == []
    assert list_queries(question(), [], ["golf"], 120) == []


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (entry("I did karate.", sources=[("member", 2)]), entry("I did karate.", sources=[("statement", 2)])),
        (entry("I did it.", sources=[("statement", 2)]), entry("I did it.", author="Olaf", sources=[("statement", 2)])),
        (entry("I did it.", sources=[("statement", 2)]), entry("I did it?", sources=[("statement", 2)])),
        (entry("I did it. " * 9, sources=[("statement", 2)]), entry("I did it.", sources=[("statement", 2)])),
        (entry("I did it.", sources=[("statement", 2)]), entry("I did it.", sources=[("phrase", 1)])),
    ],
)
def test_better_members_come_first(better, worse):
    """Named members, said by the asked person, of some length, found by the list's queries. Proves: PIECES-1."""
    assert 1.0 >= member_fit(better, KEVIN, None) > member_fit(worse, KEVIN, None) >= 0.0


def test_speaker_without_a_name():
    """In "what have I played?" the asked person is the user. Proves: PIECES-1."""
    told = entry("I did it.", sources=[("statement", 2)])
    assert member_fit(told, frozenset(), Role.USER) > member_fit(told, frozenset(), Role.ASSISTANT)


def test_new_members_are_counted_once():
    """New records, and those that now turn out to name a member; only among the best. Proves: PIECES-1."""
    new = entry("a", iteration=2, sources=[("statement", 2)])
    named = entry("b", sources=[("phrase", 1), ("member", 2)])
    again = entry("c", sources=[("member", 2), ("member", 3)])
    other = entry("d", iteration=2, sources=[("phrase", 2)])
    assert count_new_members([new, named, again, other], 2) == 3
    assert count_new_members([new, named, again, other], 3) == 0
    assert count_new_members([other] * MEMBER_DEPTH + [new], 2) == 0


def test_different_members_go_before_more_of_the_same():
    """The third record that names one member comes after another member. Proves: PIECES-1."""
    golf = [entry(f"golf {at}", sources=[("member", 2)]) for at in ("one", "two", "three")]
    judo = entry("judo", sources=[("member", 2)])
    judo["matches"][0]["query"] = "judo"
    ranked = [RankedEntry(each, 0.5 - 0.01 * at, {}) for at, each in enumerate([*golf, judo])]
    listed = demote_duplicates(ranked, 0.9, 0.1, listed=True)
    assert [item.id for item in listed] == ["golf one", "golf two", "judo", "golf three"]
    assert [item.id for item in demote_duplicates(ranked, 0.9, 0.1)] == [item.id for item in ranked]


PROGRESS = RunProgress(
    iteration=2,
    in_scope=True,
    calls=[],
    queries_left=True,
    coverage=1.0,
    best_single=1.0,
    best_similarity=0.9,
    new_facts=50,
    streak=0,
    elapsed=0.0,
    remaining_steps=50,
)


def test_a_list_ends_when_nothing_new_comes():
    """One record that covers everything ends a search for one thing, not for a list. Proves: PIECES-1, STOP-3."""
    settings = Settings()
    first = replace(PROGRESS, iteration=1)
    assert stop_reason(first, settings) is StopReason.COVERED
    assert stop_reason(replace(first, new_members=0), settings) is None
    assert stop_reason(replace(PROGRESS, new_members=2), settings) is None
    assert stop_reason(replace(PROGRESS, new_members=0), settings) is StopReason.COVERED
    assert stop_reason(replace(PROGRESS, new_members=0, coverage=0.1), settings) is StopReason.NO_NOVELTY
