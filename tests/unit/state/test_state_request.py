"""What a request may be, and what the refusal of a bad one says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.types import ContentType, Role, ScopeMode

RFC_3339 = "an RFC 3339 date-time such as 2024-05-01T09:30:00Z"
TURN = {"content": "Where does Ana work?"}


def _request(**fields: Any) -> RetrieveRequest:
    return validate_model(RetrieveRequest, {"messages": [TURN], **fields}, "request")


def _refusal(**fields: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        _request(**fields)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"messages": []}, "messages", "a list of at least 1 item"),
        ({"messages": "hello"}, "messages", "a list of at least 1 item"),
        ({"messages": None}, "messages", "a list of at least 1 item"),
        ({"messages": ["hello"]}, "messages.0", "an object with role, author, content, timestamp"),
        ({"messages": [{}]}, "messages.0.content", "text of 1 to 1000000 characters"),
        ({"messages": [TURN, {"content": ""}]}, "messages.1.content", "text of 1 to 1000000 characters"),
        ({"messages": [{"content": 5}]}, "messages.0.content", "text of 1 to 1000000 characters"),
        (
            {"messages": [{"content": " \n\t"}]},
            "messages.0.content",
            "text with at least one character that is not white space",
        ),
        (
            {"messages": [{**TURN, "role": "king"}]},
            "messages.0.role",
            "one of user, assistant, tool, system",
        ),
        ({"messages": [{**TURN, "timestamp": "soon"}]}, "messages.0.timestamp", RFC_3339),
        ({"messages": [{**TURN, "timestamp": 1714556000}]}, "messages.0.timestamp", RFC_3339),
        ({"messages": [{**TURN, "timestamp": "2024-02-30T00:00:00Z"}]}, "messages.0.timestamp", RFC_3339),
        (
            {"messages": [{**TURN, "mood": "calm"}]},
            "messages.0.mood",
            "known fields: role, author, content, timestamp",
        ),
        ({"max_facts": 0}, "max_facts", "an integer from 1 to 1000"),
        ({"max_facts": 10_000}, "max_facts", "an integer from 1 to 1000"),
        ({"max_facts": float("nan")}, "max_facts", "an integer from 1 to 1000"),
        ({"max_facts": 2.5}, "max_facts", "an integer from 1 to 1000"),
        ({"max_facts": True}, "max_facts", "an integer from 1 to 1000"),
        ({"max_iterations": 101}, "max_iterations", "an integer from 1 to 100"),
        ({"max_context_tokens": 0}, "max_context_tokens", "an integer from 1 to 1000000"),
        ({"content_types": []}, "content_types", "a list of at least 1 item"),
        ({"content_types": ["film"]}, "content_types.0", "one of fact, archival, message, trajectory"),
        ({"scope": "galaxy"}, "scope", "one of local, constellation"),
        ({"tenant": ""}, "tenant", "text of 1 to 512 characters"),
        ({"goal": " "}, "goal", "text with at least one character that is not white space"),
        ({"debug": 3}, "debug", "true or false"),
        ({"reference_time": "yesterday"}, "reference_time", RFC_3339),
        (
            {"reference_time": "0001-01-01T00:00:00+14:00"},
            "reference_time",
            "a date-time between the years 1 and 9999 in UTC",
        ),
        ({"filters": {"role": "king"}}, "filters.role", "one of user, assistant, tool, system"),
        ({"filters": {"min_similarity": float("nan")}}, "filters.min_similarity", "a number from 0 to 1"),
        ({"filters": {"min_similarity": True}}, "filters.min_similarity", "a number from 0 to 1"),
        ({"filters": {"min_similarity": 1.01}}, "filters.min_similarity", "a number from 0 to 1"),
        ({"filters": {"agent_ids": []}}, "filters.agent_ids", "at least one value, or leave it out"),
        ({"filters": {"tags": "red"}}, "filters.tags", "a list of 0 to 100 items"),
    ],
)
def test_refusals_name_field_and_range(fields: dict[str, Any], field: str, allowed: str) -> None:
    """Proves: OPS-1, SEARCH-3 (typed errors that say what would have been accepted)."""
    error = _refusal(**fields)
    assert (error.field, error.allowed) == (f"request.{field}", allowed)
    assert isinstance(error, ValueError)


def test_unknown_filter_lists_the_known_ones() -> None:
    """Proves: SEARCH-3."""
    error = _refusal(filters={"colour": "red"})
    assert error.field == "request.filters.colour"
    assert error.allowed == "known fields: " + ", ".join(Filters.model_fields)


def test_a_filter_outside_filters_is_told_where_it_belongs() -> None:
    """Proves: API-2."""
    assert _refusal(tools_used=["bash"]).allowed.endswith("; did you mean filters.tools_used?")
    assert _refusal(roles="user").allowed.endswith("known fields: " + ", ".join(RetrieveRequest.model_fields))


def test_a_misspelt_field_is_told_its_name() -> None:
    assert _refusal(filters={"start_tim": "2024-01-02"}).allowed.endswith("; did you mean start_time?")


@pytest.mark.parametrize("end", ["2024-01-01", "2024-01-02"])
def test_reversed_or_empty_time_range(end: str) -> None:
    """Proves: SEARCH-3."""
    error = _refusal(filters={"start_time": "2024-01-02", "end_time": end})
    assert (error.field, error.value) == ("request.filters.start_time", "'2024-01-02T00:00:00+00:00'")
    assert error.allowed == f"a time before end_time, which is {end}T00:00:00+00:00"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
@pytest.mark.parametrize("field", ["content", "author"])
def test_lone_surrogates(text: str, field: str) -> None:
    error = _refusal(messages=[{**TURN, field: text}])
    assert error.field == f"request.messages.0.{field}"
    assert error.allowed.startswith("text in valid Unicode")
    str(error).encode("utf-8")


def test_nul_characters() -> None:
    assert _refusal(goal="a\x00b").allowed == "text without NUL characters; there is one at character 1"


def test_long_content_is_taken_and_shown_short_when_refused() -> None:
    assert len(_request(messages=[{"content": "x" * 100_000}]).messages[0].content) == 100_000
    error = _refusal(messages=[{"content": "x" * 1_000_001}])
    assert error.allowed == "text of 1 to 1000000 characters"
    assert len(str(error)) < 300


def test_missing_messages() -> None:
    with pytest.raises(InvalidInputError, match=r"^messages: got nothing; allowed: a list of at least 1 item$"):
        validate_model(RetrieveRequest, {})


def test_defaults() -> None:
    """Proves: OPS-1."""
    request = _request()
    assert request.messages[0].role is Role.USER
    assert request.content_types == (ContentType.FACT, ContentType.ARCHIVAL, ContentType.MESSAGE)
    assert (request.max_facts, request.max_iterations, request.reference_time) == (None, None, None)
    assert request.read_scope() == Scope()


def test_content_types_keep_order_without_duplicates() -> None:
    assert _request(content_types=["message", "fact", "message"]).content_types == (
        ContentType.MESSAGE,
        ContentType.FACT,
    )


@pytest.mark.parametrize(
    ("given_time", "utc"),
    [
        ("2024-05-01T09:30:00Z", datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        ("2024-05-01t09:30:00z", datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        ("2024-05-01T09:30:00+02:00", datetime(2024, 5, 1, 7, 30, tzinfo=UTC)),
        ("2024-05-01T09:30:00", datetime(2024, 5, 1, 9, 30, tzinfo=UTC)),
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
        (datetime(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC)),
    ],
)
def test_times_become_utc(given_time: object, utc: datetime) -> None:
    """Proves: LOOP-9 (one reading of a time, whatever zone the machine is in)."""
    assert _request(reference_time=given_time).reference_time == utc
    assert _request(reference_time=given_time).reference_time.utcoffset() == timedelta(0)


def test_constellation_needs_an_agent() -> None:
    """Proves: SEARCH-4 (whose group, if nobody is named?)."""
    with pytest.raises(ValueError, match="agent_id: got nothing; allowed: the agent whose group is searched"):
        _request(scope="constellation").read_scope()
    scope = _request(scope="constellation", agent_id="a1").read_scope()
    assert (scope.mode, scope.agent_id) == (ScopeMode.CONSTELLATION, "a1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*RetrieveRequest.model_fields, "other"]), JSON, max_size=5))
def test_any_json_is_taken_or_refused_in_words(fields: dict[str, Any]) -> None:
    """Proves: OPS-1 (nothing that JSON can say ends in another exception)."""
    try:
        request = validate_model(RetrieveRequest, fields)
    except InvalidInputError as error:
        assert error.field
        assert error.allowed
    else:
        assert RetrieveRequest.model_validate_json(request.model_dump_json()) == request
