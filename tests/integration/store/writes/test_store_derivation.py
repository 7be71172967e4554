"""What the store derives where a record leaves it out, and what becomes of records that can't be stored."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from recall_loop.memory.store.encoding.derivation import derive_id
from recall_loop.memory.store.record_writer import UPSERT_CHUNK
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, RejectedRecordsError
from recall_loop.state.records.records import Message
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType

ALL = Scope()


def one(store, record_id):
    (record,) = store.get([record_id], scope=ALL)
    return record


def test_a_text_alone_is_a_record(store):
    """Proves: API-2."""
    before = datetime.now(UTC)
    (outcome,) = store.upsert([{"text": "The ferry leaves at nine."}])
    record = one(store, outcome.id)
    assert (outcome.status, record.kind, record.position) == ("created", ContentType.MESSAGE, None)
    assert before <= record.created_at <= datetime.now(UTC)
    assert re.fullmatch("[0-9a-z]{20}", record.id)


def test_derived_ids_are_new_and_in_order():
    """Proves: API-2."""
    ids = [derive_id() for _ in range(20_000)]
    assert ids == sorted(set(ids)) and {len(one) for one in ids} == {20}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "message"),
        ({"role": "user", "author": "Ada", "conversation_id": "c"}, "message"),
        ({"label": "Ferries"}, "archival"),
        ({"subject": "Ada"}, "fact"),
        ({"fact_type": "lives_in", "label": "x"}, "fact"),
        ({"source_ids": ["m1"]}, "fact"),
        ({"source_ids": [], "tags": ["x"]}, "message"),
        ({"kind": None, "valid_until": "2024-01-01T00:00:00Z"}, "fact"),
        ({"kind": "trajectory"}, "trajectory"),
    ],
)
def test_the_kind_follows_the_other_fields(store, fields, kind):
    """Proves: API-2."""
    (outcome,) = store.upsert([{"text": "x", **fields}])
    assert one(store, outcome.id).kind == kind


def test_the_time_is_that_of_the_first_write(store):
    """Proves: API-2, STORE-2."""
    store.upsert([{"id": "a", "text": "old"}])
    first = one(store, "a").created_at
    assert [o.status for o in store.upsert([{"id": "a", "text": "old"}, {"id": "a", "text": "new"}])] == [
        "unchanged",
        "replaced",
    ]
    assert one(store, "a").created_at == first
    stated = first - timedelta(days=1)
    store.upsert([{"id": "a", "text": "new", "created_at": stated}])
    assert one(store, "a").created_at == stated


def test_an_unknown_time_stays_unknown(store):
    """Proves: API-2."""
    store.upsert([{"id": "a", "text": "x", "created_at": None}])
    assert one(store, "a").created_at is None
    assert [o.status for o in store.upsert([one(store, "a"), {"id": "a", "text": "x"}])] == ["unchanged"] * 2
    with MemoryStore.in_memory(embedder=store.embedder) as other:
        other.upsert(store.scan())
        assert one(other, "a").created_at is None


def test_messages_of_a_session_are_placed_in_the_order_of_their_arrival(store):
    """Proves: API-2, STORE-7."""
    talk = {"conversation_id": "c", "user_id": "u"}
    store.upsert([{"id": "m0", "text": "a", **talk}, {"id": "f", "text": "fact", "subject": "x", **talk}])
    store.upsert([{"id": "m1", "text": "b", **talk}, Message(id="m2", text="c", **talk)])
    store.upsert([{"id": "m7", "text": "d", "position": 7, **talk}, {"id": "m8", "text": "e", **talk}])
    store.upsert([{"id": "n0", "text": "b", "conversation_id": "other"}])
    assert [one(store, name).position for name in ("m0", "m1", "m2", "m7", "m8", "f", "n0")] == [0, 1, 2, 7, 8, None, 0]
    store.upsert([{"id": "m1", "text": "changed", **talk}])
    assert one(store, "m1").position == 1
    window = {row.record.id: row.window for row in store.view(ALL).rows(store.view(ALL).rowids()).values()}
    assert window["m1"] == "a\nchanged\nc"


def test_messages_behind_the_greatest_position_share_it_in_the_order_of_their_arrival(store):
    """Proves: API-2, STORE-7."""
    talk = {"conversation_id": "c"}
    store.upsert([{"id": "m0", "text": "first", "position": 2**63 - 1, **talk}])
    store.upsert([{"id": "m1", "text": "second", **talk}, {"id": "m2", "text": "third", **talk}])
    assert [one(store, name).position for name in ("m0", "m1", "m2")] == [2**63 - 1] * 3
    window = {row.record.id: row.window for row in store.view(ALL).rows(store.view(ALL).rowids()).values()}
    assert window["m1"] == "first\nsecond\nthird"


def test_stated_times_order_messages_without_positions(store):
    """Proves: API-2, STORE-7."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    store.upsert(
        [
            {"id": f"m{at}", "text": f"t{at}", "session": "s", "created_at": day + timedelta(hours=at)}
            for at in (2, 0, 1)
        ]
    )
    store.upsert([{"id": "now", "text": "now", "session": "s"}])
    assert [one(store, name).position for name in ("m0", "m1", "m2", "now")] == [None] * 4
    window = {row.record.id: row.window for row in store.view(ALL).rows(store.view(ALL).rowids()).values()}
    assert window["m1"] == "t0\nt1\nt2" and window["now"] == "t2\nnow"


