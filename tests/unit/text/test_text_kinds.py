"""The tree of kinds."""

import pytest

from recall_loop.text.words.kinds import FEW_MEMBERS, MOST_MEMBERS, members_of


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("sports", {"golf", "karate", "basketball", "football"}),
        ("musical instruments", {"violin", "clarinet"}),
        ("instrument", {"violin", "clarinet"}),
        ("European countries", {"spain", "denmark"}),
        ("cities", {"seattle", "rome"}),
        ("martial arts", {"karate", "judo"}),
        ("desserts", {"tiramisu", "ice cream"}),
    ],
)
def test_members_of_everyday_kinds(kind, members):
    """A kind in the singular or plural gives the words for its members. Proves: PIECES-1."""
    assert members <= set(members_of(kind))


def test_kinds_with_hardly_a_member_are_widened():
    """Nothing is a kind of a pet or a hobby, so what lies above is taken. Proves: PIECES-1."""
    assert {"dog", "cat"} <= set(members_of("pets"))
    assert len(members_of("hobbies")) >= FEW_MEMBERS


def test_rare_meanings_make_no_members():
    """Hardly anybody means the city when they say nice. Proves: PIECES-1."""
    assert not {"nice", "reading", "mobile"} & set(members_of("cities"))


@pytest.mark.parametrize("kind", ["", "things", "events", "zxqv", "Löwen"])
def test_what_is_no_kind_has_no_members(kind):
    """Neither what is unknown, nor what is too wide to tell anything. Proves: PIECES-1."""
    assert members_of(kind) == ()
    assert len(members_of("animals")) < MOST_MEMBERS
