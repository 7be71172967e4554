"""Periods: which times a question places things in, and what is looked up of them (QUERY-1, RANK-3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recall_loop.policy.planning.query_forms import PERIOD_WEIGHT, RepeatFilter, fallback_queries, main_query
from recall_loop.policy.question.periods import period_filters, time_fit
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Filters
from recall_loop.text.time.dates import LATEST
from recall_loop.text.time.time_expressions import TimeExpression, parse_times
from recall_loop.text.words.tokens import stems

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)


def question(text, **filters):
    return analyse_question(RetrieveRequest(messages=[{"content": text}], filters=Filters(**filters)), NOW)


def narrowed(asked):
    """Return the queries that look at a time only."""
    return [query for query in fallback_queries(asked, 12, 120) if query["narrowed"]]


def days(start, end):
    """Return the filters of whole days."""
    return {"start_time": f"{start}T00:00:00+00:00", "end_time": f"{end}T00:00:00+00:00"}


def made(moment, text="It was lovely."):
    record = {"id": "r", "kind": "message", "text": text, "created_at": moment and moment.isoformat()}
    return {"key": "k", "record": record}


def test_what_a_question_asks_of_a_time_is_looked_up_among_what_was_made_then():
    """Proves: QUERY-1, QUERY-2."""
    (query,) = narrowed(question("What did Ruth paint on 7 May 2023?"))
    assert query["text"] == "2023-05-07 to 2023-05-09 ruth paint"
    assert query["narrowed"] == {"tool": None, "filters": days("2023-05-07", "2023-05-09")}
    assert (query["source"], query["weight"]) == ("temporal", PERIOD_WEIGHT)
    assert query["spoken"] == "What did Ruth paint on 7 May 2023?"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did Ruth paint yesterday?", "2024-06-14", "2024-06-16"),
        ("What did Ruth paint in May 2023?", "2023-05-01", "2023-06-08"),
        ("What did Ruth paint in 2023?", "2023-01-01", "2024-01-08"),
        ("Did Ruth paint more in May 2023 or in July 2023?", "2023-05-01", "2023-08-08"),
        ("What did Ruth paint between March and May 2023?", "2023-03-01", "2023-06-08"),
        ("What did Ruth paint from June 3 to June 20, 2023?", "2023-06-03", "2023-06-28"),
        ("What does Ruth paint today and tomorrow?", "2024-06-15", "2024-06-17"),
    ],
)
def test_a_period_ends_soon_after_the_time(text, start, end):
    """Proves: QUERY-1. Several times give one period around them all."""
    (query,) = narrowed(question(text))
    assert query["narrowed"]["filters"] == days(start, end)


BOUNDS = ["since", "as of", "before", "after", "until", "by", "By the", "up  to", "since the start of", "later than"]


@pytest.mark.parametrize(
    "times",
    [
        *(f"{word} May 2023" for word in BOUNDS),
        *(f"{word} July" for word in ("since", "before", "after", "until", "by")),
        "from May 2023 onwards",
        "from May 2023 on",
        "starting in May 2023",
    ],
)
def test_a_time_that_only_bounds_places_nothing(times):
    """Proves: QUERY-1, RANK-3."""
    asked = question(f"How many pictures did Ruth have {times}?")
    assert asked.times and not asked.event_times
    assert not narrowed(asked) and asked.period is None


def test_each_time_is_judged_by_its_own_place():
    """Proves: RANK-3."""
    asked = question("What did Ruth paint before May 2023 and in May 2023?")
    assert len(asked.times) == 2 and len(asked.event_times) == 1
    assert asked.event_times[0].at > len("What did Ruth paint before May 2023")


@pytest.mark.parametrize(
    "times", ["between June and August 2023", "from June to August 2023", "from June 2023 until August 2023"]
)
def test_a_range_fits_all_of_it(times):
    """Proves: RANK-3 (not its ends alone)."""
    asked = question(f"What did Ruth paint {times}?")
    assert [time_fit(made(datetime(2023, month, 20, tzinfo=UTC)), asked.event_times) for month in (5, 6, 7, 8)] == [
        0,
        1,
        1,
        1,
    ]


def test_the_same_words_are_also_asked_of_all_times():
    """Proves: LOOP-4, QUERY-2. What was told on another day is found as before; long questions lose neither query."""
    text = "Why did Ruth's sister Clara cancel the summer sailing trip to Norway with Ada and Tom in 2022?"
    for asked in (question("What did Ruth paint on 7 May 2023?"), question(text)):
        kept = RepeatFilter({}, 0.9).keep(fallback_queries(asked, 12, 120), 12)
        assert [bool(query["narrowed"]) for query in kept][:2] == [False, True]
    texts = [query["text"] for query in fallback_queries(question("What did Ruth paint in 2022?"), 12, 120)]
    assert "Ruth paint" in texts


@pytest.mark.parametrize("text", ["What did I do yesterday?", "And on 7 May 2023?", "What did I do in 2022?", "2023"])
def test_a_question_of_a_time_alone_asks_for_it_in_other_words(text):
    """Proves: QUERY-3 (the same words twice would be a repeat)."""
    asked = question(text)
    (query,) = narrowed(asked)
    assert set(stems(query["text"])) != set(stems(main_query(asked)))


def test_a_period_stays_inside_of_the_request():
    """Proves: SEARCH-3."""
    text, start = "What did Ruth paint in May 2023?", datetime(2023, 5, 20, tzinfo=UTC)
    (query,) = narrowed(question(text, start_time=start, end_time=start + timedelta(days=2)))
    assert query["narrowed"]["filters"] == days("2023-05-20", "2023-05-22")
    assert not narrowed(question(text, start_time=start + timedelta(days=100)))
    assert not narrowed(question(text, end_time=start - timedelta(days=100)))


def test_without_a_time_nothing_is_narrowed():
    """Proves: QUERY-1."""
    assert not narrowed(question("What did Ruth paint?"))
    assert period_filters((), Filters(), NOW) is None


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("What have I planned for next month?", {}),
        ("What did Ruth paint in May 2023?", {"as_of": datetime(2023, 4, 1, tzinfo=UTC)}),
    ],
)
def test_nothing_was_made_in_the_future(text, filters):
    """Proves: QUERY-1."""
    assert question(text, **filters).event_times
    assert not narrowed(question(text, **filters))


@pytest.mark.parametrize(
    ("moment", "text", "value"),
    [
        (datetime(2023, 5, 7, 9, tzinfo=UTC), "It was lovely.", 1.0),
        (datetime(2023, 5, 8, 9, tzinfo=UTC), "It was lovely.", 0.5),
        (datetime(2023, 5, 9, 9, tzinfo=UTC), "It was lovely.", 0.0),
        (datetime(2023, 5, 6, 23, tzinfo=UTC), "It was lovely.", 0.0),
        (datetime(2023, 5, 8, 9, tzinfo=UTC), "Yesterday was lovely.", 1.0),
        (None, "On May 7, 2023 it was lovely.", 1.0),
        (None, "It was lovely.", 0.0),
    ],
)
def test_a_record_fits_a_time_of_which_it_is_or_tells(moment, text, value):
    """Proves: RANK-3."""
    assert time_fit(made(moment, text), parse_times("on 7 May 2023", NOW)) == value


def test_the_end_of_the_calendar_is_no_error():
    """Proves: QUERY-1."""
    last = datetime(9999, 12, 31, tzinfo=UTC)
    period = period_filters((TimeExpression("then", last, LATEST, "day"),), Filters(), last)
    assert period is not None and Filters.model_validate(period).start_time == last
