"""Readers of records and conversations: what they accept, refuse and derive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recall_loop.memory.intake.files.batch_size import MAX_BATCH_SIZE
from recall_loop.memory.intake.files.batch_writes import WriteOptions
from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.memory.intake.files.entries import iter_entries, read_records
from recall_loop.memory.intake.files.ingest import IngestOptions
from recall_loop.memory.intake.formats.locomo import parse_session_time
from recall_loop.memory.parsing.foreign_json import MAX_LINE_BYTES, InvalidLine, raw_lines
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record


def write(path: Path, *lines: Any) -> Path:
    parts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(parts) + b"\n")
    return path


def records(path: Path) -> list[Record]:
    found = [outcome for _, outcome in read_records(path)]
    assert all(isinstance(outcome, Record) for outcome in found), found
    return [outcome for outcome in found if isinstance(outcome, Record)]


def reason(tmp_path: Path, line: Any) -> str:
    ((number, outcome),) = read_records(write(tmp_path / "one.jsonl", line))
    assert number == 1
    assert isinstance(outcome, InvalidLine)
    return outcome.reason


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"{not json", "not JSON"),
        (b'{"kind": "fact", "text": NaN}', "NaN"),
        (b'{"kind": "fact", "text": "\xff\xfe"}', "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        ({"kind": "fact", "text": "x", "colour": "red"}, "colour"),
        ({"kind": "opinion", "text": "x"}, "kind"),
        ({"kind": "fact"}, "text"),
        ({"kind": "fact", "text": "  "}, "text"),
        ({"kind": "fact", "text": "x", "created_at": "yesterday"}, "created_at"),
        ({"kind": "fact", "text": "x", "confidence": 2}, "confidence"),
        (b'{"kind": "fact", "text": "\\ud800"}', "text"),
        (b'{"kind": "fact", "text": "x", "attributes": {"a": "\\udfff"}}', "attributes"),
        ({"kind": "fact", "text": "x", "id": 7}, "id"),
        ({"kind": "fact", "text": "x", "superseded_by": "y"}, "valid_until"),
        ({"kind": "message", "text": "x", "valid_until": "2024-02-01T00:00:00Z"}, "valid_until"),
    ],
)
def test_a_bad_line_says_what_is_wrong(tmp_path: Path, line: Any, named: str) -> None:
    """Proves: STORE-1, STORE-2."""
    assert named in reason(tmp_path, line)


def test_a_line_too_long_is_cut_off_and_the_next_one_is_read(tmp_path: Path) -> None:
    """Proves: STORE-2."""
    long = b'{"kind": "fact", "text": "' + b"x" * MAX_LINE_BYTES + b'"}'
    path = write(tmp_path / "long.jsonl", long, {"kind": "fact", "text": "short"})
    first, second = read_records(path)
    assert isinstance(first[1], InvalidLine)
    assert "longer than" in first[1].reason
    assert second[0] == 2
    assert isinstance(second[1], Record)
    assert [line.end for line in raw_lines(path)] == [len(long) + 1, path.stat().st_size]


def test_blank_lines_marks_and_line_endings_do_not_matter(tmp_path: Path) -> None:
    """Proves: STORE-2."""
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"kind":"fact","text":"a"}\r\n\r\n  \n{"kind":"fact","content":"b"}')
    found = list(read_records(path))
    assert [(number, outcome.text) for number, outcome in found if isinstance(outcome, Record)] == [
        (1, "a"),
        (4, "b"),
    ]


def test_derived_ids_are_stable_and_keep_equal_lines_apart(tmp_path: Path) -> None:
    """Proves: STORE-2."""
    thanks = {"kind": "message", "text": "Thanks!", "author": "Ada", "conversation_id": "c"}
    path = write(tmp_path / "chat.jsonl", thanks, {**thanks, "text": "Bye"}, thanks, {**thanks, "id": "own"})
    first = [record.id for record in records(path)]
    assert first == [record.id for record in records(path)]
    assert len(set(first)) == 4
    assert first[3] == "own"
    moved = write(tmp_path / "moved.jsonl", thanks, thanks)
    assert [record.id for record in records(moved)] == [first[0], first[2]]


def test_each_part_of_the_identity_makes_another_id(tmp_path: Path) -> None:
    """Proves: STORE-2."""
    base = {"kind": "message", "text": "Hello"}
    variants: list[dict[str, Any]] = [
        base,
        base | {"kind": "archival"},
        base | {"text": "Hallo"},
        base | {"author": "Ada"},
        base | {"conversation_id": "c"},
        base | {"session": "s"},
        base | {"created_at": "2024-05-01T09:30:00Z"},
    ]
    ids = {records(write(tmp_path / "v.jsonl", variant))[0].id for variant in variants}
    assert len(ids) == len(variants)
    same_time = base | {"created_at": "2024-05-01T11:30:00+02:00"}
    assert records(write(tmp_path / "v.jsonl", same_time))[0].id in ids


def test_a_repeated_id_names_the_earlier_line(tmp_path: Path) -> None:
    """Proves: STORE-2."""
    fact = {"id": "a", "kind": "fact", "text": "x"}
    path = write(tmp_path / "twice.jsonl", fact, {**fact, "id": "b"}, {**fact, "text": "y"})
    assert [entry.duplicate_of_line for entry in iter_entries(path, "records")] == [None, None, 1]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="format"):
        list(iter_entries(tmp_path / "x", "poem"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_break_the_reader(tmp_path: Path, lines: list[bytes]) -> None:
    """Proves: STORE-2."""
    path = tmp_path / "noise.jsonl"
    path.write_bytes(b"\n".join(lines))
    for _, outcome in read_records(path):
        assert isinstance(outcome, InvalidLine | Record)
        if isinstance(outcome, InvalidLine):
            json.dumps(outcome.raw, ensure_ascii=False).encode()


def test_documents_become_records() -> None:
    """Proves: STORE-1."""
    base = {"collection": "c1", "session": 3, "timestamp": "2023-05-08T13:56:00", "text": "Some text"}
    turn = record_from_document(base | {"id": "1", "kind": "message", "speaker": "Ann", "role": "speaker_a"})
    assert (turn.author, turn.role, turn.conversation_id, turn.session) == ("Ann", None, "c1", "3")
    assert turn.position is None
    chat = record_from_document(base | {"id": "2", "kind": "message", "role": "user", "turn_index": 9})
    assert (chat.role, chat.position) == ("user", None)
    fact = record_from_document(base | {"id": "3", "kind": "fact", "speaker": "Ann", "source_ids": ["1"]})
    assert (fact.kind, fact.subject, fact.author, fact.source_ids) == ("fact", "Ann", None, ("1",))
    passage = record_from_document(base | {"id": "4", "kind": "fact", "title": "Dice"})
    assert (passage.kind, passage.label) == ("archival", "Dice")
    summary = record_from_document(base | {"id": "5", "kind": "session_summary"})
    assert (summary.kind, summary.label) == ("archival", "Summary of session 3")
    event = record_from_document(base | {"id": "6", "kind": "event", "speaker": "Ann", "date": "8 May, 2023"})
    assert (event.kind, event.label, event.subject) == ("archival", "Ann, 8 May, 2023", "Ann")
    assert record_from_document(base | {"id": "7", "kind": "trajectory"}).kind == "trajectory"
    assert record_from_document(base | {"id": "9", "kind": "message", "role": ["user"]}).role is None
    with pytest.raises(InvalidInputError, match="kind"):
        record_from_document(base | {"id": "8", "kind": "poem"})


def sample() -> dict[str, Any]:
    return {
        "sample_id": "conv-x",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Late again."}],
            "session_10_date_time": "12:05 am on 1 January, 2024",
            "session_2": [
                {
                    "speaker": "Bo",
                    "dia_id": "D2:1",
                    "text": "Look!",
                    "blip_caption": "a boat",
                    "query": "boat",
                },
                {"speaker": "Ann", "dia_id": "D2:2"},
            ],
            "session_2_date_time": "1:56 pm on 8 May, 2023",
        },
        "observation": {
            "session_2_observation": {
                "Bo": [
                    ["Bo has a boat.", "D2:1"],
                    ["Bo sails.", ["D2:1", "D2:2"]],
                    ["Bo swims.", "D2:1; D2:2"],
                ]
            }
        },
        "session_summary": {"session_2_summary": "Bo showed a boat."},
        "event_summary": {"events_session_2": {"Bo": ["Bo buys a boat."], "Ann": [], "date": "8 May, 2023"}},
        "qa": [{"question": "?"}],
    }


def test_the_published_layout_is_read_in_order(tmp_path: Path) -> None:
    """Proves: STORE-1."""
    path = tmp_path / "samples.json"
    path.write_text(json.dumps([sample(), 7], indent=1), encoding="utf-8")
    found = [outcome for _, outcome in read_records(path, "locomo")]
    good = {outcome.id: outcome for outcome in found if isinstance(outcome, Record)}
    assert list(good) == [
        "conv-x:D2:1",
        "conv-x:F2:Bo:0",
        "conv-x:F2:Bo:1",
        "conv-x:F2:Bo:2",
        "conv-x:S2",
        "conv-x:E2:Bo:0",
        "conv-x:D10:1",
    ]
    assert good["conv-x:D2:1"].text == "Look! [shares an image: a boat]"
    assert good["conv-x:D2:1"].created_at is not None
    assert good["conv-x:D2:1"].created_at.isoformat() == "2023-05-08T13:56:00+00:00"
    assert good["conv-x:F2:Bo:1"].source_ids == ("conv-x:D2:1", "conv-x:D2:2")
    assert good["conv-x:F2:Bo:2"].source_ids == ("conv-x:D2:1", "conv-x:D2:2")
    assert good["conv-x:E2:Bo:0"].label == "Bo, 8 May, 2023"
    bad = [outcome.reason for outcome in found if isinstance(outcome, InvalidLine)]
    assert len(bad) == 2
    assert "text" in bad[0]
    assert "kind" in bad[1]


def test_one_document_per_line_is_read_too(tmp_path: Path) -> None:
    """Proves: STORE-1."""
    path = write(tmp_path / "turns.jsonl", {"id": "t1", "kind": "message", "text": "Hi", "speaker": "Ann"})
    ((number, outcome),) = read_records(path, "locomo")
    assert number == 1
    assert isinstance(outcome, Record)
    assert outcome.author == "Ann"


def test_a_broken_list_of_samples_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("[{", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="JSON"):
        list(read_records(path, "locomo"))


@pytest.mark.parametrize(
    ("said", "iso"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
        ("12:00 pm on 1 June, 2023", "2023-06-01T12:00:00"),
        ("12:30 am on 29 February, 2024", "2024-02-29T00:30:00"),
        ("9:05 AM on 3 Sept 2023", "2023-09-03T09:05:00"),
        ("9:05 am on 31 February, 2023", None),
        ("9:05 am on 3 Foo, 2023", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_session_times(said: object, iso: str | None) -> None:
    """Proves: STORE-1."""
    assert parse_session_time(said) == iso


@pytest.mark.data
def test_the_public_files_are_read_whole(data_dir: Path) -> None:
    """Proves: STORE-1."""
    folder = data_dir / "locomo"
    for path in sorted(folder.glob("*/*.jsonl")):
        outcomes = [outcome for _, outcome in read_records(path, "locomo")]
        bad = [outcome for outcome in outcomes if isinstance(outcome, InvalidLine)]
        assert all('"text": ""' in outcome.raw for outcome in bad), bad[:3]
        turns = [o for o in outcomes if isinstance(o, Record) and o.kind == "message"]
        assert all(turn.author and turn.conversation_id == path.stem and turn.created_at for turn in turns)


def test_ingest_and_import_have_one_default_batch_size() -> None:
    """Proves: STORE-2."""
    from recall_loop.cli.main import build_parser

    parser = build_parser(["ingest", "import"])
    ingest = parser.parse_args(["ingest", "notes.jsonl"])
    imported = parser.parse_args(["import", "letta", "memories.json"])
    assert ingest.batch_size == imported.batch_size == IngestOptions().batch_size == WriteOptions().batch_size
    for size in (0, MAX_BATCH_SIZE + 1):
        with pytest.raises(InvalidInputError, match="batch_size"):
            IngestOptions(batch_size=size)
