"""Records: what may be stored, and that it comes back as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recall_loop.state.errors import InvalidInputError, invalid_input_from, validate_model
from recall_loop.state.records.records import RECORD_ADAPTER, ArchivalEntry, Fact, Message, Record, Trajectory


@pytest.mark.parametrize(
    ("kind", "model"),
    [("fact", Fact), ("archival", ArchivalEntry), ("message", Message), ("trajectory", Trajectory)],
)
def test_kind_picks_the_class(kind: str, model: type[Record]) -> None:
    """Proves: STORE-1."""
    record = RECORD_ADAPTER.validate_python({"id": "r1", "kind": kind, "text": "Ana works at Acme."})
    assert type(record) is model
    assert record == model(id="r1", text="Ana works at Acme.")


def test_content_is_another_name_for_text() -> None:
    """Proves: STORE-1."""
    assert Message.model_validate({"id": "m", "content": "hi"}).text == "hi"


def test_round_trip_through_json() -> None:
    """Proves: STORE-1 (nothing is lost or changed)."""
    record = Message(
        id="m1",
        text="Grüße 👋🏽 مرحبا",
        role="user",
        tags=("a", "b"),
        created_at="2024-05-01T09:30:00+02:00",
        attributes={"deep": {"list": [1, 2.5, None, True, "x"]}},
        blocks=({"type": "reasoning", "text": "so"},),
        position=0,
    )
    assert record.created_at == datetime(2024, 5, 1, 7, 30, tzinfo=UTC)
    assert RECORD_ADAPTER.validate_json(record.model_dump_json()) == record
    assert json.loads(record.model_dump_json())["kind"] == "message"


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"text": ""}, "record.text", "text of 1 to 1000000 characters"),
        ({"text": "  "}, "record.text", "text with at least one character that is not white space"),
        ({"id": ""}, "record.id", "text of 1 to 512 characters"),
        ({"id": "x" * 513}, "record.id", "text of 1 to 512 characters"),
        ({"confidence": 1.5}, "record.confidence", "a number from 0 to 1"),
        ({"confidence": float("nan")}, "record.confidence", "a number from 0 to 1"),
        ({"confidence": True}, "record.confidence", "a number from 0 to 1"),
        ({"position": -1}, "record.position", "an integer from 0 to 9223372036854775807"),
        ({"position": False}, "record.position", "an integer from 0 to 9223372036854775807"),
        ({"kind": "message"}, "record.kind", "fact"),
        ({"role": "king"}, "record.role", "one of user, assistant, tool, system"),
        ({"tags": [""]}, "record.tags.0", "text of 1 to 512 characters"),
        ({"created_at": 5}, "record.created_at", "an RFC 3339 date-time such as 2024-05-01T09:30:00Z"),
        (
            {"attributes": {"a": [float("inf")]}},
            "record.attributes",
            "a finite number; NaN and infinity are not JSON",
        ),
    ],
)
def test_refusals(fields: dict[str, Any], field: str, allowed: str) -> None:
    """Proves: STORE-1 (bad records are refused with the field, the value and what is allowed)."""
    with pytest.raises(InvalidInputError) as caught:
        validate_model(Fact, {"id": "f1", "text": "Ana works at Acme.", **fields}, "record")
    assert (caught.value.field, caught.value.allowed) == (field, allowed)


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"confidence": 7}, "records.3.fact.confidence", "a number from 0 to 1"),
        ({"colour": "red"}, "records.3.fact.colour", "known fields: id, kind, text, "),
        ({"kind": "film"}, "records.3", "Input tag 'film' found using 'kind' does not match"),
    ],
)
def test_refusals_of_any_kind(fields: dict[str, Any], field: str, allowed: str) -> None:
    """Proves: STORE-1."""
    with pytest.raises(ValidationError) as caught:
        RECORD_ADAPTER.validate_python({"id": "f1", "kind": "fact", "text": "x", **fields})
    error = invalid_input_from(caught.value, "records.3", RECORD_ADAPTER.json_schema())
    assert error.field == field
    assert error.allowed.startswith(allowed)


def test_unknown_field_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInputError) as caught:
        validate_model(Fact, {"id": "f1", "text": "x", "colour": "red"})
    assert caught.value.allowed.startswith("known fields: id, kind, text, ")


def test_attributes_with_lone_surrogates() -> None:
    for attributes in ({"\ud800": 1}, {"a": {"b": ["\udfff"]}}):
        with pytest.raises(InvalidInputError):
            validate_model(Fact, {"id": "f1", "text": "x", "attributes": attributes})


def test_records_are_frozen() -> None:
    fact = Fact(id="f1", text="x")
    with pytest.raises(ValidationError):
        fact.text = "y"


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1).filter(str.strip)


@given(TEXT, st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=3))
def test_any_text_survives_json(text: str, attributes: dict[str, Any]) -> None:
    """Proves: STORE-1."""
    fact = Fact(id="f1", text=text, attributes=attributes)
    assert RECORD_ADAPTER.validate_json(fact.model_dump_json()) == fact
