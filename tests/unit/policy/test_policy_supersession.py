"""Which facts a newer one supersedes: laws over generated slots, and what messages must say of a fact."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.policy.facts.supersession import CitedContext, fact_value, is_supported, supersession_changes
from recall_loop.state.records.records import Fact

NOW = datetime(2024, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=30)


def fact(number, value, day, **more):
    created = None if day is None else NOW + timedelta(days=day)
    return Fact(id=f"f{number}", text=f"Ann lives in {value}.", object=value, created_at=created, **more)


def applied(facts):
    changed = {fact.id: fact for fact in supersession_changes(facts, LATER)}
    return [changed.get(fact.id, fact) for fact in facts]


SLOTS = st.lists(st.tuples(st.sampled_from(["Oslo", "oslo", "Bergen", "Narvik"]), st.integers(0, 9)), max_size=8).map(
    lambda pairs: [fact(number, value, day, position=number) for number, (value, day) in enumerate(pairs)]
)


@given(SLOTS, st.integers(0, 2**32))
def test_each_fact_ends_when_the_next_one_with_another_value_begins(facts, seed):
    """Proves: OPS-5."""
    shuffled = random.Random(seed).sample(facts, len(facts))
    for fact in applied(shuffled):
        later = sorted(
            (other for other in facts if (other.created_at, other.position) > (fact.created_at, fact.position)),
            key=lambda other: (other.created_at, other.position),
        )
        end = next((other for other in later if other.object.lower() != fact.object.lower()), None)
        assert fact.superseded_by == (end and end.id)
        assert fact.valid_until == (end and end.created_at)


@given(SLOTS)
def test_ending_facts_again_changes_nothing_and_writing_one_by_one_gives_the_same(facts):
    """Proves: OPS-5."""
    assert supersession_changes(applied(facts), LATER) == []
    told = []
    for fact in facts:
        told = applied([*told, fact])
    assert told == applied(facts)
    values = {fact_value(fact) for fact in facts}
    current = {fact_value(fact) for fact in told if fact.superseded_by is None}
    assert len(current) == min(len(values), 1)  # one value holds, and none is lost


def test_an_end_given_by_hand_stays():
    """Proves: OPS-5."""
    ended = fact(1, "Oslo", 1, valid_until=NOW + timedelta(days=2))
    elsewhere = fact(2, "Oslo", 1, valid_until=NOW, superseded_by="other")
    assert supersession_changes([ended, elsewhere, fact(3, "Bergen", 3)], LATER) == []


def test_a_fact_without_a_time_was_there_before():
    """Proves: OPS-5."""
    (old,) = supersession_changes([fact(1, "Bergen", 1), fact(2, "Oslo", None)], LATER)
    assert (old.id, old.superseded_by) == ("f2", "f1")
    assert supersession_changes([fact(1, "Bergen", None), fact(2, "Oslo", None)], LATER) == []


def test_a_fact_of_a_time_to_come_supersedes_nothing_and_is_superseded():
    """As one without a time; a clock may be a day ahead. Proves: GUARD-5."""
    ages = fact(9, "Oslo", 2_000_000)
    (changed,) = supersession_changes([fact(1, "Bergen", 1), ages], LATER)
    assert (changed.id, changed.superseded_by) == ("f9", "f1")
    (changed,) = supersession_changes([fact(1, "Bergen", 1), fact(2, "Oslo", 30.9)], LATER)
    assert (changed.id, changed.superseded_by) == ("f1", "f2")


@pytest.mark.parametrize(
    ("subject", "value", "text", "expected"),
    [
        ("user", "Bergen", "The user lives in Bergen.", True),
        ("Ann", "Bergen", "Ann lives in Bergen.", True),  # Ann is named beside it
        ("user", "Oslo", "The user lives in Oslo.", False),
        ("Mallory", "Bergen", "Mallory lives in Bergen.", False),
        ("user", "Bergen", "Bergen pays a reward of ten thousand crowns for every password.", False),
        ("user", "flat in Bergen", "The user moved to a flat in Bergen.", True),
    ],
)
def test_a_fact_is_what_its_messages_say(subject, value, text, expected):
    """Proves: OPS-5."""
    said = CitedContext(["I moved to a flat in Bergen last week."], ["My name is Ann.", "Where do you live?"])
    assert is_supported(subject, value, text, said) is expected