BAD = [
    ({"id": "x"}, "text", "nothing", "text of 1 to 1000000 characters"),
    ({"id": "x", "text": " "}, "text", "' '", "text with at least one character that is not white space"),
    ({"text": "t", "colour": "red"}, "colour", "'red'", "known fields: id"),
    ({"text": "t", "kind": "opinion"}, "kind", "'opinion'", "one of fact, archival, message, trajectory"),
    ({"text": "t", "position": -1}, "position", "-1", "an integer from 0"),
    ({"text": "t", "created_at": 5}, "created_at", "5", "an RFC 3339 date-time"),
    ({"text": "t", "id": ""}, "id", "''", "text of 1 to 512 characters"),
    ("text", "", "'text'", "a record or a mapping with its fields"),
    (None, "", "None", "a record or a mapping with its fields"),
]


@pytest.mark.parametrize(("given", "field", "value", "allowed"), BAD)
def test_a_rejected_record_raises_with_its_reason_and_nothing_is_written(store, given, field, value, allowed):
    """Proves: API-2, STORE-1."""
    with pytest.raises(RejectedRecordsError) as caught:
        store.upsert([{"text": "good"}, given])
    (reason,) = caught.value.rejections
    assert (reason.index, reason.field, reason.value) == (1, field, value)
    assert allowed in reason.allowed
    assert caught.value.field == ".".join(filter(None, ("records.1", field)))
    assert store.count() == 0


def test_every_reason_of_every_record_is_reported(store):
    """Proves: API-2."""
    records = [{"id": "a"}, {"text": "good"}, {"id": "c", "text": "", "kind": "fact", "confidence": 3, "x": 1}]
    with pytest.raises(RejectedRecordsError, match=r"records\.0\.text.*records\.2\.confidence") as caught:
        store.upsert(records)
    named = [(one.index, one.id, one.field) for one in caught.value.rejections]
    assert named == [(0, "a", "text"), (2, "c", "text"), (2, "c", "confidence"), (2, "c", "x")]
    outcomes = store.upsert(records, on_reject="report")
    assert [one.status for one in outcomes] == ["rejected", "created", "rejected"]
    assert "records.2.confidence" in outcomes[2].error and "records.2.x" in outcomes[2].error


def test_a_long_call_with_a_bad_end_writes_nothing(store):
    """Proves: API-2."""
    records = ({"text": f"t{at}"} if at < 2 * UPSERT_CHUNK else {"text": ""} for at in range(2 * UPSERT_CHUNK + 40))
    with pytest.raises(RejectedRecordsError) as caught:
        store.upsert(records)
    assert len(caught.value.rejections) == 40 and str(caught.value).endswith("and 20 more")
    assert store.count() == 0


def test_an_unknown_way_to_reject_is_an_error(store):
    """Proves: API-2."""
    with pytest.raises(InvalidInputError, match=r"on_reject.*'ignore'.*raise or report"):
        store.upsert([{"text": "x"}], on_reject="ignore")
