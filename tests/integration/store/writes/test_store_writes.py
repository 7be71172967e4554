"""Writing, reading back, and the windows that writes keep up to date, over real SQLite and Chroma."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError
from recall_loop.state.records.records import Fact, Message
from recall_loop.state.scope import Scope
from recall_loop.text.words.tokens import stems
from tests.lexical_rows import by_words, window_stems

ALL = Scope()


def turn(record_id, text, **more):
    return {"id": record_id, "kind": "message", "text": text, "conversation_id": "c", "session": "s"} | more


def windows(store, scope=ALL):
    view = store.view(scope)
    return {row.record.id: row.window for row in view.rows(view.rowids()).values()}


def test_upsert_replaces_wholly_and_reports_each(store):
    """Proves: STORE-1, STORE-2."""
    first = Fact(
        id="f",
        text="Ada lives in Paris",
        subject="Ada",
        attributes={"n": None, "x": [1, {"y": 2.5}]},
        created_at=datetime(2024, 1, 1, tzinfo=UTC),
    )
    out = store.upsert([first, {"id": "a", "kind": "archival", "content": "Notes", "label": "Plan"}])
    assert [(o.index, o.id, o.status, o.error) for o in out] == [
        (0, "f", "created", None),
        (1, "a", "created", None),
    ]
    assert store.get(["a", "zz", "f"], scope=ALL)[1] == first
    second = Fact(id="f", text="Ada lives in Rome", created_at=None)
    assert [o.status for o in store.upsert([second, second])] == ["replaced", "unchanged"]
    assert store.get(["f"], scope=ALL) == [second]
    assert [o.status for o in store.upsert([second])] == ["unchanged"]
    assert [record.id for record in store.scan()] == ["f", "a"]
    assert by_words(store.view(ALL), stems("Paris"), 5) == []


def test_a_bad_record_rejects_itself_only(store):
    """Proves: STORE-1, STORE-2."""
    good = turn("m", "hello")
    bad = [{"id": "x"}, turn("y", "t", unknown=1), "text", turn("z", " "), turn("p", "t", position=2**70)]
    out = store.upsert([bad[0], good, *bad[1:]], on_reject="report")
    assert [o.status for o in out] == ["rejected", "created", *["rejected"] * 4]
    assert out[0].id == "x" and out[0].error.startswith("records.0")
    assert "unknown" in out[2].error and "position" in out[5].error
    assert store.count() == 1


def test_last_of_equal_ids_wins_across_and_within_chunks(store):
    """Proves: STORE-2."""
    records = [turn(f"m{i % 3}", f"text {i}", session=f"s{i % 3}") for i in range(9)]
    assert [o.status for o in store.upsert(records)] == ["created"] * 3 + ["replaced"] * 6
    assert [record.text for record in store.scan()] == ["text 6", "text 7", "text 8"]


def test_delete_and_count(store):
    """Proves: STORE-2."""
    store.upsert([turn(f"m{i}", f"text {i}") for i in range(5)])
    assert store.delete(["m1", "m3", "nope"]) == 2
    assert store.delete(["m1"]) == 0
    assert store.count() == 3 == len(list(store.scan()))
    assert [o.status for o in store.upsert([turn("m1", "again")])] == ["created"]
    assert [record.id for record in store.scan()] == ["m0", "m2", "m4", "m1"]


@pytest.mark.parametrize("record_id", ["a'b\"c", "x" * 512, "\x01\x1f", "日本 😀", "a\nb", "%_;--", "[1]"])
def test_odd_ids_and_control_characters_come_back_exactly(tmp_path, embedder, record_id):
    """Proves: STORE-2."""
    text = "tab\tbell\x07 \x1b[0m \u2028 line\r\nend \x7f ÿ \U0010ffff"
    with MemoryStore.open(tmp_path, embedder=embedder) as store:
        store.upsert([turn(record_id, text, tags=(record_id,), author=record_id)], tenant=record_id)
        (record,) = store.get([record_id], scope=Scope(tenant=record_id))
        assert (record.id, record.text, record.author) == (record_id, text, record_id)
        by_words(store.view(Scope(tenant=record_id, user_id=record_id)), [record_id, '"', "*", "NEAR("], 3)
        assert store.delete([record_id], tenant=record_id) == 1


def test_index_text_names_label_subject_and_author(store):
    """Proves: STORE-7."""
    store.upsert(
        [
            {"id": "a", "kind": "archival", "text": "body", "label": "Title"},
            {"id": "f", "kind": "fact", "text": "likes tea", "subject": "Ada"},
            {"id": "g", "kind": "fact", "text": "ada likes tea", "subject": "Ada"},
            {"id": "m", "kind": "message", "text": "hi", "author": "Bob"},
            {"id": "t", "kind": "trajectory", "text": "run", "label": "ignored", "author": "x"},
        ]
    )
    assert windows(store) == {
        "a": "Title: body",
        "f": "Ada: likes tea",
        "g": "ada likes tea",
        "m": "Bob: hi",
        "t": "run",
    }


def test_the_window_behind_a_refusal_has_what_was_asked_before_it(store):
    """Proves: STORE-7, LIVE-2."""
    refusal = {"role": "assistant", "text": "I don't know that yet."}
    store.upsert([turn("1", "How old is he?"), turn("2", **refusal), turn("3", "Twelve in May")])
    assert windows(store)["3"] == "How old is he?\nTwelve in May"
    store.upsert([turn("1", "How tall is he?")])
    assert windows(store)["3"] == "How tall is he?\nTwelve in May"
    store.upsert([turn("2", "He is ill.")])
    assert windows(store)["3"] == "He is ill.\nTwelve in May"
    store.upsert([turn("2", **refusal)])
    store.delete(["1"])
    assert windows(store)["3"] == "Twelve in May"


def test_windows_follow_inserts_replacements_moves_and_deletes(store):
    """Proves: STORE-7."""
    store.upsert([turn("1", "one", position=1), turn("3", "three", position=3)])
    assert windows(store) == {"1": "one\nthree", "3": "one\nthree"}
    store.upsert([turn("2", "two", position=2)])
    assert windows(store) == {"1": "one\ntwo", "2": "one\ntwo\nthree", "3": "two\nthree"}
    store.upsert([turn("2", "zwei", position=2)])
    assert windows(store) == {"1": "one\nzwei", "2": "one\nzwei\nthree", "3": "zwei\nthree"}
    assert store.view(ALL).document_frequency(["two", "zwei"]) == {"two": 0, "zwei": 3}
    store.upsert([turn("2", "zwei", position=9)])
    assert windows(store) == {"1": "one\nthree", "3": "one\nthree\nzwei", "2": "three\nzwei"}
    store.upsert([turn("2", "zwei", position=9, session="other")])
    assert windows(store) == {"1": "one\nthree", "3": "one\nthree", "2": "zwei"}
    store.delete(["1"])
    assert windows(store) == {"3": "three", "2": "zwei"}


def test_windows_leave_out_turns_that_are_forgotten_a_day_or_more_earlier(store):
    """Proves: LIVE-7, STORE-7."""
    store.upsert(
        [
            turn("1", "one", position=1),
            turn("2", "two", position=2, expires_at="2100-01-01T00:00:00Z"),
            turn("3", "three", position=3, expires_at="2100-01-01T00:05:00Z"),
            turn("4", "four", position=4, expires_at="2100-03-01T00:00:00Z"),
        ]
    )
    assert windows(store) == {"1": "one", "2": "one\ntwo\nthree", "3": "two\nthree\nfour", "4": "four"}
    assert store.view(ALL).document_frequency(["two", "four"]) == {"two": 2, "four": 2}
    store.upsert([turn("2", "two", position=2)])
    assert windows(store)["1"] == "one\ntwo"


def test_order_is_position_then_time_then_insertion(store):
    """Proves: STORE-7."""
    store.upsert(
        [
            turn("c", "c", created_at="2024-01-02T00:00:00Z"),
            turn("d", "d"),
            turn("e", "e"),
            turn("b", "b", created_at="2024-01-01T00:00:00Z"),
            turn("a", "a", position=10, created_at="2025-01-01T00:00:00Z"),
            turn("z", "z", position=2),
        ]
    )
    assert windows(store) == {
        "z": "z\na",
        "a": "z\na\nb",
        "b": "a\nb\nc",
        "c": "b\nc\nd",
        "d": "c\nd\ne",
        "e": "d\ne",
    }


def test_windows_never_cross_session_user_conversation_tenant_or_kind(store):
    """Proves: STORE-3, STORE-7."""
    base = {"position": 1}
    store.upsert(
        [
            turn("m", "m", **base),
            turn("s", "s", position=2, session="t"),
            turn("u", "u", position=2, user_id="u"),
            turn("c", "c", position=2, conversation_id="d"),
            turn("k", "k", position=2, kind="trajectory"),
            turn("n", "n", conversation_id=None, session=None),
            turn("o", "o", conversation_id=None, session=None),
        ]
    )
    store.upsert([turn("m2", "m2", position=2)], tenant="other")
    assert all(record_id == window for record_id, window in windows(store).items())
    assert windows(store, Scope(tenant="other")) == {"m2": "m2"}


def test_context_vectors_weigh_neighbours_without_embedding_again(store):
    """Proves: STORE-7."""
    told = enumerate(("cats purr", "tax law", "rain"), 1)
    # With a time, the days that it stands for would be among the terms.
    store.upsert([turn(str(at), text, position=at, created_at=None) for at, text in told])
    view = store.view(ALL)
    own, context = view.vectors(view.rowids())
    expected = own[1] + 0.5 * own[0] + 0.25 * own[2]
    assert np.allclose(context[1], expected / np.linalg.norm(expected), atol=2e-3)
    row = view.rows([2])[2]
    assert row.term_count == len(stems("tax law"))
    assert window_stems(store)[2] == stems("cats purr") + 2 * stems("tax law") + stems("rain")
    assert np.allclose(np.linalg.norm(context, axis=1), 1, atol=1e-5)


def test_any_history_of_writes_gives_the_same_windows_as_writing_the_end_once(store, embedder):
    """Proves: STORE-2, STORE-7."""
    choose, living = random.Random(7), {}
    for step in range(40):
        record_id = f"m{choose.randrange(12)}"
        if choose.random() < 0.25:
            store.delete([record_id])
            living.pop(record_id, None)
            continue
        made = turn(record_id, f"text {step}", session=f"s{choose.randrange(2)}", position=choose.randrange(1000))
        store.upsert([made])
        living[record_id] = made
    with MemoryStore.in_memory(embedder=embedder) as fresh:
        fresh.upsert(living.values())
        assert windows(store) == windows(fresh)
        assert store.view(ALL).corpus() == fresh.view(ALL).corpus()


def test_threads_read_while_one_writes(store):
    """Proves: STORE-2."""
    store.upsert([turn(f"m{i}", f"text {i}", position=i) for i in range(20)])

    def read(_):
        view = store.view(ALL)
        rows = view.rows(view.rowids())
        return len(rows), len(by_words(view, stems("text"), 500)), view.vectors(view.rowids())[0].shape[1]

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(store.upsert, [turn(f"n{i}", f"text {i}", position=100 + i) for i in range(60)])
        results = list(pool.map(read, range(30)))
        assert len(writing.result()) == 60
    assert all(rows >= 20 and found >= 20 and width == 384 for rows, found, width in results)
    assert store.count() == 80


def test_unfit_arguments_and_a_closed_store_are_typed_errors(embedder):
    """Proves: STORE-2, STORE-3."""
    store = MemoryStore.in_memory(embedder=embedder)
    with pytest.raises(InvalidInputError, match="tenant"):
        store.upsert([], tenant=" ")
    with pytest.raises(InvalidInputError, match="records"):
        store.upsert(Message(id="m", text="x"))
    with pytest.raises(InvalidInputError, match="ids"):
        store.delete("m1")
    with pytest.raises(InvalidInputError, match="content_types"):
        store.count(content_types=["facts"])
    with pytest.raises(InvalidInputError, match="content_types"):
        store.view(ALL, content_types=[])
    with pytest.raises(InvalidInputError, match="limit"):
        by_words(store.view(ALL), ["x"], 0)
    with pytest.raises(InvalidInputError, match="vectors"):
        store.view(ALL).nearest(np.zeros((1, 3), dtype=np.float32), 1)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.count()
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.upsert([turn("m", "x")])
