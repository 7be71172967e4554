"""Files of other programs: their detected formats, and the records read from them (hand-written fixtures)."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.intake.exports.slack_export import read_slack
from recall_loop.memory.intake.files.detection import FORMATS, detect_format
from recall_loop.memory.intake.files.entries import FileOwner, iter_entries, read_records
from recall_loop.memory.intake.files.file_preview import examine_file, preview_file
from recall_loop.memory.intake.formats.source_items import UnreadableFileError
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record

EXPORTS = Path(__file__).resolve().parents[3] / "foreign" / "exports"
FILES = {
    "chatgpt-conversations.json": "chatgpt",
    "claude-conversations.json": "claude",
    "diary.txt": "text",
    "langchain-messages.json": "langchain",
    "mailbox.mbox": "mail",
    "notes.md": "markdown",
    "openai-messages.json": "openai",
    "openai-training.jsonl": "openai",
    "slack": "slack",
    "table.csv": "csv",
    "telegram-result.json": "telegram",
    "whatsapp-android.txt": "whatsapp",
}


def found(path: Path, **owner: str) -> list[Record]:
    outcomes = [entry.outcome for entry in iter_entries(path, "auto", FileOwner(**owner))]
    return [outcome for outcome in outcomes if isinstance(outcome, Record)]


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "expected"), FILES.items())
def test_the_format_of_each_file_is_detected(name: str, expected: str) -> None:
    """Proves: MOVE-1."""
    assert set(FILES) == {path.name for path in EXPORTS.iterdir()}
    detected = detect_format(EXPORTS / name)
    assert (detected.name, detected.words) == (expected, FORMATS[expected])
    first = [(one.id, one.text) for one in found(EXPORTS / name)]
    assert first and first == [(one.id, one.text) for one in found(EXPORTS / name)]


def test_of_chatgpt_the_visible_branch_is_read() -> None:
    """Proves: MOVE-1."""
    records = found(EXPORTS / "chatgpt-conversations.json", user_id="ada")
    assert [(one.id, one.role) for one in records] == [
        ("u1", "user"),
        ("a1", "assistant"),
        ("u2", "user"),
        ("a2", "assistant"),
        ("q", "user"),
    ]
    asked, starter = records[0], records[-1]
    assert asked.created_at is not None and asked.created_at.isoformat() == "2024-05-01T09:30:00.123000+00:00"
    assert (asked.conversation_id, asked.user_id) == ("6631c1d6-0001", "ada")
    assert asked.attributes == {"title": "Ferry to Naissaar"}
    assert records[2].text == "This is my ticket; I paid 24 euros."
    assert starter.created_at is not None and starter.created_at.isoformat() == "2024-05-02T09:30:00+00:00"
    preview = preview_file(EXPORTS / "chatgpt-conversations.json")
    assert preview.left_out == {"hidden, system and tool messages": 3, "messages of abandoned branches": 1}
    assert [one.id for one in preview.first] == ["u1", "a1", "u2"]


def test_of_claude_texts_and_attachments_are_read() -> None:
    """Proves: MOVE-1."""
    first, attached, answer = found(EXPORTS / "claude-conversations.json")
    assert (first.id, first.role, first.conversation_id) == ("m-1", "user", "c1a0-0001")
    assert (attached.kind, attached.label) == ("archival", "huts.txt")
    assert attached.text == "Bossbu is closed until the tenth of July."
    assert (answer.text, answer.role) == ("Then take rain clothes for Ole too.", "assistant")


def test_of_slack_names_and_links_are_written_out(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    packed = Path(shutil.make_archive(str(tmp_path / "export"), "zip", EXPORTS / "slack"))
    for path in (EXPORTS / "slack", packed):
        leak, price, ticket = found(path)
        assert leak.text == (
            "@Paul Rand the boiler leaks again & drips, see #repairs and the prices (https://kettler.example/prices)"
        )
        assert (leak.id, leak.author, leak.conversation_id) == (
            "slack-C0001-1714555800.000200",
            "Ines Kallas",
            "general",
        )
        assert (price.session, ticket.session) == ("1714642000.000100", "2024-05-02")
        assert ticket.author == "Desk"


def test_a_day_of_slack_gives_the_same_records_alone_and_in_its_export(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    whole = [one for one in found(EXPORTS / "slack") if one.conversation_id == "repairs"]
    assert found(EXPORTS / "slack" / "repairs" / "2024-05-02.json") == whole
    moved = tmp_path / "repairs" / "2024-05-02.json"
    moved.parent.mkdir()
    shutil.copy(EXPORTS / "slack" / "repairs" / "2024-05-02.json", moved)
    assert [(one.conversation_id, one.author) for one in found(moved)] == [("repairs", "U0002"), ("repairs", "Desk")]


def test_of_slack_the_days_are_read_one_after_another(tmp_path: Path) -> None:
    """A user without an id or a name stops nothing; a day that can't be read doesn't hide those before it.

    Proves: MOVE-1.
    """
    shutil.copytree(EXPORTS / "slack", tmp_path / "export")
    (tmp_path / "export" / "users.json").write_text('[{"id": ""}]')
    (tmp_path / "export" / "repairs" / "2024-05-03.json").write_text("[")
    packed = Path(shutil.make_archive(str(tmp_path / "export"), "zip", tmp_path / "export"))
    for path in (tmp_path / "export", packed):
        items = read_slack(path)
        assert len([next(items) for _ in read_slack(EXPORTS / "slack")]) == 5
        with pytest.raises(UnreadableFileError, match=r"repairs/2024-05-03\.json is not JSON"):
            list(items)


def test_of_message_lists_each_is_a_conversation_in_order() -> None:
    """Proves: MOVE-1."""
    listed = found(EXPORTS / "openai-messages.json")
    assert [(one.role, one.position, one.text) for one in listed] == [
        ("user", 0, "My sister Mare moved to Narva."),
        ("tool", 1, "Rain in Narva."),
        ("assistant", 2, "It rains in Narva."),
    ]
    assert {one.conversation_id for one in listed} == {"openai-messages"}
    assert {one.conversation_id for one in found(EXPORTS / "openai-messages.json", conversation_id="c")} == {"c"}
    lines = found(EXPORTS / "openai-training.jsonl")
    assert [(one.conversation_id, one.position) for one in lines] == [
        ("openai-training-1", 0),
        ("openai-training-1", 1),
        ("openai-training-2", 0),
        ("openai-training-2", 1),
    ]
    human, ai = found(EXPORTS / "langchain-messages.json")
    assert (human.id, human.role, ai.role, ai.text) == ("h1", "user", "assistant", "I will remember that.")


def test_messages_of_langchain_as_it_dumps_them(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    from langchain_core.load import dumpd
    from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict

    messages = [HumanMessage("The sails are in Paldiski.", id="h"), AIMessage("Noted.", id="a")]
    shapes = [messages_to_dict(messages), [dumpd(one) for one in messages], [one.model_dump() for one in messages]]
    for number, shape in enumerate([*shapes, {"messages": shapes[0]}, [{"messages": shapes[2]}]]):
        path = write(tmp_path / f"m{number}.json", shape)
        assert detect_format(path).name == "langchain"
        assert [(one.id, one.role) for one in found(path)] == [("h", "user"), ("a", "assistant")]


def test_of_tables_columns_are_known_by_their_usual_names(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    first, second = found(EXPORTS / "table.csv")
    assert (first.text, first.author, first.attributes) == ("The boiler leaks, again.", "Ines", {"Mood": "cross"})
    assert first.created_at is not None and first.created_at.isoformat() == "2024-05-01T00:00:00+00:00"
    assert second.created_at is not None and second.created_at.isoformat() == "2024-05-02T09:30:00+00:00"
    assert second.text == 'Kettler, he said:\n"340 euros"'
    number, bad = list(read_records(EXPORTS / "table.csv", "auto"))[-1]
    assert isinstance(bad, InvalidLine)
    assert (number, bad.raw) == (5, "2024-05-03,Ines,,calm")
    semicolons = write(tmp_path / "s.csv", "id;text;tags;role\n1;Bees;a,b;Customer\n2;Hives;;user\n")
    bees, hives = found(semicolons)
    assert (bees.id, bees.tags, bees.author, bees.role, hives.role) == ("1", ("a", "b"), "Customer", None, "user")


def test_of_markdown_a_note_stays_the_same_note(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "notes.md"
    shutil.copy(EXPORTS / "notes.md", path)
    notes = found(path)
    assert [(one.label, one.text.splitlines()[0]) for one in notes] == [
        ("Household", "The house is from 1936."),
        ("Household > Heating", "The boiler is serviced in May."),
        ("Household > Heating > Boiler", "Kettler repairs it for 340 euros."),
        ("Household > Heating > Garden", "The pears are by the wall."),
    ]
    assert {one.tags for one in notes} == {("house", "repairs")}
    assert "# no heading" in notes[1].text
    path.write_text(path.read_text(encoding="utf-8").replace("340", "360"), encoding="utf-8")
    again = found(path)
    assert [one.id for one in again] == [one.id for one in notes]
    assert again[2].text == "Kettler repairs it for 360 euros."
    assert {one.id for one in found(path, user_id="ada")}.isdisjoint(one.id for one in notes)


@pytest.mark.parametrize(
    "written", ["tags: [house, repairs]", "tags: house, repairs", "Tags:\n  - house\n  - '#repairs'\ntitle: x"]
)
def test_tags_are_read_in_each_way_of_front_matter(tmp_path: Path, written: str) -> None:
    """Proves: MOVE-1."""
    (note,) = found(write(tmp_path / "note.md", f"---\ndate: 2024-05-01\n{written}\n---\nThe boiler.\n"))
    assert note.tags == ("house", "repairs")


def test_a_date_of_front_matter_that_is_none_is_told_once(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    for name, written in (("date", "2024-13-45"), ("Created", "'soon'")):
        path = write(tmp_path / "note.md", f"---\n{name}: {written}\n---\nThe boiler.\n# Garden\nThe pears.\n")
        shown = preview_file(path)
        told = written.strip("'")
        assert [reason for _, reason in shown.warnings] == [f"date: got '{told}', which is no date or time: left out"]
        assert shown.kinds == {"archival": 2}


def test_a_title_labels_all_notes_of_its_file_and_names_none(tmp_path: Path) -> None:
    """Its notes stay the same ones when a title is added. Proves: MOVE-1."""
    plain = "# Heating\nThe boiler.\n## Garden\nThe pears.\n"
    path = write(tmp_path / "notes.md", plain)
    untitled = found(path)
    assert [one.label for one in untitled] == ["Heating", "Heating > Garden"]
    titled = found(write(path, f"---\ntitle: Household\n---\n{plain}"))
    assert [one.label for one in titled] == ["Household > Heating", "Household > Heating > Garden"]
    assert [one.id for one in titled] == [one.id for one in untitled]
    repeated = found(write(path, f"---\ntitle: heating\n---\n{plain}"))
    assert [one.label for one in repeated] == ["heating", "heating > Garden"]


def test_texts_are_kept_in_pieces_of_whole_sentences(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    short, *rest = found(EXPORTS / "diary.txt")
    assert short.text == "We ordered the windows in May.\n\nThey arrived in August, and two were broken."
    assert len(rest) == 2 and all(one.text.startswith("The") and one.text.endswith("twice.") for one in rest)
    unbroken = found(write(tmp_path / "long.md", f"# One\n{'x' * 9_000}"))
    assert [len(one.text) for one in unbroken] == [4_000, 4_000, 1_000]


def test_json_arrays_and_epoch_times(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    array = [
        {"text": "The ferry leaves at nine.", "created_at": 1714555800},
        {"text": "It leaves at ten.", "created_at": 1714555800000, "user_id": "bo"},
    ]
    first, second = found(write(tmp_path / "records.json", array), user_id="ada", agent_id="lena")
    assert first.created_at == second.created_at is not None
    assert (first.user_id, second.user_id, second.agent_id) == ("ada", "bo", "lena")
    lines = "".join(f"{json.dumps(one)}\n" for one in array)
    for name in ("records.jsonl", "records.ndjson", "records"):
        assert [one.text for one in found(write(tmp_path / name, lines))] == [one["text"] for one in array]
    assert found(write(tmp_path / "one.json", json.dumps(array[0], indent=1)))[0].text == array[0]["text"]
    assert [one.id for one in found(tmp_path / "records.jsonl")] != [
        one.id for one in found(tmp_path / "records.jsonl", user_id="ada")
    ]


WRONG: dict[str, tuple[bytes, str]] = {
    "a.pdf": (b"%PDF-1.7\n", r"a PDF document; convert it to text first, such as with `pdftotext a\.pdf`"),
    "a.jsonl": (b"%PDF-1.7\n", "a PDF document"),
    "a.db": (b"SQLite format 3\x00", "an SQLite database; `recall-loop import`"),
    "a.csv.gz": (b"\x1f\x8b\x08", "compressed by gzip; unpack it first"),
    "a.png": (b"\x89PNG\r\n", "an image"),
    "a.m4a": (b"\x00\x00\x00\x20ftypM4A ", "a recording"),
    "a.txt": ("Grüße".encode("latin-1"), "not UTF-8 text"),
    "b.txt": ("text".encode("utf-16"), "text in UTF-16; save it as UTF-8"),
    "a.bin": (b"\x01\x00\x02", "binary data"),
    "a.html": (b"<!DOCTYPE html><p>x</p>", "a web page"),
    "a.xml": (b"<?xml version='1.0'?><a/>", "an XML file"),
    "a.json": (b'{"text": ', "not JSON"),
    "b.json": (b'[{"name": "x"}]', r"JSON in an unknown format \(its first object has the fields name\)"),
    "c.json": (b'{"results": [{"memory": "x"}]}', "an export of mem0; import it with `recall-loop import mem0`"),
    "d.json": (b"[1, 2]", "a JSON document without objects"),
    "b.jsonl": (b"ferry\nboat\n", "not JSON Lines: its first line is not JSON"),
    "c.jsonl": (b'{"text": "a", "hue": 1}\n{"text": "b", "hue": 2}\n', "none of its first 2 items can be stored"),
    "a.csv": (b"when,what\n1,2\n", r"without a text column \(its columns: when, what\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_of_another_kind_is_refused_once(tmp_path: Path, name: str) -> None:
    """Proves: MOVE-1."""
    content, words = WRONG[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=rf"{name}: .*{words}"):
        examine_file(path, "auto")


def test_archives_that_are_not_exports_are_rejected(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    members = {"word/document.xml": "a Word document", "xl/workbook.xml": "an Excel", "a.txt": "a ZIP archive; unpack"}
    for member, words in members.items():
        path = tmp_path / f"{len(words)}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, "x")
            archive.writestr("[Content_Types].xml", "<Types/>")
        with pytest.raises(UnreadableFileError, match=words):
            examine_file(path, "auto")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(UnreadableFileError, match="a damaged ZIP"):
        examine_file(tmp_path / "broken.zip", "auto")
    with pytest.raises(UnreadableFileError, match="a folder; name its files"):
        examine_file(tmp_path, "auto")


@pytest.mark.parametrize("name", ["chatgpt", "claude"])
def test_an_export_is_read_as_it_was_downloaded(tmp_path: Path, name: str) -> None:
    """Proves: MOVE-1."""
    plain = EXPORTS / f"{name}-conversations.json"
    packed = tmp_path / "download.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(plain, "conversations.json")
        archive.writestr("users.json", "[]")
    assert detect_format(packed).name == name
    assert [one.id for one in found(packed)] == [one.id for one in found(plain)]


def test_owners_and_formats_are_checked(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    with pytest.raises(InvalidInputError, match="user_id"):
        FileOwner(user_id=" ")
    with pytest.raises(InvalidInputError, match=r"format: got 'poem'; allowed: auto, records, openai"):
        detect_format(tmp_path / "x", "poem")


def test_a_broken_item_among_conversations_is_left_out_alone(tmp_path: Path) -> None:
    """Proves: MOVE-1, API-2."""
    talk = json.dumps({"messages": [{"role": "user", "content": "The kelp dryer is loud."}]})
    path = write(tmp_path / "training.jsonl", f"{talk}\n[1, 2]\nnot JSON\n{talk}\n")
    outcomes = [outcome for _, outcome in read_records(path, "openai")]
    assert [isinstance(outcome, InvalidLine) for outcome in outcomes] == [False, True, True, False]


def test_a_long_cell_does_not_end_the_table(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = write(tmp_path / "long.csv", f"text\n{'kelp ' * 40_000}\nBees.\n")
    assert [len(one.text) for one in found(path)] == [5 * 40_000 - 1, 5]


def test_a_damaged_member_is_refused_in_one_line(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "download.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(EXPORTS / "chatgpt-conversations.json", "conversations.json")
    data = bytearray(path.read_bytes())
    data[60:90] = bytes(30)
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match=r"conversations\.json can't be unpacked"):
        examine_file(path, "auto")


def test_a_channel_may_be_called_as_a_folder_of_an_office_document(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "slack.zip"
    day = [{"type": "message", "user": "U1", "text": "The ferry is late.", "ts": "1714550400.000100"}]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("users.json", "[]")
        archive.writestr("channels.json", json.dumps([{"id": "C1", "name": "word"}]))
        archive.writestr("word/2024-05-01.json", json.dumps(day))
    assert [one.text for one in found(path)] == ["The ferry is late."]


def test_rules_around_a_text_are_no_front_matter(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = write(tmp_path / "rules.md", "---\nHello there\n---\nMore of it\n")
    assert "Hello there" in "\n".join(f"{one.label} {one.text}" for one in found(path))


def test_front_matter_that_never_closes_is_text(tmp_path: Path) -> None:
    """Lines that could be read in several ways must not be tried in all of them. Proves: MOVE-1."""
    path = write(tmp_path / "open.md", "---\n" + "  hive: full\n" * 200)
    assert "hive: full" in "\n".join(one.text for one in found(path))


def test_a_file_whose_name_is_no_unicode_is_read(tmp_path: Path) -> None:
    """As ZIPs of other systems unpack to. Proves: MOVE-1."""
    talk = [{"role": "user", "content": "The kelp dryer is loud."}]
    for ending, content in {"txt": "Kelp.", "md": "Kelp.", "json": talk}.items():
        (record,) = found(write(tmp_path / os.fsdecode(f"Gr\xfc\xdfe.{ending}".encode("latin-1")), content))
        assert (record.label or record.conversation_id) == "Gr\ufffd\ufffde"
