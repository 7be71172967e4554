"""Time suffixes as filters, and how much of each result is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.memory.search.present.result_display import (
    CONSTELLATION_PROFILE,
    FULL_PROFILE,
    LOCAL_PROFILE,
    MESSAGES_PROFILE,
    TruncationProfile,
    TruncationStep,
    parse_profile,
    profile_for,
    truncate_text,
    truncate_texts,
)
from recall_loop.memory.search.query.parsed_queries import apply_time_suffix
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType
from recall_loop.text.words.tokens import query_terms

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MOMENTS = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2040, 1, 1), timezones=st.just(UTC))
SUFFIXES = st.one_of(
    st.builds(
        "{} {} {}".format, st.sampled_from("<>"), st.integers(0, 400), st.sampled_from(["day", "hours", "Weeks"])
    ),
    st.builds("{}-{} months".format, st.integers(0, 30), st.integers(0, 30)),
    st.builds("{} years ago".format, st.integers(0, 30)),
)


# Time suffixes


def test_a_suffix_becomes_a_filter() -> None:
    """Proves: SEARCH-10."""
    rest, filters = apply_time_suffix("deploy failed > 2 weeks", Filters(role="user"), NOW)
    assert (rest, filters) == ("deploy failed", Filters(role="user", end_time=NOW - 14 * DAY))
    rest, filters = apply_time_suffix("deploy < 3 days", Filters(), NOW)
    assert rest == "deploy"
    assert filters.start_time == NOW - 3 * DAY
    assert filters.end_time is not None
    assert NOW < filters.end_time <= NOW + timedelta(seconds=1)


@pytest.mark.parametrize("query", ["deploy", "a < b", '"deploy < 3 days"', "child 3 years old"])
def test_without_a_suffix_nothing_changes(query: str) -> None:
    """Proves: SEARCH-10."""
    filters = Filters(label="x")
    assert apply_time_suffix(query, filters, NOW) == (query, filters)


def test_times_that_are_given_win() -> None:
    """Proves: SEARCH-10."""
    long_ago = NOW - 100 * DAY
    assert apply_time_suffix("x < 3 days", Filters(start_time=long_ago), NOW)[1].start_time == long_ago
    both = Filters(start_time=long_ago, end_time=NOW - 90 * DAY)
    assert apply_time_suffix("x < 3 days", both, NOW) == ("x", both)
    # The suffix and the end that is given have nothing in common.
    end = Filters(end_time=long_ago)
    assert apply_time_suffix("x < 3 days", end, NOW) == ("x", end)


def test_nothing_but_a_suffix_leaves_nothing() -> None:
    """Proves: SEARCH-10."""
    assert apply_time_suffix("  < 3 days ", Filters(), NOW)[0] == ""


@given(st.text(max_size=30), SUFFIXES, st.none() | MOMENTS, st.none() | MOMENTS, MOMENTS)
def test_explicit_times_are_never_changed(
    text: str, suffix: str, start: datetime | None, end: datetime | None, reference: datetime
) -> None:
    """What comes back is allowed, and has every time that was given. Proves: SEARCH-10."""
    if start and end and start >= end:
        start = None
    filters = Filters(start_time=start, end_time=end)
    rest, found = apply_time_suffix(f"{text} {suffix}", filters, reference)
    assert rest == text.strip()
    assert Filters.model_validate(found.model_dump()) == found
    assert found.start_time == start or start is None
    assert found.end_time == end or end is None
    assert found.start_time or found.end_time
    assert apply_time_suffix(f'{text} "{suffix}"', filters, reference) == (f'{text} "{suffix}"', filters)


# Truncation


def test_profiles_have_the_limits_that_are_asked_for() -> None:
    """Proves: SEARCH-8."""
    ranks = (1, 2, 3, 5, 6, 15, 16, 1000)
    assert [LOCAL_PROFILE.limit(rank) for rank in ranks] == [None, None, 1000, 1000, 400, 400, 400, 400]
    assert [CONSTELLATION_PROFILE.limit(rank) for rank in ranks] == [None, None, None, None, 1500, 1500, 800, 800]
    assert [MESSAGES_PROFILE.limit(rank) for rank in ranks] == [None, None, 400, 400, 200, 200, 200, 200]
    assert {FULL_PROFILE.limit(rank) for rank in ranks} == {None}


def test_the_profile_follows_what_is_asked_for() -> None:
    """Proves: SEARCH-8."""
    group = Scope(agent_id="a", mode="constellation")
    assert profile_for(Scope(), (ContentType.FACT, ContentType.MESSAGE)) is LOCAL_PROFILE
    assert profile_for(group, (ContentType.FACT,)) is CONSTELLATION_PROFILE
    assert profile_for(group, (ContentType.MESSAGE,)) is MESSAGES_PROFILE


def test_profiles_are_configurable() -> None:
    """Proves: SEARCH-8."""
    assert parse_profile("messages") is MESSAGES_PROFILE
    assert parse_profile(" 2:full, 5:1000,400").steps == LOCAL_PROFILE.steps
    assert parse_profile("full") is FULL_PROFILE
    assert parse_profile("7").limit(1) == 7
    for text in ("", "nothing", "2:full", "5:9,2:9,4", "0:5,5", "2:0,5", "1:2:3,4", "5,5", "2:full,x"):
        with pytest.raises(InvalidInputError, match="profile"):
            parse_profile(text)
    for steps in (
        (),
        (TruncationStep(1, 5),),
        (TruncationStep(None, 5), TruncationStep(None, 6)),
        (TruncationStep(3, 5), TruncationStep(3, 6), TruncationStep(None, 1)),
    ):
        with pytest.raises(InvalidInputError):
            TruncationProfile("mine", steps)
    with pytest.raises(InvalidInputError):
        TruncationStep(1, 0)


def test_a_short_text_is_whole_and_a_long_one_is_marked() -> None:
    """Proves: SEARCH-8."""
    filling = "The quick brown fox jumps over the lazy dog. " * 20
    text = f"{filling}A zebra met a giraffe near the lake. {filling}"
    terms = query_terms("zebras and giraffes")
    assert truncate_text(text, terms, None).text == text
    assert not truncate_text(text, terms, None).truncated
    assert truncate_text(" as it is ", terms, 10).text == " as it is "
    cut = truncate_text(text, terms, 60)
    assert cut.truncated
    assert "zebra met a giraffe" in cut.text
    assert len(cut.text) <= 60
    with pytest.raises(InvalidInputError):
        truncate_text(text, terms, 0)
    shown = truncate_texts([text] * 7, terms, LOCAL_PROFILE)
    assert [len(part.text) <= (LOCAL_PROFILE.limit(rank) or len(text)) for rank, part in enumerate(shown, 1)] == [
        True
    ] * 7
    assert [part.truncated for part in shown] == [False, False, True, True, True, True, True]


@given(st.text(max_size=300), st.lists(st.text(max_size=5)), st.integers(1, 60))
def test_what_is_shown_is_within_the_limit(text: str, terms: list[str], limit: int) -> None:
    """Unmarked texts are whole, marked ones shorter. Proves: SEARCH-8."""
    shown = truncate_text(text, terms, limit)
    assert len(shown.text) <= limit
    assert shown.truncated or shown.text.strip() == text.strip()
    assert not shown.truncated or len(text.strip()) > limit
