from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.policy.confidence.confidence_signals import SIGNAL_DEPTH, SIGNALS, confidence_signals
from recall_loop.policy.confidence.signal_inputs import BEST_DEPTH
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import ChatMessage, RetrieveRequest

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def question(text):
    return analyse_question(RetrieveRequest(messages=(ChatMessage(content=text),)), NOW)


def fact(at, text, score, author=None):
    record = {"id": f"f{at}", "kind": "message", "text": text} | ({"author": author} if author else {})
    return RankedEntry(
        {"key": f"f{at}", "record": record, "window": "", "similarity": score, "alignment": [], "matches": []},
        score,
        {},
    )


def facts(*parts):
    return [fact(at, *part) for at, part in enumerate(parts)]


READ = [0.5]
BOAT = question("Where did Tove moor the yellow boat?")
TEXT = "I moored the yellow boat behind the mill."


def test_without_facts_every_signal_is_zero():
    """Proves: CONF-3, CONF-4."""
    assert confidence_signals([], BOAT, 0.0, []) == dict.fromkeys(SIGNALS, 0.0)


def test_the_signals_are_those_that_are_told():
    """Proves: CONF-4."""
    assert list(confidence_signals(facts((TEXT, 0.9, "Tove")), BOAT, 1.0, READ)) == list(SIGNALS)


def test_what_somebody_else_said_is_told_from_what_the_named_one_said():
    """Proves: CONF-4."""
    other = ("The weather is fine today.", 0.3)
    mine = confidence_signals(facts((TEXT, 0.9, "Tove"), (*other, "Ruben")), BOAT, 1.0, READ)
    theirs = confidence_signals(facts((TEXT, 0.9, "Ruben"), (*other, "Tove")), BOAT, 1.0, READ)
    assert mine["named_first"] == 1.0 and theirs["named_first"] == 0.0
    for name in ("named_lead", "named_own", "named_window", "named_vote", "named_told", "named_alike"):
        assert mine[name] > 0.0 > theirs[name], name


def test_what_somebody_says_of_the_named_one_is_of_that_one():
    """Proves: CONF-4."""
    mine = "I have seen Tove's yellow boat moored behind the mill."
    told = confidence_signals(facts((mine, 0.9, "Ruben"), ("Fine weather today.", 0.3, "Tove")), BOAT, 1.0, READ)
    hail = "Hey Tove, a yellow boat is moored behind the mill."
    addressed = confidence_signals(facts((hail, 0.9, "Ruben"), ("Fine weather today.", 0.3, "Tove")), BOAT, 1.0, READ)
    assert told["named_first"] == 1.0 and addressed["named_first"] == 0.0
    assert told["named_told"] > 0.0 > addressed["named_told"]


def test_a_question_without_names_has_no_attribution():
    """Proves: CONF-4."""
    found = confidence_signals(facts((TEXT, 0.9, "Ruben")), question("where is the yellow boat moored?"), 1.0, READ)
    assert [found[name] for name in SIGNALS if name.startswith("named")] == [0.0] * 7
    assert found["told_share"] == 1.0, "where nobody is named, all facts may tell it"


def test_what_was_told_of_the_other_counts_less():
    """Who says "I" tells of himself, who says "you" of the other; a fact is about its subject.

    Proves: CONF-4.
    """
    told = {}
    for person in ("I", "Somebody", "You"):
        by_named, by_other = (facts((f"{person} moored the yellow boat.", 0.9, who)) for who in ("Tove", "Ruben"))
        told[person] = [confidence_signals(found, BOAT, 1.0, READ)["named_told"] for found in (by_named, by_other)]
    assert told["I"] == [pytest.approx(2 * told["Somebody"][0]), pytest.approx(-told["I"][0])]
    assert told["I"][0] > told["Somebody"][0] > told["You"][0] == 0.0
    assert told["I"][1] < told["Somebody"][1] < told["You"][1] == 0.0
    about = facts(("Tove moored the yellow boat.", 0.9, "Tove"))
    about[0].entry["record"]["kind"] = "fact"
    assert confidence_signals(about, BOAT, 1.0, READ)["named_told"] == told["I"][0]


def test_what_only_a_model_asked_for_is_not_like_the_question():
    """Proves: CONF-4, LOOP-8 (its queries don't vouch for what they found)."""
    found = facts((TEXT, 0.8, "Tove"))
    for at, (sources, expected) in enumerate([(["keyword"], 0.8), (["keyword", "llm"], 0.5), (["llm"], 0.0)]):
        found[0].entry["matches"] = [{"source": each, "similarity": 0.8 if each == "llm" else 0.5} for each in sources]
        assert confidence_signals(found, BOAT, 1.0, READ)["told_alike"] == expected, at


