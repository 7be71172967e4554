"""Identity of queries, facts and evidence."""

import pytest

from recall_loop.policy.evidence.pool_entries import fact_key
from recall_loop.state.records.records import ArchivalEntry, Fact, Message, Trajectory
from recall_loop.text.words.folding import normalise
from recall_loop.text.words.tokens import jaccard, query_terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Hello,\n WORLD! ", "hello world"),
        ("don’t", "dont"),
        ("C# is not C++", "c♯ is not c++"),
        ("#tag", "tag"),
        ("👍 ok", "👍 ok"),
        ("!!! ?", "!!! ?"),
        ("", ""),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    """Case, space and punctuation fold; what carries meaning stays. Proves: LOOP-4, RANK-1."""
    assert normalise(text) == expected


@pytest.mark.parametrize(
    "variant",
    [
        "dog adoption",
        "DOG  adoption!!",
        "the dogs adoption",
        "adoptions of a dog",
        "what kind of dog adoption?",
    ],
)
def test_query_terms_are_equal_for_variants(variant: str) -> None:
    """Case, space, punctuation, stop-word, stem and word-order variants are one query. Proves: LOOP-4."""
    assert query_terms(variant) == query_terms("adoption dog")


def test_query_terms_fall_back_to_all_words() -> None:
    """A query of stop words still has an identity. Proves: LOOP-4."""
    assert query_terms("What is it?") == {"what", "is", "it"}
    assert query_terms("👍!") == {"👍"}
    assert query_terms("  ") == frozenset()
    assert query_terms("how long") == {"long"}


def test_fact_key_of_structured_facts() -> None:
    """Subject, type and object identify a fact whatever its text. Proves: RANK-1."""
    one = Fact(id="1", text="Ann works at Acme.", subject="Ann", fact_type="works_at", object="Acme, Inc.")
    two = Fact(id="2", text="Works for ACME", subject="ann", fact_type="works at", object="acme inc")
    other = Fact(id="3", text="Ann works at Acme.", subject="Ann", fact_type="works_at", object="Beta")
    assert fact_key(one) == fact_key(two) != fact_key(other)


def test_fact_key_without_object_tells_values_apart() -> None:
    """Without an object the text holds the value. Proves: RANK-1, RANK-4."""
    tea = Fact(id="1", text="Ann likes tea", subject="Ann", fact_type="likes")
    coffee = Fact(id="2", text="Ann likes coffee", subject="Ann", fact_type="likes")
    again = Fact(id="3", text="ann likes TEA!", subject="Ann", fact_type="likes")
    assert fact_key(tea) == fact_key(again) != fact_key(coffee)


def test_fact_key_without_structure_and_of_other_kinds() -> None:
    """Text identifies plain facts and entries, its id a message. Proves: RANK-1."""
    assert fact_key(Fact(id="1", text="Hi there!")) == fact_key(Fact(id="2", text="hi  there"))
    assert fact_key(Fact(id="1", text="not done")) != fact_key(Fact(id="2", text="done"))
    assert fact_key(Message(id="m1", text="same")) == "message:m1" != fact_key(Message(id="m2", text="same"))
    entry = ArchivalEntry(id="a", text="body", label="Plan")
    assert fact_key(entry) == fact_key(entry.model_copy(update={"id": "b"}))
    assert fact_key(entry) != fact_key(entry.model_copy(update={"label": "Other"}))
    assert fact_key(entry) != fact_key(Trajectory(id="t", text="body", label="Plan"))


def test_fact_key_of_long_text_is_short() -> None:
    """Long texts are hashed. Proves: RANK-1."""
    long = fact_key(Fact(id="1", text="word " * 5000))
    assert len(long) < 60
    assert long != fact_key(Fact(id="1", text="word " * 4999))


def test_overlap() -> None:
    """Jaccard overlap, 0 for two empty sets. Proves: LOOP-4."""
    assert jaccard(frozenset(), frozenset()) == 0.0
    assert jaccard(frozenset("ab"), frozenset("bc")) == pytest.approx(1 / 3)
    assert jaccard(frozenset("ab"), frozenset("ab")) == 1.0
