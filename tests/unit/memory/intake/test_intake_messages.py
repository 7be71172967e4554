"""Files with messages of any provider's API, and files with nothing in them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import main
from recall_loop.memory.intake.files.detection import detect_format
from recall_loop.memory.intake.files.entries import read_records
from recall_loop.memory.intake.files.file_preview import preview_file
from recall_loop.memory.intake.formats.source_items import UnreadableFileError
from recall_loop.state.records.records import Record

GEMINI = [{"role": "user", "parts": [{"text": "When?"}]}, {"role": "model", "parts": [{"text": "At four."}]}]
RESPONSES: list[dict[str, Any]] = [
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "When?"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "At four."}]},
]
THREAD = [  # newest first, as the API lists them
    {"id": f"m{at}", "object": "thread.message", "created_at": 1_700_000_000 + at, "role": role}
    | {"content": [{"type": "text", "text": {"value": text, "annotations": []}}]}
    for at, role, text in ((1, "assistant", "At four."), (0, "user", "When?"))
]
DISCORD = {
    "guild": {"name": "G"},
    "messages": [
        {"id": str(at), "type": "Default", "timestamp": f"2024-05-01T10:0{at}:00.000+00:00", "content": text}
        | {"author": {"id": "3", "name": "ann", "nickname": "Ann"}}
        for at, text in enumerate(("When?", "At four."))
    ],
}
NAMED = [
    {"role": "user", "name": "Ann", "content": "When?", "created_at": 1_700_000_000},
    {"role": "assistant", "content": "At four.", "created_at": 1_700_000_001},
]


def lines(values: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, values))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.json", json.dumps(GEMINI)),
        ("request.json", json.dumps({"contents": GEMINI, "generationConfig": {}})),
        ("lines.jsonl", lines([{"contents": GEMINI}])),
        ("items.json", json.dumps(RESPONSES)),
        ("items.jsonl", lines(RESPONSES)),
        ("input.json", json.dumps({"model": "m", "input": RESPONSES})),
        ("thread.json", json.dumps(THREAD)),
        ("thread.jsonl", lines(THREAD)),
        ("page.json", json.dumps({"object": "list", "data": THREAD, "has_more": False})),
        ("discord.json", json.dumps(DISCORD)),
        ("named.jsonl", lines(NAMED)),
    ],
)
def test_messages_of_any_provider_are_read_in_order(tmp_path: Path, name: str, content: str) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert detect_format(path).name == "openai"
    records = [record for _, record in read_records(path, "auto") if isinstance(record, Record)]
    assert [record.text for record in records] == ["When?", "At four."]
    assert [record.position for record in records] == [0, 1]
    assert {record.conversation_id for record in records} == {path.stem}
    assert not preview_file(path).rejected


def test_messages_of_one_second_keep_the_order_of_their_thread(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    said = ((2, "user", "Thanks."), (1, "assistant", "At four."), (1, "user", "When?"))
    thread = [{"role": role, "content": text, "created_at": 1_700_000_000 + at} for at, role, text in said]
    path = tmp_path / "thread.json"
    path.write_text(json.dumps({"data": thread}), encoding="utf-8")
    found = [record for _, record in read_records(path, "auto") if isinstance(record, Record)]
    assert [record.text for record in found] == ["When?", "At four.", "Thanks."]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"role": "assistant", "blocks": [{"type": "text", "text": "At four."}]}, ["At four.", "At five."]),
        ({"history": [{"role": "user", "content": "When?"}]}, ["At five."]),  # a record has no such field
    ],
)
def test_a_text_with_blocks_or_messages_beside_it_is_a_record(
    tmp_path: Path, fields: dict[str, Any], kept: list[str]
) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "a.jsonl"
    path.write_text(lines([{"kind": "message", "text": "At four.", **fields}, {"text": "At five."}]), encoding="utf-8")
    assert detect_format(path).name == "records"
    assert [record.text for _, record in read_records(path, "auto") if isinstance(record, Record)] == kept


def test_messages_in_several_fields_are_refused_and_not_read_by_half(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "call.json"
    said = [[{"role": role, "content": text}] for role, text in (("user", "When?"), ("assistant", "At four."))]
    path.write_text(json.dumps(dict(zip(("input", "output"), said, strict=True))), encoding="utf-8")
    with pytest.raises(UnreadableFileError, match=r"unknown format \(its first object has the fields input, output\)"):
        detect_format(path)


def test_a_speaker_that_is_an_object_is_the_author(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "discord.json"
    path.write_text(json.dumps(DISCORD), encoding="utf-8")
    found = [record for _, record in read_records(path, "auto") if isinstance(record, Record)]
    assert [(record.author, record.role) for record in found] == [("Ann", "user")] * 2


def test_a_message_that_says_whose_it_is_stays_theirs(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps([{"role": "user", "parts": [{"text": "When?"}], "user_id": "ann"}]), encoding="utf-8")
    ((_, record),) = read_records(path, "auto")
    assert isinstance(record, Record) and record.user_id == "ann"


@pytest.mark.parametrize("name", ["a.txt", "a.json", "a.jsonl", "a.md", "a.csv", "a", "a.ics"])
@pytest.mark.parametrize("content", [b"", b" \r\n\n", b"\xef\xbb\xbf"])
def test_of_an_empty_file_it_is_told_that_it_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / name
    path.write_bytes(content)
    assert preview_file(path).detected.words == "an empty file"
    assert main(["ingest", "--dry-run", str(path)]) == 0
    assert "detected as an empty file\n  nothing would be kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    "written", ["1714557600", "1714557600.0", "2024-05-01 10:00:00 UTC", "Wed, 01 May 2024 10:00:00 GMT"]
)
def test_a_records_time_may_be_written_in_the_usual_ways(tmp_path: Path, written: str) -> None:
    """Proves: STORE-2."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Tea.", "created_at": written}), encoding="utf-8")
    ((_, record),) = read_records(path)
    assert isinstance(record, Record) and record.created_at == datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_a_file_without_anything_to_keep_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: MOVE-1."""
    (tmp_path / "empty.txt").touch()
    (tmp_path / "head.csv").write_text("text,author\n")
    files = [str(tmp_path / name) for name in ("empty.txt", "head.csv")]
    assert main(["ingest", *files, "--store", str(tmp_path / "store")]) == 0
    told = capsys.readouterr().out
    assert "empty.txt: an empty file: nothing in it to keep" in told
    assert "head.csv: a table in CSV: nothing in it to keep" in told


@pytest.mark.parametrize(("encoding", "what"), [("latin-1", "not UTF-8 text"), ("utf-16", "text in UTF-16")])
def test_lines_in_another_encoding_are_told_as_such(tmp_path: Path, encoding: str, what: str) -> None:
    """Proves: STORE-2."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Jürgen"}\n', encoding=encoding)
    with pytest.raises(UnreadableFileError, match=f"{what}.*save it as UTF-8 first"):
        detect_format(path)


def test_a_list_of_texts_is_a_list_of_records(tmp_path: Path) -> None:
    """Proves: STORE-2."""
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(["Tea is at four.", "Coffee at nine."]), encoding="utf-8")
    assert [one.text for _, one in read_records(path, "auto") if isinstance(one, Record)] == [
        "Tea is at four.",
        "Coffee at nine.",
    ]


@pytest.mark.parametrize(
    "columns", ["ts,user,text", "Created At,User,Text", "createdAt,user_name,Message", "SENT_AT,Sender,body"]
)
def test_in_a_table_columns_are_known_however_they_are_spelt(tmp_path: Path, columns: str) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "chat.csv"
    path.write_text(f"{columns}\n1700000000.000100,ann,Tea.\n", encoding="utf-8")
    ((_, record),) = read_records(path, "auto")
    assert isinstance(record, Record) and (record.text, record.author, record.attributes) == ("Tea.", "ann", {})
    assert record.created_at is not None and record.created_at.year == 2023