def test_similarity_counts_as_far_as_named_people_say_it_about_themselves():
    """Proves: CONF-4."""
    you = "You moored the yellow boat."
    found = confidence_signals(facts((TEXT, 0.8, "Tove"), (TEXT, 0.6, "Ruben"), (you, 0.9, "Tove")), BOAT, 1.0, READ)
    assert found["named_alike"] == pytest.approx(0.8 - 0.6)
    assert found["told_alike"] == pytest.approx((0.8 + 0.0) / 2), "what is told to another counts for nothing"
    unnamed = confidence_signals(
        facts((TEXT, 0.8, "Tove"), (you, 0.6, "Ruben")), question("where is the yellow boat?"), 1.0, READ
    )
    assert unnamed["told_alike"] == pytest.approx(0.7), "where nobody is named, all facts may tell it"


def test_a_passage_of_nobody_tells_against_nobody():
    """Proves: CONF-4 (no author, no subject)."""
    found = confidence_signals(facts((TEXT, 0.9)), BOAT, 1.0, READ)
    assert found["named_vote"] < 0.0 == found["named_told"]
    assert found["told_share"] == 1.0


def test_a_first_fact_that_stands_out_has_a_large_step():
    """Proves: CONF-4."""
    flat = [fact(at, TEXT, 0.5) for at in range(20)]
    steep = [fact(0, TEXT, 0.9), *(fact(at, TEXT, 0.2) for at in range(1, 20))]
    assert confidence_signals(flat, BOAT, 1.0, READ)["largest_step"] == 0.0
    assert confidence_signals(steep, BOAT, 1.0, READ)["largest_step"] == pytest.approx(0.7)
    assert confidence_signals(steep, BOAT, 1.0, READ)["top_over_tail"] == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("When did Tove moor the boat?", "asks_date"),
        ("How many boats does Tove own?", "asks_number"),
        ("Who moored the boat?", "asks_person"),
        ("What did Tove moor in May 2023?", "says_time"),
    ],
)
def test_the_kind_of_question_is_seen(text, name):
    """Proves: CONF-4."""
    assert confidence_signals(facts((TEXT, 0.9, "Tove")), question(text), 1.0, READ)[name] == 1.0


def test_how_much_is_asked_for_is_seen():
    """Proves: CONF-4 (the more records it takes, the seldomer all of them are found)."""
    short, many, told = (
        confidence_signals(facts((TEXT, 0.9)), question(text), 1.0, READ)
        for text in (
            "Where is the boat?",
            "Which yellow boats has the harbour master lent to sailors from abroad this year?",
            "I moored the boat behind the mill. Where is it?",
        )
    )
    assert (short["asks_list"], many["asks_list"]) == (0.0, 1.0)
    assert 0.0 < short["question_length"] < many["question_length"] < 1.0
    assert (short["question_tells"], told["question_tells"]) == (0.0, 0.5)


def test_only_the_best_twenty_facts_count():
    """Proves: CONF-4 (a score means the same whatever number of facts was asked for, from twenty up)."""
    many = [fact(at, f"{TEXT} {at}", 1.0 - at / 100, "Tove" if at % 3 else "Ruben") for at in range(60)]
    assert confidence_signals(many, BOAT, 0.5, READ) == confidence_signals(many[:SIGNAL_DEPTH], BOAT, 0.5, READ)
    assert BEST_DEPTH < SIGNAL_DEPTH == 20


FACTS = st.lists(
    st.tuples(
        st.sampled_from([TEXT, "", "Tove", "a b c", "日本 2023"]), st.floats(0, 1), st.sampled_from([None, "Tove", "R"])
    ),
    max_size=25,
)


def test_what_answers_best_is_told_beside_what_comes_first():
    """Proves: CONF-4."""
    found = confidence_signals(facts((TEXT, 0.9), (TEXT, 0.8), (TEXT, 0.7)), BOAT, 1.0, [0.2, 0.9, 0.4])
    assert found["read_first"] < 0.0 < found["read_best"] == pytest.approx(math.log(9) / 6)
    sure = confidence_signals(facts((TEXT, 0.9)), BOAT, 1.0, [1.0])
    assert sure["read_first"] == sure["read_best"] == 1.0


@settings(max_examples=60, deadline=None)
@given(found=FACTS, share=st.floats(0, 1), text=st.sampled_from(["Where is Tove's boat?", "?", "why", "日本"]))
def test_every_signal_is_bounded_whatever_was_found(found, share, text):
    """Proves: CONF-4."""
    ranked = sorted(facts(*found), key=lambda item: -item.score)
    values = confidence_signals(ranked, question(text), share, [share])
    assert set(values) == set(SIGNALS) and all(-1.0 <= value <= 1.0 for value in values.values())
    assert values == confidence_signals(ranked, question(text), share, [share])
